"""What indexing and reducing a numpy array gives: an array again, for sure, or perhaps a scalar."""

from __future__ import annotations

from torchlint.semantics import values as v

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
