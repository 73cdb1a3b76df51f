"""What the test of a guard says about a loop's iterations: always the same, or true in the first one."""

from __future__ import annotations

import libcst as cst

from torchlint.semantics.imports import dotted
from torchlint.semantics.names import code_below
from torchlint.semantics.recording import Context, Loop
from torchlint.syntax.tree import literal

_STEADY_CALLS = frozenset({"isinstance", "hasattr", "callable", "getattr", "bool"})


def holds_in_first_iteration(guard: Context, loop: Loop) -> bool:
    """Whether a guard inside the loop lets its arm run in the first iteration, if it ever does.

    So it is where the test does not change while the loop runs, and where it compares an index
    that begins at 0 with 0. An unknown test is none of these.
    """
    if guard.data is None or guard.taken is None:
        return False
    changing = _changing(guard, loop)
    if is_steady(guard.data, changing):
        return True
    return _is_true_at_first(guard.data, changing) is guard.taken


def is_steady(test: cst.CSTNode, changing: dict[str, cst.CSTNode | None]) -> bool:
    """Whether a test asks for what is set once: presence, type or a choice by name, not a number."""
    if isinstance(test, cst.UnaryOperation):
        return isinstance(test.operator, cst.Not) and is_steady(test.expression, changing)
    if isinstance(test, cst.BooleanOperation):
        return is_steady(test.left, changing) and is_steady(test.right, changing)
    if isinstance(test, cst.Call):
        return dotted(test.func) in _STEADY_CALLS and all(_is_fixed(a.value, changing) for a in test.args)
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        part = test.comparisons[0]
        if not isinstance(part.operator, (cst.Is, cst.IsNot, cst.Equal, cst.NotEqual, cst.In, cst.NotIn)):
            return False
        return _is_fixed(test.left, changing) and _is_fixed(part.comparator, changing) and not any(
            isinstance(side, (cst.Integer, cst.Float)) for side in (test.left, part.comparator))
    return _is_fixed(test, changing)


def _is_fixed(node: cst.CSTNode, changing: dict[str, cst.CSTNode | None]) -> bool:
    if isinstance(node, (cst.Name, cst.Attribute)):
        name = dotted(node)
        return bool(name) and not any(name == c or name.startswith(c + ".") for c in changing)
    if isinstance(node, cst.Subscript):
        return _is_fixed(node.value, changing)
    if isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        return all(_is_fixed(e.value, changing) for e in node.elements)
    return literal(node) is not None or isinstance(node, (cst.Integer, cst.Float))


def _is_true_at_first(test: cst.CSTNode, changing: dict[str, cst.CSTNode | None]) -> bool | None:
    """What comparing a loop's index with 0 gives in the first iteration; None for anything else."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return None
    part = test.comparisons[0]
    if not isinstance(part.comparator, cst.Integer) or part.comparator.evaluated_value != 0:
        return None
    left = test.left
    if isinstance(left, cst.BinaryOperation) and isinstance(left.operator, cst.Modulo):
        left = left.left
    if not isinstance(left, cst.Name) or not _begins_at_zero(left.value, changing.get(left.value)):
        return None
    answers = {cst.Equal: True, cst.NotEqual: False, cst.GreaterThan: False, cst.GreaterThanEqual: True}
    return answers.get(type(part.operator))


def _begins_at_zero(name: str, loop: cst.CSTNode | None) -> bool:
    if not isinstance(loop, cst.For) or not isinstance(loop.iter, cst.Call):
        return False
    call, target = loop.iter, loop.target
    if dotted(call.func) == "range":
        start = call.args[0].value if len(call.args) > 1 else None
        from_zero = start is None or (isinstance(start, cst.Integer) and start.value == "0")
        return isinstance(target, cst.Name) and target.value == name and from_zero
    if dotted(call.func) == "enumerate" and isinstance(target, cst.Tuple) and len(call.args) == 1:
        first = target.elements[0].value
        return isinstance(first, cst.Name) and first.value == name
    return False


def _changing(guard: Context, loop: Loop) -> dict[str, cst.CSTNode | None]:
    """The names that the loops around a guard bind or change, with the loop whose target each is."""
    names: dict[str, cst.CSTNode | None] = {}
    for context in guard:
        if context.kind != "loop":
            continue
        node = context.node.node
        _collect(node, names)
        if context.data is loop:
            break
    return names


def _collect(loop: cst.CSTNode, names: dict[str, cst.CSTNode | None]) -> None:
    for node in code_below(loop):
        if isinstance(node, cst.For):
            for name in _targets(node.target):
                names.setdefault(name, node)
        elif isinstance(node, cst.Assign):
            for target in node.targets:
                names.update(dict.fromkeys(_targets(target.target)))
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.NamedExpr)):
            names.update(dict.fromkeys(_targets(node.target)))


def _targets(target: cst.CSTNode) -> list[str]:
    if isinstance(target, (cst.Tuple, cst.List)):
        return [name for element in target.elements for name in _targets(element.value)]
    return [dotted(target)] if isinstance(target, (cst.Name, cst.Attribute)) and dotted(target) else []
