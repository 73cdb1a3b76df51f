"""Where the value of a name may come from within one file: assignments, and the arguments of calls by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import libcst

from torchlint.syntax.tree import Node, Tree, children, walk

_DEEPEST = 6  # names that stand for names

Scope = libcst.Module | libcst.FunctionDef


def last_name(node: Node) -> str:
    """The last part of a dotted name; the empty string for anything else."""
    name = node.attr if isinstance(node, libcst.Attribute) else node
    return name.value if isinstance(name, libcst.Name) else ""


def own_nodes(node: Node) -> Iterator[Node]:
    """The nodes inside one that belong to its own scope: nothing of functions and classes defined there."""
    waiting = list(children(node))
    while waiting:
        here = waiting.pop()
        if not isinstance(here, libcst.FunctionDef | libcst.ClassDef | libcst.Lambda):
            yield here
            waiting.extend(children(here))


class Origins:
    """The expressions that the names of a tree may stand for.

    Scopes are the module and its functions; a parameter stands for what the file's calls of the
    function by its plain name pass. Where a binding cannot be followed, nothing is given at all.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._bindings: dict[tuple[Scope, str], list[libcst.BaseExpression | None]] = defaultdict(list)
        self._calls: dict[str, list[libcst.Call]] = defaultdict(list)
        self._functions: dict[str, list[libcst.FunctionDef]] = defaultdict(list)
        for node in walk(tree.module):
            self._read(node)

    def of(self, node: libcst.BaseExpression) -> list[libcst.BaseExpression]:
        """Every expression, other than a name, that a name may stand for; any other expression is its own origin."""
        return self._of(node, 0) or []

    def is_bound_once(self, name: libcst.Name) -> bool:
        """Whether a name is bound in one place: in the scope around it, or, for a global name, in the module."""
        scopes = (self._scope(name), self.tree.module)
        found = next((bound for scope in scopes if (bound := self._bindings.get((scope, name.value)))), ())
        return len(found) == 1

    def _of(self, node: libcst.BaseExpression, depth: int) -> list[libcst.BaseExpression] | None:
        if not isinstance(node, libcst.Name):
            return [node]
        if depth > _DEEPEST:
            return None
        scope = self._scope(node)
        bound = self._bindings.get((scope, node.value))
        if bound is None and isinstance(scope, libcst.FunctionDef):
            passed = self._passed(scope, node.value)
            bound = self._bindings.get((self.tree.module, node.value)) if passed is None else passed
        found: list[libcst.BaseExpression] = []
        for each in bound or ():
            if each is None or (origins := self._of(each, depth + 1)) is None:
                return None
            found += origins
        return found

    def _scope(self, node: Node) -> Scope:
        return next(above for above in self.tree.ancestors(node)
                    if isinstance(above, libcst.FunctionDef | libcst.Module))

    def _passed(self, function: libcst.FunctionDef, name: str) -> list[libcst.BaseExpression | None] | None:
        """What calls pass for a parameter; None where the function has no such parameter."""
        params = function.params
        names = [param.name.value for param in (*params.posonly_params, *params.params)]
        keyword_only = [param.name.value for param in params.kwonly_params]
        if name not in names and name not in keyword_only:
            return None
        known = self._functions[function.name.value]
        calls = self._calls[function.name.value]
        if len(known) != 1 or not calls:
            return [None]
        return [_argument(call, name, names.index(name) if name in names else None) for call in calls]

    def _read(self, node: Node) -> None:
        if isinstance(node, libcst.FunctionDef):
            self._functions[node.name.value].append(node)
        elif isinstance(node, libcst.Call) and isinstance(node.func, libcst.Name):
            self._calls[node.func.value].append(node)
        elif isinstance(node, libcst.Assign):
            for target in node.targets:
                self._bind(target.target, node.value)
        elif isinstance(node, libcst.AnnAssign | libcst.NamedExpr):
            self._bind(node.target, node.value)
        elif isinstance(node, libcst.AugAssign | libcst.For | libcst.CompFor):
            self._bind(node.target, None)
        elif isinstance(node, libcst.AsName):
            self._bind(node.name, None)

    def _bind(self, target: Node, value: libcst.BaseExpression | None) -> None:
        if isinstance(target, libcst.Name):
            self._bindings[self._scope(target), target.value].append(value)
        elif isinstance(target, libcst.Tuple | libcst.List):
            parts: list[libcst.BaseExpression | None] = [None] * len(target.elements)
            if isinstance(value, libcst.Tuple | libcst.List) and len(value.elements) == len(parts) and not any(
                    isinstance(element, libcst.StarredElement) for element in (*value.elements, *target.elements)):
                parts = [element.value for element in value.elements]
            for element, part in zip(target.elements, parts, strict=True):
                self._bind(element.value, part)


def _argument(call: libcst.Call, name: str, position: int | None) -> libcst.BaseExpression | None:
    for index, argument in enumerate(call.args):
        if argument.star:
            return None
        if argument.keyword is not None and argument.keyword.value == name:
            return argument.value
        if argument.keyword is None and index == position:
            return argument.value
    return None
