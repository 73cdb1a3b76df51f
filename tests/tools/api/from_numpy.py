"""Read numpy's API from the installed wheel; kinds and flags come from the hand-kept table."""

from __future__ import annotations

import warnings

import numpy

from .signatures import Signature, from_docstring, from_object
from .tables import Builder, Table

PUBLIC = "numpy numpy.random numpy.linalg numpy.fft numpy.ma numpy.lib.stride_tricks numpy.testing numpy.typing".split()


def describe(module: str, name: str, value: object) -> str:
    """One entry of a module: category, what calling it returns, its parameters."""
    if isinstance(value, type):
        signature = from_object(value) or Signature(variadic="args", catches_keywords="kwargs")
        signature.returns = "unknown"
        if issubclass(value, numpy.generic):
            signature.returns = "numpy_scalar"
        elif issubclass(value, numpy.ndarray):
            signature.returns = "ndarray"
        elif issubclass(value, numpy.dtype):
            signature.returns = "dtype"
        return f"class {signature}"
    if not callable(value):
        return "constant number" if isinstance(value, (int, float)) else "constant unknown"
    if isinstance(value, numpy.ufunc):
        inputs = {f"x{i + 1}" if value.nin > 1 else "x": None for i in range(value.nin)}
        return f"def {Signature(inputs, {'out': 'None', 'where': 'True', 'dtype': 'None'}, catches_keywords='kwargs')}"
    signature = from_object(value) or from_docstring(value.__doc__, name)
    signature = signature or Signature(variadic="args", catches_keywords="kwargs")
    signature.returns = "unknown"
    return f"def {signature}"


def table() -> Table:
    """The public modules that scripts use."""
    warnings.simplefilter("ignore")
    result = Table("numpy", numpy.__version__)
    Builder(result, describe, {"numpy"}, lambda module, name: False).walk(PUBLIC)
    return result
