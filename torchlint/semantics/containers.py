"""Lists, tuples, dicts and what iterating or indexing gives: the surgery that builds networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlint.semantics import arrays, bounds
from torchlint.semantics import values as v
from torchlint.semantics.host import assigned, walked

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.semantics.interpreter import Interpreter


def extend(machine: Interpreter, target: v.Sequence, more: v.Value) -> None:
    """``list += more`` and ``list.extend(more)``."""
    machine.growth += _is_building(more)
    target.flow = v.with_graphs(target.flow, (more,))
    if isinstance(more, v.External) and isinstance(more.items, v.Sequence):
        more = more.items
    if isinstance(more, v.Sequence):
        if len(target.items) + len(more.items) > bounds.LONGEST_LIST:
            grow(machine, target, v.join(*more.elements()))
            return
        machine.write(target, "items", [*target.items, *bounds.elements(more.items, target)])
        if more.rest is not None:
            grow(machine, target, more.rest)
    elif isinstance(more, v.Union) and all(isinstance(o, v.Sequence) for o in more.options()):
        runs = tuple(tuple(o.items) for o in more.options() if isinstance(o, v.Sequence))
        machine.write(target, "items", [*target.items, bounds.element(v.Choice(runs), target)])
    else:
        grow(machine, target, v.Unknown("elements", more.flow))


def append(machine: Interpreter, target: v.Sequence, item: v.Value) -> None:
    """``list.append(item)``; a list that grows without bound keeps the kind of its elements only."""
    machine.growth += _is_building(item)
    target.flow = v.with_graphs(target.flow, (item,))
    if len(target.items) > 400:
        grow(machine, target, item)
    else:
        machine.write(target, "items", [*target.items, bounds.element(item, target)])
    if isinstance(item, v.Array):
        item.held = True


def _is_building(item: v.Value) -> int:
    """Whether an element is a part of a network: then the order of elements matters."""
    if isinstance(item, v.Sequence):
        return int(any(_is_building(i) for i in item.items[:4]))
    return int((isinstance(item, v.External) and item.kind == "module") or isinstance(item, v.Instance))


def grow(machine: Interpreter, target: v.Sequence, item: v.Value) -> None:
    """Add an unknown number of elements like this one."""
    item = bounds.element(item, target)
    machine.write(target, "rest", item if target.rest is None else v.join(target.rest, item))


def items_of(value: v.Value) -> v.Sequence | None:
    """The elements of a list, a tuple or a library's container."""
    if isinstance(value, v.Sequence):
        return value
    if isinstance(value, v.External) and isinstance(value.items, v.Sequence):
        return value.items
    if isinstance(value, v.Instance):
        items = value.state.get("items")
        return items if isinstance(items, v.Sequence) else None
    return None


def iterate(machine: Interpreter, value: v.Value) -> v.Value:
    """What iterating over a value gives, as one value."""
    if isinstance(value, v.Union):
        return v.join(*(iterate(machine, option) for option in v.not_none(value)))
    items = items_of(value)
    if items is not None:
        elements = list(items.elements())
        return v.join(*elements) if elements else v.Unknown("element", value.flow)
    if isinstance(value, v.Mapping):
        keys = [v.Const(key) for key in value.items]
        return v.join(*keys) if keys and not value.open else v.Text()
    if isinstance(value, v.Parameters):
        return parameter_of(value)
    if isinstance(value, (v.Tensor, v.Array)):
        walked(value)
    if isinstance(value, v.Tensor):
        return v.Tensor(v.merge_flows([value.flow]), value.device, value.dtype, index=value.index)
    if isinstance(value, v.Array):
        return v.Unknown("row", value.flow) if value.owner is None else v.Array(value.flow, value.dtype, owner=value)
    if isinstance(value, v.External):
        return _external_element(value)
    if isinstance(value, v.Instance):
        return _instance_element(machine, value)
    if isinstance(value, v.Unknown):
        value.uses.add("iter")
        if value.elements is None:
            flow = value.flow
            value.elements = v.Unknown(f"{value.name}[]", flow, generic=value.generic, base=value, device=value.device)
        return value.elements
    if isinstance(value, v.Const) and isinstance(value.value, str):
        return v.Text()
    return v.Unknown("element", value.flow)


def parameter_of(value: v.Parameters) -> v.Value:
    """An element of ``parameters()``, ``named_parameters()``, ``modules()`` ..."""
    if value.what in ("parameters", "buffers"):
        return v.Tensor(parameter=value.module)
    if value.what in ("named_parameters", "named_buffers"):
        return v.Sequence([v.Text(), v.Tensor(parameter=value.module)], "tuple")
    part = v.Unknown("submodule", base=value.module)
    part.proved = "module"
    if value.what in ("named_modules", "named_children"):
        return v.Sequence([v.Text(), part], "tuple")
    return part


def _external_element(value: v.External) -> v.Value:
    if value.kind == "loader":
        batch = v.Unknown("batch", v.Flow(loader=value, batch=value))
        return batch
    if value.kind == "number":
        return v.Number()
    if value.kind == "range":
        return v.Counter()
    return v.Unknown("element", value.flow)


def _instance_element(machine: Interpreter, value: v.Instance) -> v.Value:
    for name in ("__iter__", "__getitem__"):
        method = value.cls.find(name)
        if isinstance(method, v.Function):
            arguments = v.Arguments()
            if name == "__getitem__":
                arguments.positional.append(v.Number())
            result = machine.call(method.bound_to(value), arguments, method.node)
            return iterate(machine, result) if name == "__iter__" and result is not value else v.Unknown("element") \
                if result is value else result
    if value.external == "loader":
        return v.Unknown("batch", v.Flow(loader=value, batch=value))
    return v.Unknown("element")


def get_item(machine: Interpreter, value: v.Value, index: v.Value, node: cst.CSTNode) -> v.Value:
    """``value[index]``."""
    if isinstance(value, v.Union):
        return v.join(*(get_item(machine, option, index, node) for option in v.not_none(value)))
    if isinstance(value, v.External) and value.name == "torch.nn.ModuleDict" and isinstance(index, v.Const):
        named = value.attributes.get(f"[{index.value!r}]")
        if named is not None:
            return named
    items = items_of(value)
    if items is not None:
        return _element_at(items, index)
    if isinstance(value, v.Mapping):
        if isinstance(index, v.Const) and _hashable(index.value) and index.value in value.items:
            found: v.Value = value.items[index.value]
            return found
        known = list(value.items.values())
        if isinstance(index, v.Const) or not known:
            return value.rest or v.Unknown("item")
        return v.join(*known)
    if isinstance(value, (v.Tensor, v.Array)):
        walked(value, index)
    if isinstance(value, v.Tensor):
        machine.consume(value, node)
        if isinstance(index, v.Tensor) and index.dtype == "bool":
            machine.emit("implicit_sync", node, value)
        return v.Tensor(_part_flow(value.flow), value.device, value.dtype, index=value.index)
    if isinstance(value, v.Array):
        return arrays.item(value, index, machine.site(node))
    if isinstance(value, v.Unknown):
        return _unknown_item(machine, value, index, node)
    if isinstance(value, v.Instance):
        method = value.cls.find("__getitem__")
        if isinstance(method, v.Function):
            arguments = v.Arguments()
            arguments.positional.append(index)
            return machine.call(method.bound_to(value), arguments, node)
    if isinstance(value, v.External):
        if value.kind == "dataset" and _is_slice(index):
            return value
        if value.kind in ("dataframe", "series"):
            is_column = index.kind == "string" or (isinstance(index, v.Const) and isinstance(index.value, str))
            return v.External(value.name, "series" if is_column else value.kind, None, value.site)
        key = f"[{index.value!r}]" if isinstance(index, v.Const) else "[]"
        if key in value.attributes:
            return value.attributes[key]
    return v.Unknown("item", value.flow)


def _unknown_item(machine: Interpreter, value: v.Unknown, index: v.Value, node: cst.CSTNode) -> v.Value:
    """Items of an unknown value keep their identity by constant key; a slice has the value's own kind."""
    machine.consume(value, node)
    value.uses.add("[]")
    key = f"[{index.value!r}]" if isinstance(index, v.Const) else "[]"
    if key not in value.attributes:
        device = value.device
        if device is None and isinstance(value.attributes.get("[]"), v.Unknown | v.Tensor):
            device = value.attributes["[]"].device  # type: ignore[attr-defined]  # every item was moved in a loop
        value.attributes[key] = v.Unknown(f"{value.name}{key}", _part_flow(value.flow), generic=value.generic,
                                          base=value, device=device)
    return value.attributes[key]


def _part_flow(flow: v.Flow) -> v.Flow:
    if flow is v.NO_FLOW or (not flow.layers and flow.created is None):
        return flow
    return flow.changed(layers=())


def _is_slice(index: v.Value) -> bool:
    """Whether an index is sure to give an array again (a slice), not a scalar."""
    return isinstance(index, v.Sequence) and index.type == "slice"


def _hashable(key: Any) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


def _element_at(items: v.Sequence, index: v.Value) -> v.Value:
    if isinstance(index, v.Sequence) and index.type == "slice":
        return _slice_of(items, index)
    if isinstance(index, v.Const) and isinstance(index.value, int) and items.rest is None:
        position = index.value
        run = items.items if position >= 0 else items.items[::-1]
        place = position if position >= 0 else -position - 1
        if place < len(run) and not any(isinstance(i, v.Choice) for i in run[: place + 1]):
            return run[place]
    if isinstance(index, v.Const) and isinstance(index.value, int) and 0 <= index.value < len(items.items):
        run = items.items[: index.value + 1]
        if not any(isinstance(i, v.Choice) for i in run):
            return run[-1]
    elements = list(items.elements())
    return v.join(*elements) if elements else v.Unknown("item", items.flow)


def _slice_of(items: v.Sequence, index: v.Sequence) -> v.Value:
    ends: list[Any] = [i.value if isinstance(i, v.Const) else _UNSURE for i in index.items]
    if items.exact and _UNSURE not in ends and ends[2:] != [0]:
        return v.Sequence(items.items[slice(*ends)], items.type, flow=items.flow)
    elements = list(items.elements())
    return v.Sequence((), items.type, rest=v.join(*elements) if elements else None, flow=items.flow)


_UNSURE = object()


def set_item(machine: Interpreter, value: v.Value, index: v.Value, new: v.Value, node: cst.CSTNode) -> None:
    """``value[index] = new``."""
    if isinstance(value, v.Union):
        for option in value.options():
            set_item(machine, option, index, new, node)
        return
    assigned(value, index, new)
    if isinstance(new, v.Array):
        new.held = True
    items = items_of(value)
    if items is not None:
        position = index.value if isinstance(index, v.Const) and isinstance(index.value, int) else None
        if position is not None and items.exact and -len(items.items) <= position < len(items.items):
            changed = list(items.items)
            changed[position] = bounds.element(new, items)
            machine.write(items, "items", changed)
        else:
            grow(machine, items, new)
    elif isinstance(value, v.Mapping):
        new = bounds.element(new, value)
        if isinstance(index, v.Const) and _hashable(index.value):
            machine.write(value.items, index.value, new)
        else:
            machine.write(value, "rest", new if value.rest is None else v.join(value.rest, new))
            machine.write(value, "open", True)
    elif isinstance(value, (v.Tensor, v.Array)):
        machine.consume(new, node)
        if new.flow.lowered is not None and value.flow.lowered is None:
            value.flow = v.merge_flows([value.flow, v.Flow(lowered=new.flow.lowered)])
        if isinstance(value, v.Tensor):
            if new.flow.forwards:  # the tensor's graph now holds that of the new item
                value.flow = value.flow.changed(forwards=value.flow.forwards | new.flow.forwards)
            machine.emit("item_assignment", node, value, new)
        else:
            arrays.written(machine, value, node)
    elif isinstance(value, (v.Unknown, v.External)):
        key = f"[{index.value!r}]" if isinstance(index, v.Const) else "[]"
        machine.write(value.attributes, key, new)
