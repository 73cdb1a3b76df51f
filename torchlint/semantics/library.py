"""What the functions and classes of torch, numpy and Python do, beyond what the API table says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantics import arrays, knowledge
from torchlint.semantics import values as v
from torchlint.semantics.containers import iterate
from torchlint.semantics.host import carry, needs_host, numpy_fill, settled, spoil, through_unknown, together
from torchlint.semantics.recording import Context

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter

Handler = Callable[["Interpreter", str, v.Arguments, cst.CSTNode], v.Value]
HANDLERS: dict[str, Handler] = {}

_FINITE = frozenset({f"{module}.{name}" for module in ("math", "numpy") for name in ("isnan", "isfinite", "isinf")})
GRAD_CONTEXTS = {"torch.no_grad": False, "torch.inference_mode": False, "torch.enable_grad": True}
_ON_ACCELERATOR = ("cuda", "mps", "xpu", "hpu", "npu", "xla", "privateuseone")


def handles(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler
    return register


def call_symbol(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    """Call a library's function or class by its canonical name."""
    if name.startswith("numpy."):
        arrays.written_by(machine, name, arguments, node)
    handler = HANDLERS.get(name)
    if handler is not None:
        return handler(machine, name, arguments, node)
    if name in _FINITE:
        for value in arguments.all():
            if isinstance(value, v.Number) and value.read is not None:
                value.read.used.add("checked")
    known = knowledge.api(name)
    if known is None:
        return unknown_call(machine, name, arguments, node)
    if known.category == "class" and known.returns not in ("tensor", "ndarray", "number", "numpy_scalar", "unknown"):
        return construct(machine, name, known.returns, arguments, node)
    for value in arguments.all():
        machine.consume(value, node)
    kinds = [value.kind for value in arguments.positional]
    kind = known.returned(kinds, arguments.keywords)
    if kind == "unknown" and name.startswith("numpy.") and "ndarray_if:size" in known.flags:
        kind = "ndarray" if arguments.may_hold("size", known.position("size")) else "number"
    if arguments.stars and name in ("numpy.random.rand", "numpy.random.randn"):
        kind = "ndarray"  # of a shape that is spread; only without any is it a number
    if "reduction" in known.flags and arguments.positional and isinstance(arguments.positional[0], v.Array):
        array = arguments.positional[0]
        return arrays.reduced(name.rpartition(".")[2], array, arguments.get("axis", known.position("axis")), arguments,
                              machine.site(node), settled(array.flow) if needs_host(name) else array.flow)
    if kind == "unknown" and "like_input" in known.flags:
        kind = "tensor" if "tensor" in kinds else "ndarray" if "ndarray" in kinds else kind
    if kind == "unknown" and known.category == "class":
        return construct(machine, name, "object", arguments, node)
    result = result_of(machine, kind, arguments, node, known)
    if result.flow.lowered is not None and (needs_host(name) or arguments.may_hold("return_index")):
        for part in (result, *(result.elements() if isinstance(result, v.Sequence) else ())):
            part.flow = settled(part.flow)
    if name.startswith("numpy."):
        numpy_fill(machine, name, arguments, node, result)
    if name.startswith("torch.") and isinstance(result, v.Tensor):
        machine.emit("torch_call", node, None, result, arguments, name=name)
    return result


def unknown_call(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    """A library's function that no table knows: its arguments escape, its result is unknown."""
    flows = []
    for value in arguments.all():
        machine.consume(value, node, "escape")
        escape(machine, value, name, node)
        flows.append(value.flow)
    if "backward" in name.rpartition(".")[2]:
        backward(machine, node, arguments)
    result = v.Unknown(name, through_unknown(v.merge_flows(flows)))
    if name:
        result.uses.add("library")
    return result


def escape(machine: Interpreter, value: v.Value, into: str, node: cst.CSTNode | None = None,
           how: str = "escaped") -> None:
    """A value is handed to code that nobody sees (``how`` else, where something is known of that code)."""
    if node is not None and value.kind == "optimizer":
        machine.emit("handed", node, value, name=into)
    for event in value.flow.forwards:
        event.used.add(how)
    if isinstance(value, v.Function):
        machine.named.add(id(value.node))
    elif isinstance(value, v.External):
        value.escaped = True
        value.state.setdefault("escapes", []).append(into)
    elif isinstance(value, v.Instance):
        value.state.setdefault("escapes", []).append(into)
    elif isinstance(value, v.Sequence):
        for item in value.items:
            escape(machine, item, into, how=how)
    elif isinstance(value, v.Mapping):
        for item in value.items.values():
            escape(machine, item, into, how=how)
    elif isinstance(value, (v.Tensor, v.Array, v.Union)):
        spoil(value)
        if isinstance(value, v.Array):
            value.held = True


def construct(machine: Interpreter, name: str, kind: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    """An object of a library's class."""
    made = v.External(name, kind, arguments, machine.site(node))
    for value in arguments.all():
        if kind != "module":
            machine.consume(value, node, "escape")
        if isinstance(value, v.Function):
            machine.named.add(id(value.node))
    made.context = machine.context
    machine.externals.append(made)
    machine.emit("construct", node, made, made, arguments, name=name)
    return made


def result_of(machine: Interpreter, kind: str, arguments: v.Arguments, node: cst.CSTNode,
              known: Any = None) -> v.Value:
    """A value of a kind token, computed from these arguments."""
    operands = list(arguments.all())
    flow = together(operands)
    for operand in operands:
        if isinstance(operand, v.Sequence):
            flow = v.with_graphs(flow, operand.elements())
    if kind == "tensor":
        made = tensor_from(machine, operands, flow, arguments)
        carry(made, operands, known.name.rpartition(".")[2] if known is not None else "")
        return made
    if kind == "ndarray":
        flags = known.flags if known is not None else frozenset()
        dtype = known.dtype if known is not None else None
        explicit = arguments.get("dtype")
        if explicit is not None:
            dtype = dtype_name(explicit)
        elif dtype is None:
            dtypes = {o.dtype for o in operands if isinstance(o, v.Array)}
            dtype = dtypes.pop() if len(dtypes) == 1 and "fresh" in flags else None
        owner = next((o for o in operands if isinstance(o, v.Array)), None) if "view" in flags else None
        array = v.Array(flow, dtype, fresh="fresh" in flags, readonly="readonly" in flags,
                        site=machine.site(node), owner=owner)
        carry(array, operands, known.name.rpartition(".")[2] if known is not None else "")
        return array
    if kind.startswith("tuple["):
        parts = kind[6:-1].split(",")
        results = [result_of(machine, part.strip(), arguments, node, known) for part in parts]
        return v.Sequence(results, "tuple", flow=flow)
    if kind == "tuple" and known is not None:
        return _tuple_of(machine, known, arguments, node, flow)
    if kind in ("number", "numpy_scalar", "int", "float"):
        return v.Number(flow)
    if kind == "bool":
        return v.Unknown("bool", flow)
    if kind == "string":
        return v.Text()
    if kind == "none":
        return v.NONE
    if kind == "list":
        return v.Sequence((), "list", rest=v.Unknown("element", flow))
    if kind == "device":
        return v.Device("cuda?")
    if kind in ("unknown", "object"):
        return v.Unknown(known.name if known is not None else "", flow)
    return v.External(known.name if known is not None else kind, kind, arguments, machine.site(node))


_TUPLES_OF_ARRAYS = frozenset({"where", "nonzero", "meshgrid", "unique", "intersect1d", "tril_indices", "triu_indices",
                               "histogram2d", "ix_", "eig", "eigh", "qr", "broadcast_arrays", "diag_indices",
                               "atleast_1d", "atleast_2d", "atleast_3d", "indices"})


def _tuple_of(machine: Interpreter, known: Any, arguments: v.Arguments, node: cst.CSTNode, flow: v.Flow) -> v.Value:
    """A tuple of unknown length: of tensors or arrays where the function is known to give nothing else."""
    package, _, short = known.name.partition(".")
    rest: v.Value = v.Unknown(known.name, flow)
    if package == "torch":
        rest = result_of(machine, "tensor", arguments, node, known)
    elif package == "numpy" and short.rpartition(".")[2] in _TUPLES_OF_ARRAYS:
        rest = result_of(machine, "ndarray", arguments, node, known)
    return v.Sequence((), "tuple", rest=rest, flow=flow)


def tensor_from(machine: Interpreter, operands: list[v.Value], flow: v.Flow, arguments: v.Arguments | None = None,
                *, index: bool = False) -> v.Tensor:
    """A tensor computed from operands: it is where they are, unless ``device=`` says otherwise."""
    device: str | None = None
    explicit = arguments.get("device") if arguments is not None else None
    if explicit is not None:
        device = where_of(explicit)
    else:
        devices = [d for d in (device_of(o) for o in operands if is_tensorlike(o)) if d is not None]
        if any(d != "cpu" for d in devices):
            device = next(d for d in devices if d != "cpu")
        elif devices:
            device = "cpu"
    if explicit is None and not any(is_tensorlike(o) for o in operands):
        device = "cpu" if machine.project.default_device == "cpu" else None
    return v.Tensor(flow, device, index=index)


def is_tensor(value: v.Value) -> bool:
    """Whether a value is proven to be a tensor, by what made it or by its use."""
    return isinstance(value, v.Tensor) or (isinstance(value, v.Unknown) and value.kind == "tensor")


def is_tensorlike(value: v.Value) -> bool:
    if isinstance(value, v.Sequence):
        return any(is_tensorlike(item) for item in value.elements())
    if isinstance(value, v.Union):
        return any(is_tensorlike(option) for option in value.options())
    return isinstance(value, (v.Tensor, v.Unknown, v.External, v.Instance))


def device_of(value: v.Value) -> str | None:
    """Where a tensor or module is: cpu, cuda, ``cuda?`` (where there is one), or None when unknown."""
    if isinstance(value, (v.Tensor, v.Unknown)):
        return value.device
    if isinstance(value, (v.External, v.Instance)):
        where = value.state.get("device")
        return where if isinstance(where, str) else None
    if isinstance(value, v.Union):
        found = {device_of(o) for o in value.options() if not isinstance(o, v.Const)}
        if len(found) == 1:
            return found.pop()
        return "cuda?" if any(f not in (None, "cpu") for f in found) else None
    if isinstance(value, v.Sequence):
        for item in value.elements():
            where = device_of(item)
            if where is not None:
                return where
    return None


def where_of(value: v.Value) -> str | None:
    """The place that a value given as ``device=`` or to ``.to()`` names."""
    if isinstance(value, v.Device):
        return value.where
    if isinstance(value, v.Const):
        if isinstance(value.value, str):
            if value.value == "mps":  # it shares the host's memory, but is waited for like any other
                return "mps"
            return "cuda" if value.value.startswith(_ON_ACCELERATOR) else "cpu" if value.value == "cpu" else None
        if isinstance(value.value, int) and not isinstance(value.value, bool):
            return "cuda"
        return None
    if isinstance(value, (v.Number, v.Text)):
        return "cuda" if isinstance(value, v.Number) else "cuda?"
    if isinstance(value, v.Union):
        places = {where_of(o) for o in value.options()}
        places.discard(None)
        return places.pop() if len(places) == 1 else "cuda?" if places else None
    if isinstance(value, v.Unknown):
        return where_of(value.guess) or "device" if value.guess is not None and where_of(value.guess) != "cpu" \
            else "device"
    if isinstance(value, v.Tensor):
        return value.device or "device"
    return None


def dtype_name(value: v.Value) -> str | None:
    """``float32`` for torch.float32, numpy.float32 or "float32"; None when unknown."""
    if isinstance(value, v.Symbol):
        short = value.name.rpartition(".")[2]
        return {"float": "float64" if value.name.startswith("builtins") else "float32", "int": "int64", "bool": "bool",
                "long": "int64", "double": "float64", "half": "float16", "bool_": "bool"}.get(short, short)
    if isinstance(value, v.Const) and isinstance(value.value, str):
        return value.value
    return None


def kind_of_class(name: str) -> str:
    """The kind of the objects of a library's class."""
    known = knowledge.api(name)
    return known.returns if known is not None else "unknown"


# ----------------------------------------------------- grad mode, with-statements


def enter(machine: Interpreter, manager: v.Value, context: Context, node: cst.CSTNode) -> v.Value:
    """Enter ``with manager``: sets the context's modes; returns what ``as`` binds."""
    options = manager.options()
    modes = {_grad_mode(option, context.grad) for option in options}
    context.grad = modes.pop() if len(modes) == 1 else None
    for option in options:
        if isinstance(option, v.External) and option.kind == "autocast":
            enabled = option.argument("enabled")
            off = isinstance(enabled, v.Const) and enabled.value is False
            context.autocast = not off
    if isinstance(manager, v.External):
        return manager
    if isinstance(manager, v.Array):  # an .npz file
        return manager
    if isinstance(manager, v.Instance):
        method = manager.cls.find("__enter__")
        if isinstance(method, v.Function):
            return machine.call(method.bound_to(manager), v.Arguments(), node)
        return manager
    if isinstance(manager, v.Sequence) and manager.generator:
        return iterate(machine, manager)
    return v.Unknown("entered", manager.flow)


def _grad_mode(manager: v.Value, current: bool | None) -> bool | None:
    if isinstance(manager, v.External) and manager.kind == "grad_context":
        return grad_of(manager)
    if isinstance(manager, v.Sequence) and manager.generator and manager.grad_inside != "same":
        return {"on": True, "off": False}.get(manager.grad_inside)
    if isinstance(manager, v.Unknown) and ("library" not in manager.uses or "grad" in manager.name.lower()):
        return current if current is False else None
    return current


def grad_of(manager: v.External) -> bool | None:
    """The grad mode that a grad context sets."""
    if manager.name in GRAD_CONTEXTS:
        mode = manager.argument("mode", 0) if manager.name == "torch.inference_mode" else None
        if isinstance(mode, v.Const):
            return not mode.value
        return GRAD_CONTEXTS[manager.name] if mode is None else None
    mode = manager.argument("mode", 0)
    return bool(mode.value) if isinstance(mode, v.Const) else None


@handles("torch.set_grad_enabled")
def _set_grad_enabled(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    made = v.External(name, "grad_context", arguments, machine.site(node))
    context = Context(machine.context, "with", machine.site(node), made)
    context.grad = grad_of(made)
    if machine.statement is node:  # no with item: it lasts
        machine.context = context
        if context.grad is not True:
            machine.emit("grad_switched", node, made)
    return made


@handles("contextlib.ExitStack", "contextlib.AsyncExitStack")
def _exit_stack(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.External("contextlib.ExitStack", "exit_stack", arguments, machine.site(node))


@handles("torch.onnx.export", "torch.export.export", "torch.jit.save")
def _export(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    for value in arguments.all():
        machine.consume(value, node, "escape")
    machine.emit("export", node, arguments.get("model", 0), arguments=arguments)
    return v.Unknown(name)


def backward(machine: Interpreter, node: cst.CSTNode, arguments: v.Arguments, subject: v.Value | None = None) -> None:
    """The graph of these values is used by a backward pass."""
    values = [subject, *arguments.all()] if subject is not None else list(arguments.all())
    machine.emit("backward", node, subject or next(iter(values), None), arguments=arguments)
    for value in values:
        v.mark_used(value, "backward")
        for event in value.flow.detached:
            event.used.add("target")


@handles("torch.autograd.grad", "torch.autograd.backward", "torch.autograd.functional.jacobian", "torch.func.grad")
def _autograd(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    backward(machine, node, arguments)
    return v.Sequence((), "tuple", rest=v.Tensor(v.merge_flows(a.flow for a in arguments.all())))


def children_of(module: v.Value) -> list[v.Value] | None:
    """A module's direct submodules in order of registration, where they are all known."""
    if isinstance(module, v.External) and isinstance(module.items, v.Sequence) and module.items.exact:
        return list(module.items.items)
    if isinstance(module, v.Instance):
        found = [a for a in module.attributes.values() if is_module(a)]
        return [*found, *module.children]
    return None


def is_module(value: v.Value) -> bool:
    """Whether a value is proven to be a torch.nn.Module."""
    if isinstance(value, v.External):
        return value.kind == "module"
    if isinstance(value, v.Instance):
        return value.external == "module"
    if isinstance(value, v.Unknown):
        return value.kind == "module"
    if isinstance(value, v.Union):
        options = [o for o in value.options() if not (isinstance(o, v.Const) and o.value is None)]
        return bool(options) and all(is_module(o) for o in options)
    return False


def is_loader(value: v.Value) -> bool:
    """Whether a value is a data loader, or an object of a project's class that derives from one."""
    return value.kind == "loader" or (isinstance(value, v.Instance) and value.external == "loader")
