"""The statements that stand inside of statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import libcst as cst

from torchlint.syntax.linked import LazyBody


def inside(node: Any) -> Sequence[Any]:
    """The statements and suites right inside of one, in order; none in a function, a class, or what has no suite."""
    parts = _PARTS.get(node.__class__)
    return () if parts is None else parts(node)


def _body(node: Any) -> Sequence[Any]:
    return node.body  # type: ignore[no-any-return]


def _suites(node: Any) -> list[Any]:
    return [node.body] if node.orelse is None else [node.body, node.orelse]


def _try(node: cst.Try | cst.TryStar) -> list[Any]:
    return [node.body, *(handler.body for handler in node.handlers),
            *(part.body for part in (node.orelse, node.finalbody) if part is not None)]


_PARTS: dict[type, Callable[[Any], Sequence[Any]]] = {
    cst.IndentedBlock: _body,
    LazyBody: _body,
    cst.SimpleStatementSuite: _body,
    cst.SimpleStatementLine: _body,
    cst.For: _suites,
    cst.While: _suites,
    cst.If: _suites,
    cst.With: lambda n: [n.body],
    cst.Else: lambda n: [n.body],
    cst.Try: _try,
    cst.TryStar: _try,
    cst.Match: lambda n: [case.body for case in n.cases],
}
