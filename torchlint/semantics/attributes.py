"""Reading and writing attributes: of the project's objects, of libraries, of tensors and modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantics import knowledge
from torchlint.semantics import values as v
from torchlint.semantics.host import kept
from torchlint.semantics.interpreter import widened
from torchlint.semantics.library import is_module
from torchlint.semantics.recording import Block, Context
from torchlint.semantics.texts import part_named

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter
    from torchlint.semantics.scopes import Frame

_CONSTANT_BUDGET = 3_000  # statements that building one constant of a module may run

_SAME_STORAGE = frozenset({"data", "T", "mT", "H", "mH", "real"})
_PROVES_USE = frozenset({"param_groups", "training", "is_cuda", "requires_grad", "grad", "device", "dtype", "shape"})


def attribute(machine: Interpreter, value: v.Value, name: str, node: cst.CSTNode) -> v.Value:
    """``value.name``."""
    cls = value.__class__
    if cls is v.Symbol:
        return symbol_attribute(value, name)  # type: ignore[arg-type]
    if cls is v.Instance:
        return instance_attribute(machine, value, name, node)  # type: ignore[arg-type]
    if cls is v.Unknown:
        return _unknown_attribute(machine, value, name, node)  # type: ignore[arg-type]
    if cls is v.Tensor:
        return _tensor_attribute(machine, value, name, node)  # type: ignore[arg-type]
    if cls is v.External:
        return _external_attribute(machine, value, name, node)  # type: ignore[arg-type]
    if cls is v.Union:
        parts = [attribute(machine, option, name, node) for option in value.options()
                 if not (isinstance(option, v.Const) and option.value is None)]
        return v.join(*parts) if parts else v.Unknown(name)
    if cls is v.Class:
        return _class_attribute(machine, value, name)  # type: ignore[arg-type]
    if cls is v.Super:
        return _super_attribute(machine, value, name)  # type: ignore[arg-type]
    if cls is ProjectModule:
        return value.model_attribute(machine, name)  # type: ignore[attr-defined,no-any-return]
    if cls is v.Array:
        return _array_attribute(value, name)  # type: ignore[arg-type]
    if cls is v.Sequence and value.type == "tuple" and name not in ("index", "count"):  # type: ignore[attr-defined]
        return _named_part(value, name)  # type: ignore[arg-type]
    if cls is v.Device:
        return v.Text() if name == "type" else v.Number() if name == "index" else v.Unknown(name)
    return v.Bound(value, name)


def _named_part(value: v.Sequence, name: str) -> v.Value:
    """A field of a named tuple that torch gives: ``values``, ``indices``, ``solution``, ..."""
    items = list(value.elements())
    place = 1 if name == "indices" and len(items) > 1 else 0
    return items[place] if items and isinstance(items[place], v.Tensor) else v.Unknown(name, value.flow)


class ProjectModule(v.Value):
    """A module of the project, as a value; run when something of it is asked for."""

    __slots__ = ("path",)
    kind = "project module"

    def __init__(self, path: str) -> None:
        self.flow = v.NO_FLOW
        self.path = path

    def model_attribute(self, machine: Interpreter, name: str) -> v.Value:
        return machine.project.imported(machine, self.path, name)


class Deferred(v.Value):
    """A module's constant that takes work to build, and that nobody has asked for yet."""

    __slots__ = ("node", "frame")
    kind = "lazy"

    def __init__(self, node: cst.BaseExpression, frame: Frame) -> None:
        self.flow = v.NO_FLOW
        self.node = node
        self.frame = frame

    def forced(self, machine: Interpreter) -> v.Value:
        known = machine.deferred.get(self)
        if known is None:
            machine.deferred[self] = v.Unknown("constant")  # one that rests on itself ends here
            with machine.fresh(self.frame, Context(None, "entry", v.Site(self.frame.module.tree, self.node), "module"),
                               Block(), _CONSTANT_BUDGET):
                machine.run_guarded(lambda: machine.deferred.__setitem__(self, machine.evaluate(self.node)))
            known = machine.deferred[self]
        return known


class Lazy(v.Value):
    """A name imported from another file of the project, not looked up yet."""

    __slots__ = ("module", "name")
    kind = "lazy"

    def __init__(self, module: str, name: str) -> None:
        self.flow = v.NO_FLOW
        self.module = module
        self.name = name

    def forced(self, machine: Interpreter) -> v.Value:
        return machine.project.imported(machine, self.module, self.name)


def symbol_attribute(value: v.Symbol, name: str) -> v.Value:
    qualified = knowledge.canonical(f"{value.name}.{name}")
    known = knowledge.api(qualified)
    if known is not None and known.category == "constant":
        if known.returns in ("tensor", "ndarray"):
            return v.Tensor() if known.returns == "tensor" else v.Array()
        if known.returns == "number":
            return v.Number()
    if known is None and known_class(value.name):
        return v.Unknown(qualified) if not name[:1].isalpha() else v.Symbol(qualified)
    return v.Symbol(qualified)


def known_class(name: str) -> bool:
    known = knowledge.api(name)
    return known is not None and known.category == "class"


def instance_attribute(machine: Interpreter, value: v.Instance, name: str, node: cst.CSTNode,
                       after: v.Class | None = None) -> v.Value:
    if value.pending is not None:
        machine.settle(value)
    found = value.attributes.get(name) if after is None else None
    if found is not None:
        if isinstance(found, v.Const) and machine.project.assignments(value.cls, name) > 1:
            found = widened(found)
            if isinstance(found, v.Union):  # None, or what is set later: the same object until then
                machine.write(value.attributes, name, found)
        return found
    in_class = value.cls.find(name, after)
    if isinstance(in_class, Lazy):
        in_class = in_class.forced(machine)
    if isinstance(in_class, v.Function):
        if in_class.is_property:
            return machine.follow(in_class.bound_to(value), v.Arguments(), node)
        return in_class if in_class.static else in_class.bound_to(value)
    if in_class is not None:
        return in_class
    if after is None:
        assigned = machine.project.assigned_elsewhere(machine, value, name)
        if assigned is not None:
            return assigned
        part = part_named(value, name) if value.state.get("composed") else None
        if part is not None:
            return part
    return _library_attribute(machine, value, name, node)


def _library_attribute(machine: Interpreter, value: v.Instance, name: str, node: cst.CSTNode) -> v.Value:
    """What an object has from a base class that lies outside of the project."""
    if name == "__class__":
        return value.cls
    if value.external == "module" and name in ("weight", "bias"):
        return v.Tensor(parameter=value, device=_device(value))
    if value.external is not None and name in MODULE_METHODS.get(value.external, ()):
        return v.Bound(value, name)
    if value.external in _TRAINING_KINDS and name not in ("param_groups", "optimizer", "state"):
        known = knowledge.method(value.external, name)
        if name in ("step", "zero_grad") or (known is not None and not known.is_attribute):
            return v.Bound(value, name)
    if name == "training" and value.external == "module":
        training = v.Unknown("training")
        training.proved = "bool"
        return training
    inherited = machine.inherited.get((value, name))
    if inherited is None:
        inherited = machine.inherited[value, name] = v.Unknown(f"{value.cls.name}.{name}", base=value)
        if value.external is not None or value.cls.external_bases or value.cls.unknown_bases:
            inherited.uses.add("inherited")
    return inherited


_TRAINING_KINDS = ("optimizer", "scheduler", "scaler")

MODULE_METHODS: dict[str, frozenset[str]] = {
    "module": frozenset({
        "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "eval", "train", "parameters", "named_parameters",
        "modules", "named_modules", "children", "named_children", "buffers", "named_buffers", "state_dict",
        "load_state_dict", "apply", "zero_grad", "requires_grad_", "register_buffer", "register_parameter",
        "add_module", "register_module", "append", "extend", "insert", "forward", "__call__", "register_forward_hook",
        "register_forward_pre_hook", "share_memory", "to_empty", "type", "xpu", "ipu", "get_submodule", "compile",
        "keys", "values", "items", "pop", "update", "__init__", "__setattr__", "__getattr__", "__delattr__",
        "register_full_backward_hook", "extra_repr", "get_parameter",
    }),
}


def _device(value: v.Value) -> str | None:
    where = value.state.get("device") if isinstance(value, (v.Instance, v.External)) else None
    return where if isinstance(where, str) else None


def _unknown_attribute(machine: Interpreter, value: v.Unknown, name: str, node: cst.CSTNode) -> v.Value:
    value.uses.add(name)
    if name == "bias":
        machine.bias_use(value, node)
    found = value.attributes.get(name)
    if found is None:
        if name == "device":
            return v.Device(value.device or "device", value)
        if name in ("shape", "ndim", "dtype", "size"):
            machine.consume(value, node, "shape")
            flow = v.NO_FLOW
        else:
            flow = value.flow
            if flow is not v.NO_FLOW and (flow.layers or flow.created):
                machine.consume(value, node)
                flow = flow.changed(layers=(), created=None)
        if name == "data" and flow.forwards:
            for event in flow.forwards:
                event.used.add("detached")
            flow = flow.without_graph()
        found = v.Unknown(f"{value.name}.{name}" if value.name else name, flow, generic=value.generic, base=value,
                          device=value.device)
        found.member = name
        value.attributes[name] = found
    return found


def _tensor_attribute(machine: Interpreter, value: v.Tensor, name: str, node: cst.CSTNode) -> v.Value:
    if name in ("shape", "ndim", "dtype", "is_cuda", "layout", "requires_grad", "grad_fn", "is_leaf", "itemsize"):
        return v.Unknown(name)
    if name == "device":
        return v.Device(value.device or "device", value)
    if name in _SAME_STORAGE:
        flow = value.flow.without_graph() if name == "data" else value.flow
        if name == "data":
            for event in value.flow.forwards:
                event.used.add("detached")
            return v.Tensor(flow, value.device, value.dtype, parameter=value.parameter)
        machine.consume(value, node)
        return v.Tensor(v.merge_flows([flow]), value.device, value.dtype, parameter=value.parameter)
    if name == "grad":
        if value.attributes is None:
            value.attributes = v.Slots()
        return value.attributes.setdefault("grad", v.Tensor(device=value.device))
    if knowledge.method("tensor", name) is None and value.attributes is not None and name in value.attributes:
        return value.attributes[name]
    return v.Bound(value, name)


def _external_attribute(machine: Interpreter, value: v.External, name: str, node: cst.CSTNode) -> v.Value:
    value.uses.add(name)
    found = value.attributes.get(name)
    if found is not None:
        return found
    if value.kind == "argument_parser":
        if value.name.endswith("Namespace") and name not in ("__dict__",):
            unknown = v.Unknown(f"args.{name}", base=value)
            value.attributes[name] = unknown
            return unknown
        return v.Bound(value, name)
    if value.kind == "module":
        if name in ("weight", "bias"):
            if name == "bias":
                machine.bias_use(value, node)
            return v.Tensor(parameter=value, device=_device(value))
        if name == "module":  # DataParallel's inner module: wrappers are looked through
            return value
        if name in MODULE_METHODS["module"]:
            return v.Bound(value, name)
        if value.items is not None and name.isdigit():
            return v.Unknown(name)
        if name in ("in_channels", "out_channels", "in_features", "out_features", "num_features", "kernel_size"):
            return v.Number()
        unknown = v.Unknown(f"{value.name}.{name}", base=value)
        if value.name in ("torch.nn.Module", "torch.hub.load", "timm.create_model"):
            unknown.uses.add("inherited")
        value.attributes[name] = unknown
        return unknown
    if name in ("dataset", "sampler", "optimizer", "param_groups", "batch_size", "num_workers"):
        return _known_part(value, name)
    if value.kind in TABLES:
        return _of_table(value, name)
    return v.Bound(value, name)


TABLES = frozenset({"dataframe", "series", "sparse_matrix"})  # objects of other libraries that hold numpy arrays


def _of_table(value: v.External, name: str) -> v.Value:
    if name in ("iloc", "loc", "at", "iat", "str", "dt", "cat", "index", "columns"):
        return value
    known = knowledge.method(value.kind, name)
    if known is None or not known.is_attribute:
        return v.Bound(value, name)
    return part_of_table(value, known.returns, name)


def part_of_table(value: v.External, kind: str, name: str) -> v.Value:
    """What a data frame or a sparse matrix gives: another one, or an array that shares its memory."""
    if kind == "ndarray":
        array = v.Array(value.flow)
        array.held = True
        return array
    return v.External(value.name, kind, None, value.site) if kind in TABLES else v.Unknown(name, value.flow)


def _known_part(value: v.External, name: str) -> v.Value:
    if name == "param_groups":
        group = v.Mapping({"params": v.Sequence((), "list", rest=v.Tensor())}, open=True)
        return v.Sequence((), "list", rest=group)
    given = value.argument(name, 0 if name in ("dataset", "optimizer") else None)
    return given if given is not None else v.Unknown(name)


def _class_attribute(machine: Interpreter, value: v.Class, name: str) -> v.Value:
    found = value.find(name)
    if isinstance(found, Lazy):
        return found.forced(machine)
    if found is not None:
        if isinstance(found, v.Function) and found.static is False and found.decorated is False \
                and getattr(found, "receiver", None) is None and _is_classmethod(found):
            return found.bound_to(value)
        return found
    if name == "__name__":
        return v.Text()
    if value.external_bases and name not in ("__dict__",):
        return v.Bound(value, name)
    return v.Unknown(f"{value.name}.{name}")


def _is_classmethod(function: v.Function) -> bool:
    return isinstance(function.node, cst.FunctionDef) and any(
        isinstance(d.decorator, cst.Name) and d.decorator.value == "classmethod" for d in function.node.decorators)


def _super_attribute(machine: Interpreter, value: v.Super, name: str) -> v.Value:
    receiver = value.receiver
    if isinstance(receiver, v.Instance):
        found = receiver.cls.find(name, value.after)
        if isinstance(found, v.Function):
            return found if found.static else found.bound_to(receiver)
        if found is not None:
            return found
        if value.after.unknown_bases:
            return v.Bound(v.Super(receiver, value.after), name)
        return v.Bound(v.Super(receiver, value.after), name)
    return v.Unknown(f"super.{name}")


def _array_attribute(value: v.Array, name: str) -> v.Value:
    if name in ("shape", "ndim", "dtype", "size", "nbytes"):
        return v.Unknown(name)
    if name in ("T", "real", "imag", "flat"):
        return v.Array(value.flow, value.dtype, owner=value)
    return v.Bound(value, name)


# ----------------------------------------------------------------------- writes


def set_attribute(machine: Interpreter, value: v.Value, name: str, new: v.Value, node: cst.CSTNode) -> None:
    """``value.name = new``."""
    if isinstance(new, v.Array):
        new.held = True
    kept(new)
    if isinstance(value, v.Instance):
        if isinstance(new, v.Array):
            new.memory.attribute = value.cls, name
        machine.write(value.attributes, name, new)
        machine.consume(new, node, "stored")
        if new.flow.forwards or new.__class__ is v.Sequence:
            v.mark_used(new, "attribute")
    elif isinstance(value, v.External):
        machine.write(value.attributes, name, new)
        if name == "bias":
            machine.bias_use(value, node)
    elif isinstance(value, v.Unknown):
        value.uses.add(f"{name}=")
        if name == "requires_grad":
            _requires_grad(machine, value, new)
        machine.write(value.attributes, name, new)
    elif isinstance(value, v.Tensor):
        if name == "requires_grad":
            _requires_grad(machine, value, new)
            if isinstance(new, v.Const) and new.value is True:
                machine.emit("requires_grad", node, value)
        elif name == "grad":
            machine.emit("set_grad", node, value, new)
        elif name == "data":
            machine.consume(new, node)
    elif isinstance(value, v.Class):
        machine.write(value.attributes, name, new)
    elif isinstance(value, v.Union):
        for option in value.options():
            set_attribute(machine, option, name, new, node)


def _requires_grad(machine: Interpreter, value: v.Value, new: v.Value) -> None:
    """``p.requires_grad = False`` for a parameter: its module builds no graph."""
    module = value.parameter if isinstance(value, v.Tensor) else value.base if isinstance(value, v.Unknown) else None
    if module is None or not isinstance(new, v.Const):
        return
    conditional = any(c.kind == "guard" for c in machine.context.up_to(_loop_of(machine)))
    for option in module.options():
        freeze(machine, option, new.value is False and not conditional)


def _loop_of(machine: Interpreter) -> Any:
    return next((c for c in machine.context if c.kind == "loop"), None)


def freeze(machine: Interpreter, module: v.Value, frozen: bool) -> None:
    """Note that a module's parameters want no gradient (or do again)."""
    if isinstance(module, (v.Instance, v.External)):
        module.state.setdefault("frozen", False)  # so that a branch without the freeze keeps it open
        machine.write(module.state, "frozen", frozen)
    elif isinstance(module, v.Unknown):
        module.attributes.setdefault("%frozen", v.Const(False))
        machine.write(module.attributes, "%frozen", v.Const(frozen))


def is_frozen(module: v.Value, seen: set[int] | None = None) -> bool:
    """Whether a module's parameters want no gradient. ``seen``: modules being looked at, as one may hold itself."""
    if isinstance(module, (v.Instance, v.External)):
        if module.state.get("frozen") is True:
            return True
        parts = [a for a in module.attributes.values() if is_module(a)] if isinstance(module, v.Instance) else []
        seen = set() if seen is None else seen
        fresh = [part for part in parts if id(part) not in seen]
        seen.update(map(id, fresh))
        return bool(fresh) and all(is_frozen(part, seen) for part in fresh)
    if isinstance(module, v.Unknown):
        found = module.attributes.get("%frozen")
        return isinstance(found, v.Const) and found.value is True
    if isinstance(module, v.Union):
        return all(is_frozen(o, seen) for o in module.options() if not isinstance(o, v.Const))
    return False
