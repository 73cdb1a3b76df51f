"""Read numpy's API from the installed wheel; kinds and flags come from the hand-kept table."""

from __future__ import annotations

import warnings

import numpy

from .signatures import Signature, from_docstring, from_object
from .tables import Builder, Table

PUBLIC = "numpy numpy.random numpy.linalg numpy.fft numpy.ma numpy.lib.stride_tricks numpy.typing".split()
# Where numpy's functions live, in its first and second major version; __module__ does not tell.
HOMES = """
numeric fromnumeric multiarray umath function_base shape_base numerictypes einsumfunc getlimits defchararray
npyio type_check twodim_base index_tricks arraysetops stride_tricks nanfunctions polynomial histograms
""".split()
PACKAGES = ("numpy.core", "numpy._core", "numpy.lib")


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
    if isinstance(value, numpy.ufunc) and value.signature is None:
        return f"ufunc unknown ({', '.join(['x1', 'x2'][: value.nin] if value.nin > 1 else ['x'])}, out=None)"
    if module == "numpy.ma":
        return "def unknown"
    anything = Signature(variadic="args", catches_keywords="kwargs")
    signature = from_object(value) or from_docstring(value.__doc__, name) or anything
    signature.returns = "unknown"
    return f"def {signature}"


def table() -> Table:
    """The public modules that scripts use."""
    warnings.simplefilter("ignore")
    result = Table("numpy", numpy.__version__)
    Builder(result, describe, {"numpy"}, lambda module, name: False, {}).walk(PUBLIC)
    for package in PACKAGES:
        result.aliases[package] = ["numpy"]
        result.aliases |= {f"{package}.{home}": ["numpy"] for home in HOMES}
    result.aliases |= {"numpy.random.mtrand": ["numpy.random"], "numpy.linalg.linalg": ["numpy.linalg"]}
    return result
