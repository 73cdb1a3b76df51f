"""What libcst cannot take, found on the text before its native parser crashes or hangs on it.

The figures come from trials with libcst 1.9 and an 8 MB stack. The parser dies at about 1,200
nested brackets or a sum of 7,000 terms, refuses 4,000 implicitly joined strings, and needs four
times longer for each nested bracket of a ``case`` pattern (28 s at 12). Python code that walks the
tree recurses once for each link of a chain.
"""

from __future__ import annotations

import re
from itertools import accumulate

from torchlint.findings import Position
from torchlint.syntax.source import Source

BRACKETS = 200  # what CPython accepts
CHAIN = 500  # half of what Python frames survive on a 2 MB stack (Windows)
PATTERN_BRACKETS = 8  # under 0.1 s

_STRING_OR_COMMENT = re.compile(
    r"""\"\"\"[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"\"\"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"""
    r"""|"[^"\\\r\n]*(?:\\.[^"\\\r\n]*)*"|'[^'\\\r\n]*(?:\\.[^'\\\r\n]*)*'|#[^\r\n]*""",
    re.DOTALL,
)
_LONG_FORMATTED = re.compile(
    r"""\b(?:[rR]?[fFtT]|[fFtT][rR])(\"\"\"|'''|["'])(?P<inside>(?:(?!\1).){500,}?)\1""", re.DOTALL
)
_LONG_FIELD = re.compile(r"(?<!\{)\{([^{}]{500,})\}")  # what an f-string evaluates: the parser nests it too
_BREAK = re.compile(r"\r\n?|\n")
_BRACKET = re.compile(r"[()\[\]{}]")
_BRACKET_OR_BREAK = re.compile(r"[()\[\]{}\r\n]")
_STEP = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
_LINK = "+-*/%@&|^."  # each nests the tree by one more level; so do brackets and the words below
_LINK_WORDS = ("and", "or", "not", "if", "else", "lambda", "await")  # "for" holds "or"
_TOKEN = re.compile(r"""[()\[\]{},;+\-*/%@&|^.~]|""|(?<!\\)[\r\n]|\b(?:and|or|not|if|else|for|lambda|await)\b""")
_NEW_STATEMENT = re.compile(  # words that begin a line only where a statement begins
    r"[\r\n][ \t\f]*(?=(?:def|class|return|import|try|except|with|raise|assert|while|pass|del|global|nonlocal|break"
    r"|continue|elif)\b)"
)
_MATCH = re.compile(r"^[ \t]*match\b[^\r\n]*:[ \t]*$", re.MULTILINE)
_CASE = re.compile(r"^[ \t]*case\b", re.MULTILINE)
_LINE_START = re.compile(r"^([ \t]*)(\w+|[^\s#])", re.MULTILINE)


class ParserLimit(Exception):
    """A file that is beyond libcst, not wrong: ``message`` says which limit, ``position`` where if known."""

    def __init__(self, message: str, position: Position | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


def check_limits(source: Source) -> None:
    """Raise ParserLimit where the source is beyond libcst. Costs some hundredths of parsing it."""
    text = source.text
    for found in _LONG_FORMATTED.finditer(text) if any(map(_may_be_too_deep, _LONG_FIELD.findall(text))) else ():
        for field in _LONG_FIELD.findall(found["inside"]):
            beyond = _too_deep(_STRING_OR_COMMENT.sub(_quotes, field))
            if beyond:
                raise ParserLimit(beyond[0], source.position(found.start()))
    if _beyond(_STRING_OR_COMMENT.sub('""', text)):  # four times faster, but takes comments for strings
        plain = _STRING_OR_COMMENT.sub(_quotes, text)
        beyond = _beyond(plain)
        if beyond:
            line = len(_BREAK.findall(plain, 0, beyond[1]))
            raise ParserLimit(beyond[0], source.position(source.line_starts[line]))


def _quotes(found: re.Match[str]) -> str:
    """What stands for a string: two quotes and its line breaks; a comment leaves nothing."""
    return "" if found[0].startswith("#") else '""' + "\\\n" * len(_BREAK.findall(found[0]))


def _beyond(plain: str) -> tuple[str, int] | None:
    """What in a text without strings and comments is beyond the parser, and where."""
    if max(accumulate(map(_STEP.__getitem__, _BRACKET.findall(plain))), default=0) > BRACKETS:
        return f"more than {BRACKETS} nested brackets", _deepest(plain, BRACKETS)
    offset = 0
    for part in _NEW_STATEMENT.split(plain) if len(plain) > CHAIN else ():
        offset = plain.index(part, offset)
        beyond = _too_deep(part) if _may_be_too_deep(part) else None
        if beyond:
            return beyond[0], offset + beyond[1]
        offset += len(part)
    return _deep_pattern(plain) or _long_elif(plain)


def _deepest(plain: str, limit: int) -> int:
    depth = 0
    for found in _BRACKET.finditer(plain):
        depth += _STEP[found[0]]
        if depth > limit:
            return found.start()
    return 0


def _deep_pattern(plain: str) -> tuple[str, int] | None:
    if "match" not in plain or not _CASE.search(plain) or not _MATCH.search(plain):
        return None
    for found in _CASE.finditer(plain):
        line = _logical_line(plain, found.start())
        if max(accumulate(map(_STEP.__getitem__, _BRACKET.findall(line))), default=0) > PATTERN_BRACKETS:
            return "a pattern is nested too deeply for the parser", found.start()
    return None


def _may_be_too_deep(part: str) -> bool:
    """A bound that costs next to nothing."""
    if len(part) <= CHAIN:
        return False
    return sum(map(part.count, _LINK + "([{\"'")) + sum(map(part.count, _LINK_WORDS)) > CHAIN


def _too_deep(part: str) -> tuple[str, int] | None:
    """How a stretch of text without strings and comments is beyond the parser, if it is, and where."""
    outer: list[tuple[int, int, int]] = []
    # Of this level of brackets: links since the last comma, the deepest bracket among them, the most so far.
    links = inner = best = 0
    for found in _TOKEN.finditer(part):
        token = found[0]
        if token in "([{":
            outer.append((links + 1, inner, best))
            links = inner = best = 0
            if len(outer) > BRACKETS:
                return f"more than {BRACKETS} nested brackets", found.start()
        elif token in ")]}":
            deepest = max(best, links + inner)
            if outer:
                links, inner, best = outer.pop()
            inner = max(inner, deepest)
        elif token in ",;" or (token in "\r\n" and not outer):
            best = max(best, links + inner) if outer else 0
            links = inner = 0
        elif token not in "\r\n":
            links += 1
        if links + inner > CHAIN:
            return f"an expression of more than {CHAIN} links is too long for the parser", found.start()
    return None


def _long_elif(plain: str) -> tuple[str, int] | None:
    """Where a chain of ``elif`` becomes too long, if one does; libcst nests each in the one above."""
    if plain.count("elif") <= CHAIN:
        return None
    chains: dict[int, int] = {}
    for found in _LINE_START.finditer(plain):
        depth = len(found[1])
        chains = {other: count for other, count in chains.items() if other < depth or (
            other == depth and found[2] == "elif")}
        if found[2] == "elif":
            chains[depth] = chains.get(depth, 0) + 1
            if chains[depth] > CHAIN:
                return f"more than {CHAIN} elif branches are too deep for the parser", found.start()
    return None


def _logical_line(plain: str, begin: int) -> str:
    """The text from ``begin`` to the line break outside of brackets."""
    depth = 0
    for found in _BRACKET_OR_BREAK.finditer(plain, begin):
        depth += _STEP.get(found[0], 0)
        if found[0] in "\r\n" and depth <= 0:
            return plain[begin : found.start()]
    return plain[begin:]
