"""What would lose its graph for good: values computed in a region that leave it and may carry a graph of their own.

Under ``torch.no_grad()`` whatever a region computes carries no graph. That is meant for the outputs
of the forwards that are wasted there. Anything else that is returned, stored outside or used later
must be proven to have no graph; what is there already keeps its own, and may be handed on as it is.
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import knowledge
from torchlint.semantics import values as v
from torchlint.semantics.names import code_below, code_children
from torchlint.semantics.recording import Call
from torchlint.syntax.tree import literal

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Block, Event
    from torchlint.semantics.scopes import ModuleModel
    from torchlint.syntax.tree import Node, Tree

_Scope = cst.FunctionDef | cst.Module
_Source = tuple["Node", "Callable[[], Graph]"]
"""Where a name gets a value, and what that may carry."""


class Graph(enum.IntEnum):
    """What a value may carry."""

    NONE = 0  # no graph, or only that of forwards whose graph nobody wants
    GIVEN = 1  # one that it had before: the value is an argument, an attribute, a global as it is
    OWN = 2  # one of its own: it is computed from such values, or by code that nobody sees


def joined(graphs: Iterator[Graph]) -> Graph:
    return max(graphs, default=Graph.NONE)


def computed(graphs: Iterator[Graph]) -> Graph:
    """Of what is computed from values that carry these."""
    return Graph.OWN if any(graphs) else Graph.NONE


_NUMBERS = frozenset({  # builtins that give no tensor, whatever they are given
    "len", "int", "float", "str", "bool", "range", "isinstance", "hasattr", "callable", "print", "repr", "id", "format",
    "ord", "chr", "open", "input", "type", "hash", "issubclass", "dir",
})
_PASSING = frozenset({"list", "tuple", "dict", "set", "zip", "enumerate", "sorted", "reversed", "iter", "frozenset"})
_KEEPING = frozenset({"append", "appendleft", "add", "extend", "insert", "update", "setdefault", "put", "push",
                      "put_nowait", "register", "__setitem__"})
_PLAIN = ("numpy.", "math.", "random.", "time.", "os.", "json.", "sys.", "copy.", "collections.", "itertools.",
          "datetime.", "pathlib.")
_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.GeneratorExp)
_TEXTS = (cst.SimpleString, cst.FormattedString, cst.ConcatenatedString, cst.Integer, cst.Float, cst.Imaginary,
          cst.Ellipsis, cst.Comparison)


def leaves_with_a_graph(models: Sequence[Model], statements: Sequence[Node], scope: _Scope,
                        wasted: Collection[Event]) -> bool:
    """Whether a value leaves these statements of a scope that may carry a graph not of the wasted forwards."""
    code = _Code(models[0].module, models, scope, wasted)
    if any(code.escapes(statement) for statement in statements):
        return True
    if not isinstance(scope, cst.FunctionDef) or tuple(statements) != tuple(scope.body.body):
        if any(code.is_read_outside(name, statements) for name in code.names_bound_in(statements)):
            return True
    return any(_Code(function.module, models, function.node, wasted, is_called=True).stores_a_graph()
               for function in _called_in(models, statements) if isinstance(function.node, cst.FunctionDef))


def _called_in(models: Sequence[Model], statements: Sequence[Node]) -> Iterator[v.Function]:
    """The project's functions that run inside of the statements; modules' forwards are what is wasted."""
    inside = {node for statement in statements for node in code_below(statement)}
    seen: set[Node] = set()
    for model in models:
        for entry in model.entries:
            for call, within in _calls(entry, inside, False):
                function = call.function
                if within and isinstance(function, v.Function) and function.node not in seen:
                    seen.add(function.node)
                    if function.name not in ("forward", "__init__"):
                        yield function


def _calls(block: Block, inside: Collection[Node], within: bool) -> Iterator[tuple[Call, bool]]:
    for item in block.items:
        here = within
        if isinstance(item, Call):
            here = within or (not item.is_entry and item.site.node in inside)
            yield item, here
        bodies = getattr(item, "arms", None) or [b for b in (getattr(item, "body", None),) if b is not None]
        for body in bodies:
            yield from _calls(body, inside, here)


def _is_plain(value: v.Value, wasted: Collection[Event]) -> bool:
    """Whether a value is proven to carry no graph but that of wasted forwards."""
    if any(event in wasted for event in value.flow.forwards) or value.flow.batch is not None:
        return True
    if isinstance(value, v.Const | v.Number | v.Text | v.Device | v.Array | v.Symbol | v.Function | v.Class):
        return True
    if isinstance(value, v.Tensor):
        return value.index
    if isinstance(value, v.Sequence):
        return all(_is_plain(item, wasted) for item in value.elements())
    if isinstance(value, v.Mapping):
        rest = [] if value.rest is None else [value.rest]
        return not value.open and all(_is_plain(item, wasted) for item in [*value.items.values(), *rest])
    return isinstance(value, v.Union) and all(_is_plain(option, wasted) for option in value.options())


class _Code:
    """A scope's code: what its names and expressions may carry, whatever the order in which they run."""

    def __init__(self, module: ModuleModel, models: Sequence[Model], scope: _Scope, wasted: Collection[Event], *,
                 is_called: bool = False) -> None:
        self.tree: Tree = module.tree  # type: ignore[assignment]
        self.globals = module.frame.names
        self.scope = scope
        self.models = models
        self.wasted = wasted
        self.forwards = {event.site.node for event in wasted}
        self.declared: set[str] = set()
        self.sources: dict[str, list[_Source]] = {}
        self.kept: dict[str, list[_Source]] = {}  # what is put into the value of a name
        self.graphs: dict[str, Graph] = {}
        self._collect(Graph.OWN if is_called else Graph.GIVEN)
        self._settle()

    def _nodes(self) -> Iterator[Node]:
        """The scope's nodes; a module's functions have names of their own."""
        if isinstance(self.scope, cst.FunctionDef):
            return code_below(self.scope)
        return (node for statement in self.scope.body for node in _own_nodes(statement))

    # ------------------------------------------------------------------- names

    def of_name(self, name: str) -> Graph:
        """What a name's value may carry."""
        if name in self.graphs and name not in self.declared:
            return self.graphs[name]
        if name in ("None", "True", "False", "NotImplemented"):
            return Graph.NONE
        return Graph.NONE if isinstance(self.globals.get(name), v.Symbol) else Graph.GIVEN

    def _settle(self) -> None:
        self.graphs = dict.fromkeys(self.sources, Graph.NONE)
        changed = True
        while changed:
            changed = False
            for name, sources in self.sources.items():
                graph = joined(source() for _, source in [*sources, *self.kept.get(name, ())])
                if graph > self.graphs[name]:
                    self.graphs[name] = graph
                    changed = True

    def _collect(self, given: Graph) -> None:
        for node in self._nodes():
            if isinstance(node, cst.Param):
                self._add(node.name.value, node, lambda: given)
            elif isinstance(node, cst.Global | cst.Nonlocal):
                self.declared.update(item.name.value for item in node.names)
            elif isinstance(node, cst.ImportAlias | cst.ExceptHandler):
                self._imported(node)
            elif isinstance(node, cst.FunctionDef | cst.ClassDef) and node is not self.scope:
                self._add(node.name.value, node, lambda: Graph.GIVEN)
            else:
                for target, source in self._bindings(node):
                    self._bind(node, target, source)
            if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
                self._kept_by(node, node.func)

    def _add(self, name: str, node: Node, source: Callable[[], Graph]) -> None:
        self.sources.setdefault(name, []).append((node, source))

    def _imported(self, node: cst.ImportAlias | cst.ExceptHandler) -> None:
        target: Node | None
        if isinstance(node, cst.ExceptHandler):
            target = node.name.name if node.name is not None else None
        elif isinstance(self.scope, cst.Module):
            return  # the module's own names say what it is
        else:
            target = node.asname.name if node.asname is not None else node.name
        if isinstance(target, cst.Name):
            self._add(target.value, node, lambda: Graph.GIVEN)

    def _bindings(self, node: Node) -> Iterator[tuple[cst.BaseExpression, Callable[[], Graph]]]:
        if isinstance(node, cst.Assign):
            for target in node.targets:
                yield target.target, self._source(node, node.value)
        elif isinstance(node, cst.AnnAssign) and node.value is not None:
            yield node.target, self._source(node, node.value)
        elif isinstance(node, cst.AugAssign):
            yield node.target, lambda: self._of_augmented(node)
        elif isinstance(node, cst.NamedExpr):
            yield node.target, lambda: self.of(node.value)
        elif isinstance(node, cst.For | cst.CompFor):
            yield node.target, lambda: self._of_items(node.target, node.iter)
        elif isinstance(node, cst.WithItem) and node.asname is not None:
            yield node.asname.name, lambda: computed(iter([self.of(node.item)]))

    def _source(self, statement: Node, value: cst.BaseExpression) -> Callable[[], Graph]:
        return lambda: Graph.NONE if self._is_seen_plain(statement) else self.of(value)

    def _is_seen_plain(self, node: Node) -> bool:
        """Whether every run of a statement gave a value without a graph of its own."""
        seen = [value for model in self.models for value in model.machine.noted.get(node, ())]
        return bool(seen) and all(_is_plain(value, self.wasted) for value in seen)

    def _of_augmented(self, node: cst.AugAssign) -> Graph:
        if self._is_seen_plain(node):
            return Graph.NONE
        return computed(iter([self.of(node.target), self.of(node.value)]))

    def _of_items(self, target: Node, iterable: cst.BaseExpression) -> Graph:
        """Of what a loop binds; rows of a tensor are computed."""
        return Graph.NONE if self._is_seen_plain(target) else computed(iter([self.of(iterable)]))

    def _bind(self, node: Node, target: cst.BaseExpression, source: Callable[[], Graph]) -> None:
        if isinstance(target, cst.Name):
            self._add(target.value, node, source)
        elif isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                self._bind(node, element.value, lambda: computed(iter([source()])))
        elif isinstance(target, cst.Subscript | cst.Attribute):
            root = _root(target)
            if root is not None:
                self.kept.setdefault(root, []).append((node, source))

    def _kept_by(self, call: cst.Call, method: cst.Attribute) -> None:
        root = _root(method.value)
        if root is not None and (method.attr.value in _KEEPING or _is_in_place(method.attr.value)):
            self.kept.setdefault(root, []).append((call, lambda: joined(self.of(a.value) for a in call.args)))

    def _is_own(self, place: cst.BaseExpression) -> bool:
        """Whether what is stored there stays with a value that this code made, such as a list."""
        root = _root(place)
        if root is None or root in self.declared or root not in self.sources:
            return False
        return joined(source() for _, source in self.sources[root]) is Graph.NONE

    # ------------------------------------------------------------- expressions

    def of(self, node: Node) -> Graph:
        """What the value of an expression may carry."""
        if node in self.forwards or isinstance(node, _TEXTS):
            return Graph.NONE
        if isinstance(node, cst.Name):
            return self.of_name(node.value)
        if isinstance(node, cst.Attribute):
            return self._of_attribute(node)
        if isinstance(node, cst.Call):
            return self._of_call(node)
        if isinstance(node, cst.Subscript):
            return self._of_item(node)
        if isinstance(node, cst.BinaryOperation):
            return computed(map(self.of, (node.left, node.right)))
        if isinstance(node, cst.UnaryOperation):
            return Graph.NONE if isinstance(node.operator, cst.Not) else computed(iter([self.of(node.expression)]))
        if isinstance(node, cst.BooleanOperation):
            return joined(map(self.of, (node.left, node.right)))
        if isinstance(node, cst.IfExp):
            return joined(map(self.of, (node.body, node.orelse)))
        if isinstance(node, cst.NamedExpr | cst.BaseElement | cst.BaseDictElement):
            return self.of(node.value)
        if isinstance(node, cst.Tuple | cst.List | cst.Set | cst.Dict):
            return joined(map(self.of, node.elements))
        if isinstance(node, _COMPREHENSIONS):
            return self.of(node.elt)
        return self.of(node.value) if isinstance(node, cst.DictComp) else Graph.OWN

    def _of_attribute(self, node: cst.Attribute) -> Graph:
        if self._symbol(node) is not None:
            return Graph.NONE
        known = knowledge.method("tensor", node.attr.value)
        if known is not None and "no_grad_result" in known.flags:
            return Graph.NONE
        base = self.of(node.value)
        return computed(iter([base])) if known is not None else base

    def _of_item(self, node: cst.Subscript) -> Graph:
        base = self.of(node.value)
        index = node.slice[0].slice
        is_key = isinstance(index, cst.Index) and literal(index.value) is not None  # of a dict
        return base if is_key else computed(iter([base]))

    def _of_call(self, node: cst.Call) -> Graph:
        given = [self.of(argument.value) for argument in node.args]
        name = self._symbol(node.func)
        if name is not None:
            return self._of_library(name, node, given)
        if isinstance(node.func, cst.Attribute):
            known = knowledge.method("tensor", node.func.attr.value)
            if known is not None and "no_grad_result" in known.flags:
                return Graph.NONE
            return computed(iter([self.of(node.func.value), *given]))
        name = node.func.value if isinstance(node.func, cst.Name) else ""
        if name in self.sources or name in self.globals or not hasattr(builtins, name):
            return Graph.OWN
        if name in _NUMBERS:
            return Graph.NONE
        return joined(iter(given)) if name in _PASSING else computed(iter(given))

    def _of_library(self, name: str, node: cst.Call, given: list[Graph]) -> Graph:
        known = knowledge.api(name)
        flags = known.flags if known is not None else frozenset[str]()
        if name.startswith("numpy.") or "no_grad_result" in flags:
            return Graph.NONE
        if "factory" in flags:
            wants = any(a.keyword is not None and a.keyword.value == "requires_grad" for a in node.args)
            return Graph.GIVEN if wants else Graph.NONE
        if name == "torch.load":
            return Graph.GIVEN  # parameters perhaps, but what is computed cannot be saved with its graph
        if known is None and not name.startswith(_PLAIN):
            return Graph.OWN
        return computed(iter(given))

    def _symbol(self, node: Node) -> str | None:
        """The qualified name of a library's function or constant."""
        if isinstance(node, cst.Name):
            value = self.globals.get(node.value) if node.value not in self.sources else None
            return value.name if isinstance(value, v.Symbol) else None
        if not isinstance(node, cst.Attribute):
            return None
        base = self._symbol(node.value)
        return f"{base}.{node.attr.value}" if base is not None else None

    # ----------------------------------------------------------------- escapes

    def escapes(self, statement: Node) -> bool:
        """Whether a statement returns, or stores where others see it, what may carry a graph of its own."""
        returns = (node for node in _own_nodes(statement) if isinstance(node, cst.Return) and node.value is not None)
        if any(not self._is_seen_plain(node) and self.of(node.value) is Graph.OWN for node in returns):  # type: ignore[arg-type]
            return True
        return any(self._stores(node) for node in code_below(statement))

    def stores_a_graph(self) -> bool:
        """Whether the code stores such a value where others see it."""
        return any(self._stores(node) for node in code_below(self.scope))

    def _stores(self, node: Node) -> bool:
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            return self._hands_over(node.value)
        if isinstance(node, cst.Call):
            return self._changes(node)
        return any(self._is_outside(place, node) and source() is Graph.OWN
                   for target, source in self._bindings(node) for place in _places(target))

    def _hands_over(self, call: cst.Call) -> bool:
        """Whether a call is made for its effect, which may be to keep what it is given."""
        callee = call.func
        if self._symbol(callee) is not None or (isinstance(callee, cst.Attribute) and self._is_own(callee.value)):
            return False
        is_builtin = isinstance(callee, cst.Name) and callee.value not in self.sources and hasattr(
            builtins, callee.value) and callee.value != "setattr"
        return not is_builtin and any(self.of(argument.value) is Graph.OWN for argument in call.args)

    def _changes(self, call: cst.Call) -> bool:
        """Whether a call puts something into what others see."""
        method = call.func
        if not isinstance(method, cst.Attribute) or self._symbol(method) is not None or self._is_own(method.value):
            return False
        if method.attr.value in _KEEPING:
            return any(self.of(argument.value) is Graph.OWN for argument in call.args)
        return _is_in_place(method.attr.value) and self.of(call) is Graph.OWN

    def _is_outside(self, place: cst.BaseExpression, statement: Node) -> bool:
        if isinstance(place, cst.Name):  # `x += y` may change the tensor that others know as well
            changes = isinstance(statement, cst.AugAssign) and any(
                source() is Graph.GIVEN for _, source in self.sources.get(place.value, ()))
            return changes or place.value in self.declared
        return not self._is_own(place)

    def names_bound_in(self, statements: Sequence[Node]) -> set[str]:
        """The names to which these statements bind, or add, what may carry a graph of its own."""
        inside = {node for statement in statements for node in code_below(statement)}
        return {name for name, sources in self.sources.items()
                for node, source in [*sources, *self.kept.get(name, ())] if node in inside and source() is Graph.OWN}

    def is_read_outside(self, name: str, statements: Sequence[Node]) -> bool:
        """Whether code outside of the statements may read what they bound to a name."""
        inside = {node for statement in statements for node in code_below(statement)}
        targets = {part for node in code_below(self.scope) for target, _ in self._bindings(node)
                   for part in _places(target) if not isinstance(node, cst.AugAssign)}
        reads = (node for node in code_below(self.scope) if isinstance(node, cst.Name) and node.value == name
                 and node not in inside and node not in targets and self._is_load(node))
        return any(not self._is_bound_anew(read, name, statements) for read in reads)

    def _is_load(self, node: cst.Name) -> bool:
        above = self.tree.parent(node)
        if isinstance(above, cst.Attribute) and above.attr is node:
            return False
        return not isinstance(above, cst.Arg) or above.keyword is not node

    def _is_bound_anew(self, read: Node, name: str, statements: Sequence[Node]) -> bool:
        """Whether every way from the statements to a place that reads the name binds it first."""
        block = self.tree.parent(statements[0])
        around = {block, *self.tree.ancestors(statements[0])}
        here: Node = read
        for above in self.tree.ancestors(read):
            is_common = above in around
            if not is_common and isinstance(above, cst.FunctionDef | cst.Lambda):
                return name in _names_of(above)
            if not is_common and self._loop_binds(above, here, name):
                return True
            body: list[Node] = list(above.body) if isinstance(above, cst.IndentedBlock | cst.Module) else []
            if is_common and not body:
                return False  # in the header of a statement around
            first, last = 0, body.index(here) if here in body else 0
            own = next((i for i, s in enumerate(body) if s is statements[-1] or s in around), 0) if is_common else 0
            is_behind = is_common and last > own
            if is_behind:
                first = own + 1
            if any(self._always_binds(statement, name) for statement in body[first:last]):
                return True
            if is_common:
                return not is_behind and not self._runs_again(above)
            here = above
        return False

    def _loop_binds(self, loop: Node, inner: Node, name: str) -> bool:
        if isinstance(loop, cst.For):
            return inner is loop.body and name in map(_root, _places(loop.target))
        fors = [node for node in code_below(loop) if isinstance(node, cst.CompFor)]
        return any(name in map(_root, _places(part.target)) for part in fors)

    def _always_binds(self, statement: Node, name: str) -> bool:
        if not isinstance(statement, cst.SimpleStatementLine):
            return False
        return any(isinstance(place, cst.Name) and place.value == name
                   for small in statement.body if isinstance(small, cst.Assign | cst.AnnAssign)
                   for target, _ in self._bindings(small) for place in _places(target))

    def _runs_again(self, block: Node) -> bool:
        return any(isinstance(above, cst.For | cst.While) for above in self.tree.ancestors(block))


def _names_of(function: cst.FunctionDef | cst.Lambda) -> set[str]:
    """The names that a function binds itself."""
    found = {node.name.value for node in code_below(function) if isinstance(node, cst.Param)}
    for node in code_below(function):
        if isinstance(node, cst.Assign):
            found.update(place.value for target in node.targets for place in _places(target.target)
                         if isinstance(place, cst.Name))
        elif isinstance(node, cst.For):
            found.update(place.value for place in _places(node.target) if isinstance(place, cst.Name))
    return found


def _root(place: cst.BaseExpression | Node) -> str | None:
    """The name that an attribute or an element begins with."""
    while isinstance(place, cst.Attribute | cst.Subscript):
        place = place.value
    return place.value if isinstance(place, cst.Name) else None


def _places(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _places(element.value)
    else:
        yield target


def _is_in_place(method: str) -> bool:
    known = knowledge.method("tensor", method) if method.endswith("_") else None
    return known is not None and "in_place" in known.flags


def _own_nodes(node: Node) -> Iterator[Node]:
    """The nodes of a statement without those of functions and classes that it defines."""
    yield node
    if not isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Lambda):
        for child in code_children(node):
            yield from _own_nodes(child)
