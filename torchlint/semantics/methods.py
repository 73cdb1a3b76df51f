"""What the methods of tensors, arrays, modules, optimizers, lists and strings do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import arrays, bounds, knowledge, texts
from torchlint.semantics import values as v
from torchlint.semantics.attributes import TABLES, freeze, part_of_table
from torchlint.semantics.containers import append, extend, get_item, items_of, iterate
from torchlint.semantics.definitions import only_compute
from torchlint.semantics.host import HOST_ONLY, OVERWRITING, carried, carry, settled, spoil, through_unknown, together
from torchlint.semantics.library import (
    backward,
    device_of,
    dtype_name,
    enter,
    escape,
    is_module,
    result_of,
    tensor_from,
    where_of,
)
from torchlint.semantics.modes import set_mode, training_mode
from torchlint.semantics.recording import Context
from torchlint.semantics.texts import filled

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter

_DTYPE_METHODS = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32",
                  "short": "int16", "byte": "uint8", "bool": "bool", "bfloat16": "bfloat16", "char": "int8"}
_VIEWS = frozenset({"contiguous", "squeeze", "unsqueeze", "view", "reshape", "flatten", "transpose", "permute"})
_INTEGRAL_METHODS = frozenset({"long", "int", "short", "byte", "bool", "char"})  # their results have no gradient
_OF_DICTS = frozenset({"items", "values", "get", "pop"})
_NEEDS_HOST = {"item", "tolist", "numpy", "cpu"}


def call_method(machine: Interpreter, receiver: v.Value, name: str, arguments: v.Arguments,
                node: cst.CSTNode) -> v.Value:
    """``receiver.name(...)`` for a library's object."""
    cls = receiver.__class__
    if cls is v.Tensor:
        return tensor_method(machine, receiver, name, arguments, node)  # type: ignore[arg-type]
    if cls is v.Unknown:
        return unknown_method(machine, receiver, name, arguments, node)  # type: ignore[arg-type]
    if cls is v.Array:
        return _array_method(machine, receiver, name, arguments, node)  # type: ignore[arg-type]
    if cls is v.Sequence:
        return _list_method(machine, receiver, name, arguments, node)  # type: ignore[arg-type]
    if cls is v.Mapping:
        return _dict_method(machine, receiver, name, arguments, node)  # type: ignore[arg-type]
    if cls is v.Super:
        return _super_method(machine, receiver, name, arguments, node)  # type: ignore[arg-type]
    if isinstance(receiver, (v.Instance, v.External)):
        if is_module(receiver):
            return module_method(machine, receiver, name, arguments, node)
        return _external_method(machine, receiver, name, arguments, node)
    if cls is v.Number and name == "item":
        return receiver
    for value in arguments.all():
        machine.consume(value, node)
        if name == "format":
            for option in value.options():
                if isinstance(option, v.Tensor):
                    machine.emit("sync", node, option, how="str.format() of a tensor", explicit=True)
    if (isinstance(receiver, v.Const) and isinstance(receiver.value, str)) or isinstance(receiver, v.Text):
        if name in ("split", "rsplit", "splitlines"):
            return v.Sequence((), "list", rest=v.Text())
        if name in ("startswith", "endswith", "isdigit"):
            return v.Unknown("bool")
        if name == "format" and isinstance(receiver, v.Const):
            return filled(receiver.value)
        return v.Text()
    return v.Unknown(name, v.merge_flows(a.flow for a in arguments.all()))


# ---------------------------------------------------------------------- tensors


def tensor_method(machine: Interpreter, receiver: v.Tensor, name: str, arguments: v.Arguments,
                  node: cst.CSTNode) -> v.Value:
    if name in ("to", "cuda", "cpu", "type", "type_as", "xpu"):
        return _move(machine, receiver, name, arguments, node)
    if name in _INTEGRAL_METHODS:
        machine.consume(receiver, node, "cast")
        for event in receiver.flow.forwards:
            event.used.add("index")
        return v.Tensor(_cast_flow(receiver.flow).without_graph(), receiver.device, _DTYPE_METHODS[name], index=True)
    if name in _DTYPE_METHODS:
        machine.consume(receiver, node, "cast")
        dtype = _DTYPE_METHODS[name]
        return v.Tensor(_cast_flow(receiver.flow, dtype), receiver.device, dtype, parameter=receiver.parameter)
    if name in ("detach", "detach_"):
        for event in receiver.flow.forwards:
            event.used.add("detached")
        machine.consume(receiver, node)
        return v.Tensor(receiver.flow.without_graph().changed(layers=()), receiver.device, receiver.dtype,
                        index=receiver.index)
    if name in ("item", "tolist", "numpy"):
        machine.consume(receiver, node)
        return _to_python(machine, receiver, name, node)
    if name == "backward":
        machine.consume(receiver, node)
        backward(machine, node, arguments, receiver)
        return v.NONE
    if name in ("requires_grad_", "retain_grad"):
        off = arguments.get("requires_grad", 0)
        if isinstance(off, v.Const) and off.value is False:
            if receiver.parameter is not None:
                for option in receiver.parameter.options():
                    freeze(machine, option, True)
        else:
            machine.emit("requires_grad", node, receiver)
        return receiver
    if name == "contiguous":
        return receiver
    if name in ("pin_memory", "clone", "share_memory_"):
        machine.consume(receiver, node)
        return v.Tensor(_cast_flow(receiver.flow), receiver.device, receiver.dtype, index=receiver.index)
    if name in _MEASURES:
        return v.Number() if arguments.positional or name != "size" else v.Unknown("size")
    if name in ("register_hook", "is_floating_point", "is_complex"):
        if name == "register_hook":
            machine.emit("requires_grad", node, receiver)
        return v.Unknown(name)
    return _tensor_operation(machine, receiver, name, arguments, node)


_MEASURES = frozenset({"size", "dim", "numel", "nelement", "element_size", "stride", "is_contiguous", "get_device",
                       "data_ptr", "storage_offset", "ndimension"})  # of a tensor, whatever its values


def _tensor_operation(machine: Interpreter, receiver: v.Tensor, name: str, arguments: v.Arguments,
                      node: cst.CSTNode) -> v.Value:
    machine.consume(receiver, node)
    for value in arguments.all():
        machine.consume(value, node)
    known = knowledge.method("tensor", name)
    operands: list[v.Value] = [receiver] if name in _LIKE_OTHER else [receiver, *arguments.all()]
    flow = together(operands)
    if known is None:
        if name == "copy":  # no tensor method
            return v.Unknown(name, flow)
        return v.Unknown(f"tensor.{name}", flow, device=receiver.device)
    if "sync" in known.flags and name not in _NEEDS_HOST:
        machine.emit("implicit_sync", node, receiver)
    if name.startswith("new_"):
        flow = v.NO_FLOW
        data = arguments.get("data", 0)
        if name == "new_tensor" and data is not None:
            machine.emit("tensor_from_data", node, data, None, arguments, name="Tensor.new_tensor")
    if "in_place" in known.flags:
        machine.emit("in_place", node, receiver)
        if name in HOST_ONLY:
            flow = settled(flow)
            receiver.flow = settled(receiver.flow)
        if name in OVERWRITING and receiver.device == "cpu" and receiver.flow.created is None:
            filled = machine.emit("create", node, None, receiver, arguments, name=f"Tensor.{name}")
            receiver.flow = v.Flow(created=filled)
        if receiver.flow.created is not None:
            if carried(operands, name) is not None:
                return receiver
            spoil(receiver)
        if receiver.flow.layers and name in ("relu_", "add_", "mul_", "clamp_"):
            return v.Tensor(flow, device_of(receiver), receiver.dtype)
        receiver.flow = flow.changed(layers=()) if flow is not v.NO_FLOW else flow
        return receiver
    kinds = [a.kind for a in arguments.positional]
    kind = known.returned(kinds, arguments.keywords)
    if kind == "tensor":
        index = "no_grad_result" in known.flags
        if index:
            for event in flow.forwards:
                event.used.add("index")
            flow = flow.without_graph()
        made = tensor_from(machine, operands, flow, arguments, index=index)
        carry(made, operands, name)
        return made
    if kind.startswith("tuple[") and name in ("max", "min", "sort", "topk", "median", "mode", "kthvalue", "cummax"):
        values = tensor_from(machine, operands, flow, arguments)
        return v.Sequence([values, tensor_from(machine, operands, flow.without_graph(), arguments, index=True)],
                          "tuple", flow=flow)
    if kind.startswith("tuple") or kind == "list":
        part = tensor_from(machine, operands, flow, arguments)
        carry(part, operands, name)
        return v.Sequence((), "tuple", rest=part, flow=flow)
    return result_of(machine, kind, arguments, node)


_LIKE_OTHER = frozenset({"view_as", "expand_as", "reshape_as"})  # only the other tensor's shape counts


def _cast_flow(flow: v.Flow, dtype: str | None = None) -> v.Flow:
    """A cast or copy: no longer a layer's unchanged output, still the same created or lowered data.

    What is made float64 may have come down for that: not every device has it.
    """
    flow = flow.changed(layers=()) if flow.layers else flow
    return settled(flow) if dtype == "float64" else flow


def _move(machine: Interpreter, receiver: v.Value, name: str, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
    """``.to``, ``.cuda``, ``.cpu``, ``.type``, ``.type_as``: where a tensor goes and what it is there."""
    where, dtype, target = _destination(name, arguments)
    flow = receiver.flow
    if where is None or dtype is not None or name not in ("to", "cuda", "cpu", "xpu"):  # its values may change
        machine.consume(receiver, node, "cast")
        flow = _cast_flow(flow, dtype)
    old = device_of(receiver)
    if name == "type_as" and where is None and flow.created is not None and device_of(target or v.NONE) != "cpu":
        where = "device"
    dtype = dtype or (receiver.dtype if isinstance(receiver, v.Tensor) else None)
    if where is None:
        made = v.Tensor(flow, old, dtype)
        made.index = isinstance(receiver, v.Tensor) and receiver.index
        return made
    made = v.Tensor(flow, where, dtype, index=isinstance(receiver, v.Tensor) and receiver.index)
    if where == "cpu":
        event = machine.emit("to_host", node, receiver, made, arguments, how=name, old=old)
        if not _is_asynchronous(arguments):
            machine.emit("sync", node, receiver, how=f".{name}()", explicit=True, moves=True)
        if old != "cpu" and not (old is None and flow.loader is not None):
            made.flow = made.flow.changed(lowered=event, steps=())
    else:
        machine.emit("to_device", node, receiver, made, arguments, how=name, old=old, where=target)
        if flow.created is not None or flow.lowered is not None:
            made.flow = flow.changed(created=None, lowered=None)
    return made


def _is_asynchronous(arguments: v.Arguments) -> bool:
    given = arguments.get("non_blocking")
    return isinstance(given, v.Const) and given.value is True


def _destination(name: str, arguments: v.Arguments) -> tuple[str | None, str | None, v.Value | None]:
    """The device, the dtype, and the value that named the device."""
    if name in ("cuda", "xpu"):
        return "cuda", None, arguments.get("device", 0)
    if name == "cpu":
        return "cpu", None, None
    given = [*arguments.positional]
    given += [arguments.keywords[key] for key in ("device", "other") if key in arguments.keywords]
    explicit = arguments.keywords.get("dtype")
    if name == "type_as":
        other = given[0] if given else None
        where = device_of(other) if other is not None else None
        return where if where not in (None, "cpu") else None, None, other
    where, dtype, target = None, None if explicit is None else dtype_name(explicit), None
    for value in given:
        for option in value.options():
            found = _as_dtype(option)
            if found is not None:
                dtype = found[0]
                if found[1]:
                    where, target = "cuda", value
                continue
            if isinstance(option, v.Const) and isinstance(option.value, bool):
                continue
            place = where_of(option)
            if name == "type" and not isinstance(option, v.Symbol):
                place = None
            if place is None or (isinstance(option, v.Unknown) and _reads_as_dtype(option)):
                continue
            if where in (None, "cpu") or place != "cpu":
                where = "cuda?" if where == "cpu" or (where is not None and place == "cpu") else place
                target = value
            elif place == "cpu" and where != "cpu":
                where = "cuda?"
    return where, dtype, target


def _as_dtype(value: v.Value) -> tuple[str | None, bool] | None:
    """(dtype, whether a CUDA tensor type) where the value names a dtype or a tensor type."""
    if isinstance(value, v.Symbol):
        if value.name.startswith("torch.cuda.") and value.name.endswith("Tensor"):
            return value.name.rpartition(".")[2].removesuffix("Tensor").lower(), True
        if value.name.startswith(("torch.", "builtins.")):
            return dtype_name(value), False
    if isinstance(value, v.Const) and isinstance(value.value, str) and value.value.startswith("torch."):
        return value.value, value.value.startswith("torch.cuda.")
    return None


def _reads_as_dtype(value: v.Unknown) -> bool:
    """Between a device and a dtype, both possible for ``.to(x)``, the name breaks the tie."""
    last = value.name.rpartition(".")[2].lower()
    return "type" in last or last in ("precision", "half")


def _to_python(machine: Interpreter, receiver: v.Tensor, name: str, node: cst.CSTNode) -> v.Value:
    read = machine.emit("sync", node, receiver, how=f".{name}()", explicit=True)
    for event in receiver.flow.forwards:
        event.used.add("numpy" if name == "numpy" and event not in receiver.flow.unsure else "python")
    lowered = receiver.flow.lowered
    flow = v.merge_flows([receiver.flow]).without_graph()
    if lowered is None and receiver.device not in ("cpu", None):
        event = machine.emit("to_host", node, receiver, None, how=name, old=receiver.device)
        flow = flow.changed(lowered=event, steps=())
    if name == "item":
        return v.Number(settled(flow), read=read)
    if name == "tolist":
        return v.Sequence((), "list", rest=v.Number(settled(flow)), flow=settled(flow))
    return v.Array(flow, receiver.dtype, site=machine.site(node))


# ---------------------------------------------------------------------- unknown


def unknown_method(machine: Interpreter, receiver: v.Unknown, name: str, arguments: v.Arguments,
                   node: cst.CSTNode) -> v.Value:
    """A method of a value of unknown kind: what it proves by use, and what it can only be."""
    if receiver.kind == "ndarray":
        return _array_method(machine, v.Array(receiver.flow), name, arguments, node)
    receiver.uses.add(name)
    plain = not arguments.positional and not arguments.keywords
    if name in ("eval", "train") and (plain or (name == "train" and len(arguments.positional) == 1)):
        receiver.uses.add(f"{name}()")
        training = _train_flag(name, arguments)
        machine.emit("mode", node, receiver, arguments=arguments, train=training)
        set_mode(machine, receiver, training)
        return receiver
    if name in ("parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "buffers"):
        return v.Parameters(receiver, name)
    kind = receiver.kind
    if kind == "module" and name in ("requires_grad_", "zero_grad", "apply", "half", "cuda", "cpu"):
        return module_method(machine, receiver, name, arguments, node)
    if (name in ("cuda", "cpu", "to") or (name in ("type", "type_as") and not plain)) and kind != "module":
        return _move_unknown(machine, receiver, name, arguments, node)
    if kind == "module" and name == "to":
        return module_method(machine, receiver, name, arguments, node)
    if name in ("item", "numpy", "tolist"):
        return _unknown_to_python(machine, receiver, name, node)
    if name == "astype" and arrays.is_cast(receiver, arguments.get("dtype", 0)):
        given = arguments.get("dtype", 0)
        return v.Array(receiver.flow, dtype_name(given) if given is not None else None, fresh=True,
                       site=machine.site(node))
    if name in ("to_numpy", "asnumpy", "toarray", "todense"):  # of pandas, mxnet, scipy: nothing else has it
        return v.Array(receiver.flow, fresh=name.startswith("to") and name != "to_numpy", site=machine.site(node))
    if name in ("tocoo", "tocsr", "tocsc"):
        return v.External("scipy.sparse.spmatrix", "sparse_matrix", None, machine.site(node))
    if name in ("drop_duplicates", "sort_values", "reset_index", "set_index"):  # of pandas: nothing else has it
        return v.External("pandas.DataFrame", "dataframe", None, machine.site(node))
    if name == "backward":
        backward(machine, node, arguments, receiver)
        return v.NONE
    if name == "detach":
        for event in receiver.flow.forwards:
            event.used.add("detached")
        return v.Tensor(receiver.flow.without_graph().changed(layers=()), receiver.device)
    if name in ("requires_grad_", "register_hook"):
        machine.emit("requires_grad", node, receiver)
        return receiver
    if name in ("append", "extend", "update", "add"):
        for value in arguments.all():
            machine.consume(value, node, "stored")
            v.mark_used(value, "handed over")
        machine.emit("method", node, receiver, arguments=arguments, name=name)
        return v.Unknown(name)
    if name in ("step", "zero_grad", "unscale_", "scale"):
        machine.emit("method", node, receiver, arguments=arguments, name=name)
        if name == "scale" and arguments.positional:
            return arguments.positional[0]
        return v.Unknown(name)
    return _other_unknown_method(machine, receiver, name, arguments, node)


def _other_unknown_method(machine: Interpreter, receiver: v.Unknown, name: str, arguments: v.Arguments,
                          node: cst.CSTNode) -> v.Value:
    machine.consume(receiver, node)
    for value in arguments.all():
        machine.consume(value, node, "escape")
        escape(machine, value, name, node, "computed" if _only_computes(machine, receiver, name, value) else "escaped")
    if "backward" in name:
        backward(machine, node, arguments)
    known = knowledge.method("tensor", name)
    flow = v.merge_flows([receiver.flow, *(settled(o.flow) for o in arguments.all())])
    if (known is None and knowledge.method("ndarray", name) is None) or name in HOST_ONLY or name == "double":
        flow = settled(flow)
    if name in _MEASURES:
        flow = flow.without_graph()
    event = machine.emit("method", node, receiver, arguments=arguments, name=name)
    device = receiver.device or next((d for d in map(device_of, arguments.all()) if d not in (None, "cpu")), None)
    came_from_batch = receiver.flow is not v.NO_FLOW or receiver.device is not None
    if known is not None and came_from_batch and receiver.kind in ("unknown", "tensor") and "returned" not in name:
        kind = known.returned([a.kind for a in arguments.positional], arguments.keywords)
        if kind == "tensor":
            if name in _DTYPE_METHODS or name in _VIEWS:
                flow = flow if receiver.flow.batch is None else flow.changed(batch=receiver.flow.batch)
            made = v.Unknown(f"{receiver.name}.{name}()", flow, device=device)
            if "no_grad_result" in known.flags:
                for event in flow.forwards:
                    event.used.add("index")
                made.flow = flow.without_graph()
            return made
    if name in _OF_DICTS and receiver.flow.batch is not None:
        flow = flow.changed(batch=receiver.flow.batch)
    if flow.forwards:
        flow = flow.changed(unsure=flow.forwards)
    result = v.Unknown(f"{receiver.name}.{name}()" if receiver.name else name, flow, device=receiver.device
                       if came_from_batch else None)
    if isinstance(receiver.base, v.Value) or receiver.kind == "module":
        event.result = result
    if "eval()" in receiver.uses:
        event.data["training"] = training_mode(receiver)
    return result


def _only_computes(machine: Interpreter, receiver: v.Unknown, name: str, value: v.Value) -> bool:
    """Whether a model's own method takes what the model gave, and all that becomes of it is what the method gives."""
    forwards = v.forwards_in(value)
    if not forwards or any(event.subject is not receiver for event in forwards):
        return False
    asker = machine.project.asker(machine)
    known = machine.computing.get((asker, name))
    if known is None:
        known = machine.computing[asker, name] = only_compute(machine.project.project, name, asker)
    return known


def _train_flag(name: str, arguments: v.Arguments) -> bool | None:
    if name == "eval":
        return False
    mode = arguments.get("mode", 0)
    if mode is None:
        return True
    return bool(mode.value) if isinstance(mode, v.Const) else None


def _move_unknown(machine: Interpreter, receiver: v.Unknown, name: str, arguments: v.Arguments,
                  node: cst.CSTNode) -> v.Value:
    """``unknown.to(device)``: a tensor, a batch object or a module; it is there now, whatever it is."""
    machine.consume(receiver, node, "cast")
    where, dtype, target = _destination(name, arguments)
    if where is None:
        return v.Unknown(receiver.name, _cast_flow(receiver.flow, dtype), device=receiver.device, base=receiver) \
            if dtype else receiver
    flow = _cast_flow(receiver.flow, dtype)
    made = v.Unknown(receiver.name, flow, device=where, base=receiver, generic=receiver.generic)
    made.uses = receiver.uses
    made.attributes = v.Slots({key: value for key, value in receiver.attributes.items()
                               if not (isinstance(value, v.Unknown) and value.base is receiver)})  # these did not move
    if where == "cpu":
        event = machine.emit("to_host", node, receiver, made, arguments, how=name, old=receiver.device)
        if not _is_asynchronous(arguments):
            machine.emit("sync", node, receiver, how=f".{name}()", explicit=True, moves=True)
        if receiver.device is not None or receiver.flow.loader is None:
            made.flow = made.flow.changed(lowered=event, steps=())
    else:
        machine.emit("to_device", node, receiver, made, arguments, how=name, old=receiver.device, where=target)
        if made.flow.lowered is not None or made.flow.created is not None:
            made.flow = made.flow.changed(lowered=None, created=None)
        receiver.attributes.setdefault("%moved", v.Const(True))
        if receiver.device is None and receiver.flow is v.NO_FLOW:
            receiver.attributes["%device"] = v.Device(where)
    return made


def _unknown_to_python(machine: Interpreter, receiver: v.Unknown, name: str, node: cst.CSTNode) -> v.Value:
    machine.consume(receiver, node)
    for event in receiver.flow.forwards:
        event.used.add("numpy" if name == "numpy" and event not in receiver.flow.unsure else "python")
    read = machine.emit("sync", node, receiver, how=f".{name}()", explicit=True)
    flow = v.merge_flows([receiver.flow]).without_graph()
    if name == "item":
        return v.Number(settled(flow), read=read)
    if name == "numpy":
        return v.Array(flow, site=machine.site(node))
    return v.Sequence((), "list", rest=v.Number(settled(flow)), flow=settled(flow))


# ----------------------------------------------------------------------- arrays


def _array_method(machine: Interpreter, receiver: v.Array, name: str, arguments: v.Arguments,
                  node: cst.CSTNode) -> v.Value:
    known = knowledge.method("ndarray", name)
    flow = v.merge_flows([receiver.flow, *(a.flow for a in arguments.all())])
    if name in arrays.WRITING_METHODS:
        arrays.written(machine, receiver, node)
    if name in ("tocoo", "tocsr", "tocsc"):
        return v.External("scipy.sparse.spmatrix", "sparse_matrix", None, machine.site(node))
    if known is None:
        return v.Array(flow, receiver.dtype) if name in ("todense", "toarray") else v.Unknown(name, settled(flow))
    kind = known.returned([a.kind for a in arguments.positional], arguments.keywords)
    if name in arrays.REDUCTIONS:
        return arrays.reduced(name, receiver, arguments.get("axis", 0), arguments, machine.site(node), flow)
    if kind == "ndarray":
        dtype = receiver.dtype
        if name == "astype":
            given = arguments.get("dtype", 0)
            dtype = dtype_name(given) if given is not None else None
        fresh = "fresh" in known.flags
        made = v.Array(flow, dtype, fresh=fresh, site=machine.site(node), owner=None if fresh else receiver)
        carry(made, [receiver, *arguments.all()], name)
        return made
    if kind == "tensor":
        return v.Unknown(name, flow)
    if name == "tolist":
        return v.Sequence((), "list", rest=v.Unknown("element", settled(flow)), flow=settled(flow))
    result = result_of(machine, kind, arguments, node)
    result.flow = flow if isinstance(result, (v.Unknown, v.Number)) else result.flow
    return result


# ------------------------------------------------------------------ lists, dicts


def _is_local(machine: Interpreter, made: v.Sequence, node: cst.CSTNode) -> bool:
    """Whether a list is named by a variable of the function that made it: all that becomes of it is seen."""
    named = node.func if isinstance(node, cst.Call) else None
    return isinstance(named, cst.Attribute) and isinstance(named.value, cst.Name) \
        and made.maker is not None and made.maker is machine.frame.function


def _list_method(machine: Interpreter, receiver: v.Sequence, name: str, arguments: v.Arguments,
                 node: cst.CSTNode) -> v.Value:
    first = arguments.positional[0] if arguments.positional else None
    forwards = [event for value in arguments.positional for event in v.forwards_in(value)]
    if forwards and not _is_local(machine, receiver, node):
        for event in forwards:
            event.used.add("stored")
    if name in ("append", "add", "appendleft") and first is not None:
        if first.flow.layers and not machine.forwarding:
            machine.consume(first, node, "stored")
        append(machine, receiver, first)
        return v.NONE
    if name == "extend" and first is not None:
        extend(machine, receiver, first)
        return v.NONE
    if name == "insert" and len(arguments.positional) == 2:
        place = arguments.positional[0]
        items = list(receiver.items)
        item = bounds.element(arguments.positional[1], receiver)
        if isinstance(place, v.Const) and isinstance(place.value, int):
            items.insert(max(-len(items), min(place.value, len(items))), item)
        else:
            items.append(item)
        machine.growth += 1
        machine.write(receiver, "items", items)
        return v.NONE
    if name == "pop":
        if receiver.exact and receiver.items and (first is None or isinstance(first, v.Const)):
            items = list(receiver.items)
            try:
                popped = items.pop(*([first.value] if isinstance(first, v.Const) else []))
            except (IndexError, TypeError, OverflowError):
                return v.Unknown("popped")
            machine.write(receiver, "items", items)
            return popped
        return iterate(machine, receiver)
    if name in ("copy", "__iter__"):
        return v.Sequence(receiver.items, receiver.type, rest=receiver.rest, flow=receiver.flow)
    if name == "reverse":
        machine.write(receiver, "items", receiver.items[::-1])
    if name == "clear":
        machine.write(receiver, "items", [])
        machine.write(receiver, "rest", None)
    return v.NONE if name in ("reverse", "clear", "sort", "remove") else v.Number()


def _dict_method(machine: Interpreter, receiver: v.Mapping, name: str, arguments: v.Arguments,
                 node: cst.CSTNode) -> v.Value:
    values = list(receiver.items.values())
    rest = receiver.rest if not receiver.open or receiver.rest is not None else v.Unknown("value")
    if name == "values":
        return v.Sequence(values, "list", rest=rest)
    if name == "keys":
        return v.Sequence([v.Const(k) for k in receiver.items], "list", rest=v.Text() if receiver.open else None)
    if name == "items":
        pairs: list[v.Value] = [v.Sequence([v.Const(k), bounds.element(x)], "tuple") for k, x in receiver.items.items()]
        more = v.Sequence([v.Text(), rest], "tuple") if rest is not None else None
        return v.Sequence(pairs, "list", rest=more)
    if name in ("get", "pop", "setdefault") and arguments.positional:
        found = get_item(machine, receiver, arguments.positional[0], node)
        if isinstance(found, v.Unknown) and len(arguments.positional) > 1:
            if name == "setdefault":
                machine.write(receiver.items, getattr(arguments.positional[0], "value", None),
                              bounds.element(arguments.positional[1], receiver))
            return v.Unknown("default", guess=arguments.positional[1]) if receiver.open else arguments.positional[1]
        if name == "pop" and isinstance(arguments.positional[0], v.Const):
            key = arguments.positional[0].value
            if key in receiver.items:
                kept = v.Slots(receiver.items)
                del kept[key]
                machine.write(receiver, "items", kept)
        return found
    if name == "update":
        for value in arguments.positional:
            if isinstance(value, v.Mapping):
                for key, item in value.items.items():
                    machine.write(receiver.items, key, bounds.element(item, receiver))
                if value.open:
                    machine.write(receiver, "open", True)
            else:
                machine.write(receiver, "open", True)
        for key, item in arguments.keywords.items():
            machine.write(receiver.items, key, item)
        if arguments.double_stars:
            machine.write(receiver, "open", True)
        return v.NONE
    if name == "copy":
        return v.Mapping(dict(receiver.items), receiver.open, receiver.rest)
    return v.Unknown(name)


# ---------------------------------------------------------------------- modules


def module_method(machine: Interpreter, receiver: v.Value, name: str, arguments: v.Arguments,
                  node: cst.CSTNode) -> v.Value:
    """A method that torch.nn.Module gives every module."""
    if name in ("to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type", "xpu", "to_empty"):
        where, _, _ = _destination(name if name in ("to", "cuda", "cpu", "xpu") else "float", arguments)
        if where is not None:
            if isinstance(receiver, (v.Instance, v.External)):
                machine.write(receiver.state, "device", where)
            elif isinstance(receiver, v.Unknown):
                receiver.device = where
            machine.emit("module_moved", node, receiver, arguments=arguments, where=where)
        return receiver
    if name in ("eval", "train"):
        training = _train_flag(name, arguments)
        machine.emit("mode", node, receiver, arguments=arguments, train=training)
        set_mode(machine, receiver, training)
        return receiver
    if name in ("parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "buffers",
                "named_buffers"):
        return v.Parameters(receiver, name)
    if name == "requires_grad_":
        mode = arguments.get("requires_grad", 0)
        freeze(machine, receiver, isinstance(mode, v.Const) and mode.value is False)
        return receiver
    if name == "zero_grad":
        machine.emit("zero_grad", node, receiver)
        return v.NONE
    if name in ("forward", "__call__"):
        return machine.call(receiver, arguments, node)
    if name == "apply":
        _apply(machine, receiver, arguments, node)
        return receiver
    if name in ("add_module", "register_module", "append", "extend", "insert", "register_buffer", "register_parameter",
                "update"):
        _register(machine, receiver, name, arguments, node)
        return receiver if name == "append" else v.NONE
    if name in ("values", "items", "keys"):
        return _module_dict(receiver, name)
    if name in ("state_dict",):
        return v.Unknown("state_dict")
    if name == "named_modules":
        return v.Parameters(receiver, name)
    for value in arguments.all():
        machine.consume(value, node, "escape")
        escape(machine, value, name, node)
    machine.emit("method", node, receiver, arguments=arguments, name=name)
    return v.Unknown(name, v.merge_flows(a.flow for a in arguments.all()))


def _apply(machine: Interpreter, receiver: v.Value, arguments: v.Arguments, node: cst.CSTNode) -> None:
    """``module.apply(f)``: f runs on a submodule that could be any."""
    part = v.Unknown("submodule", base=receiver)
    part.proved = "module"
    inner = v.Arguments(arguments.node)
    inner.positional = [part]
    for value in arguments.positional:
        machine.call(value, inner, node)


def _register(machine: Interpreter, receiver: v.Value, name: str, arguments: v.Arguments, node: cst.CSTNode) -> None:
    items = items_of(receiver)
    given = arguments.positional
    machine.growth += 1
    if name in ("append", "extend", "insert") and items is not None and given:
        if name == "extend":
            extend(machine, items, given[0])
        elif name == "insert":
            _list_method(machine, items, "insert", arguments, node)
        else:
            machine.write(items, "items", [*items.items, bounds.element(given[0], items)])
        return
    value = arguments.get("module", 1) or arguments.get("tensor", 1) or arguments.get("param", 1)
    key = arguments.get("name", 0)
    if value is None:
        return
    if name in ("add_module", "register_module") and items is not None:
        machine.write(items, "items", [*items.items, bounds.element(value, items)])
    if isinstance(receiver, (v.Instance, v.External)):
        if isinstance(value, v.Tensor):  # it goes where its module goes
            value = v.Tensor(value.flow.changed(created=None), None, value.dtype, parameter=value.parameter)
        if isinstance(key, v.Const) and isinstance(key.value, str):
            machine.write(receiver.attributes, key.value, value)
        elif isinstance(receiver, v.Instance):
            if isinstance(key, v.Text):
                texts.register(machine, receiver, key, value)
            if receiver.cls.external_bases and "torch.nn.Sequential" in receiver.cls.external_bases:
                if items is None:
                    machine.write(receiver.state, "items", v.Sequence([value], "list"))
            receiver.children.append(value)


def _module_dict(receiver: v.Value, name: str) -> v.Value:
    items = items_of(receiver)
    values = list(items.elements()) if items is not None else []
    if name == "keys":
        return v.Sequence((), "list", rest=v.Text())
    if name == "values":
        return v.Sequence(values, "list") if items is not None else v.Unknown("values")
    return v.Sequence([v.Sequence([v.Text(), value], "tuple") for value in values], "list")


# --------------------------------------------------- optimizers, loaders and others


def _external_method(machine: Interpreter, receiver: v.Value, name: str, arguments: v.Arguments,
                     node: cst.CSTNode) -> v.Value:
    kind = receiver.kind if isinstance(receiver, v.External) else getattr(receiver, "external", None) or "object"
    if isinstance(receiver, v.External) and receiver.name == "contextlib.ExitStack" and name == "enter_context":
        manager = arguments.positional[0] if arguments.positional else v.Unknown()
        context = Context(machine.context, "with", machine.site(node), manager)
        machine.context = context
        return enter(machine, manager, context, node)
    if kind in ("optimizer", "scheduler", "scaler", "other_scheduler"):
        return _training_method(machine, receiver, kind, name, arguments, node)
    if kind == "argument_parser" and isinstance(receiver, v.External):
        return _parser_method(machine, receiver, name, arguments, node)
    for value in arguments.all():
        machine.consume(value, node, "escape")
        escape(machine, value, name, node)
    if "backward" in name:
        backward(machine, node, arguments)
    machine.emit("method", node, receiver, arguments=arguments, name=name)
    if isinstance(receiver, v.External) and name == "prepare":  # accelerate, fabric: gives back what it is given
        given = arguments.positional
        return given[0] if len(given) == 1 else v.Sequence(given, "tuple")
    known = knowledge.method(receiver.name, name) if isinstance(receiver, v.External) else None
    if isinstance(receiver, v.External) and kind in TABLES:
        described = knowledge.method(kind, name)
        return part_of_table(receiver, described.returns if described is not None else kind, name)
    if known is not None:
        return result_of(machine, known.returned([a.kind for a in arguments.positional], arguments.keywords),
                         arguments, node)
    return v.Unknown(name, through_unknown(v.merge_flows([receiver.flow, *(a.flow for a in arguments.all())])))


def _training_method(machine: Interpreter, receiver: v.Value, kind: str, name: str, arguments: v.Arguments,
                     node: cst.CSTNode) -> v.Value:
    if name == "step":
        machine.emit(f"{kind}_step", node, receiver, arguments=arguments)
        if kind == "optimizer" and arguments.positional:  # a closure is run by step()
            inner = v.Arguments(arguments.node)
            for value in arguments.positional:
                if isinstance(value, v.Function):
                    machine.call(value, inner, node)
        return v.Unknown("step")
    if name == "scale" and kind == "scaler" and arguments.positional:
        machine.emit("scaler_scale", node, receiver, arguments.positional[0], arguments)
        return arguments.positional[0]
    machine.emit("zero_grad" if name == "zero_grad" else f"{kind}_{name.strip('_')}", node, receiver,
                 arguments=arguments)
    if name == "zero_grad":
        return v.NONE
    return v.Unknown(name)


def _parser_method(machine: Interpreter, receiver: v.External, name: str, arguments: v.Arguments,
                   node: cst.CSTNode) -> v.Value:
    if name == "add_argument":
        _add_argument(machine, receiver, arguments, node)
        return v.Unknown("action")
    if name in ("add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser"):
        return receiver
    if name == "set_defaults":
        for key, value in arguments.keywords.items():
            receiver.state.setdefault("arguments", {})[key] = v.Unknown(f"args.{key}", guess=value)
        return v.NONE
    if name in ("parse_args", "parse_known_args"):
        space = v.External("argparse.Namespace", "argument_parser", None, machine.site(node))
        space.attributes = v.Slots(receiver.state.get("arguments", {}))
        if name == "parse_known_args":
            return v.Sequence([space, v.Sequence((), "list", rest=v.Text())], "tuple")
        return space
    return v.Unknown(name)


def _add_argument(machine: Interpreter, receiver: v.External, arguments: v.Arguments, node: cst.CSTNode) -> None:
    names = [a.value for a in arguments.positional if isinstance(a, v.Const) and isinstance(a.value, str)]
    named = arguments.get("dest")
    if isinstance(named, v.Const) and isinstance(named.value, str):
        dest = named.value
    elif names:
        dest = next((n for n in names if n.startswith("--")), names[0]).lstrip("-").replace("-", "_")
    else:
        return
    action = arguments.get("action")
    default = arguments.get("default")
    if default is None and isinstance(action, v.Const) and action.value in ("store_true", "store_false"):
        default = v.Const(action.value == "store_false")
    if default is None and isinstance(action, v.Const | type(None)):
        default = v.NONE
    value = v.Unknown(f"args.{dest}", guess=default)
    value.attributes["%argument"] = v.Const(dest, machine.site(node))
    if isinstance(action, v.Const) and action.value in ("store_true", "store_false"):
        value.proved = "bool"
    receiver.state.setdefault("arguments", {})[dest] = value


def _super_method(machine: Interpreter, receiver: v.Super, name: str, arguments: v.Arguments,
                  node: cst.CSTNode) -> v.Value:
    """``super().name(...)`` where the base lies outside of the project."""
    inner = receiver.receiver
    if not isinstance(inner, v.Instance):
        return v.Unknown(name)
    if name == "__init__":
        from_sequential = "torch.nn.Sequential" in inner.cls.external_bases
        if from_sequential or "torch.nn.ModuleList" in inner.cls.external_bases:
            machine.write(inner.state, "items", _layers_given(machine, arguments, from_sequential))
        elif inner.external != "module":
            for key, value in arguments.keywords.items():
                inner.attributes.setdefault(key, value)
        if inner.external == "scheduler" or inner.external == "optimizer":
            inner.state["base_arguments"] = arguments
        for value in arguments.all():
            machine.consume(value, node, "escape")
        return v.NONE
    layers = items_of(inner)
    if name == "forward" and layers is not None:
        return machine.run_layers(layers, arguments, node)
    if is_module(inner):
        return module_method(machine, inner, name, arguments, node) if name not in ("forward", "__call__") \
            else machine.opaque_forward(inner, arguments, node)
    return _external_method(machine, inner, name, arguments, node)


def _layers_given(machine: Interpreter, arguments: v.Arguments, sequential: bool) -> v.Sequence:
    made = v.Sequence((), "list")
    for value in arguments.positional:
        if isinstance(value, v.Mapping):
            made.items.extend(value.items.values())
            made.rest = v.Unknown("layer") if value.open else made.rest
        elif isinstance(value, v.Sequence) and not sequential:
            made.items.extend(value.items)
            made.rest = value.rest
        elif isinstance(value, v.Sequence):
            pairs = all(isinstance(i, v.Sequence) and len(i.items) == 2 for i in value.items)
            made.items.extend(i.items[1] if pairs and isinstance(i, v.Sequence) else i for i in value.items)
        else:
            made.items.append(value)
    if arguments.stars:
        made.rest = v.Unknown("layer")
    return made
