"""Calls: functions followed, classes instantiated, modules run forward."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantics import bounds
from torchlint.semantics import values as v
from torchlint.semantics.attributes import Deferred, Lazy, ProjectModule, is_frozen
from torchlint.semantics.containers import items_of
from torchlint.semantics.host import through_unknown
from torchlint.semantics.knowledge import layer as layer_of
from torchlint.semantics.library import (
    GRAD_CONTEXTS,
    backward,
    call_symbol,
    device_of,
    escape,
    grad_of,
    is_module,
    kind_of_class,
    unknown_call,
)
from torchlint.semantics.methods import call_method
from torchlint.semantics.modes import forward_facts, has_own_parameters
from torchlint.semantics.names import names_in
from torchlint.semantics.recording import Block, Call, Context, Event
from torchlint.semantics.scopes import Frame
from torchlint.syntax.tree import literal

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter

_CONFIG_FIELDS = 32  # attributes of a configuration object up to which it is compared by them
_MOST_REPLAYED = 2_000  # events of one module's run: those of modules that run each other twice double at each level
_TOP_INSTANCES = 3  # whole models of a class that functions nobody calls may make
_EXACT_INSTANCES = 8  # instances of a class told apart by their numbers, before numbers stop counting


def call_value(machine: Interpreter, callee: v.Value, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    """The result of calling a value, whatever it is."""
    handler = _CALLEES.get(callee.__class__)
    if handler is not None:
        return handler(machine, callee, arguments, node)
    return unknown_call(machine, "", arguments, node)


def _call_function(machine: Interpreter, callee: v.Function, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    receiver = callee.receiver
    if isinstance(receiver, v.Instance) and receiver.external == "optimizer":
        if callee.name == "step":
            machine.emit("optimizer_step", node, receiver, arguments=arguments)
        elif callee.name == "zero_grad":
            machine.emit("zero_grad", node, receiver, arguments=arguments)
    if isinstance(receiver, v.Instance) and receiver.external == "scheduler" and callee.name == "step":
        return _step_of_own_scheduler(machine, callee, arguments, node)
    return machine.follow(callee, arguments, node)


def _step_of_own_scheduler(machine: Interpreter, callee: v.Function, arguments: v.Arguments,
                           node: cst.CSTNode) -> v.Value:
    """A scheduler's own ``step``: of torch's kind where it calls the base class's, a setter of its own where not."""
    place = len(machine.block.items)
    result = machine.follow(callee, arguments, node)
    run = [item for item in machine.block.items[place:] if isinstance(item, Call)]
    if any(event.kind == "scheduler_step" for call in run for event in call.body.events()):
        machine.emit("scheduler_step", node, callee.receiver, arguments=arguments)
    return result


def _call_symbol(machine: Interpreter, callee: v.Symbol, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return call_symbol(machine, callee.name, arguments, node)


def _call_bound(machine: Interpreter, callee: v.Bound, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return call_method(machine, callee.receiver, callee.name, arguments, node)


def _call_union(machine: Interpreter, callee: v.Union, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    options = [o for o in callee.options() if not (isinstance(o, v.Const) and o.value is None)]
    known = [o for o in options if not isinstance(o, v.Unknown)]
    if known and all(isinstance(o, v.Unknown) and o.generic for o in options if o not in known):
        options = known  # nobody is seen to pass anything else than the default
    return v.join(*(call_value(machine, option, arguments, node) for option in options)) if options else v.Unknown()


def _call_lazy(machine: Interpreter, callee: Lazy | Deferred, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return call_value(machine, callee.forced(machine), arguments, node)


def _call_unknown(machine: Interpreter, callee: v.Unknown, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    """A call of something unknown: perhaps a model (its uses will tell)."""
    if callee.guess is not None and isinstance(callee.guess, (v.Function, v.Class, v.Symbol, v.External, v.Union)):
        callee.uses.add("()")
        made = call_value(machine, callee.guess, arguments, node)
        if isinstance(made, v.External):
            made.guessed = True
        return made
    callee.uses.add("()")
    if callee.member is not None and callee.base is not None:
        return call_method(machine, callee.base, callee.member, arguments, node)
    for value in arguments.all():
        machine.consume(value, node, "escape")
        escape(machine, value, callee.name, node)
    operands = list(arguments.all())
    flow = through_unknown(v.merge_flows([o.flow for o in operands]))
    if "backward" in callee.name.rpartition(".")[2]:
        backward(machine, node, arguments)
    result = v.Unknown(f"{callee.name}()", flow)
    result.device = _forward_device(callee, operands)
    if machine.context.grad is not False:
        machine.unseen += 1
    if machine.forwarding == 0:
        event = machine.emit("forward", node, callee, result, arguments, **forward_facts(callee))
        if machine.context.grad is not False and not is_frozen(callee):
            result.flow = _attach(flow, event)
    return result


def _forward_device(callee: v.Value, operands: list[v.Value]) -> str | None:
    places = [p for p in (device_of(o) for o in [callee, *operands]) if p is not None]
    where = next((p for p in places if p != "cpu"), places[0] if places else None)
    if where not in (None, "cpu"):
        for operand in operands:  # what is computed with it is there too
            if isinstance(operand, (v.Unknown, v.Tensor)) and operand.device is None and operand.flow.forwards:
                operand.device = where
    return where


def _attach(flow: v.Flow, event: Event) -> v.Flow:
    return flow.changed(forwards=flow.forwards | {event}, layers=(), created=None)


# ------------------------------------------------------------------- functions


def define(machine: Interpreter, node: cst.FunctionDef) -> v.Function:
    """The function that a ``def`` makes in the running scope."""
    outer = machine.frame
    owner = outer.owner if outer.function is None else None
    enclosing = outer.enclosing if owner is not None else outer
    return v.Function(node, outer.module, enclosing, owner)


def decorate(machine: Interpreter, value: v.Value, decorator: v.Value, node: cst.Decorator) -> v.Value:
    """What a decorator makes of a function or class."""
    if isinstance(decorator, Lazy):
        decorator = decorator.forced(machine)
    _note_script(machine, value, decorator, node)
    if not isinstance(value, v.Function):
        return value
    if isinstance(decorator, v.External) and decorator.kind == "grad_context":
        return _with_grad(value, grad_of(decorator))
    if isinstance(decorator, v.Symbol):
        return _decorate_by_symbol(machine, value, decorator.name)
    if isinstance(decorator, v.Function) and _DECORATOR_ACTS.isdisjoint(names_in(decorator.node)):
        machine.named.add(id(value.node))
        return value  # it registers, times or logs
    if isinstance(decorator, (v.Function, v.Instance, v.Class, v.Union)):
        arguments = v.Arguments()
        arguments.positional = [value]
        machine.named.add(id(value.node))
        result = machine.call(decorator, arguments, node)
        if isinstance(result, v.Function):
            return result
    if isinstance(decorator, v.Bound) and decorator.name in ("setter", "getter", "deleter"):
        return value
    changed = value.copy()
    changed.opaque = True
    return changed


def _note_script(machine: Interpreter, value: v.Value, decorator: v.Value, node: cst.Decorator) -> None:
    made_by = machine.evaluate(node.decorator.func) if isinstance(node.decorator, cst.Call) else decorator
    if isinstance(made_by, v.Symbol) and made_by.name.startswith("torch.jit.") and isinstance(
            value, v.Function | v.Class):
        machine.scripted.add(id(value.node))


# What a decorator may do to a function that a rule would have to know.
_DECORATOR_ACTS = frozenset({
    "no_grad", "inference_mode", "enable_grad", "set_grad_enabled", "autocast", "contextmanager", "backward", "step",
    "zero_grad", "eval", "train", "cuda", "to", "cpu",
})


def _with_grad(function: v.Function, grad: bool | None) -> v.Function:
    changed = function.copy()
    changed.grad = grad
    changed.decorated = True
    return changed


def _decorate_by_symbol(machine: Interpreter, value: v.Function, name: str) -> v.Value:
    if name in GRAD_CONTEXTS:
        return _with_grad(value, GRAD_CONTEXTS[name])
    short = name.rpartition(".")[2]
    changed = value.copy()
    if short in ("property", "cached_property"):
        changed.is_property = True
    elif short == "staticmethod":
        changed.static = True
    elif short not in ("classmethod", "wraps", "contextmanager", "cache", "lru_cache", "abstractmethod", "script",
                       "compile", "override", "final", "same", "torch_compile", "ignore", "export", "unused"):
        changed.opaque = not name.startswith(("torch.", "functools.", "typing.", "torchlint."))
    return changed


def bind_parameters(machine: Interpreter, frame: Frame, function: v.Function, arguments: v.Arguments, *,
                    generic: bool = False) -> bool:
    """Bind a function's parameters to what a call passes; False where the call cannot be this function's."""
    params = function.node.params
    names = frame.names
    positional = list(arguments.positional)
    if function.receiver is not None and not function.static:
        positional.insert(0, function.receiver)
    keywords = dict(arguments.keywords)
    for param in (*params.posonly_params, *params.params):
        name = param.name.value
        if positional:
            names[name] = positional.pop(0)
        elif name in keywords:
            names[name] = keywords.pop(name)
        else:
            names[name] = _absent(machine, function, param, arguments, generic, frame)
    for param in params.kwonly_params:
        name = param.name.value
        names[name] = keywords.pop(name) if name in keywords else _absent(machine, function, param, arguments, generic,
                                                                          frame)
    if isinstance(params.star_arg, cst.Param):
        more = v.Unknown("*args", generic=generic) if arguments.stars or generic else None
        names[params.star_arg.name.value] = v.Sequence(bounds.elements(positional), "tuple", rest=more)
    elif positional and len(positional) > 6:
        return False
    if params.star_kwarg is not None:
        keywords = {key: bounds.element(value) for key, value in keywords.items()}
        names[params.star_kwarg.name.value] = v.Mapping(keywords, open=arguments.double_stars or generic)
    frame.arguments = dict(names)
    return True


def _absent(machine: Interpreter, function: v.Function, param: cst.Param, arguments: v.Arguments, generic: bool,
            frame: Frame) -> v.Value:
    """A parameter that the call does not pass, as far as is seen."""
    name = param.name.value
    default = _default(machine, function, param)
    if generic:
        hinted = value_of_annotation(machine, param.annotation, name, function.frame) if param.annotation else None
        if hinted is not None and default is None:
            return hinted
        guess = default
        return v.Unknown(name, guess=guess, generic=True) if not isinstance(hinted, (v.Tensor, v.Array)) else hinted
    if default is None or arguments.double_stars or arguments.stars:
        hinted = value_of_annotation(machine, param.annotation, name, function.frame) if param.annotation else None
        return hinted or v.Unknown(name, guess=default, generic=arguments.double_stars or arguments.stars)
    return default


def _default(machine: Interpreter, function: v.Function, param: cst.Param) -> v.Value | None:
    if param.default is None:
        return None
    name = param.name.value
    if name not in function.defaults:
        outer = machine.frame
        machine.frame = function.frame or function.module.frame
        if function.owner is not None and function.owner.frame is not None:
            machine.frame = function.owner.frame
        machine.quiet += 1
        try:
            function.defaults[name] = machine.evaluate(param.default)
        finally:
            machine.frame = outer
            machine.quiet -= 1
    return function.defaults[name]


def value_of_annotation(machine: Interpreter, annotation: cst.Annotation | None, name: str,
                        frame: Frame | None) -> v.Value | None:
    """A value of the kind that an annotation promises; None where it promises nothing known."""
    if annotation is None:
        return None
    outer = machine.frame
    machine.frame = frame or outer
    machine.quiet += 1
    try:
        return _promised(machine, annotation.annotation, name)
    finally:
        machine.frame = outer
        machine.quiet -= 1


def _promised(machine: Interpreter, node: cst.BaseExpression, name: str) -> v.Value | None:
    text = literal(node)
    if isinstance(text, str):
        if not _DOTTED.fullmatch(text):
            return None  # nothing else is looked at, and a string may hold what crashes the parser
        node = cst.parse_expression(text)
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return None
    promised = machine.evaluate(node)
    if isinstance(promised, v.Class):
        kind = next((k for k in map(kind_of_class, promised.external_bases) if k in _ANNOTATED), None)
        if kind is not None:
            return _proved(name, kind)
        return None
    if not isinstance(promised, v.Symbol):
        return None
    kind = kind_of_class(promised.name)
    if promised.name in ("builtins.int", "builtins.float"):
        unknown = v.Unknown(name, generic=True)
        unknown.proved = "number"
        return unknown
    if kind == "tensor":
        return v.Tensor()
    if kind == "ndarray":
        array = v.Array(dtype=None)
        array.held = True
        return array
    return _proved(name, kind) if kind in _ANNOTATED else None


_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*){0,20}", re.ASCII)
def as_promised(machine: Interpreter, function: v.Function, result: v.Value) -> v.Value:
    """A call's result; where nobody knows what it is, the array (or tuple with arrays) that the function promises."""
    node = function.node
    if not isinstance(node, cst.FunctionDef) or node.returns is None or not _has_unknown(result):
        return result
    outer = machine.frame
    machine.frame = function.frame or function.module.frame
    machine.quiet += 1
    try:
        return _refined(machine, node.returns.annotation, function.name, result)
    finally:
        machine.frame = outer
        machine.quiet -= 1


def _has_unknown(value: v.Value) -> bool:
    parts = value.items if isinstance(value, v.Sequence) and value.type == "tuple" else value.options()
    return any(isinstance(option, v.Unknown) for part in parts for option in part.options())


def _refined(machine: Interpreter, node: cst.BaseExpression, name: str, value: v.Value) -> v.Value:
    if isinstance(node, cst.Subscript) and isinstance(node.value, cst.Name) and node.value.value in ("Tuple", "tuple"):
        parts = [p.slice.value for p in node.slice if isinstance(p.slice, cst.Index)]
        if any(isinstance(p, cst.Ellipsis) for p in parts):
            return value
        if isinstance(value, v.Unknown):
            made = [_refined(machine, p, name, v.Unknown(name, value.flow)) for p in parts]
            return v.Sequence(made, "tuple", flow=value.flow) if any(isinstance(m, v.Array) for m in made) else value
        if isinstance(value, v.Sequence) and value.type == "tuple" and value.exact and len(value.items) == len(parts):
            made = [_refined(machine, p, name, item) for p, item in zip(parts, value.items, strict=True)]
            return v.Sequence(made, "tuple", site=value.site, flow=value.flow)
        return value
    promised = _promised(machine, node, name)
    if not isinstance(promised, v.Array):
        return value
    for option in value.options():
        if isinstance(option, v.Unknown):
            promised.flow = option.flow
    return v.join(*(promised if isinstance(option, v.Unknown) else option for option in value.options()))


_ANNOTATED = frozenset({"module", "optimizer", "scheduler", "loader", "scaler", "dataset", "other_scheduler"})


def _proved(name: str, kind: str) -> v.Unknown:
    unknown = v.Unknown(name, generic=True)
    unknown.proved = kind
    return unknown


# --------------------------------------------------------------------- classes


def _call_class(machine: Interpreter, cls: v.Class, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    """Construct an object of a project's class."""
    kind = external_kind(cls)
    known = machine.made.setdefault(cls, {}) if kind == "module" else {}
    shared = kind == "module" and (machine.building > 0 or (machine.sharing and len(known) > _TOP_INSTANCES))
    if shared:
        found = known.get(_key(arguments, False)) if machine.building else None
        if found is None and len(known) > (_EXACT_INSTANCES if machine.building else _TOP_INSTANCES):
            found = known.get(_key(arguments, True))
        if found is not None:
            return found
    made = v.Instance(cls, machine.site(node))
    made.external = kind
    if kind == "module":
        machine.modules.append(made)
        if machine.building or machine.sharing:
            coarse = len(known) > _EXACT_INSTANCES or not machine.building
            known[_key(arguments, coarse)] = made
    machine.emit("construct", node, made, made, arguments, name=cls.name)
    if kind == "module" and machine.triggers is not None and cls.module.path not in machine.project.fresh:
        made.pending = arguments, node
        for value in arguments.all():
            machine.consume(value, node, "escape")
    else:
        initialise(machine, made, arguments, node)
    return made


def settle(machine: Interpreter, made: v.Instance) -> None:
    """Run the constructor of another file's module, now that somebody looks inside."""
    if made.pending is not None:
        (arguments, node), made.pending = made.pending, None
        before = len(machine.journal)
        initialise(machine, made, arguments, node)
        del machine.journal[before:]  # it was made before the branch or loop that looks inside: nothing to take back


def external_kind(cls: v.Class) -> str | None:
    """The kind of a library's class that a project's class derives from, the most telling first."""
    for base in cls.external_bases:
        kind = kind_of_class(base)
        if kind not in ("unknown", "object"):
            return kind
        if base.rpartition(".")[2] in ("LightningModule", "PreTrainedModel", "ModelMixin"):
            return "module"
    return None


def initialise(machine: Interpreter, made: v.Instance, arguments: v.Arguments, node: cst.CSTNode, *,
               entry: bool = False) -> None:
    """Run an object's constructor."""
    for name, value in _fields(machine, made.cls, arguments).items():
        made.attributes[name] = value
    constructor = made.cls.find("__init__")
    is_torch_module = made.external == "module"
    machine.building += is_torch_module
    try:
        if isinstance(constructor, Lazy):
            constructor = constructor.forced(machine)
        if isinstance(constructor, v.Function):
            machine.follow(constructor.bound_to(made), arguments, node, entry=entry)
        elif is_torch_module and any("torch.nn.Sequential" == b for b in made.cls.external_bases):
            call_method(machine, v.Super(made, made.cls), "__init__", arguments, node)
        else:
            for value in arguments.all():
                machine.consume(value, node, "escape")
    finally:
        machine.building -= is_torch_module


def _fields(machine: Interpreter, cls: v.Class, arguments: v.Arguments) -> dict[str, v.Value]:
    """The fields that a dataclass's or a named tuple's constructor sets."""
    decorated = any(_named(d.decorator, "dataclass") for d in cls.node.decorators)
    tuple_like = any(b.rpartition(".")[2] in ("NamedTuple", "BaseModel") for b in cls.external_bases)
    if not (decorated or tuple_like) or "__init__" in cls.attributes:
        return {}
    fields = dict(arguments.keywords)
    body = cls.node.body.body
    names = [s.target.value for line in body if isinstance(line, cst.SimpleStatementLine) for s in line.body
             if isinstance(s, cst.AnnAssign) and isinstance(s.target, cst.Name)]
    fields.update(zip(names, arguments.positional, strict=False))
    return {name: value for name, value in fields.items() if name in names}


def _named(node: cst.BaseExpression, name: str) -> bool:
    if isinstance(node, cst.Call):
        node = node.func
    return (isinstance(node, cst.Name) and node.value == name) or (isinstance(node, cst.Attribute) \
        and node.attr.value == name)


def _key(arguments: v.Arguments, coarse: bool) -> Any:
    return (
        tuple(_value_key(a, coarse) for a in arguments.positional),
        tuple((name, _value_key(a, coarse)) for name, a in sorted(arguments.keywords.items())),
        arguments.stars,
        arguments.double_stars,
    )


def _value_key(value: v.Value, coarse: bool) -> Any:
    if isinstance(value, v.Const):
        if coarse and isinstance(value.value, (int, float)) and not isinstance(value.value, bool):
            return "number"
        return type(value.value).__name__, repr(value.value)
    if isinstance(value, v.Number):
        return "number"
    if isinstance(value, v.Symbol):
        return value.name
    if isinstance(value, v.Unknown):
        return "unknown", value.kind, value.generic, None if value.guess is None else _value_key(value.guess, coarse)
    if isinstance(value, v.Tensor):
        return "tensor", value.device, bool(value.flow.layers), value.index
    if isinstance(value, v.Union):
        return tuple(_value_key(o, coarse) for o in value.options())
    if isinstance(value, v.Sequence):
        items: Any = tuple(_value_key(i, coarse) for i in value.items) if len(value.items) <= 16 else len(value.items)
        return value.type, items, None if value.rest is None else _value_key(value.rest, coarse)
    if isinstance(value, v.Choice):
        return tuple(tuple(_value_key(i, coarse) for i in run) for run in value.runs)
    if isinstance(value, v.Mapping):
        return "dict", value.open, tuple((repr(k), _value_key(i, coarse)) for k, i in value.items.items())
    if isinstance(value, v.Function):
        return id(value.node), id(value.receiver)
    if isinstance(value, v.External) and value.kind == "partial":
        return "partial", _key(value.arguments, coarse)
    if isinstance(value, v.Instance) and value.external is None and len(value.attributes) <= _CONFIG_FIELDS:
        return id(value.cls), tuple((name, _value_key(field, coarse)) for name, field in value.attributes.items()
                                    if not isinstance(field, v.Instance))
    return id(value)


# --------------------------------------------------------------------- modules


def _call_instance(machine: Interpreter, callee: v.Instance, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    if _is_closed_book(machine, callee):
        machine.forwarded.add(id(callee))
        return opaque_forward(machine, callee, arguments, node)
    settle(machine, callee)
    if callee.external != "module" or isinstance(callee.cls.find("__call__"), v.Function):
        method = callee.cls.find("__call__")
        if isinstance(method, v.Function):
            return machine.follow(method.bound_to(callee), arguments, node)
        if callee.external != "module":
            callee.state["called"] = True
            return opaque_forward(machine, callee, arguments, node)
    machine.forwarded.add(id(callee))
    method = callee.cls.find("forward")
    if isinstance(method, Lazy):
        method = method.forced(machine)
    if isinstance(method, v.Function):
        return _forward(machine, callee, arguments, node, lambda inner: machine.follow(
            method.bound_to(callee), inner, node))
    items = items_of(callee)
    if items is not None:
        return _forward(machine, callee, arguments, node, lambda inner: run_layers(machine, items, inner, node))
    return opaque_forward(machine, callee, arguments, node)


def _is_closed_book(machine: Interpreter, module: v.Instance) -> bool:
    """Whether another file's module can neither cancel a bias nor change what becomes of a graph."""
    if machine.triggers is None or module.external != "module" or module.cls.module.path == machine.project.source:
        return False
    if module.cls.unknown_bases or (machine.project.fresh and module.cls.module.path in machine.project.fresh):
        return False
    return all(_OPENED.isdisjoint(names_in(cls.node)) for cls in module.cls.mro() if isinstance(cls, v.Class))


# What makes it worth running another file's module forward.
_OPENED = frozenset({
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
    "GroupNorm", "batch_norm", "instance_norm", "group_norm", "no_grad", "inference_mode", "set_grad_enabled",
    "enable_grad", "detach", "requires_grad", "requires_grad_", "backward", "step", "Identity",
})


def _forward(machine: Interpreter, module: v.Instance | v.External, arguments: v.Arguments, node: cst.CSTNode,
             run: Callable[[v.Arguments], v.Value]) -> v.Value:
    """Run a module on arguments stripped of their origins, then give the origins back to what comes out.

    So one run per module and kind of arguments serves every call of it.
    """
    inner, inputs = _stripped(arguments)
    key = _key(inner, coarse=True), machine.context.grad
    summaries = machine.summaries.setdefault(id(module), {})
    summary = summaries.get(key)
    outermost = machine.forwarding == 0
    if summary is None:
        machine.alive.append(module)
        summaries[key] = "running"
        block = Block()
        context = Context(machine.context, "call", machine.site(node), module)
        machine.forwarding += 1
        cuts, recordings, unseen = len(machine.cut), machine.recordings, machine.unseen
        try:
            with machine.within(context, block):
                result = run(inner)
        finally:
            machine.forwarding -= 1
            del summaries[key]
        if machine.context.grad is not False:
            own = has_own_parameters(module)
            machine.recordings += own is True
            machine.unseen += own is None
        if len(machine.cut) == cuts and machine.depth < 4:
            summaries[key] = result, inputs, block, context, (machine.recordings > recordings, machine.unseen > unseen)
        _replay(machine, module, node, block, context)
        made_by = inputs
        records, may_record = machine.recordings > recordings, machine.unseen > unseen or len(machine.cut) > cuts
    elif summary == "running":
        return opaque_forward(machine, module, arguments, node)
    else:
        result, made_by, block, context, (records, may_record) = summary
        machine.recordings += records
        machine.unseen += may_record
        _replay(machine, module, node, block, context)
    for mark, value in zip(made_by.values(), inputs, strict=False):
        for producer in _layers_of(value):
            _add_consumers(producer.consumers, mark.consumers)
    back = {id(mark): value for mark, value in zip(made_by.values(), inputs, strict=False)}
    outer_flow = v.merge_flows(a.flow for a in arguments.all())
    device = device_of(module)
    event = None
    if outermost:
        recorded = True if records else None if may_record else False
        event = machine.emit("forward", node, module, None, arguments, records=recorded, **forward_facts(module))
        if machine.context.grad is False or is_frozen(module):
            event = None
    result = _restored(result, back, outer_flow, device, event)
    if outermost and machine.block.items and isinstance(machine.block.items[-1], Event) and not machine.quiet:
        machine.block.items[-1].result = result
    return result


def _add_consumers(known: list[v.Consumer], more: list[v.Consumer]) -> None:
    """Add takers, each once: a module that runs others twice, which do so too, would double them at each level."""
    seen = {(taker.site.node, taker.layer, taker.how) for taker in known}
    for taker in more:
        key = taker.site.node, taker.layer, taker.how
        if key not in seen:
            seen.add(key)
            known.append(taker)


def _replay(machine: Interpreter, module: v.Value, node: cst.CSTNode, block: Block, root: Context) -> None:
    """Record the events of a module's run once more, in the context of this call."""
    if machine.quiet:
        return
    events = list(itertools.islice(block.events(), _MOST_REPLAYED))
    if not events:
        return
    call = Call(machine.site(node), root.data)
    machine.block.add(call)
    context = Context(machine.context, "call", call.site, module)
    context.block = call.body
    for event in events:
        call.body.add(event.rebased(root, context))


def _stripped(arguments: v.Arguments) -> tuple[v.Arguments, dict[v.Value, v.External]]:
    """The arguments without provenance; the values that were stripped, with the marks that stand for them."""
    inner = v.Arguments(arguments.node)
    inner.stars, inner.double_stars = arguments.stars, arguments.double_stars
    marks: dict[v.Value, v.External] = {}

    def strip(value: v.Value) -> v.Value:
        if isinstance(value, (v.Tensor, v.Unknown)):
            mark = v.External("torchlint.input", "input")
            marks[value] = mark
            flow = v.Flow(layers=(mark,))
            if isinstance(value, v.Tensor):
                return v.Tensor(flow, value.device, value.dtype, index=value.index)
            return v.Unknown(value.name, flow, guess=value.guess, generic=value.generic, device=value.device)
        if isinstance(value, v.Sequence) and len(value.items) <= 16:
            rest = strip(value.rest) if value.rest is not None else None
            return v.Sequence([strip(i) for i in value.items], value.type, rest=rest)
        if isinstance(value, v.Union):
            return v.Union(tuple(strip(o) for o in value.options()))
        return value

    inner.positional = [strip(a) for a in arguments.positional]
    inner.keywords = {name: strip(a) for name, a in arguments.keywords.items()}
    return inner, marks


def _layers_of(value: v.Value) -> tuple[Any, ...]:
    return value.flow.layers


def _restored(value: v.Value, back: dict[int, v.Value], flow: v.Flow, device: str | None,
              event: Event | None) -> v.Value:
    """A module's result with the origins of the actual arguments."""
    if isinstance(value, (v.Tensor, v.Unknown)):
        layers: list[Any] = []
        for layer in value.flow.layers:
            actual = back.get(id(layer))
            layers.extend(actual.flow.layers if actual is not None else [layer])
        new = v.merge_flows([flow, value.flow])
        if isinstance(value, v.Tensor) and value.index:
            for carried in new.forwards:
                carried.used.add("index")
            new = new.without_graph()
        if event is not None and not (isinstance(value, v.Tensor) and value.index):
            new = _attach(new, event)
        if layers:
            new = new.changed(layers=tuple(dict.fromkeys(layers)))
        where = value.device
        if where is None or (where == "cpu" and device is not None and value.flow.lowered is None):
            where = device  # a module's output is where its parameters are
        if isinstance(value, v.Tensor):
            return v.Tensor(new, where, value.dtype, index=value.index)
        made = v.Unknown(value.name, new, guess=value.guess, generic=value.generic, device=where)
        return made
    if isinstance(value, v.Sequence):
        rest = _restored(value.rest, back, flow, device, event) if value.rest is not None else None
        return v.Sequence([_restored(i, back, flow, device, event) for i in value.items], value.type, rest=rest,
                          flow=_attach(flow, event) if event is not None else flow)
    if isinstance(value, v.Mapping):
        items = {k: _restored(i, back, flow, device, event) for k, i in value.items.items()}
        return v.Mapping(items, value.open, value.rest)
    if isinstance(value, v.Union):
        return v.Union(tuple(_restored(o, back, flow, device, event) for o in value.options()))
    return value


def _call_external(machine: Interpreter, callee: v.External, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    if callee.kind == "module":
        return _call_layer(machine, callee, arguments, node)
    if callee.kind == "partial":
        return _call_partial(machine, callee, arguments, node)
    if callee.kind == "grad_context" and arguments.positional and isinstance(arguments.positional[0], v.Function):
        return _with_grad(arguments.positional[0], grad_of(callee))
    return unknown_call(machine, callee.name, arguments, node)


def _call_partial(machine: Interpreter, callee: v.External, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    inner = v.Arguments(arguments.node)
    inner.positional = [*callee.arguments.positional[1:], *arguments.positional]
    inner.keywords = {**callee.arguments.keywords, **arguments.keywords}
    inner.stars = arguments.stars or callee.arguments.stars
    inner.double_stars = arguments.double_stars or callee.arguments.double_stars
    inner.nodes = arguments.nodes
    return call_value(machine, callee.arguments.positional[0], inner, node)


def _call_layer(machine: Interpreter, layer: v.External, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    machine.forwarded.add(id(layer))
    if layer.name == "torch.nn.Sequential" and layer.items is not None:
        return _forward(machine, layer, arguments, node,
                        lambda inner: run_layers(machine, layer.items, inner, node))  # type: ignore[arg-type]
    if layer.name == "torch.nn.Identity" and arguments.positional:
        return arguments.positional[0]
    return opaque_forward(machine, layer, arguments, node)


def opaque_forward(machine: Interpreter, module: v.Value, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    """A module whose inside is not followed: it takes its arguments and gives a value of its own."""
    operands = list(arguments.all())
    for value in operands:
        machine.consume(value, node, "layer", module)
    flow = v.merge_flows(o.flow for o in operands)
    device = _forward_device(module, operands)
    known = isinstance(module, v.External) and layer_of(module.name) is not None
    if machine.context.grad is not False:
        machine.recordings += known and _has_parameters(module)
        machine.unseen += not known
    if machine.forwarding == 0 and (not known or _has_parameters(module)):
        event = machine.emit("forward", node, module, None, arguments, **forward_facts(module))
        if machine.context.grad is not False and not is_frozen(module):
            flow = _attach(flow, event)
    if known and isinstance(module, v.External):
        return _layer_output(module, flow, device)
    result = v.Unknown("output", flow.changed(layers=(module,)) if isinstance(module, v.External) else flow)
    result.device = device
    return result


def _has_parameters(module: v.Value) -> bool:
    if not isinstance(module, v.External):
        return True
    layer = layer_of(module.name)
    return layer is None or layer.role in _PARAMETRIC


_PARAMETRIC = frozenset({"conv", "conv_transpose", "linear", "bilinear", "recurrent", "embedding", "attention",
                         "transformer", "container", "batch_norm", "instance_norm", "group_norm", "layer_norm"})


def _layer_output(module: v.External, flow: v.Flow, device: str | None) -> v.Value:
    role = getattr(layer_of(module.name), "role", "")
    tensor = v.Tensor(flow.changed(layers=(module,)), device)
    if role == "recurrent":
        return v.Sequence([tensor, v.Unknown("hidden", flow, device=device)], "tuple", flow=flow)
    if role == "attention":
        return v.Sequence([tensor, v.Tensor(flow, device)], "tuple", flow=flow)
    return tensor


def run_layers(machine: Interpreter, items: v.Sequence, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    """A Sequential's forward: each layer takes what the one before gives."""
    x: v.Value = arguments.positional[0] if arguments.positional else \
        next(iter(arguments.keywords.values()), v.Unknown("input"))
    for item in items.items:
        x = _run_item(machine, item, x, node)
    if items.rest is not None:
        for _ in range(2):  # what follows the last one of a run is its first, or the end
            x = v.join(x, _run_item(machine, items.rest, x, node)) if not items.items else \
                _run_item(machine, items.rest, x, node)
    return x


def _run_item(machine: Interpreter, item: v.Value, x: v.Value, node: cst.CSTNode) -> v.Value:
    if isinstance(item, v.Choice):
        outputs = []
        for run in item.runs:
            y = x
            for layer in run:
                y = _run_item(machine, layer, y, node)
            outputs.append(y)
        return v.join(*outputs)
    if isinstance(item, v.Const) and item.value is None:
        return x
    inner = v.Arguments(arguments_node(node))
    inner.positional = [x]
    return machine.call(item, inner, node)


def arguments_node(node: cst.CSTNode) -> cst.Call | None:
    return node if isinstance(node, cst.Call) else None


def _call_super(machine: Interpreter, callee: v.Super, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return call_method(machine, callee, "__call__", arguments, node)


def _call_project_module(machine: Interpreter, callee: v.Value, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return unknown_call(machine, "", arguments, node)


_CALLEES: dict[type, Callable[[Any, Any, v.Arguments, cst.CSTNode], v.Value]] = {
    v.Function: _call_function,
    v.Class: _call_class,
    v.Symbol: _call_symbol,
    v.Bound: _call_bound,
    v.Union: _call_union,
    v.Unknown: _call_unknown,
    v.Instance: _call_instance,
    v.External: _call_external,
    v.Super: _call_super,
    Lazy: _call_lazy,
    Deferred: _call_lazy,
    ProjectModule: _call_project_module,
}

__all__ = ["bind_parameters", "call_value", "decorate", "define", "initialise", "is_module", "run_layers",
           "value_of_annotation"]
