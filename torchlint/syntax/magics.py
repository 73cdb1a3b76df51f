"""IPython's additions to Python, put out of the parser's sight without moving a character."""

from __future__ import annotations

import re
from dataclasses import dataclass

# What IPython runs in the notebook's own namespace; other cell magics hold another language or process.
_PYTHON_CELLS = frozenset({"capture", "debug", "memit", "mprun", "prun", "snakeviz", "time", "timeit"})

_CELL_MAGIC = re.compile(r"\s*%%(\w*)")
_ESCAPE = re.compile(r"[ \t]*(?:[%!?]|[/,;](?=\w))")
# Commands that IPython takes without a percent sign, where what follows is no operator of Python's.
_COMMAND = re.compile(
    r"[ \t]*(?:cat|cd|conda|cp|ls|mkdir|mv|pip|pip3|rm|rmdir)[ \t]+"
    r"(?!(?:and|else|for|if|in|is|not|or)\b)(?:[\w~/\"'$]|\.[./]|--?\w)"
)
_HELP = re.compile(r"[ \t]*%{0,2}(?!\d)[\w*]+(?:\.(?!\d)[\w*]+|\[-?\d+\])*\?{1,2}[ \t]*")
_ASSIGNED = re.compile(r"[ \t]*[^\W\d][\w.,* \t]*=[ \t]*(?=[%!])")
_LINE = re.compile(r"(?:[^\r\n\\]|\\(?![\r\n]))*")
_CONTINUED_LINE = re.compile(r"(?:[^\r\n\\]|\\(?:\r\n?|\n)?)*")
_TOKEN = re.compile(
    r"""\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|"(?:[^"\\\r\n]|\\.)*"|'(?:[^'\\\r\n]|\\.)*'"""
    r"""|#[^\r\n]*|(?P<open>[(\[{])|(?P<close>[)\]}])|\\(?:\r\n?|\n)|(?P<newline>\r\n?|\n)""",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Frozen:
    """Whole lines that are not Python and must not change; ``sealed``: nothing may come in front of them either."""

    begin: int
    finish: int
    sealed: bool = False


def without_magics(cell: str) -> tuple[str, list[Frozen]]:
    """The cell with its magics, shell commands and help requests replaced by as many characters of Python.

    A line of them becomes ``0``, an assigned one (``files = !ls``) the name ``_``, a cell in another
    language blanks. Also returns where that was done.
    """
    magic = _CELL_MAGIC.match(cell)
    if magic and magic[1] not in _PYTHON_CELLS:
        return _blank(cell), [Frozen(0, len(cell), sealed=True)]
    pieces: list[str] = []
    frozen: list[Frozen] = []
    here = 0
    while here < len(cell):
        finish, plain = _neutral(cell, here)
        if plain is None:
            finish = _logical_finish(cell, here)
            plain = cell[here:finish]
        else:
            frozen.append(Frozen(here, finish, sealed=bool(magic) and not frozen))
        pieces.append(plain)
        here = finish
        if cell[here : here + 1] in ("\r", "\n"):
            width = 2 if cell.startswith("\r\n", here) else 1
            pieces.append(cell[here : here + width])
            here += width
    return "".join(pieces), frozen


def _neutral(cell: str, here: int) -> tuple[int, str | None]:
    """Where the magic ends that begins the line at ``here``, and what stands for it; None where there is none."""
    assigned = _ASSIGNED.match(cell, here)
    if assigned:
        return _replaced(cell, here, assigned.end(), "_")
    if _ESCAPE.match(cell, here) or _COMMAND.match(cell, here):
        margin = re.compile(r"[ \t]*").match(cell, here)
        return _replaced(cell, here, margin.end() if margin else here, "0")
    line = _LINE.match(cell, here)
    if line and _HELP.fullmatch(line[0]):
        return _replaced(cell, here, here + len(line[0]) - len(line[0].lstrip()), "0")
    return here, None


def _replaced(cell: str, here: int, begin: int, word: str) -> tuple[int, str]:
    magic = _CONTINUED_LINE.match(cell, begin)
    finish = magic.end() if magic else begin
    return finish, cell[here:begin] + word + _blank(cell[begin + 1 : finish])


def _logical_finish(cell: str, here: int) -> int:
    """Where the line of Python that begins at ``here`` ends: not inside brackets, nor strings."""
    depth = 0
    for found in _TOKEN.finditer(cell, here):
        if found.lastgroup == "open":
            depth += 1
        elif found.lastgroup == "close":
            depth -= 1
        elif found.lastgroup == "newline" and depth <= 0:
            return found.start()
    return len(cell)


def _blank(text: str) -> str:
    return re.sub(r"[^\r\n]", " ", text)
