"""What the functions and classes of torch, numpy and Python do, beyond what the API table says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantics import arrays, bounds, knowledge, texts
from torchlint.semantics import values as v
from torchlint.semantics.containers import extend, items_of, iterate
from torchlint.semantics.host import carried, carry, needs_host, numpy_fill, settled, spoil, through_unknown
from torchlint.semantics.recording import Context
from torchlint.semantics.rhythm import CLOCKS

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


def escape(machine: Interpreter, value: v.Value, into: str, node: cst.CSTNode | None = None) -> None:
    """A value is handed to code that nobody sees."""
    if node is not None and value.kind == "optimizer":
        machine.emit("handed", node, value, name=into)
    for event in value.flow.forwards:
        event.used.add("escaped")
    if isinstance(value, v.Function):
        machine.named.add(id(value.node))
    elif isinstance(value, v.External):
        value.escaped = True
        value.state.setdefault("escapes", []).append(into)
    elif isinstance(value, v.Instance):
        value.state.setdefault("escapes", []).append(into)
    elif isinstance(value, v.Sequence):
        for item in value.items:
            escape(machine, item, into)
    elif isinstance(value, v.Mapping):
        for item in value.items.values():
            escape(machine, item, into)
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
    flow = v.merge_flows(value.flow for value in operands)
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


# ------------------------------------------------------------- tensors from data


@handles("torch.tensor", "torch.as_tensor", "torch.asarray", "torch.from_numpy", "torch.Tensor", "torch.FloatTensor",
         "torch.DoubleTensor", "torch.HalfTensor", "torch.LongTensor", "torch.IntTensor", "torch.ShortTensor",
         "torch.ByteTensor", "torch.CharTensor", "torch.BoolTensor", "torch.BFloat16Tensor")
def _tensor_from_data(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    data = arguments.get("data", 0) or arguments.get("obj", 0)
    for value in arguments.all():
        machine.consume(value, node)
    where = arguments.get("device")
    flow = v.merge_flows([data.flow]) if data is not None else v.NO_FLOW
    if name not in ("torch.as_tensor", "torch.asarray"):
        flow = flow.without_graph()
    device = where_of(where) if where is not None else "cpu" if machine.project.default_device == "cpu" else None
    made = v.Tensor(flow, device, _constructor_dtype(name, arguments))
    event = machine.emit("tensor_from_data", node, data, made, arguments, name=name)
    if name == "torch.from_numpy" and isinstance(data, v.Unknown):
        data.uses.add("from_numpy")
    if device == "cpu" and where is None:
        created = carried([data]) if data is not None else None
        counts = isinstance(data, v.External) and data.kind == "range"
        if created is not None or counts or _are_sizes(name, arguments):
            event.data["source"] = created
            made.flow = made.flow.changed(created=event)
    if where is not None and data is not None and device not in (None, "cpu"):
        machine.emit("to_device", node, data, made, arguments, how="device=", where=where)
    return made


def _constructor_dtype(name: str, arguments: v.Arguments) -> str | None:
    explicit = arguments.get("dtype")
    if explicit is not None:
        return dtype_name(explicit)
    short = name.rpartition(".")[2]
    return {"Tensor": "float32", "FloatTensor": "float32", "DoubleTensor": "float64", "LongTensor": "int64",
            "IntTensor": "int32", "HalfTensor": "float16", "ByteTensor": "uint8", "BoolTensor": "bool",
            "ShortTensor": "int16", "CharTensor": "int8"}.get(short)


for _dtype in ("Float", "Double", "Half", "Long", "Int", "Short", "Byte", "Char", "Bool", "BFloat16"):
    def _cuda_tensor(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
        """``torch.cuda.FloatTensor(data)``: the data is copied to the device."""
        data = arguments.get("data", 0)
        for value in arguments.all():
            machine.consume(value, node)
        made = v.Tensor(v.merge_flows(a.flow for a in arguments.all()).without_graph(), "cuda")
        machine.emit("tensor_from_data", node, data, made, arguments, name=name)
        return made

    HANDLERS[f"torch.cuda.{_dtype}Tensor"] = _cuda_tensor


def _are_sizes(name: str, arguments: v.Arguments) -> bool:
    """Whether a legacy constructor is given sizes (or nothing), not data."""
    if name.rpartition(".")[2] in ("tensor", "as_tensor", "asarray", "from_numpy"):
        return False
    given = arguments.positional
    return len(given) != 1 or isinstance(given[0], v.Number) or (isinstance(given[0], v.Const) and isinstance(
        given[0].value, int))


_FACTORIES = ("zeros", "ones", "rand", "randn", "arange", "full", "eye", "empty", "linspace", "logspace", "randint",
              "randperm", "normal", "bernoulli", "tril_indices", "triu_indices", "hann_window", "hamming_window",
              "blackman_window", "bartlett_window", "kaiser_window", "range", "fft.fftfreq", "fft.rfftfreq")


@handles(*(f"torch.{name}" for name in _FACTORIES))
def _factory(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    for value in arguments.all():
        machine.consume(value, node)
    where = arguments.get("device")
    operands: list[v.Value] = [a for a in arguments.all() if isinstance(a, v.Tensor)]
    if operands and name in ("torch.normal", "torch.bernoulli"):
        return tensor_from(machine, operands, v.merge_flows(o.flow for o in operands), arguments)
    device = where_of(where) if where is not None else "cpu" if machine.project.default_device == "cpu" else None
    out = arguments.get("out")
    if arguments.double_stars:
        device = None
    elif out is not None and device == "cpu" and where is None:
        device = device_of(out) or device
    dtype = arguments.get("dtype")
    made = v.Tensor(v.NO_FLOW, device, dtype_name(dtype) if dtype is not None else None)
    event = machine.emit("create", node, None, made, arguments, name=name)
    pinned = arguments.get("pin_memory")
    if device == "cpu" and where is None and (pinned is None or (isinstance(pinned, v.Const) and not pinned.value)):
        made.flow = v.Flow(created=event)
    return made


@handles("torch.nn.Parameter", "torch.nn.Buffer")
def _parameter(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    """A parameter or buffer: it goes where its module goes, wherever its data were made."""
    data = arguments.get("data", 0)
    for value in arguments.all():
        machine.consume(value, node)
    return v.Tensor(dtype=data.dtype if isinstance(data, v.Tensor) else None)


@handles("torch.zeros_like", "torch.ones_like", "torch.rand_like", "torch.randn_like", "torch.empty_like",
         "torch.full_like", "torch.randint_like")
def _like(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    other = arguments.get("input", 0)
    for value in arguments.all():
        machine.consume(value, node)
    where = arguments.get("device")
    device = where_of(where) if where is not None else device_of(other) if other is not None else None
    return v.Tensor(v.NO_FLOW, device)


@handles("torch.device")
def _device(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    given = arguments.get("type", 0) or arguments.get("device", 0)
    return v.Device(where_of(given) or "cuda?" if given is not None else "cuda?", given)


@handles("torch.cuda.current_device", "torch.cuda.device_count")
def _cuda_number(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.Number()


@handles("torch.set_default_tensor_type", "torch.set_default_device")
def _default_device(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    machine.project.default_device = None  # from here on nobody knows where factories allocate
    return v.NONE


@handles("torch.autograd.Variable")
def _variable(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    data = arguments.get("data", 0)
    if data is None:
        return v.Tensor()
    wants = arguments.get("requires_grad", 1)
    if isinstance(wants, v.Const) and wants.value is True:
        machine.emit("requires_grad", node, data)
    if isinstance(data, (v.Tensor, v.Union)):
        return data
    return v.Tensor(data.flow, device_of(data))


@handles("scipy.io.loadmat")
def _loadmat(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    """A dict of arrays, by the names of the variables (sparse matrices show by their methods)."""
    array = v.Array(site=machine.site(node))
    array.held = True
    return v.Mapping(open=True, rest=array, site=machine.site(node))


@handles("torch.load")
def _load(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    loaded = v.Unknown("torch.load")
    loaded.uses.add("loaded")
    return loaded


@handles("torch.autograd.no_grad")
def _old_no_grad(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.External("torch.no_grad", "grad_context", arguments, machine.site(node))


@handles("torch.cuda.synchronize")
def _synchronize(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    machine.emit("synchronize", node)
    return v.NONE


# ------------------------------------------------------------------- modules


def _register_container(machine: Interpreter, made: v.External, arguments: v.Arguments) -> None:
    items = v.Sequence((), "list")
    for value in arguments.positional:
        if isinstance(value, v.Mapping):
            items.items.extend(value.items.values())
            if value.rest is not None or value.open:
                items.rest = value.rest or v.Unknown("layer")
        elif made.name != "torch.nn.Sequential" and items_of(value) is not None:
            found = items_of(value)
            assert found is not None
            items.items.extend(found.items)
            items.rest = found.rest
        elif isinstance(value, v.Sequence):  # Sequential(OrderedDict([...])) built from pairs
            for item in value.items:
                pair = isinstance(item, v.Sequence) and len(item.items) == 2
                items.items.append(item.items[1] if pair and isinstance(item, v.Sequence) else item)
            items.rest = value.rest
        elif made.name != "torch.nn.Sequential" and not isinstance(value, (v.External, v.Instance, v.Const)):
            items.rest = v.Unknown("layer")
        else:
            items.items.append(value)
    for extra in arguments.nodes.get("*", ()) if isinstance(arguments.nodes.get("*"), list) else ():  # type: ignore[union-attr]
        del extra
    if arguments.stars:
        items.rest = v.Unknown("layer")
    made.items = items


@handles("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.ParameterList")
def _container(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    made = v.External(name, "module", arguments, machine.site(node))
    _register_container(machine, made, arguments)
    if name == "torch.nn.Sequential":
        machine.containers.append(made)
    if name == "torch.nn.ModuleDict":
        for value in arguments.positional:
            if isinstance(value, v.Mapping):
                for key, item in value.items.items():
                    made.attributes[f"[{key!r}]"] = item
    machine.emit("construct", node, made, made, arguments, name=name)
    return made


@handles("torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel", "torch.compile", "torch.jit.script",
         "torch.nn.SyncBatchNorm.convert_sync_batchnorm", "torch.distributed.fsdp.FullyShardedDataParallel",
         "torch.jit.trace", "torch.nn.utils.spectral_norm", "torch.nn.utils.weight_norm", "copy.deepcopy", "copy.copy",
         "torch.nn.utils.parametrizations.spectral_norm", "torch.nn.utils.parametrizations.weight_norm")
def _wrapper(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    """A wrapper that runs the module it is given: the module goes on being known."""
    inner = arguments.get("module", 0) or arguments.get("model", 0)
    machine.emit("construct", node, inner, inner, arguments, name=name)
    if name == "torch.jit.trace":
        machine.emit("export", node, inner, arguments=arguments)
    if inner is None:
        return v.Unknown(name)
    if name.startswith("copy.") and not isinstance(inner, (v.External, v.Instance)):
        return inner
    if name.endswith("DataParallel"):
        for option in inner.options():
            if isinstance(option, (v.External, v.Instance)):
                machine.write(option.state, "wrapped", name)
            elif isinstance(option, v.Unknown):
                option.uses.update(("()", "eval()"))
    return inner


@handles("torch.nn.parallel.data_parallel")
def _data_parallel(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    inner = arguments.get("module", 0)
    machine.emit("construct", node, inner, inner, arguments, name=name)
    rest = v.Arguments(arguments.node)
    inputs = arguments.get("inputs", 1)
    if inputs is not None:
        rest.positional.append(inputs)
    return machine.call(inner, rest, node) if inner is not None else v.Tensor()


@handles("torch.hub.load", "timm.create_model", "torch.nn.Module")
def _some_module(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    made = v.External(name, "module", arguments, machine.site(node))
    machine.emit("construct", node, made, made, arguments, name=name)
    return made


# ------------------------------------------------------------------ Python itself


@handles("builtins.isinstance")
def _isinstance(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    if len(arguments.positional) != 2:
        return v.Unknown("bool")
    value, wanted = arguments.positional
    classes = list(wanted.items) if isinstance(wanted, v.Sequence) else [wanted]
    answers = {_is_instance(option, cls) for option in value.options() for cls in classes}
    if True in answers and len(value.options()) == 1:
        return v.Const(True)
    if answers == {False}:
        return v.Const(False)
    answer = v.Unknown("isinstance")
    answer.attributes["%asks"] = v.Sequence([value, *classes], "tuple")
    return answer


def _is_instance(value: v.Value, cls: v.Value) -> bool | None:
    if isinstance(cls, v.Symbol):
        wanted = cls.name
        if isinstance(value, v.External) and "." in value.name and knowledge.api(value.name) is not None \
                and knowledge.api(wanted) is not None:
            return knowledge.is_subclass(value.name, wanted)
        if isinstance(value, v.Instance):
            externals = value.cls.external_bases
            if any(knowledge.is_subclass(base, wanted) for base in externals):
                return True
            return None if value.cls.unknown_bases or value.is_generic else False
        simple = {"builtins.list": "list", "builtins.tuple": "tuple", "builtins.dict": "dict"}.get(wanted)
        if simple is not None:
            if isinstance(value, v.Sequence):
                return value.type == simple
            if isinstance(value, (v.Mapping, v.Const, v.External, v.Instance, v.Function, v.Number)):
                return isinstance(value, v.Mapping) and simple == "dict"
        if isinstance(value, v.Const):
            kinds = {"builtins.str": str, "builtins.int": int, "builtins.float": float, "builtins.bool": bool}
            return isinstance(value.value, kinds[wanted]) if wanted in kinds else False
    if isinstance(cls, v.Class) and isinstance(value, v.Instance):
        return True if cls in value.cls.mro() else None if value.cls.unknown_bases or value.is_generic else False
    return None


@handles(*CLOCKS)
def _clock(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.Counter()


@handles("enum.auto")
def _auto(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.Const(object())  # a constant that is equal to itself only


@handles("builtins.len")
def _len(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    for value in arguments.positional:
        if isinstance(value, v.Sequence) and value.exact:
            return v.Const(len(value.items)) if value.type == "tuple" else v.Number()
    return v.Number()


@handles("builtins.range", "itertools.count")
def _range(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.External(name, "range", arguments, machine.site(node))


@handles("builtins.list", "builtins.tuple", "builtins.set", "builtins.sorted", "builtins.reversed",
         "builtins.frozenset", "collections.deque", "builtins.iter")
def _list(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    kind = {"builtins.tuple": "tuple"}.get(name, "list")
    if not arguments.positional:
        return v.Sequence((), kind, site=machine.site(node))
    source = arguments.positional[0]
    if isinstance(source, v.Parameters) and source.what == "children":
        children = children_of(source.module)
        if children is not None:
            return v.Sequence(children, kind, site=machine.site(node))
    items = items_of(source)
    if items is not None:
        order = items.items[::-1] if name == "builtins.reversed" else items.items
        return v.Sequence(order, kind, rest=items.rest, site=machine.site(node), flow=items.flow)
    if isinstance(source, v.Mapping) and not source.open:
        return v.Sequence([v.Const(key) for key in source.items], kind)
    if isinstance(source, v.Parameters) and name == "builtins.list":
        return source
    return _over(v.Sequence((), kind, rest=iterate(machine, source), site=machine.site(node), flow=source.flow), source)


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


@handles("builtins.enumerate")
def _enumerate(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    source = arguments.positional[0] if arguments.positional else v.Unknown()
    items = items_of(source)
    if items is not None and items.exact:
        pairs = [v.Sequence([v.Const(i), item], "tuple") for i, item in enumerate(bounds.elements(items.items))]
        return v.Sequence(pairs, "list", flow=source.flow)
    pair = v.Sequence([v.Counter(), bounds.element(iterate(machine, source))], "tuple")
    made = v.Sequence((), "list", rest=pair, flow=source.flow)
    made.site = None
    return _over(made, source)


def _over(made: v.Sequence, source: v.Value) -> v.Value:
    """An iterator over a loader goes on being known as such."""
    if is_loader(source):
        made.flow = v.Flow(loader=source)
    return made


def is_loader(value: v.Value) -> bool:
    """Whether a value is a data loader, or an object of a project's class that derives from one."""
    return value.kind == "loader" or (isinstance(value, v.Instance) and value.external == "loader")


@handles("builtins.zip")
def _zip(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    sources = [items_of(value) for value in arguments.positional]
    flow = v.merge_flows(a.flow for a in arguments.positional)
    if sources and all(s is not None and s.exact for s in sources) and not arguments.stars:
        rows = zip(*(s.items for s in sources if s is not None), strict=False)
        return v.Sequence([v.Sequence(bounds.elements(row), "tuple") for row in rows], "list", flow=flow)
    row = v.Sequence(bounds.elements(iterate(machine, a) for a in arguments.positional), "tuple")
    made = v.Sequence((), "list", rest=row, flow=flow)
    for source in arguments.positional:
        _over(made, source)
    return made


@handles("builtins.dict", "collections.OrderedDict")
def _dict(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    made = v.Mapping(site=machine.site(node))
    for source in arguments.positional:
        if isinstance(source, v.Mapping):
            made.items.update(source.items)
            made.open, made.rest = source.open, source.rest
        elif isinstance(source, v.Sequence) and source.exact:
            for pair in source.items:
                if isinstance(pair, v.Sequence) and len(pair.items) == 2 and isinstance(pair.items[0], v.Const):
                    made.items[pair.items[0].value] = pair.items[1]
                elif isinstance(pair, v.Sequence) and len(pair.items) == 2:
                    made.items[("unknown", len(made.items))] = pair.items[1]
        else:
            made.open = True
    made.items.update((key, bounds.element(value)) for key, value in arguments.keywords.items())
    made.open |= arguments.double_stars
    return made


@handles("collections.defaultdict")
def _defaultdict(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.Mapping(open=True, site=machine.site(node))


_MOST_CLASSES = 4  # of a module, up to which `getattr(module, name)` may be any of them


@handles("builtins.getattr")
def _getattr(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    if len(arguments.positional) < 2:
        return v.Unknown("getattr")
    base, attribute = arguments.positional[:2]
    if isinstance(attribute, v.Const) and isinstance(attribute.value, str):
        found = machine.attribute(base, attribute.value, node)
        if len(arguments.positional) > 2 and isinstance(found, v.Unknown):
            return v.join(found, arguments.positional[2])
        return found
    if isinstance(base, v.Instance) and isinstance(attribute, v.Text):
        parts = texts.parts_named(base, attribute)
        if parts:
            return v.join(*parts)
    if isinstance(base, v.Symbol) and base.name in ("torch.optim", "torch.optim.lr_scheduler"):
        return v.Symbol(f"{base.name}.Optimizer" if base.name == "torch.optim" else f"{base.name}.LRScheduler")
    if isinstance(base, v.Symbol) and base.name == "torchvision.models":
        return v.Symbol("torch.nn.Module")
    if base.kind == "project module":
        classes = machine.project.classes_of(machine, base)
        if 0 < len(classes) <= _MOST_CLASSES:
            return v.join(*classes)
    return v.Unknown("getattr")


@handles("builtins.setattr")
def _setattr(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    if len(arguments.positional) == 3:
        base, attribute, value = arguments.positional
        if isinstance(attribute, v.Const) and isinstance(attribute.value, str):
            machine.set_attribute(base, attribute.value, value, node)
        elif isinstance(base, v.Instance):
            if isinstance(attribute, v.Text):
                texts.register(machine, base, attribute, value)
            base.children.append(value)
    return v.NONE


@handles("builtins.hasattr", "builtins.callable", "builtins.issubclass", "torch.cuda.is_available", "torch.is_tensor",
         "torch.backends.mps.is_available", "torch.distributed.is_initialized", "torch.distributed.is_available")
def _some_bool(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    value = v.Unknown(name)
    value.proved = "bool"
    return value


@handles("builtins.int", "builtins.float", "builtins.bool", "builtins.round", "builtins.abs", "builtins.complex")
def _scalar(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    for value in arguments.positional:
        v.mark_used(value, "python")
        for option in value.options():
            if is_tensor(option) and name in ("builtins.int", "builtins.float", "builtins.bool"):
                machine.consume(option, node)
                read = machine.emit("sync", node, option, how=name.rpartition(".")[2] + "()",
                                    explicit=name != "builtins.bool")
                if option is value and name == "builtins.float":
                    return v.Number(v.merge_flows([value.flow]).without_graph(), read=read)
        if name == "builtins.abs" and isinstance(value, v.Tensor):
            machine.consume(value, node)
            return v.Tensor(v.merge_flows([value.flow]), value.device)
    if name == "builtins.int" and len(arguments.positional) == 1 and isinstance(arguments.positional[0], v.Unknown):
        guess = arguments.positional[0].guess
        return v.Unknown("int", guess=guess) if guess is not None else v.Number()
    return v.Number(settled(v.merge_flows(a.flow for a in arguments.positional).without_graph()))


@handles("builtins.sum", "builtins.min", "builtins.max")
def _reduce(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    operands = list(arguments.positional)
    if len(operands) == 1 or (operands and name == "builtins.sum"):
        inner = iterate(machine, operands[0])
        machine.consume(operands[0], node)
        if isinstance(inner, v.Tensor):
            return v.Tensor(v.merge_flows([inner.flow, operands[0].flow]), inner.device)
        if isinstance(inner, (v.Number, v.Const)):
            return v.Number()
        return v.Unknown(name, v.merge_flows([inner.flow, operands[0].flow]))
    if all(isinstance(o, (v.Const, v.Number)) for o in operands):
        return v.Number()
    guesses = [o for o in operands if isinstance(o, v.Unknown) and o.guess is not None]
    return v.Unknown(name, v.merge_flows(o.flow for o in operands), guess=guesses[0].guess if guesses else None)


@handles("builtins.print", "logging.info", "logging.debug", "logging.warning")
def _print(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    for value in arguments.all():
        for option in value.options():
            if is_tensor(option):
                machine.consume(option, node)
                machine.emit("sync", node, option, how=f"{name.rpartition('.')[2]}() of a tensor", explicit=True)
    return v.NONE


@handles("builtins.str", "builtins.repr", "builtins.format")
def _text(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    for value in arguments.positional:
        if is_tensor(value):
            machine.emit("sync", node, value, how="str() of a tensor", explicit=True)
    return v.Text()


@handles("builtins.map", "itertools.starmap")
def _map(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    if len(arguments.positional) < 2:
        return v.Unknown("map")
    inner = v.Arguments(arguments.node)
    inner.positional = [iterate(machine, source) for source in arguments.positional[1:]]
    if name == "itertools.starmap":
        passed = inner.positional[0]
        inner.stars = not isinstance(passed, v.Sequence) or not passed.exact
        inner.positional = list(passed.items) if isinstance(passed, v.Sequence) and passed.exact else []
    result = machine.call(arguments.positional[0], inner, node)
    return v.Sequence((), "list", rest=result, flow=result.flow)


@handles("builtins.filter")
def _filter(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    if len(arguments.positional) < 2:
        return v.Unknown("filter")
    source = arguments.positional[1]
    inner = v.Arguments(arguments.node)
    inner.positional = [iterate(machine, source)]
    machine.call(arguments.positional[0], inner, node)
    if isinstance(source, v.Parameters):
        return source
    return v.Sequence((), "list", rest=inner.positional[0], flow=source.flow)


@handles("builtins.next")
def _next(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    source = arguments.positional[0] if arguments.positional else v.Unknown()
    machine.emit("next", node, source)
    return iterate(machine, source)


@handles("builtins.super")
def _super(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    frame = machine.frame
    while frame.owner is None and frame.enclosing is not None and frame.enclosing.function is not None:
        frame = frame.enclosing
    receiver = frame.receiver
    if receiver is None and frame.function is not None and frame.arguments:
        receiver = next(iter(frame.arguments.values()))
    owner = frame.owner
    if arguments.positional and isinstance(arguments.positional[0], v.Class):
        owner = arguments.positional[0]
        receiver = arguments.positional[1] if len(arguments.positional) > 1 else receiver
    if owner is None or receiver is None:
        return v.Unknown("super")
    return v.Super(receiver, owner)


@handles("functools.partial")
def _partial(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    if not arguments.positional:
        return v.Unknown("partial")
    made = v.External("functools.partial", "partial", arguments, machine.site(node))
    return made


@handles("functools.wraps", "functools.lru_cache", "functools.cache", "torch.jit.ignore", "torch.jit.export",
         "torch.compiler.disable", "torch._dynamo.disable", "torch.jit.unused", "typing.no_type_check",
         "functools.update_wrapper", "builtins.staticmethod", "torch.fx.wrap", "typing.overload",
         "torch.jit.script_if_tracing")
def _same_function(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    """A decorator that leaves the function what it is."""
    if name != "functools.wraps" and arguments.positional and isinstance(arguments.positional[0], v.Function):
        return arguments.positional[0]
    return v.Symbol("torchlint.same")


@handles("torchlint.same")
def _same(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return arguments.positional[0] if arguments.positional else v.Unknown()


@handles("tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.rich.tqdm", "rich.progress.track", "tqdm.trange",
         "tqdm.auto.trange", "itertools.islice", "tqdm.std.tqdm", "fastprogress.progress_bar",
         "fastprogress.master_bar", "itertools.cycle", "tqdm.tqdm_notebook")
def _iterator_over(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    source = arguments.get("iterable", 0) or arguments.get("sequence", 0)
    if source is None or name.endswith("trange"):
        return v.External(name, "range", arguments, machine.site(node))
    if isinstance(source, v.Unknown):
        source.uses.add("iter")
    return source


@handles("itertools.chain")
def _chain(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    made = v.Sequence((), "list", site=machine.site(node))
    parameters = [a for a in arguments.positional if isinstance(a, v.Parameters)]
    for source in arguments.positional:
        if items_of(source) is not None or not isinstance(source, v.Parameters):
            extend(machine, made, source)
    if parameters and not made.items:
        made.items = list(parameters)
    return made


@handles("builtins.vars", "builtins.locals", "builtins.globals", "builtins.eval", "builtins.exec")
def _anything(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.Unknown(name)


@handles("argparse.ArgumentParser", "argparse.Namespace")
def _argument_parser(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return v.External(name, "argument_parser", arguments, machine.site(node))


@handles("torch.nn.init.constant_", "torch.nn.init.zeros_", "torch.nn.init.ones_", "torch.nn.init.normal_",
         "torch.nn.init.uniform_", "torch.nn.init.kaiming_normal_", "torch.nn.init.xavier_uniform_",
         "torch.nn.init.kaiming_uniform_", "torch.nn.init.xavier_normal_", "torch.nn.init.trunc_normal_")
def _init(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return arguments.get("tensor", 0) or v.Tensor()
