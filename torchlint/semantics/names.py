"""The identifiers that a piece of code mentions: enough to prove that it cannot matter."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import libcst as cst

from torchlint.syntax.linked import LazyBody

_FIELDS: dict[type, tuple[str, ...]] = {}
_WITHOUT_NAMES = (
    cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.EmptyLine, cst.Comment, cst.Newline, cst.BaseCompOp,
    cst.BaseBinaryOp, cst.BaseUnaryOp, cst.BaseAugOp, cst.BaseBooleanOp, cst.Comma, cst.Dot, cst.Colon, cst.Semicolon,
    cst.AssignEqual, cst.LeftParen, cst.RightParen, cst.LeftSquareBracket, cst.RightSquareBracket, cst.LeftCurlyBrace,
    cst.RightCurlyBrace, cst.SimpleString, cst.Integer, cst.Float, cst.Imaginary, cst.Ellipsis, cst.Annotation,
)
_WITHOUT_CODE = frozenset({
    "lpar", "rpar", "comma", "equal", "annotation", "header", "footer", "leading_lines", "lines_after_decorators",
    "trailing_whitespace", "semicolon", "indent", "lbracket", "rbracket", "lbrace", "rbrace", "dot", "operator",
    "asynchronous", "colon", "whitespace", "star", "returns", "type_parameters", "newline", "value_str", "encoding",
})
_CONSTANTS = frozenset({"None", "True", "False"})  # libcst has them as names
Finder = Callable[[Any], frozenset[str]]
_caches: list[dict[Any, frozenset[str]]] = []


def once_per_node(function: Finder) -> Finder:
    """Decorator: remember the answer for each node, until told to ``forget``."""
    cache: dict[Any, frozenset[str]] = {}
    _caches.append(cache)

    @functools.wraps(function)
    def remembered(node: Any) -> frozenset[str]:
        body = node if node.__class__ is LazyBody else getattr(node, "body", None)
        if body.__class__ is LazyBody:  # an outline outlives the tree that is checked
            key, known = (function, node.__class__), body.answers
        else:
            key, known = node, cache
        found = known.get(key)
        if found is None:
            found = known[key] = function(node)
        return found

    return remembered


def forget() -> None:
    """Let go of the trees of which something is remembered."""
    for cache in _caches:
        cache.clear()


@once_per_node
def names_in(node: Any) -> frozenset[str]:
    """Every name, attribute and keyword in the node, but for annotations."""
    names: set[str] = set()
    _collect(node, names)
    return frozenset(names - _CONSTANTS)


def _collect(node: Any, names: set[str]) -> None:
    waiting = [node]
    pop, push = waiting.pop, waiting.append
    while waiting:
        here = pop()
        cls = here.__class__
        if cls is cst.Name:
            names.add(here.value)
            continue
        if cls is LazyBody:
            names |= here.names()
            continue
        if cls is cst.FunctionDef and here is not node:
            names |= names_in(here)
            continue
        fields = _FIELDS.get(cls)
        if fields is None:
            fields = _FIELDS[cls] = _code_fields(here)
        for field in fields:
            child = getattr(here, field, None)
            if child.__class__ is tuple or child.__class__ is list:
                waiting.extend(child)
            elif child is not None and child.__class__ is not str:
                push(child)


def code_children(node: Any) -> list[Any]:
    """The nodes directly below a node that may hold code."""
    if node.__class__ is LazyBody:
        return list(node.body)
    fields = _FIELDS.get(node.__class__)
    if fields is None:
        fields = _FIELDS[node.__class__] = _code_fields(node)
    found: list[Any] = []
    for field in fields:
        child = getattr(node, field, None)
        if isinstance(child, (tuple, list)):
            found.extend(child)
        elif child is not None and not isinstance(child, str):
            found.append(child)
    return found


def code_below(node: Any) -> Iterator[Any]:
    """A node and all below it that may hold code, of a file that is checked or only looked into; parents first."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        yield here
        waiting.extend(reversed(code_children(here)))


def _code_fields(node: Any) -> tuple[str, ...]:
    """The fields of a node class that may hold names."""
    if isinstance(node, _WITHOUT_NAMES) or not isinstance(node, cst.CSTNode):
        return ()
    return tuple(f for f in node.__dataclass_fields__ if f not in _WITHOUT_CODE and not f.startswith("whitespace"))
