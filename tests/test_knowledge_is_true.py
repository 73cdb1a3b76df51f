"""Hold the tables against the real torch and numpy. Skipped where these are not installed."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from torchlint.semantics import knowledge, tables

ROOT = Path(__file__).parents[1]


def test_the_generated_tables_are_current() -> None:
    torch = pytest.importorskip("torch")
    numpy = pytest.importorskip("numpy")
    if torch.__version__.split("+")[0] != knowledge.version("torch") or numpy.__version__ != knowledge.version("numpy"):
        pytest.skip("another version of torch or numpy than the tables were made from")
    command = [sys.executable, "-m", "tests.tools.generate_api", "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def kind_of(value: Any) -> str:
    """The kind token of a real value."""
    import numpy
    import torch

    if isinstance(value, tuple | list):
        return "list" if isinstance(value, list) else "tuple"
    pairs: list[tuple[Any, str]] = [
        (torch.Tensor, "tensor"),
        (numpy.ndarray, "ndarray"),
        (numpy.generic, "numpy_scalar"),
        (bool, "bool"),
        ((int, float, complex), "number"),
        (str, "string"),
        (torch.device, "device"),
        (torch.dtype, "dtype"),
        (type(None), "none"),
    ]
    return next((kind for classes, kind in pairs if isinstance(value, classes)), "unknown")


NEEDS_CARE = {"backward", "set_", "module_load", "reinforce", "grad"}  # change their tensor, or hold what was not made


@pytest.mark.parametrize("form", ["", "1", "tensor", "0, 1", "3, 3", "dtype"])
def test_what_is_said_of_tensor_methods_holds(form: str) -> None:
    torch = pytest.importorskip("torch")
    given = {"": [], "1": [1], "tensor": [torch.ones(3, 3)], "0, 1": [0, 1], "3, 3": [3, 3], "dtype": [torch.float64]}
    arguments = given[form]
    checked = 0
    for name in tables.methods()["tensor"]:
        known = knowledge.method("tensor", name)
        assert known is not None
        if name in NEEDS_CARE or name.endswith("_") or name.startswith("register_") or (known.is_attribute and form):
            continue
        tensor = torch.full((3, 3), 0.3, requires_grad=True) * 1.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = getattr(tensor, name) if known.is_attribute else getattr(tensor, name)(*arguments)
            except Exception:  # this form of call does not exist
                continue
        checked += 1
        said = known.returned([kind_of(argument) for argument in arguments], []).partition("[")[0]
        assert said in ("unknown", kind_of(result)), (name, said)
        if isinstance(result, torch.Tensor) and result.layout is torch.strided and result.device.type == "cpu":
            assert result.requires_grad is not ("no_grad_result" in known.flags), name
            shares = result.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
            assert not (shares and "fresh" in known.flags), name
            assert not shares or {"view", "maybe_view"} & known.flags, name
            assert shares or "view" not in known.flags, name
    assert checked > 2


# a reinterpreted buffer, and windows that are empty for these arguments
NUMPY_EXCEPTIONS = {"numpy.frombuffer", "numpy.diag", "numpy.flip", "numpy.lib.stride_tricks.sliding_window_view"}
NUMPY_FILES = {"load", "save", "savez", "savez_compressed", "savetxt", "fromfile", "loadtxt", "genfromtxt", "memmap"}
NUMPY_SETTINGS = {"test", "info", "show_config", "show_runtime", "seterr", "seterrcall", "setbufsize", "fromregex"}


@pytest.mark.parametrize("module", ["numpy", "numpy.random", "numpy.linalg", "numpy.fft", "numpy.lib.stride_tricks"])
def test_what_is_said_of_numpy_holds(module: str) -> None:
    numpy = pytest.importorskip("numpy")
    pytest.importorskip("torch")  # kind_of needs both
    __import__(module)
    checked = 0
    for name in dir(sys.modules[module]):
        known = knowledge.api(f"{module}.{name}")
        if known is None or known.category != "function" or name in NUMPY_FILES | NUMPY_SETTINGS:
            continue
        for make in (lambda a: [a], lambda a: [a, 1], lambda a: [a, a.copy()], lambda a: [(2, 3)], lambda a: [1, 3]):
            array = numpy.arange(9.0).reshape(3, 3) + 1
            arguments = make(array)
            with warnings.catch_warnings(), numpy.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    result = getattr(sys.modules[module], name)(*arguments)
                except Exception:  # this form of call does not exist
                    continue
            checked += 1
            said = known.returned([kind_of(argument) for argument in arguments], []).partition("[")[0]
            if known.name not in NUMPY_EXCEPTIONS:
                assert said in ("unknown", "numpy_generator", kind_of(result)), (name, said)
                if isinstance(result, numpy.ndarray):
                    _holds(known, result, array, arguments[0] is array)
    assert checked > 1


def _holds(known: knowledge.Api, result: Any, array: Any, was_given: bool) -> None:
    """The flags of a function whose result is an array."""
    import numpy

    shares = numpy.shares_memory(result, array)
    assert not (shares and "fresh" in known.flags), known.name
    assert not shares or {"view", "maybe_view", "shares_input"} & known.flags, known.name
    assert shares or not was_given or "view" not in known.flags, known.name
    assert result.flags.writeable or "readonly" in known.flags, known.name
    assert known.dtype in (None, str(result.dtype)), known.name
