"""Edits of a call: its arguments and what is called."""

from __future__ import annotations

import re

import libcst

from torchlint.findings import Edit
from torchlint.syntax.editing.layout import break_before, margin_of_replaced, realigned
from torchlint.syntax.tree import Tree, literal

_TRIVIA = re.compile(r"(?P<comment>#[^\r\n]*)|(?P<comma>,)|(?P<newline>\r\n?|\n)")


def replace_callee(tree: Tree, call: libcst.Call, text: str) -> list[Edit]:
    """Replace what is called, with parentheses around it if there are any; aligned arguments stay aligned."""
    old = tree.text_with_parens(call.func)
    columns = 0 if "\n" in old else len(text) - len(old)
    return [Edit(tree.span_with_parens(call.func), text), *realigned(tree, call, columns)]


def replace_argument(tree: Tree, call: libcst.Call, argument: libcst.Arg, text: str, added: int = 0) -> list[Edit]:
    """Replace a whole argument, with its keyword; on a line of its own where its line would become too wide.

    ``added`` is how many columns other edits add to the line.
    """
    begin, finish = tree.offsets(argument)
    margin = margin_of_replaced(tree, call, argument, len(text) + added)
    if margin is None:
        return [Edit(tree.source.span(begin, finish), text)]
    previous = tree.offsets(call.args[call.args.index(argument) - 1])[1]
    comma, _ = _gap(tree, previous, begin)
    assert comma is not None
    return [Edit(tree.source.span(comma + 1, finish), tree.source.newline + margin + text)]


def wrap_argument(tree: Tree, call: libcst.Call, argument: libcst.Arg, callee: str, *, maker: str = "") -> list[Edit]:
    """Put an argument through another call, ``f(x)`` to ``f(callee(x))``, or to ``maker(callee(x))``."""
    begin, finish = tree.offsets_with_parens(argument.value)
    edits = [Edit(tree.source.span(begin, begin), f"{callee}("), Edit(tree.source.span(finish, finish), ")")]
    old = tree.text_with_parens(call.func)
    if maker:
        edits.append(Edit(tree.span_with_parens(call.func), maker))
    columns = len(maker or old) - len(old)
    return edits + ([] if "\n" in old else realigned(tree, call, columns, argument, len(callee) + 1))


def set_keyword(
    tree: Tree, call: libcst.Call, name: str, value: str, *, position: int | None = None
) -> list[Edit] | None:
    """Make the call pass ``name=value``: change the argument if it is there, else add it in the call's own style.

    ``position`` is the parameter's index where it may also be passed by position; an argument that
    stands there is changed in place. None where ``**kwargs`` or, for such a parameter, ``*args``
    may already pass it.
    """
    passed = _passed(call, name, position)
    if passed is not None:
        return [Edit(tree.span_with_parens(passed.value), value)]
    last = None
    for argument in call.args:
        if (argument.star == "*" and position is not None) or (
                argument.star == "**" and _may_hold(argument.value, name)):
            return None
        if argument.star == "**":
            return _add_in_front(tree, argument, f"{name}={value}")
        last = argument
    if last is None:
        begin = tree.offsets(call.whitespace_before_args)[0]
        return [Edit(tree.source.span(begin, begin), f"{name}={value}")]
    return _add_behind(tree, call, last, f"{name}={value}")


def _passed(call: libcst.Call, name: str, position: int | None) -> libcst.Arg | None:
    for index, argument in enumerate(call.args):
        if argument.keyword is not None and argument.keyword.value == name:
            return argument
        if index == position and not argument.star and argument.keyword is None:
            if not any(earlier.star for earlier in call.args[:index]):
                return argument
    return None


def _may_hold(mapping: libcst.BaseExpression, name: str) -> bool:
    """Whether ``**mapping`` may pass ``name``; only a literal without it may not."""
    if not isinstance(mapping, libcst.Dict):
        return True
    for element in mapping.elements:
        key = element.key if isinstance(element, libcst.DictElement) else None
        if literal(key) in (None, name):
            return True
    return False


def _add_in_front(tree: Tree, argument: libcst.Arg, added: str) -> list[Edit]:
    source = tree.source
    begin = tree.offsets(argument)[0]
    margin = source.text[source.line_begin(begin) : begin]
    separator = " " if margin.strip() else source.newline + margin
    return [Edit(source.span(begin, begin), f"{added},{separator}")]


def _add_behind(tree: Tree, call: libcst.Call, last: libcst.Arg, added: str) -> list[Edit]:
    """Add an argument behind the last one: on a line of its own where each argument has one."""
    source = tree.source
    finish = tree.offsets(last)[1]
    comma, break_ = _gap(tree, finish, tree.offsets(call)[1] - 1)
    edits = _parenthesized(tree, last) if len(call.args) == 1 and comma is None else []
    margin = source.text[source.line_begin(tree.offsets(last)[0]) : tree.offsets(last)[0]]
    if not _has_line_each(tree, call) or margin.strip():
        separator = break_before(tree, call, added)
        if comma is None:
            return [*edits, Edit(source.span(finish, finish), f",{separator}{added}")]
        return [Edit(source.span(comma + 1, comma + 1), f"{separator}{added},")]
    own_line = source.newline + margin + added
    if break_ is None or (comma is not None and comma > break_):  # the parenthesis closes on this line
        where = finish if comma is None else comma + 1
        return [*edits, Edit(source.span(where, where), f",{own_line}" if comma is None else f"{own_line},")]
    if comma is not None:
        return [Edit(source.span(break_, break_), f"{own_line},")]
    if break_ == finish:
        return [*edits, Edit(source.span(finish, finish), f",{own_line}")]
    return [*edits, Edit(source.span(finish, finish), ","), Edit(source.span(break_, break_), own_line)]


def _has_line_each(tree: Tree, call: libcst.Call) -> bool:
    """Whether each argument begins on a line of its own (the first may share that of the parenthesis)."""
    line_number = tree.source.line_number
    lines = [line_number(tree.offsets(argument)[0]) for argument in call.args]
    if len(lines) == 1:
        return lines[0] > line_number(tree.offsets(call.whitespace_before_args)[0])
    return len(set(lines)) == len(lines)


def _gap(tree: Tree, begin: int, finish: int) -> tuple[int | None, int | None]:
    """Where the comma and the first line break stand between an argument and what follows it."""
    comma = break_ = None
    for found in _TRIVIA.finditer(tree.source.text, begin, finish):
        if found.lastgroup == "comma" and comma is None:
            comma = found.start()
        if found.lastgroup == "newline" and break_ is None:
            break_ = found.start()
    return comma, break_


def _parenthesized(tree: Tree, argument: libcst.Arg) -> list[Edit]:
    """A bare generator expression must get parentheses once it is not the only argument."""
    begin, finish = tree.offsets(argument.value)
    if not isinstance(argument.value, libcst.GeneratorExp) or argument.value.lpar:
        return []
    return [Edit(tree.source.span(begin, begin), "("), Edit(tree.source.span(finish, finish), ")")]


def drop_method_call(tree: Tree, call: libcst.Call) -> list[Edit] | None:
    """Leave only ``receiver`` of ``receiver.method(...)``; None where a comment lies in what is dropped."""
    if not isinstance(call.func, libcst.Attribute):
        return None
    begin, finish = tree.offsets_with_parens(call.func.value)[1], tree.offsets(call)[1]
    if "#" in tree.source.text[begin:finish] or not tree.source.is_editable(begin, finish):
        return None
    return [Edit(tree.source.span(begin, finish), "")]


def remove_argument(tree: Tree, call: libcst.Call, argument: libcst.Arg) -> list[Edit]:
    """Remove an argument and its comma.

    A comment at the end of the argument's own line goes with it, all others stay.
    """
    index = call.args.index(argument)
    if len(call.args) == 1:
        return _remove_only(tree, call, argument)
    begin, finish = tree.offsets(argument)
    following = tree.offsets(call.args[index + 1])[0] if index + 1 < len(call.args) else tree.offsets(call)[1] - 1
    comma, break_ = _gap(tree, finish, following)
    source = tree.source
    line = source.line_begin(begin)
    is_last = index + 1 == len(call.args)
    own_line = not source.text[line:begin].strip() and break_ is not None and (comma is None or comma < break_)
    if own_line:
        below = source.next_line(finish)
        assert below is not None
        edits = [Edit(source.span(line, below), "")]
    elif not is_last:
        assert comma is not None
        return [Edit(source.span(begin, _after_blanks(source.text, comma + 1)), "")]
    else:
        edits = []
    if not is_last:
        return edits
    return _remove_last(tree, call, index, edits)


def _remove_last(tree: Tree, call: libcst.Call, index: int, line_edits: list[Edit]) -> list[Edit]:
    source = tree.source
    begin, finish = tree.offsets(call.args[index])
    previous = tree.offsets(call.args[index - 1])[1]
    comma, _ = _gap(tree, previous, begin)
    own_comma, _ = _gap(tree, finish, tree.offsets(call)[1] - 1)
    assert comma is not None
    if line_edits:
        return line_edits if own_comma is not None else [Edit(source.span(comma, comma + 1), ""), *line_edits]
    if "#" not in source.text[comma:begin]:
        return [Edit(source.span(comma, finish), "")]
    return [Edit(source.span(comma, comma + 1), ""), Edit(source.span(begin, finish), "")]


def _remove_only(tree: Tree, call: libcst.Call, argument: libcst.Arg) -> list[Edit]:
    source = tree.source
    begin, finish = tree.offsets(argument)
    left, right = tree.offsets(call.whitespace_before_args)[0], tree.offsets(call)[1] - 1
    if "#" not in source.text[left:begin] + source.text[finish:right]:
        return [Edit(source.span(left, right), "")]
    comma, _ = _gap(tree, finish, right)
    return [Edit(source.span(begin, finish if comma is None else comma + 1), "")]


def _after_blanks(text: str, offset: int) -> int:
    while text[offset : offset + 1] in (" ", "\t"):
        offset += 1
    return offset
