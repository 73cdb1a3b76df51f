"""What the interpreter knows of an expression's value.

A value's kind is proven (by construction, annotation, a known API's return, or a use that only
that kind has) or it is Unknown. Every Unknown is an object of its own: what is learned of it by
use must not leak to another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import libcst as cst

if TYPE_CHECKING:
    from torchlint.findings import Span
    from torchlint.semantics.recording import Context, Event
    from torchlint.semantics.scopes import Frame, ModuleModel
    from torchlint.syntax.linked import LinkedTree
    from torchlint.syntax.tree import Tree

_MOST_OPTIONS = 6  # alternatives that a value keeps before it is widened to Unknown
_MOST_COMPARED = 32  # alternatives beyond which nobody looks for equal ones
_MOST_FORWARDS = 256  # forwards whose graphs one value is known to carry
_LARGEST_CHOICE = 2_000  # elements that a choice between two runs of a list holds in all
_DEEPEST_JOIN = 4  # tuples inside each other that are joined element by element


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A node of a file: where something happens."""

    tree: Tree | LinkedTree
    node: cst.CSTNode

    @property
    def span(self) -> Span:
        return self.tree.span(self.node)

    def seen_from(self, near: Site) -> str:
        """The place in words: its line, with the file where that is another one."""
        line = self.span.start.line
        return f"line {line}" if self.tree is near.tree else f"{self.path}:{line}"

    @property
    def path(self) -> str:
        return self.tree.source.path

    @property
    def key(self) -> tuple[int, int]:
        return id(self.tree), id(self.node)


class Flow:
    """Where a tensor-like value came from.

    ``forwards``: outermost module forwards whose graph the value carries; ``detached``: those it
    came from but whose graph it no longer carries. ``layers``: the layers whose direct, unchanged
    output it is. ``created``: the factory call that made it on the host and that nothing but cheap
    operations touched since. ``lowered``: the transfer that brought it (or what it was computed
    from) from the device to the host. ``loader``: it was computed from batches of this loader;
    ``batch``: it is (part of) such a batch, unchanged but for its type.
    """

    __slots__ = ("forwards", "detached", "layers", "created", "lowered", "loader", "steps", "batch",
                 "unsure")

    def __init__(
        self,
        forwards: frozenset[Event] = frozenset(),
        detached: frozenset[Event] = frozenset(),
        layers: tuple[Any, ...] = (),
        created: Event | None = None,
        lowered: Event | None = None,
        loader: Value | None = None,
        steps: tuple[Site, ...] = (),
        batch: Value | None = None,
        unsure: frozenset[Event] = frozenset(),
    ) -> None:
        self.unsure = unsure  # those of ``forwards`` that went through code which may have cut the graph
        self.forwards = forwards
        self.detached = detached
        self.layers = layers
        self.created = created
        self.lowered = lowered
        self.loader = loader
        self.steps = steps  # host operations since ``lowered`` or ``created``
        self.batch = batch

    def changed(self, **new: Any) -> Flow:
        copy = Flow(self.forwards, self.detached, self.layers, self.created, self.lowered, self.loader, self.steps,
                    self.batch, self.unsure)
        for name, value in new.items():
            setattr(copy, name, value)
        return copy

    def without_graph(self) -> Flow:
        if not self.forwards:
            return self
        return self.changed(forwards=frozenset(), detached=self.forwards | self.detached)


NO_FLOW = Flow()


def merge_flows(flows: Iterable[Flow]) -> Flow:
    """The flow of a value computed from several: graphs add up, identities are lost."""
    flows = [flow for flow in flows if flow is not NO_FLOW]
    if not flows:
        return NO_FLOW
    forwards: frozenset[Event] = frozenset()
    detached: frozenset[Event] = frozenset()
    unsure: frozenset[Event] = frozenset()
    lowered = loader = None
    steps: tuple[Site, ...] = ()
    for flow in flows:
        forwards |= flow.forwards
        detached |= flow.detached
        unsure |= flow.unsure
        if flow.lowered is not None:
            lowered, steps = flow.lowered, flow.steps
        loader = loader or flow.loader
    if not forwards and not detached and lowered is None and loader is None:
        return NO_FLOW
    if len(forwards) + len(detached) > _MOST_FORWARDS:
        for event in forwards | detached:
            event.used.add("cut")  # nobody follows so many
        forwards = detached = unsure = frozenset()
    return Flow(forwards, detached, (), None, lowered, loader, steps, unsure=unsure)


class Clock:
    """Counts the states that the interpreter may go back to (branches, loops, entries)."""

    now = 0


class Slots(dict[Any, Any]):
    """The attributes of a heap object. ``born``: what was made after a state never needs to go back to it."""

    __slots__ = ("born",)

    def __init__(self, items: Any = ()) -> None:
        super().__init__(items)
        self.born = Clock.now


def with_graphs(flow: Flow, values: Iterable[Value]) -> Flow:
    """The flow, with the graphs that these values carry or carried; nothing else of theirs."""
    forwards, detached = flow.forwards, flow.detached
    for value in values:
        forwards |= value.flow.forwards
        detached |= value.flow.detached
    same = len(forwards) == len(flow.forwards) and len(detached) == len(flow.detached)
    return flow if same else flow.changed(forwards=forwards, detached=detached)


class Value:
    """The common base; ``flow`` is where the value came from."""

    __slots__ = ("flow",)
    kind = "unknown"

    def __init__(self, flow: Flow = NO_FLOW) -> None:
        self.flow = flow

    def options(self) -> tuple[Value, ...]:
        """The alternatives of which the value is one; itself where it is no union."""
        return (self,)


class Unknown(Value):
    """A value of unknown kind, with its identity.

    ``guess`` is what it would be if callers left the default (a parameter nobody is seen to
    pass): good for a value, never for ruling out a branch. ``uses`` are the methods called and
    attributes read on it. ``generic``: a parameter of an entry that no real caller reached.
    """

    __slots__ = ("name", "guess", "uses", "attributes", "generic", "base", "device", "proved", "elements", "cut",
                 "member", "rhythm")

    def __init__(self, name: str = "", flow: Flow = NO_FLOW, *, guess: Value | None = None, generic: bool = False,
                 base: Value | None = None, device: str | None = None) -> None:
        self.flow = flow
        self.name = name
        self.guess = guess
        self.uses: set[str] = set()
        self.attributes: dict[str, Value] = Slots()
        self.generic = generic
        self.base = base
        self.device = device
        self.proved: str | None = None
        self.elements: Value | None = None
        self.cut = False
        self.member: str | None = None  # the attribute of ``base`` that this is
        self.rhythm: str | None = None  # of a test: how often it is true (see ``rhythm``)

    @property
    def kind(self) -> str:  # type: ignore[override]
        if self.base.__class__ is Array and not _ARRAY_ITEMS.isdisjoint(self.uses):
            return "ndarray"
        return self.proved or proven_by_use(self.uses) or "unknown"

    def __repr__(self) -> str:
        return f"Unknown({self.name})"


_MODULE_ONLY = frozenset({
    "named_modules", "register_forward_hook", "load_state_dict+parameters", "register_buffer", "requires_grad_+eval",
    "train", "eval", "named_children", "named_parameters",
})


_ARRAY_ITEMS = frozenset({"shape", "ndim", "reshape", "transpose", "flatten", "ravel"})  # of rows, not of scalars


def proven_by_use(uses: set[str]) -> str | None:
    """The kind that only a value with these uses can have, or None.

    ``zero_grad`` and ``step`` alone could be an engine's; ``param_groups`` is an optimizer's.
    """
    if "param_groups" in uses and ("zero_grad" in uses or "step" in uses):
        return "optimizer"
    if "()" in uses and ("eval()" in uses or "train()" in uses or "loaded" in uses):
        return "module"
    if "()" in uses and "parameters" in uses:
        return "module"
    if "eval()" in uses and ("parameters" in uses or "state_dict" in uses or "load_state_dict" in uses):
        return "module"
    if "unscale_" in uses or ("scale" in uses and "step" in uses and "update" in uses):
        return "scaler"
    if "get_last_lr" in uses and "step" in uses:
        return "scheduler"
    if "backward" in uses:
        return "tensor"
    if "strides" in uses or "from_numpy" in uses:
        return "ndarray"
    return None


class Const(Value):
    """A Python constant."""

    __slots__ = ("value", "site")
    kind = "constant"

    def __init__(self, value: Any, site: Site | None = None) -> None:
        self.flow = NO_FLOW
        self.value = value
        self.site = site

    def __repr__(self) -> str:
        return f"Const({self.value!r})"


class Number(Value):
    """A Python or numpy number whose value is unknown. ``read``: the event that read it from a tensor."""

    __slots__ = ("read",)
    kind = "number"

    def __init__(self, flow: Flow = NO_FLOW, *, read: Event | None = None) -> None:
        self.flow = flow
        self.read = read


class Counter(Number):
    """A number that changes with every iteration; ``elapsed``: one that starts again, as a remainder does."""

    __slots__ = ("elapsed",)

    def __init__(self, flow: Flow = NO_FLOW, *, elapsed: bool = False) -> None:
        super().__init__(flow)
        self.elapsed = elapsed


class Text(Value):
    """A string whose value is unknown; ``pattern``: a regular expression that it matches, if one is known."""

    __slots__ = ("pattern",)
    kind = "string"

    def __init__(self, pattern: str | None = None) -> None:
        self.flow = NO_FLOW
        self.pattern = pattern


class Symbol(Value):
    """A module, class, function or constant of a library, by its canonical qualified name."""

    __slots__ = ("name",)
    kind = "symbol"

    def __init__(self, name: str) -> None:
        self.flow = NO_FLOW
        self.name = name

    def __repr__(self) -> str:
        return f"Symbol({self.name})"


class Device(Value):
    """A torch device: ``cpu``, ``cuda`` (any accelerator) or ``cuda?`` (where there is one)."""

    __slots__ = ("where", "of")
    kind = "device"

    def __init__(self, where: str, of: Value | None = None) -> None:
        self.flow = NO_FLOW
        self.where = where
        self.of = of


class Tensor(Value):
    """A torch tensor. ``device`` as in Device or None; ``index`` an integral result without gradient."""

    __slots__ = ("device", "dtype", "index", "attributes", "parameter")
    kind = "tensor"

    def __init__(self, flow: Flow = NO_FLOW, device: str | None = None, dtype: str | None = None, *,
                 index: bool = False, parameter: Value | None = None) -> None:
        self.flow = flow
        self.device = device
        self.dtype = dtype
        self.index = index
        self.parameter = parameter  # the module whose parameter this is
        self.attributes: dict[str, Value] | None = None


class Array(Value):
    """A numpy array. ``fresh``: nobody else holds it or its memory. ``numeric``: torch knows its dtype."""

    __slots__ = ("dtype", "fresh", "readonly", "owner", "site", "held", "born", "attribute")
    kind = "ndarray"

    def __init__(self, flow: Flow = NO_FLOW, dtype: str | None = None, *, fresh: bool = False,
                 readonly: bool = False, site: Site | None = None, owner: Array | None = None) -> None:
        self.flow = flow
        self.dtype = dtype
        self.fresh = fresh
        self.readonly = readonly
        self.site = site
        self.owner = owner  # the array whose memory this one shares
        self.held = False  # a name, attribute or container has held it
        self.born = Clock.now
        self.attribute: tuple[Class, str] | None = None  # where an object of the project holds it

    @property
    def memory(self) -> Array:
        """The array whose memory this is, or is a part of."""
        array = self
        while array.owner is not None:
            array = array.owner
        return array


class Choice(Value):
    """Part of a list: one of several runs of elements, by the branch that was taken."""

    __slots__ = ("runs", "size")

    def __init__(self, runs: tuple[tuple[Value, ...], ...]) -> None:
        self.flow = NO_FLOW
        self.runs = runs
        self.size: int = 1 + sum(item.size if isinstance(item, Choice) else 1 for run in runs for item in run)


class Sequence(Value):
    """A list, tuple or set. ``rest``: further elements of unknown number, all like this one.

    ``maker``: the function that a display of it stands in.
    """

    __slots__ = ("items", "rest", "type", "site", "generator", "grad_inside", "born", "maker")
    kind = "list"

    def __init__(self, items: Iterable[Value] = (), type: str = "list", rest: Value | None = None,
                 site: Site | None = None, flow: Flow = NO_FLOW) -> None:
        self.flow = flow
        self.items: list[Value] = list(items)
        self.type = type
        self.rest = rest
        self.site = site
        self.generator = False
        self.maker: Function | None = None
        self.born = Clock.now
        self.grad_inside = "same"  # of a generator: the grad mode where it yields

    @property
    def exact(self) -> bool:
        return self.rest is None and not any(isinstance(i, Choice) for i in self.items)

    def elements(self) -> Iterator[Value]:
        """Every value that may be an element."""
        for item in self.items:
            if isinstance(item, Choice):
                for run in item.runs:
                    yield from Sequence(run).elements()
            else:
                yield item
        if self.rest is not None:
            yield self.rest


class Mapping(Value):
    """A dict. ``open``: it may hold keys that nobody saw."""

    __slots__ = ("items", "open", "rest", "site", "born")
    kind = "dict"

    def __init__(self, items: dict[Any, Value] | None = None, open: bool = False, rest: Value | None = None,
                 site: Site | None = None) -> None:
        self.flow = NO_FLOW
        self.born = Clock.now
        self.items = Slots(items or {})
        self.open = open
        self.rest = rest
        self.site = site


class Function(Value):
    """A function, method or lambda of the project. ``grad``: the grad mode a decorator sets."""

    __slots__ = ("node", "module", "frame", "owner", "receiver", "grad", "decorated", "defaults", "name", "static",
                 "is_property", "opaque")
    kind = "function"

    def __init__(self, node: cst.FunctionDef | cst.Lambda, module: ModuleModel, frame: Frame | None,
                 owner: Class | None = None) -> None:
        self.flow = NO_FLOW
        self.node = node
        self.module = module
        self.frame = frame
        self.owner = owner
        self.receiver: Value | None = None
        self.grad: bool | None = None
        self.decorated = False
        self.defaults: dict[str, Value] = {}
        self.name = node.name.value if isinstance(node, cst.FunctionDef) else "<lambda>"
        self.static = False
        self.is_property = False
        self.opaque = False  # under a decorator that nobody knows

    def copy(self) -> Function:
        new = Function(self.node, self.module, self.frame, self.owner)
        for name in ("receiver", "grad", "decorated", "defaults", "static", "is_property", "opaque"):
            setattr(new, name, getattr(self, name))
        return new

    def bound_to(self, receiver: Value) -> Function:
        new = self.copy()
        new.receiver = receiver
        return new

    @property
    def site(self) -> Site:
        return Site(self.module.tree, self.node)

    def __repr__(self) -> str:
        return f"Function({self.name})"


class Class(Value):
    """A class of the project: its bases in order and what its body binds."""

    __slots__ = ("node", "module", "name", "bases", "attributes", "_mro", "frame")
    kind = "class"

    def __init__(self, node: cst.ClassDef, module: ModuleModel, bases: list[Value]) -> None:
        self.flow = NO_FLOW
        self.node = node
        self.module = module
        self.name = node.name.value
        self.bases = bases
        self.attributes: dict[str, Value] = Slots()
        self._mro: list[Value] | None = None
        self.frame: Frame | None = None

    def mro(self) -> list[Value]:
        """Project classes and Symbols, depth first, each once (near enough to C3 for real code)."""
        if self._mro is None:
            order: dict[Value, None] = {self: None}
            self._mro = [self]  # of a class that inherits from itself
            for base in self.bases:
                for b in base.options():
                    order.update(dict.fromkeys(b.mro() if isinstance(b, Class) else [b]))
            self._mro = list(order)
        return self._mro

    def find(self, name: str, after: Class | None = None) -> Value | None:
        """The class attribute of that name, looked up along the bases (behind ``after``)."""
        order = self.mro()
        start = order.index(after) + 1 if after in order else 0
        for cls in order[start:]:
            if isinstance(cls, Class) and name in cls.attributes:
                return cls.attributes[name]
        return None

    @property
    def external_bases(self) -> list[str]:
        return [b.name for b in self.mro() if isinstance(b, Symbol)]

    @property
    def unknown_bases(self) -> bool:
        return any(isinstance(b, Unknown) for b in self.mro())

    def __repr__(self) -> str:
        return f"Class({self.name})"


class Instance(Value):
    """An object of a project's class."""

    __slots__ = ("pending", "cls", "attributes", "site", "external", "state", "layers", "children",
                 "is_generic")
    kind = "instance"

    def __init__(self, cls: Class, site: Site | None = None) -> None:
        self.flow = NO_FLOW
        self.cls = cls
        self.attributes: dict[str, Value] = Slots()
        self.site = site
        self.external: str | None = None  # the library class it is a kind of
        self.pending: tuple[Arguments, Any] | None = None  # a constructor's call that nobody has needed yet
        self.state: dict[str, Any] = Slots()  # device, training, frozen: facts of a module
        self.children: list[Value] = []  # submodules registered by a call
        self.is_generic = False

    def __repr__(self) -> str:
        return f"Instance({self.cls.name})"


class Arguments:
    """What a call passed: positional and keyword values with their nodes."""

    __slots__ = ("node", "positional", "keywords", "stars", "double_stars", "nodes")

    def __init__(self, node: cst.Call | None = None) -> None:
        self.node = node
        self.positional: list[Value] = []
        self.keywords: dict[str, Value] = {}
        self.stars = False  # *args of unknown length
        self.double_stars = False  # **kwargs that may hold anything
        self.nodes: dict[str | int, cst.Arg] = {}

    def get(self, name: str, index: int | None = None) -> Value | None:
        """The argument of that name or position; None where it is not passed (as far as is seen)."""
        if name in self.keywords:
            return self.keywords[name]
        if index is not None and index < len(self.positional):
            return self.positional[index]
        return None

    def may_hold(self, name: str, index: int | None = None) -> bool:
        """Whether the argument is passed, or may be within ``*args`` or ``**kwargs``."""
        return self.get(name, index) is not None or self.double_stars or (self.stars and index is not None)

    def all(self) -> Iterator[Value]:
        yield from self.positional
        yield from self.keywords.values()


class External(Value):
    """An object of a library's class: a layer, an optimizer, a loader, a scaler, ..."""

    __slots__ = ("name", "kind", "arguments", "site", "attributes", "consumers", "state", "items", "escaped",
                 "uses", "context", "guessed")

    def __init__(self, name: str, kind: str, arguments: Arguments | None = None, site: Site | None = None) -> None:
        self.flow = NO_FLOW
        self.name = name
        self.kind = kind
        self.arguments = arguments or Arguments()
        self.site = site
        self.attributes: dict[str, Value] = Slots()
        self.consumers: list[Consumer] = []
        self.state: dict[str, Any] = Slots()
        self.items: Value | None = None  # a container's elements
        self.escaped = False
        self.uses: set[str] = set()
        self.context: Context | None = None  # where it was constructed
        self.guessed = False  # its class is a parameter's default, which a caller may change

    def argument(self, name: str, index: int | None = None) -> Value | None:
        return self.arguments.get(name, index)

    def __repr__(self) -> str:
        return f"External({self.name})"


@dataclass(frozen=True, slots=True, eq=False)
class Consumer:
    """Who takes a layer's direct output: another layer, or an operation (``layer`` None)."""

    site: Site
    layer: Value | None = None
    how: str = "operation"


@dataclass(frozen=True, slots=True, eq=False)
class BiasUse:
    """Code that touches the ``bias`` of a module (which may be any module of an unknown kind)."""

    module: Value
    site: Site
    context: Context


class Parameters(Value):
    """``module.parameters()`` and its relatives: an iterable over a module's parameters or submodules."""

    __slots__ = ("module", "what")
    kind = "parameters"

    def __init__(self, module: Value, what: str = "parameters") -> None:
        self.flow = NO_FLOW
        self.module = module
        self.what = what


class Union(Value):
    """One of several values."""

    __slots__ = ("_options",)

    def __init__(self, options: tuple[Value, ...]) -> None:
        self.flow = merge_flows(o.flow for o in options)
        self._options = options

    def options(self) -> tuple[Value, ...]:
        return self._options

    @property
    def kind(self) -> str:  # type: ignore[override]
        kinds = {o.kind for o in self._options if not (isinstance(o, Const) and o.value is None)}
        return kinds.pop() if len(kinds) == 1 else "unknown"

    def __repr__(self) -> str:
        return f"Union{self._options}"


class Bound(Value):
    """A method of a library's object, not yet called."""

    __slots__ = ("receiver", "name")
    kind = "method"

    def __init__(self, receiver: Value, name: str) -> None:
        self.flow = NO_FLOW
        self.receiver = receiver
        self.name = name


class Super(Value):
    """``super()`` inside a method."""

    __slots__ = ("receiver", "after")

    def __init__(self, receiver: Value, after: Class) -> None:
        self.flow = NO_FLOW
        self.receiver = receiver
        self.after = after


NONE = Const(None)


def not_none(value: Value) -> tuple[Value, ...]:
    """The alternatives that are left where None would raise."""
    options = value.options()
    return tuple(o for o in options if not (o.__class__ is Const and o.value is None)) or options


def same(a: Value, b: Value) -> bool:
    """Whether two values need not be kept apart."""
    if a is b:
        return True
    cls = a.__class__
    alike = _ALIKE.get(cls)
    return alike is not None and cls is b.__class__ and alike(a, b)


_ALIKE: dict[type, Callable[[Any, Any], bool]] = {
    Const: lambda a, b: a.value.__class__ is b.value.__class__ and bool(a.value == b.value),
    Symbol: lambda a, b: a.name == b.name,
    Tensor: lambda a, b: (a.flow is b.flow and a.device == b.device and a.dtype == b.dtype
                          and a.parameter is b.parameter),
    Device: lambda a, b: a.where == b.where,
    Function: lambda a, b: a.node is b.node and a.receiver is b.receiver and a.grad == b.grad,
    Number: lambda a, b: True,
    Text: lambda a, b: a.pattern == b.pattern,
}


def join(*values: Value) -> Value:
    """The value that is any one of these."""
    if len(values) == 2 and values[0] is values[1]:
        return values[0]
    options: list[Value] = []
    for value in values:
        for option in value._options if value.__class__ is Union else (value,):
            if len(options) > _MOST_COMPARED:
                options.append(option)  # it is widened anyway
                continue
            for other in options:
                if same(option, other):
                    break
            else:
                options.append(option)
    if len(options) == 1:
        return options[0]
    tuples = [o for o in options if isinstance(o, Sequence)]
    if len(tuples) == len(options) == 2:
        joined = join_sequences(tuples[0], tuples[1])
        if joined is not None:
            return joined
    if len(options) > _MOST_OPTIONS:
        if all(isinstance(o, (Const, Number)) for o in options):
            return Number()
        layers = tuple(dict.fromkeys(layer for o in options for layer in o.flow.layers))
        flow = merge_flows(o.flow for o in options)
        flow = flow.changed(layers=layers) if layers else flow
        if all(isinstance(o, Tensor) for o in options):
            devices = {o.device for o in options if isinstance(o, Tensor)}
            return Tensor(flow, devices.pop() if len(devices) == 1 else None)
        if all(o.kind == "ndarray" for o in options):
            return _any_array([o for o in options if isinstance(o, Array)], flow)
        known = [o for o in options if not isinstance(o, (Unknown, Const))][:_MOST_OPTIONS]
        return Union((*known[: _MOST_OPTIONS - 1], Unknown("join", flow)))
    return Union(tuple(options))


def _any_array(arrays: list[Array], flow: Flow) -> Array:
    """One array that stands for many."""
    dtypes = {array.dtype for array in arrays}
    made = Array(flow, dtypes.pop() if len(dtypes) == 1 else None, readonly=any(a.readonly for a in arrays))
    made.held = True
    return made


def mark_used(value: Value, how: str) -> None:
    """Note what became of the outputs of the forwards that this value comes from."""
    for event in forwards_in(value):
        event.used.add(how)


def forwards_in(value: Value) -> list[Event]:
    """The forwards that this value, or what it holds, comes from."""
    found = list(value.flow.forwards)
    if isinstance(value, Sequence):
        for item in value.elements():
            found += forwards_in(item)
    elif isinstance(value, Mapping):
        for item in value.items.values():
            found += forwards_in(item)
    elif isinstance(value, Union):
        for option in value.options():
            found += forwards_in(option)
    return found


def join_sequences(a: Sequence, b: Sequence) -> Value | None:
    """Two lists that share a beginning become one list with a choice of endings."""
    if a.type != b.type or a.rest is not None or b.rest is not None:
        return None
    if a.type != "list":
        if len(a.items) == len(b.items) and not (_is_deep(a) and _is_deep(b)):
            return Sequence([join(x, y) for x, y in zip(a.items, b.items, strict=True)], a.type)
        return None
    items = join_runs(a.items, b.items)
    joined = Sequence(items, a.type, site=a.site)
    joined.maker = a.maker if a.maker is b.maker else None
    return joined


def _is_deep(value: Value, level: int = 0) -> bool:
    if not isinstance(value, Sequence):
        return False
    return level == _DEEPEST_JOIN or any(_is_deep(item, level + 1) for item in value.items)


def join_runs(a: list[Value], b: list[Value]) -> list[Value]:
    """The common beginning, then a Choice of the two remainders, then the common end."""
    start = 0
    while start < len(a) and start < len(b) and same(a[start], b[start]):
        start += 1
    end = 0
    while end < len(a) - start and end < len(b) - start and same(a[-1 - end], b[-1 - end]):
        end += 1
    left, right = a[start:len(a) - end], b[start:len(b) - end]
    if not left and not right:
        return list(a)
    choice = Choice((tuple(left), tuple(right)))
    if choice.size <= _LARGEST_CHOICE:
        return [*a[:start], choice, *a[len(a) - end:]]
    # Choices inside choices, as a loop makes them.
    any_of_many = Unknown("any of many", merge_flows(item.flow for item in (*left, *right)))
    return [*a[:start], any_of_many, *a[len(a) - end:]]
