"""Numpy arrays: what indexing and reducing one gives, and who writes to its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import values as v

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter
    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Event

REDUCTIONS = frozenset({"mean", "sum", "prod", "std", "var", "max", "min", "ptp", "argmax", "argmin", "all", "any"})
_DTYPES = {"all": "bool", "any": "bool", "argmax": "int64", "argmin": "int64"}
_ANOTHER_DTYPE = frozenset({"mean", "std", "var", "sum", "prod", "average", "median", "count_nonzero"})


def item(array: v.Array, index: v.Value, site: v.Site) -> v.Value:
    """``array[index]``: a view for slices, a copy for lists and arrays of indices, else nobody knows."""
    parts = list(index.items) if isinstance(index, v.Sequence) and index.type in ("slice", "tuple") else [index]
    if isinstance(index, v.Sequence) and index.type == "slice" and not any(map(_is_slice, parts)):
        parts = [index]  # one slice, not a tuple with a slice in it
    if any(_picks(p) for p in parts):
        return v.Array(array.flow, array.dtype, fresh=True, site=site)
    if any(_is_slice(p) or (isinstance(p, v.Const) and p.value in (None, ...)) for p in parts):
        return v.Array(array.flow, array.dtype, owner=array, site=site)
    if index.kind == "string" or (isinstance(index, v.Const) and isinstance(index.value, str)):
        return v.Array(array.flow, fresh=False, site=site)  # of an .npz file, or a field of records
    return v.Unknown("item", array.flow, base=array)


def _picks(value: v.Value) -> bool:
    """Whether an index is a mask or a list or an array of places."""
    is_list = isinstance(value, v.Sequence) and value.type == "list"
    return is_list or isinstance(value, v.Array) or _is_comparison(value)


def _is_slice(value: v.Value) -> bool:
    return isinstance(value, v.Sequence) and value.type == "slice"


def _is_comparison(value: v.Value) -> bool:
    """A comparison or its negation as an index is a mask: an array of bools."""
    return isinstance(value, v.Unknown) and value.name in ("comparison", "not")


def reduced(name: str, array: v.Array, axis: v.Value | None, arguments: v.Arguments, site: v.Site,
            flow: v.Flow) -> v.Value:
    """A reduction: a scalar without an axis, an array along one (of a vector nobody names the only axis)."""
    keeps = arguments.get("keepdims")
    if axis is None or (isinstance(axis, v.Const) and axis.value is None):
        if keeps is None:
            return v.Number(flow)
    has_axis = isinstance(axis, v.Sequence) or (isinstance(axis, v.Const) and isinstance(axis.value, int))
    if has_axis or (isinstance(keeps, v.Const) and keeps.value is True):
        dtype = _DTYPES.get(name, None if name in _ANOTHER_DTYPE else array.dtype)
        return v.Array(flow, dtype, fresh=True, site=site)
    return v.Unknown(name, flow)


def is_cast(receiver: v.Unknown, dtype: v.Value | None) -> bool:
    """Whether ``receiver.astype(dtype)`` proves an array: not one of pandas' columns, not a scalar."""
    if is_reduction(receiver.name) or receiver.name.endswith(("iloc", "loc")):
        return False
    if isinstance(dtype, v.Symbol) and dtype.name.startswith("numpy."):
        return True
    is_column = "['" in receiver.name or '["' in receiver.name or receiver.name == "item"
    named = (isinstance(dtype, v.Const) and isinstance(dtype.value, str)) or isinstance(dtype, v.Symbol)
    return named and not is_column


def is_reduction(name: str) -> bool:
    """Whether the name of an unknown value says that a reduction made it: then it may be a scalar."""
    last = name.rpartition(".")[2].removesuffix("()")
    return last in REDUCTIONS or last in ("item", "median", "percentile", "average")


# --------------------------------------------------------------------- writing

WRITING_METHODS = frozenset({"fill", "sort", "partition", "put", "resize", "itemset", "setfield"})
_FIRST_IS_WRITTEN = frozenset({"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "shuffle", "at"})


def written(machine: Interpreter, array: v.Array, node: cst.CSTNode) -> None:
    """Note that an array's memory is written to where it lies."""
    array.held = True
    machine.emit("array_write", node, array)


def written_by(machine: Interpreter, name: str, arguments: v.Arguments, node: cst.CSTNode) -> None:
    """Note what a function of numpy writes to: what ``out=`` names, or its first argument."""
    out = arguments.get("out")
    if isinstance(out, v.Array):
        written(machine, out, node)
    first = arguments.get("", 0)
    if name.rpartition(".")[2] in _FIRST_IS_WRITTEN and isinstance(first, v.Array):
        written(machine, first, node)


def may_be_written_after(model: Model, event: Event, array: v.Array) -> bool:
    """Whether the array's memory is written to after an event: later on, in a loop's next turn, or by a method."""
    memory = array.memory
    if memory.attribute is not None and model.machine.project.is_written_in_place(*memory.attribute):
        return True
    order = model.order
    for write in model.events("array_write", everywhere=True):
        if isinstance(write.subject, v.Array) and write.subject.memory is memory:
            (run, place), (other, there) = order[event], order[write]
            if run == other and (there > place or _comes_again(event, write, memory)) and _may_meet(event, write):
                return True
    return False


def _may_meet(one: Event, other: Event) -> bool:
    """Whether one happens in the call that the other happens in, or further inside.

    Two calls of one function may have been given one and the same result, which stands for two.
    """
    return _is_within(one, other) or _is_within(other, one)


def _is_within(inner: Event, outer: Event) -> bool:
    call = next(iter(outer.context.calls()), None)
    return call is None or call in inner.context.calls()


def is_written(model: Model, tensor: v.Value | None) -> bool:
    """Whether a tensor's memory is written to where it lies."""
    return any(write.subject is tensor for write in model.events("item_assignment", "augmented", "in_place",
                                                                 everywhere=True))


def _comes_again(event: Event, write: Event, memory: v.Array) -> bool:
    """Whether both lie in a loop that goes on with the same array."""
    around = {id(context.data) for context in write.context.loops()}
    return any(id(context.data) in around and memory.born <= context.data.began for context in event.context.loops())
