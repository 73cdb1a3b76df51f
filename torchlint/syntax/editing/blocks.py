"""Edits of blocks: put statements under a ``with``, take one away, decorate a function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst

from torchlint.findings import Edit
from torchlint.syntax.editing.statements import inner_lines_of_strings, last_offset
from torchlint.syntax.tree import Node, Statement, Tree


def wrap_in_if(tree: Tree, statements: Sequence[Statement], test: str) -> list[Edit] | None:
    """Put consecutive statements of one block under ``if test:``, as ``wrap_in_with`` does."""
    return wrap_in_with(tree, statements, f"if {test}:")


def wrap_in_with(tree: Tree, statements: Sequence[Statement], header: str) -> list[Edit] | None:
    """Put consecutive statements of one block under ``header`` (``with …:``), comments between them included.

    Lines inside strings keep their whitespace. None where the statements are not whole,
    consecutive statements of one block, or a line among them must not change.
    """
    if not _are_consecutive(tree, statements):
        return None
    first, last = statements[0], statements[-1]
    begin = tree.first_offset(first)
    finish = tree.source.line_finish(last_offset(tree, last))
    if not tree.source.is_editable(tree.source.line_begin(begin), finish):
        return None
    indentation, unit = tree.indentation(first), block_unit(tree, tree.parent(first))
    edits = [Edit(tree.source.span(begin, begin), header + tree.source.newline + indentation + unit)]
    for here in _lines(tree, statements, begin, finish):
        if here > begin:
            here += len(indentation) if tree.source.text.startswith(indentation, here) else 0
            edits.append(Edit(tree.source.span(here, here), unit))
    return edits


def _are_consecutive(tree: Tree, statements: Sequence[Statement]) -> bool:
    block = tree.parent(statements[0]) if statements else None
    if not isinstance(block, libcst.Module | libcst.IndentedBlock):
        return False
    start = block.body.index(statements[0])
    return list(block.body[start : start + len(statements)]) == list(statements)


def block_unit(tree: Tree, block: libcst.CSTNode | None) -> str:
    """One step of indentation, as a block has it."""
    own = block.indent if isinstance(block, libcst.IndentedBlock) else None
    return own or tree.module.default_indent


def _lines(tree: Tree, nodes: Sequence[Node], begin: int, finish: int) -> Iterator[int]:
    """Where the lines begin that are neither blank nor inside a string."""
    source = tree.source
    inside = set().union(*(inner_lines_of_strings(tree, node) for node in nodes))
    here: int | None = source.line_begin(begin)
    while here is not None and here <= finish:
        if here not in inside and source.text[here : source.line_finish(here)].strip():
            yield here
        here = source.next_line(here)


def unwrap_with(tree: Tree, statement: libcst.With, item: libcst.WithItem | None = None) -> list[Edit] | None:
    """Take ``item`` out of a ``with``; the whole ``with`` goes, and its body moves out, where it is the only item.

    None where the header holds a comment, or there are several items and none is named.
    """
    source = tree.source
    begin, finish = tree.first_offset(statement), source.line_finish(last_offset(tree, statement))
    if not source.is_editable(source.line_begin(begin), finish):
        return None
    if len(statement.items) > 1:
        return None if item is None else _drop_item(tree, statement.items, item)
    body = statement.body.body[0]
    inner = tree.first_offset(body) if isinstance(body, Statement) else tree.offsets(body)[0]
    if "#" in source.text[tree.offsets(statement.items[0])[1] : inner]:
        return None
    edits = [Edit(source.span(begin, inner), "")]
    if isinstance(statement.body, libcst.IndentedBlock):
        unit = statement.body.indent or tree.module.default_indent
        for here in _lines(tree, statement.body.body, inner, finish):
            if here > inner:
                edits += _outdented(tree, here, tree.indentation(statement), unit)
    return edits


def _outdented(tree: Tree, line: int, indentation: str, unit: str) -> list[Edit]:
    text = tree.source.text
    margin = text[line : line + len(indentation + unit)]
    if not margin.startswith(indentation):
        return []
    begin = line + len(indentation)
    finish = begin
    while finish < begin + len(unit) and text[finish] in " \t":
        finish += 1
    return [Edit(tree.source.span(begin, finish), "")] if finish > begin else []


def _drop_item(tree: Tree, items: Sequence[libcst.WithItem], item: libcst.WithItem) -> list[Edit] | None:
    index = items.index(item)
    begin, finish = tree.offsets(item)
    if index + 1 < len(items):
        finish = tree.offsets(items[index + 1])[0]
    else:
        begin = tree.offsets(items[index - 1])[1]
    if "#" in tree.source.text[begin:finish].replace(tree.text(item), ""):
        return None
    return [Edit(tree.source.span(begin, finish), "")]


def decorate(tree: Tree, function: libcst.FunctionDef, decorator: str) -> list[Edit]:
    """Add a decorator (text without ``@``) nearest to the ``def``, so that ``@staticmethod`` stays outside."""
    begin = tree.offsets(function)[0]
    content = f"@{decorator}{tree.source.newline}{tree.indentation(function)}"
    return [Edit(tree.source.span(begin, begin), content)]
