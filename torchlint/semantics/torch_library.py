"""What torch's own functions and module classes do, beyond what the API table says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import values as v
from torchlint.semantics.containers import items_of
from torchlint.semantics.host import carried
from torchlint.semantics.library import (
    HANDLERS,
    device_of,
    dtype_name,
    handles,
    tensor_from,
    where_of,
)

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter


TYPED_TENSORS = ("Tensor", "FloatTensor", "DoubleTensor", "HalfTensor", "LongTensor", "IntTensor", "ShortTensor",
                 "ByteTensor", "CharTensor", "BoolTensor", "BFloat16Tensor")
TENSORS_FROM_DATA = ("tensor", "as_tensor", "asarray", "new_tensor", *TYPED_TENSORS)
"""Names of what makes a tensor from data that may be a numpy array, other than ``from_numpy``."""

TENSORS_FROM_DATA_TEXT = (b"tensor(", b"Tensor(", b"import tensor", b"asarray")
"""Of these bytes, a file that calls one of them holds at least one."""


@handles("torch.tensor", "torch.as_tensor", "torch.asarray", "torch.from_numpy", *(f"torch.{t}" for t in TYPED_TENSORS))
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
    wants = arguments.get("requires_grad", 1)
    learns = name == "torch.nn.Parameter" and (wants is None or (isinstance(wants, v.Const) and wants.value is True))
    parameter = v.External(name, "parameter", arguments, machine.site(node)) if learns else None
    return v.Tensor(dtype=data.dtype if isinstance(data, v.Tensor) else None, parameter=parameter)


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
    if name == "torch.jit.script":
        given = arguments.get("obj", 0) or v.NONE
        for option in given.options():
            kind = option.cls if isinstance(option, v.Instance) else option
            if isinstance(kind, v.Function | v.Class):
                machine.scripted.add(id(kind.node))
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


@handles("torch.nn.init.constant_", "torch.nn.init.zeros_", "torch.nn.init.ones_", "torch.nn.init.normal_",
         "torch.nn.init.uniform_", "torch.nn.init.kaiming_normal_", "torch.nn.init.xavier_uniform_",
         "torch.nn.init.kaiming_uniform_", "torch.nn.init.xavier_normal_", "torch.nn.init.trunc_normal_")
def _init(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    return arguments.get("tensor", 0) or v.Tensor()
