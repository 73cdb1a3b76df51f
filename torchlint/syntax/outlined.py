"""Files that are checked: read by CPython's parser, and by libcst where something is asked of their layout.

Most files have nothing to be reported, and most of the others little: libcst parses the top-level
statements that somebody asks about, and what it knows is put into the outline's own nodes. What was
learnt of these (values, events, what ran) stays true, so that no file is interpreted twice. Nodes that
libcst writes otherwise (a string of several pieces, a line of several statements) keep libcst's in the
tree, and are told as another name for it. What stands between the top-level statements (blank lines,
comments: ``leading_lines`` and the last block's ``footer``) is in no node of an outline.
"""

from __future__ import annotations

import ast
import bisect
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst

from torchlint.syntax.linked import (
    SHARED,
    LazyBody,
    LinkedTree,
    UnreadExpression,
    WholeTreeNeeded,
    parsed_from,
)
from torchlint.syntax.source import Source
from torchlint.syntax.tree import NO_NODES, Node, Tree, children, code_fields, deeper_recursion, parsed, walk

_INDENT = " " * 4  # of a file that indents nothing


@dataclasses.dataclass(slots=True)
class _Part:
    """Top-level statements that share lines, continued ones as well: one, but for ``a; b``."""

    first_line: int
    last_line: int
    statements: list[Any]
    whole: cst.Module | None = None  # what libcst made of them; kept, as it is known by its identity, too


class OutlinedTree(Tree):
    """A tree that begins as an outline. It raises WholeTreeNeeded for what it cannot tell, or find out."""

    def __init__(self, linked: LinkedTree) -> None:
        super().__init__(linked.source, linked.own_module())
        self._parts = _parts(self.source, linked.parsed, self.module.body)
        self._is_beyond = False  # whether a part could not be completed
        self._aliases: dict[Any, Node] = {}  # keeps alive what is known by its identity
        _set(self.module, "default_indent", self._indent(linked.parsed))

    def complete(self) -> None:
        for part in self._parts:
            self._complete(part)

    def _explore(self, node: Node) -> None:
        line = _line_of(node)
        if line is None:
            self.complete()
        else:
            self._complete(self._parts[bisect.bisect(self._parts, line, key=lambda part: part.first_line) - 1])
        if id(node) not in self._positions:
            raise WholeTreeNeeded

    def _indent(self, parsed: list[ast.stmt]) -> str:
        """The first indentation of the file, which is one step of it."""
        for statement in parsed:
            for inner in getattr(statement, "body", ()):
                if inner.lineno > statement.lineno:
                    begin = self.source.line_starts[inner.lineno - 1]
                    return self.source.text[begin : begin + inner.col_offset]
        return _INDENT

    def _complete(self, part: _Part) -> None:
        if self._is_beyond:
            raise WholeTreeNeeded
        if part.whole is None:
            self._is_beyond = True  # until all went well: what is half done must not be taken for complete
            part.whole = self._completed(part)
            self._is_beyond = False

    def _completed(self, part: _Part) -> cst.Module:
        starts = self.source.line_starts
        begin = starts[part.first_line - 1]
        text = self.source.text[begin : starts[part.last_line] if part.last_line < len(starts) else None]
        completion = _Completion()
        try:
            with deeper_recursion():
                whole = parsed(text)
                if whole.default_indent != self.module.default_indent and _has_suites(whole):
                    raise WholeTreeNeeded  # libcst's blocks know their indentation only where it is another
                body = completion.body(part.statements, whole.body)
        except (cst.ParserSyntaxError, RecursionError):
            raise WholeTreeNeeded from None
        _set(whole, "body", body)
        self._put(part.statements, body)
        self._learn(whole, self.module, begin, text)
        self._aliases.update(completion.aliases)
        for ours, theirs in completion.aliases.items():
            if id(theirs) in self._positions:
                self._positions[id(ours)] = self._positions[id(theirs)]
            if id(theirs) in self._parents:
                self._parents[id(ours)] = self._parents[id(theirs)]
        return whole

    def _put(self, outlined: Sequence[Any], body: Sequence[Any]) -> None:
        """Put whole statements in their place; into a new row, as somebody may be going through the old one."""
        if any(ours is not theirs for ours, theirs in zip(outlined, body, strict=False)):
            row = list(self.module.body)
            place = next(index for index, statement in enumerate(row) if statement is outlined[0])
            row[place : place + len(outlined)] = body
            _set(self.module, "body", row)


def _parts(source: Source, parsed: Sequence[ast.stmt], statements: Sequence[Any]) -> list[_Part]:
    parts: list[_Part] = []
    for node, statement in zip(parsed, statements, strict=True):
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        last = node.end_lineno or node.lineno
        if parts and (first <= parts[-1].last_line or _is_continued(source, first - 1)):
            parts[-1].statements.append(statement)
            parts[-1].last_line = max(parts[-1].last_line, last)
        else:
            parts.append(_Part(first, last, [statement]))
    return parts


def _is_continued(source: Source, line: int) -> bool:
    begin, finish = source.line_starts[line - 1 : line + 1]
    return source.text[begin:finish].rstrip("\r\n").endswith("\\")


def _line_of(node: Any) -> int | None:
    """A line that an outlined node is on, so far as it, or something in it, knows."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        place = parsed_from(here)
        if place is not None:
            return int(place.lineno)
        waiting += [] if isinstance(here, LazyBody) else children(here)
    return None


def _has_suites(module: cst.Module) -> bool:
    return any(isinstance(node, cst.IndentedBlock) for node in walk(module))


@functools.cache
def _layout_fields(kind: type[Node]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind) if field.name not in code_fields(kind))


_WRITTEN_OTHERWISE: dict[type, Any] = {
    cst.ConcatenatedString: (cst.SimpleString, cst.FormattedString),
    cst.TryStar: cst.Try,
    cst.ExceptStarHandler: cst.ExceptHandler,
    cst.MatchTuple: cst.MatchList,
}
"""libcst's classes that an outline has in another, with the same fields or none."""

_UNKNOWN = (UnreadExpression, cst.Pass)


class _Completion:
    """Puts an outline's nodes into a tree of the same text. Raises WholeTreeNeeded where the two differ in shape."""

    def __init__(self) -> None:
        self.aliases: dict[Any, Node] = {}  # outlined nodes that are not in the tree, by what stands for them

    def suite(self, ours: LazyBody, theirs: Any) -> None:
        """A suite, a line (``if x: a; b``) or a module."""
        self.aliases[ours] = theirs
        outlined = ours.converted
        if isinstance(theirs, cst.SimpleStatementSuite):
            if outlined is not None:
                self._line(iter(outlined), theirs)
            ours.replace([theirs])
            return
        if outlined is not None:
            _set(theirs, "body", self.body(outlined, theirs.body))
        ours.replace(list(theirs.body))

    def body(self, ours: Sequence[Any], theirs: Sequence[Any]) -> list[Any]:
        """The statements of a suite."""
        outlined = iter(ours)
        body = [self._statement(outlined, statement) for statement in theirs]
        if next(outlined, None) is not None:
            raise WholeTreeNeeded
        return body

    def _statement(self, outlined: Iterator[Any], theirs: Any) -> Any:
        if isinstance(theirs, cst.SimpleStatementLine) and len(theirs.body) > 1:
            self._line(outlined, theirs)
            return theirs
        return self.node(_next(outlined), theirs)

    def _line(self, outlined: Iterator[Any], theirs: Any) -> None:
        """Small statements in one line; each has a line of its own in an outline."""
        body = []
        for small in theirs.body:
            line = _next(outlined)
            self.aliases[line] = theirs
            if not isinstance(line, cst.SimpleStatementLine):
                raise WholeTreeNeeded
            body.append(self.node(line.body[0], small))
        _set(theirs, "body", body)

    def node(self, ours: Any, theirs: Any) -> Any:
        """The node that stands in the tree from now on: ours, if it is of the same class."""
        if ours in SHARED:
            return theirs
        if ours.__class__ is cst.If and theirs.__class__ is cst.Else:
            return self._else(ours, theirs)
        kept = ours
        if ours.__class__ is not theirs.__class__:
            if not isinstance(ours, _WRITTEN_OTHERWISE.get(theirs.__class__, _UNKNOWN)):
                raise WholeTreeNeeded
            kept = self.aliases[ours] = theirs
            if isinstance(theirs, cst.ConcatenatedString):
                self._joined(ours, theirs)
                return theirs
        for field in code_fields(theirs.__class__):
            own = getattr(ours, field, None)
            value = getattr(theirs, field)
            if own.__class__ not in NO_NODES:
                value = self._value(ours, field, own, value)
            _set(kept, field, value)
        if kept is ours:
            for field in _layout_fields(theirs.__class__):
                _set(kept, field, getattr(theirs, field))
        return kept

    def _value(self, ours: Any, field: str, own: Any, value: Any) -> Any:
        if own.__class__ is list:
            if value.__class__ is not list and value.__class__ is not tuple:
                raise WholeTreeNeeded
            return self._several(ours, field, own, value)
        if value.__class__ in NO_NODES:
            raise WholeTreeNeeded
        if own.__class__ is LazyBody:
            self.suite(own, value)
            return value
        return self.node(own, value)

    def _several(self, ours: Any, field: str, own: Sequence[Any], value: Sequence[Any]) -> list[Any]:
        if field in ("parts", "format_spec"):
            return self._parts(_fields_in(own), value)
        if field == "args" and isinstance(ours, cst.Call):
            return self._arguments(own, value)
        if field == "slice" and _is_tuple_in_brackets(value) and not _is_tuple_in_brackets(own):
            return self._tuple_in_brackets(own, value)
        if len(own) != len(value):
            raise WholeTreeNeeded
        return [self.node(one, other) for one, other in zip(own, value, strict=True)]

    def _arguments(self, own: Sequence[Any], value: Sequence[Any]) -> list[Any]:
        """CPython's parser has keyword arguments apart, behind the others."""
        by_place = iter([arg for arg in own if not _is_named(arg)])
        by_name = iter([arg for arg in own if _is_named(arg)])
        return [self.node(_next(by_name if _is_named(arg) else by_place), arg) for arg in value]

    def _tuple_in_brackets(self, own: Sequence[Any], value: Sequence[Any]) -> list[Any]:
        """``x[(a, b)]``, which CPython's parser does not tell from ``x[a, b]``."""
        inner = value[0].slice.value
        if len(inner.elements) != len(own):
            raise WholeTreeNeeded
        for one, other in zip(own, inner.elements, strict=True):
            if not isinstance(one.slice, cst.Index):
                raise WholeTreeNeeded
            self.aliases[one] = self.aliases[one.slice] = other
            _set(other, "value", self.node(one.slice.value, other.value))
        return list(value)

    def _else(self, ours: cst.If, theirs: cst.Else) -> cst.Else:
        """``else: if``, which CPython's parser does not tell from ``elif``."""
        block = theirs.body
        if not isinstance(block, cst.IndentedBlock) or len(block.body) != 1:
            raise WholeTreeNeeded
        _set(block, "body", [self.node(ours, block.body[0])])
        return theirs

    def _joined(self, ours: Any, theirs: cst.ConcatenatedString) -> None:
        """Strings side by side are one for CPython's parser."""
        own = _fields_in(getattr(ours, "parts", ()))
        for piece in _pieces(theirs):
            if isinstance(piece, cst.FormattedString):
                _set(piece, "parts", self._parts(own, piece.parts))

    def _parts(self, own: Iterator[Any], value: Sequence[Any]) -> list[Any]:
        """The parts of a joined string: what is between the fields is cut differently by the parsers."""
        return [self.node(_next(own), part) if isinstance(part, cst.FormattedStringExpression) else part
                for part in value]


def _set(node: Any, field: str, value: Any) -> None:
    object.__setattr__(node, field, value)


def _next(outlined: Iterator[Any]) -> Any:
    found = next(outlined, None)
    if found is None:
        raise WholeTreeNeeded
    return found


def _is_tuple_in_brackets(elements: Sequence[Any]) -> bool:
    return len(elements) == 1 and isinstance(getattr(elements[0].slice, "value", None), cst.Tuple)


def _is_named(argument: cst.Arg) -> bool:
    return argument.keyword is not None or argument.star == "**"


def _fields_in(parts: Sequence[Any]) -> Iterator[Any]:
    return iter([part for part in parts if isinstance(part, cst.FormattedStringExpression)])


def _pieces(joined: cst.ConcatenatedString) -> Iterator[Any]:
    for side in (joined.left, joined.right):
        if isinstance(side, cst.ConcatenatedString):
            yield from _pieces(side)
        else:
            yield side
