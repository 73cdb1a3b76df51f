"""What edits keep of a file's layout: how wide its lines are, and what is aligned or set off by blank lines."""

from __future__ import annotations

import functools
import re

import libcst

from torchlint.findings import Edit
from torchlint.syntax.editing.statements import inner_lines_of_strings
from torchlint.syntax.source import Source
from torchlint.syntax.tree import Tree

_USUAL, _WIDEST = 88, 120
_NOT_TAB = re.compile(r"[^\t]")
_CLOSING = re.compile(r"[\s)\]},:]*")


@functools.lru_cache(maxsize=2)
def width(source: Source) -> int:
    """The longest line that an edit may make: the longest one that is there, within what is usual."""
    longest = max(map(len, source.text.splitlines()), default=0)
    return min(max(longest, _USUAL), _WIDEST)


def break_before(tree: Tree, call: libcst.Call, added: str) -> str:
    """What separates a new last argument from the others: a space, or a line break where the line would be too wide.

    The new line is aligned with the first argument, or with the line that the last one is in. Where
    anything but closing brackets follows the call, nothing is broken.
    """
    source, (begin, finish) = tree.source, tree.offsets(call.args[-1])
    line, end = source.line_begin(finish), source.line_finish(finish)
    tail = source.text[finish:end]
    if end - line + len(added) + 2 <= width(source) or not _CLOSING.fullmatch(tail):
        return " "
    margin = _margin(tree, call, line)
    if margin is None or source.line_begin(begin) != line or len(margin + added + tail) > width(source):
        return " "
    return source.newline + margin


def margin_of_replaced(tree: Tree, call: libcst.Call, argument: libcst.Arg, columns: int) -> str | None:
    """The margin of the new line that an argument's replacement needs; None where it may stay in its line."""
    source, (begin, finish) = tree.source, tree.offsets(argument)
    line, index = source.line_begin(begin), call.args.index(argument)
    wide = source.line_finish(finish) - line + columns - (finish - begin) > width(source)
    if not wide or index == 0 or source.line_begin(tree.offsets(call.args[index - 1])[0]) != line or "#" in (
            source.text[tree.offsets(call.args[index - 1])[1] : begin]):
        return None
    return _margin(tree, call, line)


def _margin(tree: Tree, call: libcst.Call, line: int) -> str | None:
    """Where the arguments begin that stand in a line."""
    source = tree.source
    begins = [tree.offsets(argument)[0] for argument in call.args]
    first = next(begin for begin in begins if begin >= line)
    margin = source.text[line:first]
    if margin.strip() and first != begins[0]:
        return None
    return _NOT_TAB.sub(" ", margin)


def realigned(tree: Tree, call: libcst.Call, columns: int, argument: libcst.Arg | None = None,
              more: int = 0) -> list[Edit]:
    """Move the lines of a call's arguments that are aligned with its parenthesis, which moves by so many columns.

    The lines of ``argument`` move by ``more`` columns in addition.
    """
    source = tree.source
    opening, finish = tree.offsets(call.whitespace_before_args)[0], tree.offsets(call)[1]
    if not call.args or source.line_finish(opening) < tree.offsets(call.args[0])[0]:
        return []
    column = opening - source.line_begin(opening)
    inside = inner_lines_of_strings(tree, call)
    begin, end = tree.offsets(argument) if argument is not None else (0, 0)
    edits = []
    here = source.next_line(opening)
    while here is not None and here < finish:
        line = source.text[here : source.line_finish(here)]
        margin = len(line) - len(line.lstrip())
        moves = columns + (more if begin < here < end else 0)
        if here not in inside and margin >= column and line.strip() and moves:
            edits.append(_moved(source, here + margin, moves))
        here = source.next_line(here)
    return edits


def _moved(source: Source, text: int, columns: int) -> Edit:
    begin = text
    while columns < 0 and begin > text + columns and source.text[begin - 1] == " ":
        begin -= 1
    return Edit(source.span(begin, text), " " * max(columns, 0))
