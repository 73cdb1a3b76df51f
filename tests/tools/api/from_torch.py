"""Read torch's API from the installed wheel: live modules for names, stubs for signatures and results."""

from __future__ import annotations

import pkgutil
import types
import warnings
from dataclasses import replace
from pathlib import Path
from typing import get_overloads

import torch

from .corrections import corrections
from .signatures import Signature, from_docstring, from_object, merge, read_attributes, read_stub, structs_of
from .tables import Builder, Table, public

# The first module that holds an object gives it its canonical name.
PUBLIC = """
torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.nn.utils.rnn torch.nn.utils.parametrize
torch.nn.utils.parametrizations torch.nn.utils.prune torch.nn.utils.fusion torch.nn.utils.stateless torch.nn.parallel
torch.nn.attention torch.optim torch.optim.lr_scheduler torch.optim.swa_utils torch.utils.data torch.utils.checkpoint
torch.utils.model_zoo torch.amp torch.cuda torch.cuda.amp torch.cuda.nvtx torch.cpu.amp torch.autograd
torch.autograd.functional torch.autograd.profiler torch.autograd.graph torch.autograd.forward_ad torch.distributed
torch.distributed.fsdp torch.linalg torch.fft torch.special torch.jit torch.hub torch.random torch.distributions
torch.multiprocessing torch.mps
torch.xpu torch.sparse torch.nested torch.func torch.compiler torch.profiler torch.backends torch.backends.cudnn
torch.backends.cuda torch.backends.mps torch.backends.mkldnn torch.onnx
torch.serialization torch.overrides torch.testing torch.version
""".split()
STARRED = set("""
torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.optim torch.optim.lr_scheduler torch.utils.data
torch.autograd torch.distributed
""".split())

# Modules of which only the names and results are kept, since no rule needs their parameters.
BRIEF = set("""
torch.distributed torch.xpu torch.special torch.jit torch.onnx torch.serialization torch.compiler torch.multiprocessing
torch.distributions torch.autograd.profiler torch.autograd.graph torch.backends.cuda torch.overrides torch.testing
torch.mps torch.nested torch.cuda.nvtx torch.utils.model_zoo torch.fft torch.sparse torch.nn.utils.prune torch.profiler
""".split())
ANYTHING = Signature(variadic="args", catches_keywords="kwargs")
INTERNAL = ("cudnn_", "miopen_", "mkldnn_", "fbgemm_", "quantized_", "sym_", "q_", "vitals", "fake_quantize")
SKIPPED = tuple("_ test contrib csrc headeronly include lib bin share ao fx export package".split())
ROOT = Path(torch.__file__).parent
STRUCTS = structs_of(ROOT / "return_types.pyi")
FUNCTIONS = read_stub(ROOT / "_C" / "_VariableFunctions.pyi", STRUCTS)
FUNCTIONAL = read_stub(ROOT / "nn" / "functional.pyi", STRUCTS)
METHODS = read_stub(ROOT / "_C" / "__init__.pyi", STRUCTS, inside="TensorBase")
ATTRIBUTES = read_attributes(ROOT / "_C" / "__init__.pyi", STRUCTS, "TensorBase")
CORRECTIONS = corrections()


def instance_kinds() -> list[tuple[type, str]]:
    """Which kind a class's instances have; the first match counts."""
    data = torch.utils.data
    scheduler = torch.optim.lr_scheduler
    modes = (torch.no_grad, torch.enable_grad, torch.inference_mode, torch.set_grad_enabled)
    return [
        (torch.nn.Parameter, "parameter"),
        (torch.Tensor, "tensor"),
        (torch.nn.Module, "module"),
        (torch.optim.Optimizer, "optimizer"),
        (scheduler.LRScheduler, "scheduler"),
        (data.DataLoader, "loader"),
        (data.Dataset, "dataset"),
        (data.Sampler, "sampler"),
        (torch.amp.GradScaler, "scaler"),
        *((mode, "grad_context") for mode in modes),
        (torch.autocast, "autocast"),
        (torch.device, "device"),
        (torch.dtype, "dtype"),
        (torch.Generator, "generator"),
        (torch.Size, "tuple"),
    ]


def describe(module: str, name: str, value: object) -> str:
    """One entry of a module: category, what calling it returns, its parameters."""
    if isinstance(value, type):
        signature = _of_class(value)
        return f"class {signature.returns if module in BRIEF else signature}"
    if isinstance(value, torch.dtype):
        return "constant dtype" if str(value) == f"{module}.{name}" else f"= {value}"
    if not callable(value):
        plain = {bool: "bool", int: "number", float: "number", str: "string"}
        return f"constant {plain.get(type(value), 'unknown')}"
    signature = _of_function(module, name, value)
    signature.returns = CORRECTIONS.get(f"{module}.{name}", signature.returns)
    brief = module in BRIEF or name.startswith(INTERNAL) or name.endswith("_copy")
    return f"def {signature.returns if brief else signature}"


def _of_class(value: type) -> Signature:
    written: object = vars(value).get("__init__", getattr(value, "__init__", None))
    overloads = get_overloads(written) if isinstance(written, types.FunctionType) else ()
    written = overloads[0] if overloads else written
    signature = from_object(written, drop_self=True) if isinstance(written, types.FunctionType) else None
    signature = signature or replace(ANYTHING)
    signature.returns = next((kind for base, kind in instance_kinds() if issubclass(value, base)), "unknown")
    if signature.returns == "unknown" and type(value).__name__ == "tensortype":
        signature.returns = "tensor"
    return signature


def _of_function(module: str, name: str, value: object) -> Signature:
    written = FUNCTIONAL.get(name) if module == "torch.nn.functional" else None
    if written is None and not isinstance(value, types.FunctionType):
        written = FUNCTIONS.get(name) if module in ("torch", "torch.nn.functional") else None
    if written:
        return merge(written)
    doc = value.__doc__ if isinstance(value.__doc__, str) else ""
    stubbed = FUNCTIONS.get(name, []) if module == "torch" else []
    documented = from_docstring(doc, name)
    signature = from_object(value) or documented
    signature = signature or replace(ANYTHING)
    if signature.returns == "unknown" and documented:
        signature.returns = documented.returns
    if signature.returns == "unknown" and stubbed:
        signature.returns = merge(stubbed).returns
    return signature


def _keep(module: str, name: str) -> bool:
    """torch.nn.functional keeps its own names even where the object is torch's builtin."""
    builtin = isinstance(getattr(torch.nn.functional, name, None), types.BuiltinFunctionType)
    return module == "torch.nn.functional" and builtin and not name[0].isupper()


def submodules() -> list[str]:
    """Public module paths that can be imported, without importing them."""
    found = []
    paths = [("torch", [str(ROOT)])]
    while paths:
        package, path = paths.pop()
        for info in pkgutil.iter_modules(path):
            if info.name.startswith(SKIPPED):
                continue
            found.append(f"{package}.{info.name}")
            if info.ispkg:
                paths.append((f"{package}.{info.name}", [f"{path[0]}/{info.name}"]))
    return sorted(found)


def tensor_methods() -> dict[str, str]:
    """Every public method and attribute of torch.Tensor: signature and result."""
    found = {name: f"attribute {kind}" for name, kind in ATTRIBUTES.items() if hasattr(torch.Tensor, name)}
    found |= {name: str(merge(overloads)) for name, overloads in METHODS.items() if not name.startswith("_")}
    for name in public(torch.Tensor):
        value = getattr(torch.Tensor, name)
        if isinstance(value, types.FunctionType):
            signature = from_object(value, drop_self=True)
            if signature and (name not in found or signature.returns != "unknown"):
                found[name] = str(signature)
        elif name not in found and callable(value):
            found[name] = str(from_docstring(value.__doc__, name) or ANYTHING)
    for name, text in found.items():
        kind = CORRECTIONS.get(f"torch.Tensor.{name}")
        if kind:
            found[name] = text.replace("unknown", kind, 1)
    return dict(sorted(found.items()))


def table() -> Table:
    """The whole of torch."""
    warnings.simplefilter("ignore")
    result = Table("torch", torch.__version__.split("+")[0])
    Builder(result, describe, STARRED, _keep, {"torch.amp.GradScaler": torch.amp.GradScaler}).walk(PUBLIC)
    for path in submodules():
        parent, _, name = path.rpartition(".")
        if parent in result.modules and name not in result.modules[parent]:
            result.modules[parent][name] = "module"
            result.unstarred.setdefault(parent, []).append(name)
    return result
