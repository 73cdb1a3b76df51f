"""The API tables: well-formed, and the look-ups that the interpreter relies on. Needs no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from torchlint.semantics import knowledge, tables

DATA = Path(tables.__file__).parent / "data"
PACKAGES = sorted({"torch", "numpy", "torchvision"} | {path.stem for path in (DATA / "libraries").glob("*.json")})
LIBRARY_FILES = sorted(path.name for path in (DATA / "libraries").glob("*.json"))


def api(name: str) -> knowledge.Api:
    known = knowledge.api(name)
    assert known is not None, name
    return known


def layer(name: str) -> knowledge.Layer:
    known = knowledge.layer(name)
    assert known is not None, name
    return known


def method(owner: str, name: str) -> knowledge.Method:
    known = knowledge.method(owner, name)
    assert known is not None, name
    return known


def framework(name: str) -> knowledge.Framework:
    known = knowledge.framework(name)
    assert known is not None, name
    return known


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("torch.utils.data.dataloader.DataLoader", "torch.utils.data.DataLoader"),
        ("torch.utils.data.distributed.DistributedSampler", "torch.utils.data.DistributedSampler"),
        ("torch.nn.modules.conv.Conv2d", "torch.nn.Conv2d"),
        ("torch.nn.modules.conv.Conv2d.forward", "torch.nn.Conv2d.forward"),
        ("torch.nn.parameter.Parameter", "torch.nn.Parameter"),
        ("torch.optim.adam.Adam", "torch.optim.Adam"),
        ("torch.autograd.grad_mode.no_grad", "torch.no_grad"),
        ("torch.autograd.no_grad", "torch.no_grad"),
        ("torch.nn.parallel.data_parallel.DataParallel", "torch.nn.DataParallel"),
        ("torch.nn.parallel.DataParallel", "torch.nn.DataParallel"),
        ("torch.nn.parallel.distributed.DistributedDataParallel", "torch.nn.parallel.DistributedDataParallel"),
        ("torch.optim.lr_scheduler._LRScheduler", "torch.optim.lr_scheduler.LRScheduler"),
        ("torch.amp.autocast", "torch.autocast"),
        ("torch.amp.grad_scaler.GradScaler", "torch.amp.GradScaler"),
        ("torch.cuda.amp.autocast", "torch.cuda.amp.autocast"),
        ("torch.cuda.amp.grad_scaler.GradScaler", "torch.cuda.amp.GradScaler"),
        ("torch.nn.functional.conv2d", "torch.nn.functional.conv2d"),
        ("torch.nn.functional.relu", "torch.nn.functional.relu"),
        ("torch.nn.functional.Tensor", "torch.Tensor"),
        ("torch.nn.functional.torch.nn.Conv2d", "torch.nn.Conv2d"),
        ("torch.float", "torch.float32"),
        ("torch.nn.utils.clip_grad.clip_grad_norm_", "torch.nn.utils.clip_grad_norm_"),
        ("numpy.core.numeric.array", "numpy.array"),
        ("numpy.double", "numpy.float64"),
        ("torchvision.models.resnet.resnet18", "torchvision.models.resnet18"),
        ("timm.models.factory.create_model", "timm.create_model"),
        ("timm.scheduler.cosine_lr.CosineLRScheduler", "timm.scheduler.CosineLRScheduler"),
        ("pytorch_lightning.core.lightning.LightningModule", "pytorch_lightning.LightningModule"),
        ("torch.nothing.of.this", "torch.nothing.of.this"),
        ("os.path.join", "os.path.join"),
        ("model", "model"),
        ("", ""),
    ],
)
def test_canonical(alias: str, name: str) -> None:
    assert knowledge.canonical(alias) == name
    assert knowledge.canonical(name) == name


def test_names_that_are_absurdly_long_are_left_alone() -> None:
    name = "torch" + ".nn" * 5000
    assert knowledge.canonical(name) == name
    assert knowledge.api(name) is None


@pytest.mark.parametrize(
    ("name", "category", "returns"),
    [
        ("torch.nn.Conv2d", "class", "module"),
        ("torch.nn.modules.conv._ConvNd", "class", "module"),
        ("torch.nn.modules.loss._Loss", "class", "module"),
        ("torch.nn.Parameter", "class", "parameter"),
        ("torch.optim.SGD", "class", "optimizer"),
        ("torch.optim.lr_scheduler.ReduceLROnPlateau", "class", "scheduler"),
        ("torch.utils.data.DataLoader", "class", "loader"),
        ("torch.utils.data.TensorDataset", "class", "dataset"),
        ("torch.utils.data.WeightedRandomSampler", "class", "sampler"),
        ("torch.cuda.amp.GradScaler", "class", "scaler"),
        ("torch.no_grad", "class", "grad_context"),
        ("torch.autocast", "class", "autocast"),
        ("torch.device", "class", "device"),
        ("torch.float16", "constant", "dtype"),
        ("torch.nn", "module", "unknown"),
        ("torch.from_numpy", "function", "tensor"),
        ("torch.autograd.Variable", "function", "tensor"),
        ("torch.linalg.svd", "function", "tuple[tensor,tensor,tensor]"),
        ("torch.nn.functional.cross_entropy", "function", "tensor"),
        ("torch.cuda.is_available", "function", "bool"),
        ("torch.hub.load", "function", "module"),
        ("torch.nn.SyncBatchNorm.convert_sync_batchnorm", "function", "module"),
        ("numpy.stack", "function", "ndarray"),
        ("numpy.float32", "class", "numpy_scalar"),
        ("numpy.mean", "function", "unknown"),
        ("numpy.in1d", "function", "ndarray"),
        ("torchvision.models.resnet50", "function", "module"),
        ("torchvision.datasets.ImageFolder", "class", "dataset"),
        ("torchvision.transforms.Resize", "class", "transform"),
        ("timm.create_model", "function", "module"),
        ("timm.scheduler.StepLRScheduler", "class", "other_scheduler"),
        ("transformers.get_linear_schedule_with_warmup", "function", "scheduler"),
        ("transformers.AutoModel.from_pretrained", "function", "module"),
        ("cv2.imread", "function", "ndarray"),
        ("PIL.Image.open", "function", "image"),
        ("librosa.load", "function", "tuple[ndarray,number]"),
    ],
)
def test_api(name: str, category: str, returns: str) -> None:
    known = api(name)
    assert (known.category, known.returns) == (category, returns)
    assert knowledge.exists(name)


def test_parameters() -> None:
    conv, loader = api("torch.nn.Conv2d"), api("torch.utils.data.DataLoader")
    assert conv.params[:3] == ("in_channels", "out_channels", "kernel_size")
    assert conv.position("bias") == 7
    assert conv.defaults["bias"] is True
    assert "kernel_size" not in conv.defaults
    assert loader.position("num_workers") == 5
    assert loader.accepts("persistent_workers")
    assert "persistent_workers" in loader.keyword_only
    assert not loader.accepts("verbose")


@pytest.mark.parametrize(
    ("name", "positional", "keywords", "returns"),
    [
        ("torch.max", ["tensor"], [], "tensor"),
        ("torch.max", ["tensor", "number"], [], "tuple[tensor,tensor]"),
        ("torch.max", ["tensor", "tensor"], [], "tensor"),
        ("torch.max", ["tensor", "unknown"], [], "unknown"),
        ("torch.max", ["tensor"], ["dim"], "tuple[tensor,tensor]"),
        ("torch.topk", ["tensor", "number"], [], "tuple[tensor,tensor]"),
        ("torch.where", ["tensor"], [], "tuple"),
        ("torch.where", ["tensor", "tensor", "number"], [], "tensor"),
        ("torch.nonzero", ["tensor"], {"as_tuple": False}, "tensor"),
        ("torch.nonzero", ["tensor"], {"as_tuple": True}, "tuple"),
        ("numpy.random.rand", [], [], "number"),
        ("numpy.random.rand", ["number"], [], "ndarray"),
        ("numpy.random.normal", ["number", "number"], [], "unknown"),
        ("numpy.random.normal", [], ["size"], "ndarray"),
        ("numpy.random.normal", [], {"size": None}, "unknown"),
        ("numpy.where", ["ndarray"], [], "tuple"),
        ("numpy.where", ["ndarray", "ndarray", "ndarray"], [], "ndarray"),
        ("numpy.unique", ["ndarray"], ["return_counts"], "tuple"),
    ],
)
def test_results_depend_on_arguments(name: str, positional: list[str], keywords: Any, returns: str) -> None:
    known = api(name)
    assert known.returned(positional, keywords) == returns


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("torch.argmax", {"no_grad_result"}),
        ("torch.sigmoid", {"elementwise"}),
        ("torch.zeros", {"factory"}),
        ("torch.randn", {"factory", "random"}),
        ("torch.tensor", {"copies_input"}),
        ("torch.from_numpy", {"shares_input"}),
        ("torch.no_grad", {"disables_grad"}),
        ("torch.inference_mode", {"disables_grad"}),
        ("torch.autograd.grad", {"backward"}),
        ("numpy.stack", {"fresh"}),
        ("numpy.reshape", {"maybe_view"}),
        ("numpy.broadcast_to", {"view", "readonly"}),
        ("numpy.sqrt", {"like_input", "elementwise"}),
        ("numpy.random.randint", {"ndarray_if:size", "fresh", "random"}),
        ("cv2.resize", {"fresh"}),
        ("transformers.BertModel.from_pretrained", {"eval_mode"}),
        ("torch.utils.data.TensorDataset", {"in_memory"}),
        ("torchvision.datasets.ImageFolder", {"decodes"}),
        ("torch.nn.parallel.DistributedDataParallel", {"wraps_module"}),
    ],
)
def test_flags(name: str, flags: set[str]) -> None:
    known = api(name)
    assert known.flags >= flags


def test_dtypes_and_history() -> None:
    assert api("numpy.zeros").dtype == "float64"
    assert api("numpy.arange").dtype is None
    assert api("torch.Tensor").dtype == "float32"
    assert api("torch.cuda.amp.autocast_mode.autocast").replacement == "torch.amp.autocast"
    assert api("torch.cuda.amp.GradScaler").deprecated == "2.4"
    assert api("torch.amp.GradScaler").since == "2.3"
    assert api("torch.symeig").removed == "2.0"
    assert api("numpy.float_").removed == "2.0"


@pytest.mark.parametrize(
    ("name", "base", "is_one"),
    [
        ("torch.nn.Conv2d", "torch.nn.Module", True),
        ("torch.nn.modules.batchnorm.BatchNorm2d", "torch.nn.Module", True),
        ("torch.nn.BatchNorm2d", "torch.nn.modules.batchnorm._BatchNorm", True),
        ("torch.optim.AdamW", "torch.optim.Optimizer", True),
        ("torch.optim.lr_scheduler.StepLR", "torch.optim.lr_scheduler._LRScheduler", True),
        ("torch.nn.Parameter", "torch.Tensor", True),
        ("torch_geometric.loader.DataLoader", "torch.utils.data.DataLoader", True),
        ("transformers.BertModel", "torch.nn.Module", True),
        ("torch.optim.AdamW", "torch.nn.Module", False),
        ("timm.scheduler.StepLRScheduler", "torch.optim.lr_scheduler.LRScheduler", False),
        ("somewhere.Else", "somewhere.Else", True),
    ],
)
def test_is_subclass(name: str, base: str, is_one: bool) -> None:
    assert knowledge.is_subclass(name, base) is is_one


@pytest.mark.parametrize(
    ("owner", "name", "returns", "flags"),
    [
        ("tensor", "item", "number", {"sync", "to_host"}),
        ("tensor", "cpu", "tensor", {"sync", "to_host"}),
        ("tensor", "numpy", "ndarray", {"sync", "to_host"}),
        ("tensor", "cuda", "tensor", {"to_device"}),
        ("tensor", "view", "tensor", {"view"}),
        ("tensor", "detach", "tensor", {"view", "no_grad_result"}),
        ("tensor", "argmax", "tensor", {"no_grad_result"}),
        ("tensor", "add_", "tensor", {"in_place"}),
        ("tensor", "relu", "tensor", {"elementwise"}),
        ("tensor", "__bool__", "bool", {"sync"}),
        ("tensor", "__iadd__", "tensor", {"in_place"}),
        ("parameter", "add_", "tensor", {"in_place"}),
        ("torch.nn.Conv2d", "to", "module", {"returns_self", "to_device"}),
        ("torch.optim.SGD", "step", "unknown", {"in_place"}),
        ("numpy_generator", "integers", "unknown", {"ndarray_if:size"}),
        ("ndarray", "astype", "ndarray", {"fresh"}),
        ("ndarray", "reshape", "ndarray", {"view"}),
        ("image", "convert", "image", set()),
    ],
)
def test_methods(owner: str, name: str, returns: str, flags: set[str]) -> None:
    known = method(owner, name)
    assert known.returns == returns
    assert known.flags >= flags


def test_attributes_are_told_from_methods() -> None:
    assert method("tensor", "T").is_attribute
    assert not method("tensor", "t").is_attribute
    assert method("series", "values").is_attribute


def test_what_no_kind_has_is_unknown() -> None:
    assert knowledge.method("tensor", "no_such_method") is None
    assert knowledge.method("unknown", "step") is None
    assert knowledge.method("somewhere.Else", "step") is None


def test_star_names() -> None:
    assert {"Tensor", "zeros", "float32"} <= set(knowledge.star_names("torch"))
    assert "nn" not in knowledge.star_names("torch")
    assert {"Conv2d", "Module"} <= set(knowledge.star_names("torch.nn"))
    assert {"relu", "torch", "Tensor"} <= set(knowledge.star_names("torch.nn.functional"))
    assert {"array", "zeros"} <= set(knowledge.star_names("numpy"))
    assert "resnet18" in knowledge.star_names("torchvision.models")
    assert knowledge.star_names("somewhere") == ()


def test_layers() -> None:
    conv, norm, group = layer("torch.nn.Conv2d"), layer("torch.nn.BatchNorm2d"), layer("torch.nn.GroupNorm")
    assert (conv.role, conv.dims, conv.bias, conv.bias_position, conv.bias_default) == ("conv", 2, "bias", 7, True)
    assert (norm.role, norm.cancels_bias, norm.channels) == ("batch_norm", "always", "num_features")
    assert (group.cancels_bias, group.channels) == ("groups", "num_channels")
    assert layer("torch.nn.LazyConv2d").lazy
    assert layer("torch.nn.LazyConv2d").bias_position == 6
    assert layer("torch.nn.functional.cross_entropy").expects == "logits"
    assert layer("torch.nn.modules.linear.Identity").keeps_shift
    assert layer("apex.parallel.SyncBatchNorm").role == "batch_norm"
    assert knowledge.layer("torch.optim.SGD") is None


def test_every_layer_of_torch_has_a_role() -> None:
    for name in knowledge.star_names("torch.nn"):
        known = knowledge.api(f"torch.nn.{name}")
        if known and known.category == "class" and known.returns == "module":
            assert knowledge.layer(known.name) is not None, known.name


def test_frameworks() -> None:
    module = framework("lightning.LightningModule")
    assert {"validation_step", "test_step", "predict_step"} <= module.no_grad_hooks
    assert "training_step" not in module.no_grad_hooks
    assert "generate" in framework("transformers.T5ForConditionalGeneration").no_grad_calls
    assert "prepare" in framework("accelerate.Accelerator").returns_argument
    assert knowledge.framework("torch.nn.Module") is None


# the files


def all_names() -> Iterator[tuple[str, str]]:
    for root in PACKAGES:
        package = tables.package_of(root)
        assert package is not None
        for module, names in package.modules.items():
            yield from ((f"{module}.{name}", entry) for name, entry in names.items())


def test_every_entry_can_be_read() -> None:
    for name, entry in all_names():
        canonical = knowledge.canonical(name)
        assert knowledge.canonical(canonical) == canonical, name
        if not entry.startswith("= "):
            assert knowledge.api(name) is not None, name


def test_no_alias_goes_in_circles() -> None:
    for root in PACKAGES:
        package = tables.package_of(root)
        assert package is not None
        for home, targets in package.aliases.items():
            for target in targets:
                assert target in package.modules, (home, target)
                for name in package.modules[target]:
                    knowledge.canonical(f"{home}.{name}")


def test_every_method_can_be_read() -> None:
    for kind, names in tables.methods().items():
        for name in names:
            assert knowledge.method(kind, name) is not None, (kind, name)
        for name in tables.method_flags(kind).keys() - names.keys():  # torch.bucketize is no method, yet flagged
            assert kind == "tensor", (kind, name)
            assert knowledge.api(f"torch.{name}") is not None, name


def test_bases_are_known() -> None:
    for root in PACKAGES:
        package = tables.package_of(root)
        assert package is not None
        for name, parents in package.bases.items():
            assert name not in parents
            assert knowledge.is_subclass(name, parents[0])


def hand_kept() -> Iterator[tuple[str, dict[str, Any]]]:
    for group in tables.read("facts.json")["groups"]:
        yield from ((f"{group['in']}.{name}", group) for name in group["names"].split())
    layers = tables.read("layers.json")
    for entry in [*layers["layers"], *layers["functional"]]:
        yield from ((name, entry) for name in entry["names"].split())


def test_hand_kept_entries_name_their_source_and_known_names() -> None:
    for name, entry in hand_kept():
        assert entry["source"], name
        assert knowledge.canonical(name) == name
        assert knowledge.api(name) is not None, name
    for change in tables.read("history.json")["changes"]:
        assert change["source"], change
        assert knowledge.api(change["name"]) is not None, change["name"]
    for entry in tables.read("frameworks.json")["frameworks"]:
        assert entry["source"], entry
    for groups in tables.read("methods.json")["flags"].values():
        assert all(group["source"] for group in groups)


@pytest.mark.parametrize("name", LIBRARY_FILES)
def test_libraries_name_their_source(name: str) -> None:
    assert json.loads((DATA / "libraries" / name).read_text())["source"]


def test_asking_imports_neither_torch_nor_numpy() -> None:
    code = (
        "import sys; from torchlint.semantics import knowledge as k; "
        "k.api('torch.nn.Conv2d'); k.api('numpy.zeros'); k.method('tensor', 'to'); k.layer('torch.nn.Conv2d'); "
        "sys.exit(any(m in sys.modules for m in ('torch', 'numpy', 'libcst')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
