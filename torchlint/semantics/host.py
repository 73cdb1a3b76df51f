"""Where host data comes from: what a factory made on the host, what came down from the device.

``Flow.created`` is the factory call that a value was made by, on the host and from nothing but
constants, sizes and random numbers; it goes on through operations whose operands are all of that
kind. Data that someone else put into such a value spoils it (``filled``): then it has to travel.

``Flow.lowered`` is the transfer that brought a value, or what it was computed from, from the
device; it goes on through operations that torch could as well do there, and ends where code needs
the host: other libraries, unknown code, Python numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import values as v

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter
    from torchlint.semantics.recording import Event

OVERWRITING = frozenset({
    "zero_", "fill_", "random_", "normal_", "uniform_", "bernoulli_", "exponential_", "log_normal_", "geometric_",
    "cauchy_",
})
HOST_ONLY = OVERWRITING | {"apply_", "map_", "map2_"}  # random numbers of the host on purpose, or Python code
_FILLS = frozenset({
    "numpy.zeros", "numpy.ones", "numpy.full", "numpy.empty", "numpy.eye", "numpy.identity", "numpy.arange",
    "numpy.linspace", "numpy.logspace", "numpy.tri", "numpy.random.rand", "numpy.random.randn",
    "numpy.random.random", "numpy.random.random_sample", "numpy.random.standard_normal", "numpy.random.normal",
    "numpy.random.uniform", "numpy.random.randint", "numpy.random.exponential", "numpy.random.binomial",
    "numpy.random.poisson", "numpy.random.beta", "numpy.random.gamma", "numpy.random.laplace",
})
_TAKE_SIZES = frozenset({  # operations whose further arguments are sizes, axes or patterns, whatever is known of them
    "view", "reshape", "unsqueeze", "squeeze", "expand", "repeat", "transpose", "permute", "flatten", "view_as",
    "expand_as", "t", "triu", "tril", "tile", "flip", "roll", "repeat_interleave", "unfold", "narrow", "chunk", "split",
    "swapaxes", "movedim", "broadcast_to", "rearrange", "astype", "copy", "ravel", "unflatten", "cumsum", "sum",
    "fill_", "random_", "normal_", "uniform_", "meshgrid", "one_hot", "pow", "clamp", "diag",
})
_ON_DEVICE_TOO = frozenset({  # numpy's functions that torch has an equal of
    "abs", "absolute", "add", "all", "amax", "amin", "any", "arange", "argmax", "argmin", "argsort", "array",
    "ascontiguousarray", "asarray", "average", "bincount", "broadcast_to", "ceil", "clip", "concatenate", "cos",
    "cumsum", "diff", "divide", "dot", "einsum", "exp", "expand_dims", "eye", "fliplr", "flip", "flipud", "floor",
    "full", "hstack", "isnan", "linspace", "log", "logical_and", "logical_not", "logical_or", "matmul", "max",
    "maximum", "mean", "median", "min", "minimum", "moveaxis", "multiply", "nonzero", "ones", "ones_like", "pad",
    "power", "prod", "repeat", "reshape", "roll", "round", "sign", "sin", "sort", "sqrt", "square", "squeeze", "stack",
    "std", "subtract", "sum", "swapaxes", "take", "tanh", "tile", "transpose", "tril", "triu", "unique", "var",
    "vstack", "where", "zeros", "zeros_like",
})


def carried(operands: Iterable[v.Value], operation: str = "") -> Event | None:
    """The factory call behind values that are computed together; None where one of them comes from elsewhere."""
    found: Event | None = None
    for value in operands:
        created = value.flow.created
        if created is None and not isinstance(value, (v.Const, v.Number, v.Symbol, v.Text, v.Device)):
            if isinstance(value, v.Sequence):
                elements = list(value.elements())
                created = carried(elements, operation)
                if created is None and any(_may_be_data(e) for e in elements if operation not in _TAKE_SIZES):
                    return None
            elif isinstance(value, v.Union):
                created = carried(value.options(), operation)
                if created is None and operation not in _TAKE_SIZES:
                    return None
            elif not (operation in _TAKE_SIZES and found is not None) and _may_be_data(value, operation):
                return None
        found = found or created
    return found


def _may_be_data(value: v.Value, operation: str = "") -> bool:
    """Whether a value that no factory made may be an array or tensor. An unknown operand of arithmetic is a number."""
    if isinstance(value, (v.Const, v.Number, v.Symbol, v.Text, v.Device)):
        return False
    if isinstance(value, v.Unknown):
        arithmetic = operation == "arithmetic" and not value.uses & {"shape", "size", "to", "cuda", "[]", "iter"}
        return not (value.kind == "number" or (arithmetic and value.flow is v.NO_FLOW and value.device is None))
    return not (isinstance(value, v.Sequence) and all(not _may_be_data(e) for e in value.elements()))


def carry(made: v.Value, operands: Sequence[v.Value], operation: str = "") -> None:
    """Let a result be what its operands are: made on the host. What numpy computes is data, what it reshapes is not."""
    if isinstance(made, v.Tensor) and made.device not in ("cpu", None):
        return
    if isinstance(made, v.Array) and operation not in _TAKE_SIZES:
        arrays = [operand for operand in operands if isinstance(operand, v.Array)]
        if operation != "arithmetic" or len(arrays) > 1:
            return
    created = carried(operands, operation)
    if created is not None:
        made.flow = made.flow.changed(created=created)


def spoil(value: v.Value) -> None:
    """Someone puts data into a value, or may do so: it is not what the factory made any more."""
    if value.flow.created is not None:
        value.flow.created.data["filled"] = True
    elif isinstance(value, v.Union):
        for option in value.options():
            spoil(option)


def used(value: v.Value) -> None:
    """A function or module is given a value as it is, on the host."""
    if value.flow.created is not None:
        value.flow.created.data["used"] = True


def assigned(value: v.Value, index: v.Value, new: v.Value) -> None:
    """``value[index] = new``: a constant at a constant place leaves it a thing that a factory could make."""
    if value.flow.created is None:
        return
    if isinstance(index, v.Sequence) and index.type == "slice":
        if isinstance(new, (v.Const, v.Number)) or new.flow.created is not None:
            return
    elif isinstance(index, (v.Const, v.Number)) and (isinstance(new, v.Const) or new.flow.created is not None):
        return
    spoil(value)


def numpy_fill(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode, result: v.Value) -> None:
    """Record that a numpy function makes an array out of nothing but constants, sizes and random numbers."""
    if name in _FILLS and isinstance(result, v.Array):
        if not any(isinstance(a, (v.Array, v.Tensor)) and a.flow.created is None for a in arguments.all()):
            event = machine.emit("create", node, None, result, arguments, name=name)
            result.flow = v.Flow(created=event)


def needs_host(name: str) -> bool:
    """Whether a library's function does something that torch cannot do on the device."""
    package, _, rest = name.partition(".")
    if package == "numpy":
        return rest not in _ON_DEVICE_TOO
    return package not in ("torch", "einops") and name not in _PYTHON


_PYTHON = frozenset({"builtins.list", "builtins.tuple", "builtins.zip", "builtins.enumerate", "builtins.reversed",
                     "builtins.sum", "builtins.max", "builtins.min", "builtins.abs", "copy.copy", "copy.deepcopy"})


def walked(value: v.Value, index: v.Value | None = None) -> None:
    """Code goes through a value's elements one by one, as it does on the host only: it had to come down."""
    if value.flow.lowered is not None:
        parts = index.items if isinstance(index, v.Sequence) and index.type in ("slice", "tuple") else [index]
        if index is None or any(isinstance(part, v.Number) for part in parts):
            value.flow.lowered.data["walked"] = True


def kept(value: v.Value) -> None:
    """A value is stored: it may have come down to spare the device's memory."""
    if value.flow.lowered is not None:
        value.flow.lowered.data["kept"] = True


def settled(flow: v.Flow) -> v.Flow:
    """The flow of what code that needs the host makes of a value: it did have to come down."""
    return flow.changed(lowered=None, steps=()) if flow.lowered is not None else flow


def together(operands: Iterable[v.Value]) -> v.Flow:
    """The flow of what is computed of several; in float64, which not every device has, it is computed on the host."""
    operands = list(operands)
    flow = v.merge_flows(operand.flow for operand in operands)
    in_double = flow.lowered is not None and any(isinstance(o, v.Tensor) and o.dtype == "float64" for o in operands)
    return settled(flow) if in_double else flow


def through_unknown(flow: v.Flow) -> v.Flow:
    """The flow of what code that nobody sees makes of a value: settled, and its graph may be cut."""
    flow = settled(flow)
    return flow.changed(unsure=flow.forwards) if flow.forwards else flow
