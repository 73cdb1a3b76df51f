"""Edits of whole statements: replace, insert, delete, move."""

from __future__ import annotations

from collections.abc import Sequence

import libcst

from torchlint.findings import Edit
from torchlint.syntax.linked import LinkedTree
from torchlint.syntax.tree import Node, Statement, Tree, walk


def replace(tree: Tree | LinkedTree, node: Node, text: str) -> list[Edit]:
    """Replace the node's own characters; parentheses around it stay."""
    return [Edit(tree.span(node), text)]


def insert_before(tree: Tree, statement: Statement, lines: Sequence[str]) -> list[Edit]:
    """Insert lines above a statement (below comments that lead it), at its indentation."""
    begin = tree.first_offset(statement)
    indentation = tree.indentation(statement)
    content = "".join(f"{line}{tree.source.newline}{indentation}" for line in lines)
    return [Edit(tree.source.span(begin, begin), content)]


def insert_after(tree: Tree, statement: Statement, lines: Sequence[str]) -> list[Edit]:
    """Insert lines below a statement, at its indentation."""
    indentation = tree.indentation(statement)
    return _insert_below(tree, statement, [indentation + line for line in lines])


def _insert_below(tree: Tree, statement: Statement, lines: Sequence[str]) -> list[Edit]:
    source = tree.source
    below = source.next_line(last_offset(tree, statement))
    if below is not None:
        return [Edit(source.span(below, below), "".join(line + source.newline for line in lines))]
    finish = source.line_finish(last_offset(tree, statement))
    return [Edit(source.span(finish, finish), "".join(source.newline + line for line in lines))]


def delete_statement(tree: Tree, statement: Statement | libcst.BaseSmallStatement) -> list[Edit]:
    """Delete a statement with the comment at its end; ``pass`` takes its place where the block would be empty."""
    if isinstance(statement, libcst.BaseSmallStatement):
        line = tree.parent(statement)
        assert isinstance(line, libcst.SimpleStatementLine | libcst.SimpleStatementSuite)
        if len(line.body) > 1:
            return _delete_between_semicolons(tree, line.body, statement)
        if isinstance(line, libcst.SimpleStatementSuite):
            return replace(tree, statement, "pass")
        statement = line
    block = tree.parent(statement)
    begin, finish = tree.first_offset(statement), last_offset(tree, statement)
    if isinstance(block, libcst.IndentedBlock) and len(block.body) == 1:
        return [Edit(tree.source.span(begin, tree.offsets(statement)[1]), "pass")]
    return [Edit(tree.source.span(*_with_blank_lines(tree, statement, *_whole_lines(tree, begin, finish))), "")]


def _delete_between_semicolons(tree: Tree, body: Sequence[Node], statement: Node) -> list[Edit]:
    index = body.index(statement)
    begin, finish = tree.offsets(statement)
    if index + 1 < len(body):
        finish = tree.offsets(body[index + 1])[0]
    else:
        begin = tree.offsets(body[index - 1])[1]
    return [Edit(tree.source.span(begin, finish), "")]


def _whole_lines(tree: Tree, begin: int, finish: int) -> tuple[int, int]:
    """The lines that hold these characters, with one line break."""
    source = tree.source
    begin = source.line_begin(begin)
    below = source.next_line(finish)
    if below is not None:
        return begin, below
    if begin > source.region(begin)[0]:  # the last line takes the break above, so that none is left behind
        begin -= 2 if source.text[begin - 2 : begin] == "\r\n" else 1
    return begin, source.line_finish(finish)


def _with_blank_lines(tree: Tree, statement: Statement, begin: int, finish: int) -> tuple[int, int]:
    """As many blank lines below what is removed go with it as stand above, and all of them at a block's begin."""
    source, block = tree.source, tree.parent(statement)
    top, bottom = source.region(begin)
    above, line = 0, begin
    while line > top and not (text := source.text[source.line_begin(line - 1) : line].strip()):
        line = source.line_begin(line - 1)
        above += 1
    is_first = isinstance(block, libcst.IndentedBlock) and block.body[0] is statement and line == begin
    if is_first and not text.startswith("#"):
        above = bottom
    below: int | None = finish
    while below is not None and above > 0 and below < bottom:
        if source.text[below : source.line_finish(below)].strip():
            break
        finish, below, above = below, source.next_line(below), above - 1
    return begin, finish if below is None else below


def move_statement_after(
    tree: Tree, statement: Statement | libcst.BaseSmallStatement, anchor: Statement
) -> list[Edit] | None:
    """Move a statement below another one, at that one's indentation.

    The comment at its end moves along, and so do comment lines above it where they lead nothing
    else. None where the anchor lies inside the statement or already stands right above it.
    """
    if statement in tree.ancestors(anchor) or anchor is statement or anchor is tree.parent(statement):
        return None
    if isinstance(statement, libcst.BaseSmallStatement):
        line = tree.parent(statement)
        if not isinstance(line, libcst.SimpleStatementLine) or len(line.body) > 1:
            moved = [tree.indentation(anchor) + tree.text(statement)]
            return delete_statement(tree, statement) + _insert_below(tree, anchor, moved)
        statement = line
    if _follows(tree, statement, anchor):
        return None
    lead = _own_comments(tree, statement)
    finish = tree.source.line_finish(last_offset(tree, statement))
    moved = _reindented(tree, statement, lead, finish, tree.indentation(anchor))
    removed = delete_statement(tree, statement)
    if removed[0].content == "":
        removed = [Edit(tree.source.span(*_with_blank_lines(tree, statement, *_whole_lines(tree, lead, finish))), "")]
    return removed + _insert_below(tree, anchor, moved)


def _follows(tree: Tree, statement: Statement, anchor: Statement) -> bool:
    body = getattr(tree.parent(statement), "body", ())
    index = body.index(statement) if statement in body else 0
    return index > 0 and body[index - 1] is anchor


def _own_comments(tree: Tree, statement: Statement) -> int:
    """Where the comment lines begin that lead this statement and nothing else; else the statement's own begin."""
    source = tree.source
    begin = source.line_begin(tree.first_offset(statement))
    below = source.next_line(last_offset(tree, statement))
    following = "" if below is None else source.text[below : source.line_finish(below)]
    indentation = tree.indentation(statement)
    goes_on = following.strip() and following.startswith(indentation) and not following.lstrip().startswith("#")
    if goes_on:
        return begin
    while begin > source.region(begin)[0]:
        above = source.line_begin(begin - 1)
        line = source.text[above:begin]
        if not line.startswith(indentation + "#"):
            break
        begin = above
    return begin


def _reindented(tree: Tree, statement: Statement, begin: int, finish: int, indentation: str) -> list[str]:
    source = tree.source
    old = tree.indentation(statement)
    inside = inner_lines_of_strings(tree, statement)
    lines = []
    here: int | None = source.line_begin(begin)
    while here is not None and here <= finish:
        line = source.text[here : source.line_finish(here)]
        moves = here not in inside and line.startswith(old) and line.strip()
        lines.append(indentation + line[len(old) :] if moves else line)
        here = source.next_line(here)
    return lines


def last_offset(tree: Tree, statement: Statement) -> int:
    """An offset on the last line that belongs to the statement, comments that end its block included."""
    source = tree.source
    last = tree.offsets(statement)[1]
    if isinstance(statement, libcst.SimpleStatementLine):
        return last
    indentation = tree.indentation(statement)
    here = source.next_line(last)
    while here is not None:
        line = source.text[here : source.line_finish(here)]
        margin = line[: len(line) - len(line.lstrip())]
        if line.strip():
            if not (line.lstrip().startswith("#") and margin.startswith(indentation) and margin != indentation):
                break
            last = here
        here = source.next_line(here)
    return last


def inner_lines_of_strings(tree: Tree, node: Node) -> set[int]:
    """The offsets of the lines inside a node that begin within a string, whose whitespace is therefore content."""
    inside: set[int] = set()
    tree.offsets(node)  # an outline does not have every string
    for part in walk(node):
        if isinstance(part, libcst.SimpleString | libcst.FormattedString | libcst.TemplatedString):
            begin, finish = tree.offsets(part)
            here = tree.source.next_line(begin)
            while here is not None and here < finish:
                inside.add(here)
                here = tree.source.next_line(here)
    return inside
