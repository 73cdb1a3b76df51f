"""A Source's syntax tree, and where each node lies in the text."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import gc
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import libcst
from libcst._nodes.internal import CodegenState  # the hook that libcst's own position provider uses

from torchlint.findings import Position, Span
from torchlint.syntax.limits import ParserLimit, check_limits
from torchlint.syntax.linked import LazyBody, UnreadExpression
from torchlint.syntax.source import Source, SourceError

Statement = libcst.SimpleStatementLine | libcst.BaseCompoundStatement
Node = libcst.CSTNode

__all__ = [
    "NO_NODES", "Node", "ParserLimit", "Statement", "Tree", "children", "code_fields", "deeper_recursion", "literal",
    "parse", "parsed", "same_code", "walk",
]


def parse(source: Source) -> Tree:
    """Parse a source. Raises SourceError for a syntax error, ParserLimit for what libcst cannot take."""
    check_limits(source)
    try:
        with deeper_recursion():
            return Tree(source, parsed(source.text))
    except libcst.ParserSyntaxError as error:
        raise _explained(source, error) from None
    except RecursionError:
        raise ParserLimit("nested too deeply for the parser") from None


def parsed(text: str) -> libcst.Module:
    """What libcst makes of a text.

    Without garbage collection, which would look at every new node again and again: twice as fast on large files.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return libcst.parse_module(text)
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def deeper_recursion() -> Iterator[None]:
    """Room for the deepest tree that the limits let through: two frames a link, four a bracket or a block."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 5000))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _explained(source: Source, error: libcst.ParserSyntaxError) -> SourceError | ParserLimit:
    """libcst's errors rarely say where; CPython's do, and it knows whether the file is wrong at all."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source.text)
    except SyntaxError as wrong:
        return SourceError(wrong.msg, kind="syntax-error", position=_reported_position(source, wrong))
    except (ValueError, RecursionError, MemoryError):
        pass
    place = re.search(r"error at (\d+):(\d+)", error.message)
    where = _position_at(source, int(place[1]), int(place[2])) if place else None
    return ParserLimit("this Python is beyond the parser (libcst)", where)


def _reported_position(source: Source, error: SyntaxError) -> Position | None:
    if not error.lineno:
        return None
    return _position_at(source, error.lineno, error.offset or 1)


def _position_at(source: Source, line: int, column: int) -> Position:
    starts = source.line_starts
    begin = starts[min(line, len(starts)) - 1]
    return source.position(min(begin + max(column, 1) - 1, len(source.text)))


class Tree:
    """The syntax tree of one source. Positions and parents are worked out when first asked for."""

    def __init__(self, source: Source, module: libcst.Module) -> None:
        self.source = source
        self.module = module
        self._positions: dict[int, tuple[int, int]] = {}  # by the identity of nodes, which the module keeps alive
        self._parents: dict[int, Node] = {}

    def complete(self) -> None:
        """Work out everything at once: no node's position or parent is unknown, and every suite can be walked."""
        if not self._positions:
            self._learn(self.module, self.module, 0, self.source.text)

    def _explore(self, node: Node) -> None:
        """Learn of a node of which nothing is known."""
        self.complete()

    def _learn(self, module: libcst.Module, top: Node, begin: int, text: str) -> None:
        """Learn of all nodes of a module that libcst made of the text at ``begin``, and that hang below ``top``."""
        for key, (first, last) in _positions_in(module, text).items():
            self._positions[key] = begin + first, begin + last
        self._parents.update((id(statement), top) for statement in module.body)
        waiting: list[Node] = list(module.body)
        while waiting:
            node = waiting.pop()
            for child in children(node):
                self._parents[id(child)] = node
                waiting.append(child)

    def _position(self, node: Node) -> tuple[int, int]:
        if id(node) not in self._positions:
            self._explore(node)
        return self._positions[id(node)]

    def span(self, node: Node) -> Span:
        """The node's own characters: no surrounding whitespace, comma or parentheses."""
        return self.source.span(*self.offsets(node))

    def span_with_parens(self, node: Node) -> Span:
        """The node's characters with the parentheses that belong to it."""
        return self.source.span(*self.offsets_with_parens(node))

    def offsets(self, node: Node) -> tuple[int, int]:
        """Begin and finish (exclusive) of ``span(node)`` in the source's text."""
        begin, finish = self._position(node)
        # Without a final newline libcst counts one all the same before it takes it back.
        end_of_text = len(self.source.text)
        return min(begin, end_of_text), min(finish, end_of_text)

    def offsets_with_parens(self, node: Node) -> tuple[int, int]:
        """Begin and finish (exclusive) of ``span_with_parens(node)`` in the source's text."""
        own = self.offsets(node)
        left, right = getattr(node, "lpar", ()), getattr(node, "rpar", ())
        if not isinstance(left, Sequence) or not left or not right:  # those of a `with` may be unknown
            return own
        return self._position(left[0])[0], self._position(right[-1])[1]

    def is_parenthesized(self, node: Node) -> bool:
        """Whether parentheses belong to the node."""
        self._position(node)
        return bool(getattr(node, "lpar", None))

    def text(self, node: Node) -> str:
        """The node's own characters, as they stand in the file."""
        begin, finish = self._position(node)
        return self.source.text[begin:finish]

    def text_with_parens(self, node: Node) -> str:
        """The node's characters, as they stand in the file, with the parentheses that belong to it."""
        begin, finish = self.offsets_with_parens(node)
        return self.source.text[begin:finish]

    def parent(self, node: Node) -> Node | None:
        """The node that holds this one; None for the module."""
        if id(node) not in self._parents and node is not self.module:
            self._explore(node)
        return self._parents.get(id(node))

    def ancestors(self, node: Node) -> Iterator[Node]:
        """The node's parent, its parent, and so on up to the module."""
        above = self.parent(node)
        while above is not None:
            yield above
            above = self.parent(above)

    def statement(self, node: Node) -> Statement:
        """The innermost whole statement that holds the node (or is it): a line of small statements, or a compound one.

        The body of ``if x: y`` belongs to the ``if``, the test of an ``elif`` to the ``if`` above.
        """
        here: Node | None = node
        while here is not None:
            above = self.parent(here)
            is_elif = isinstance(above, libcst.If) and above.orelse is here
            if isinstance(here, libcst.SimpleStatementLine | libcst.BaseCompoundStatement) and not is_elif:
                return here
            here = above
        raise ValueError(f"{type(node).__name__} lies in no statement")

    def indentation(self, statement: Statement) -> str:
        """The whitespace in front of the statement's first line."""
        begin = self.first_offset(statement)
        return self.source.text[self.source.line_begin(begin) : begin]

    def first_offset(self, statement: Statement) -> int:
        """Where the statement begins, its decorators included."""
        decorators = getattr(statement, "decorators", None)
        return self._position(decorators[0] if decorators else statement)[0]


Positions = dict[int, tuple[int, int]]


def _positions_in(module: libcst.Module, text: str) -> Positions:
    """Begin and finish of each node, by its identity, in the text that the module was made of."""
    state = _Counter(default_indent=module.default_indent, default_newline=module.default_newline)
    try:
        with deeper_recursion():
            module._codegen(state)
    except RecursionError:
        raise ParserLimit("nested too deeply for the parser") from None
    generated = "".join(state.tokens)
    code_finish = state.offsets[id(module.body[-1])][1] if module.body else 0
    # libcst may lose comments and blanks at the end of a file without a final newline.
    if text.startswith(generated[:code_finish]):
        return state.offsets
    return _aligned(state.offsets, generated[:code_finish], text)


def _aligned(offsets: Positions, generated: str, text: str) -> Positions:
    """Offsets in ``text`` for offsets in what libcst would write.

    libcst drops a form feed that begins the file, and blanks before the colon of an ``except``.
    """
    shifted = []
    here = 0
    for character in generated:
        while here < len(text) and text[here] in " \t\f" and text[here] != character:
            here += 1
        if here == len(text) or text[here] != character:
            raise ParserLimit("the parser does not give this file back as it is")
        shifted.append(here)
        here += 1

    def moved(offset: int) -> int:
        return shifted[offset] if offset < len(shifted) else here + offset - len(shifted)

    return {
        node: (moved(begin), moved(finish - 1) + 1 if finish > begin else moved(begin))
        for node, (begin, finish) in offsets.items()
    }


class _Counter(CodegenState):
    """Writes the module again to learn at which offset each node begins and ends.

    Much faster than libcst.metadata's PositionProvider, with the same positions.
    """

    def __init__(self, default_indent: str, default_newline: str) -> None:
        super().__init__(default_indent, default_newline)
        self.offset = 0
        self.offsets: Positions = {}
        self._begins: list[int] = []

    def add_indent_tokens(self) -> None:
        self.tokens += self.indent_tokens
        for token in self.indent_tokens:
            self.offset += len(token)

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self.offset += len(value)

    def before_codegen(self, node: Node) -> None:
        self._begins.append(self.offset)

    def after_codegen(self, node: Node) -> None:
        begin = self._begins.pop()
        if id(node) not in self.offsets:
            self.offsets[id(node)] = (begin, self.offset)

    def record_syntactic_position(self, node: Node, *, start_node: Node | None = None,
                                  end_node: Node | None = None) -> Any:
        return _Recorder(self, node, start_node, end_node)


class _Recorder:
    """The context in which a node's own characters are written."""

    __slots__ = ("_begin", "_first", "_last", "_node", "_state")

    def __init__(self, state: _Counter, node: Node, first: Node | None, last: Node | None) -> None:
        self._state = state
        self._node = node
        self._first = first
        self._last = last

    def __enter__(self) -> None:
        self._begin = self._state.offset

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if error is None:
            offsets = self._state.offsets
            begin = self._begin if self._first is None else offsets[id(self._first)][0]
            finish = self._state.offset if self._last is None else offsets[id(self._last)][1]
            offsets[id(self._node)] = (begin, finish)


_LAYOUT = re.compile(
    r"whitespace.*|leading_lines|lines_.*|trailing_whitespace|indent|header|footer|newline|comment|comma|semicolon"
    r"|lpar|rpar|[lr]bracket|[lr]brace|dot|equal|colon|bar"
)


@functools.cache
def code_fields(kind: type[Node]) -> tuple[str, ...]:
    """The names of a node class's fields that are not only layout."""
    return tuple(field.name for field in dataclasses.fields(kind) if not _LAYOUT.fullmatch(field.name))


NO_NODES = frozenset({str, bool, type(None), libcst.MaybeSentinel})
"""What a field may hold beside nodes and rows of nodes."""


def children(node: Node) -> Iterator[Node]:
    """The nodes directly inside this one, without those that are only layout (whitespace, commas, parentheses).

    In an outline, strings side by side are one, and a call's keyword arguments stand behind the others.
    """
    if isinstance(node, LazyBody):
        yield from node.body
        return
    for name in code_fields(node.__class__):
        value: Any = getattr(node, name, None)
        if value.__class__ is tuple or value.__class__ is list:
            yield from value
        elif value.__class__ not in NO_NODES:
            yield value


def walk(node: Node) -> Iterator[Node]:
    """The node and all nodes inside it, in the order of the text, without layout."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        yield here
        waiting.extend(reversed(list(children(here))))


def literal(node: Any) -> str | bytes | None:
    """What a string says that is written out, in a piece or in several side by side; None for any other node."""
    written = isinstance(node, libcst.SimpleString | libcst.ConcatenatedString)
    return node.evaluated_value if written else None


def same_code(a: Any, b: Any) -> bool:
    """Whether two nodes of one tree, or of one outline, are written alike but for layout."""
    if a.__class__ is not b.__class__ or isinstance(a, UnreadExpression):
        return False
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same_code, a, b))
    if isinstance(a, Node):
        return all(same_code(getattr(a, name, None), getattr(b, name, None)) for name in code_fields(type(a)))
    return bool(a == b)
