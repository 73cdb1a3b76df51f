"""A `DataLoader` that feeds a GPU without pinned memory copies every batch twice.

What it does:
Reports constructions of `torch.utils.data.DataLoader` (and of subclasses that add no constructor) whose `pin_memory` is
absent or False although the code moves its batches to a CUDA device.

Why is this bad:
The GPU can only read page-locked ("pinned") memory by itself. From ordinary memory the driver first copies the batch to
a pinned buffer, and `non_blocking=True` has no effect. With `pin_memory=True` a thread of the loader puts the batches
into pinned memory in advance, so that the copy to the GPU is faster and can overlap with computation. PyTorch's tuning
guide recommends it for every loader that feeds a GPU.

Limits:
Loaders whose `**kwargs` may hold `pin_memory`, scripts without a CUDA device (the loader warns there), datasets that
give CUDA tensors (pinning them raises an error), and batches that a framework moves (accelerate, Lightning) are silent.

Fix safety:
Unsafe: page-locked memory cannot be swapped out, and a batch of a class of its own (from a `collate_fn` or an unusual
dataset) needs a `pin_memory` method, else it stays unpinned. The value is `torch.cuda.is_available()`, never plain
`True`: on machines without a GPU the loader would warn.

Evidence:
No measurement yet.

References:
- [`torch.utils.data`: memory pinning](https://docs.pytorch.org/docs/stable/data.html#memory-pinning)
- [Performance tuning guide: enable asynchronous data loading](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
- [A guide on good usage of `non_blocking` and `pin_memory`](https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.findings import Applicability, Finding, Fix
from torchlint.rules.rule import Rule, Training
from torchlint.semantics.callers import models_of_callers
from torchlint.semantics.library import device_of
from torchlint.semantics.loading import constant_of, made_loaders, nature, setting
from torchlint.semantics.values import External, Instance
from torchlint.syntax.editing import reference, set_keyword

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Event

rule = Rule("TL109", since="0.1", names=("DataLoader", "cuda", "to", "type"), triggers=(b"DataLoader",),
            training=Training(gpus=1, on_gpu_only="only a copy to a GPU needs pinned memory"))

rule.bad(
    """
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    loader = DataLoader(ImageFolder("photos"), batch_size=64, num_workers=8)
    #        ^^^^^^^^^^
    for images, labels in loader:
        images, labels = images.cuda(), labels.cuda()
    """,
    fixed="""
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    loader = DataLoader(ImageFolder("photos"), batch_size=64, num_workers=8,
                        pin_memory=torch.cuda.is_available())
    for images, labels in loader:
        images, labels = images.cuda(), labels.cuda()
    """,
    applicability=Applicability.UNSAFE,
)
rule.bad(
    """
    import itertools
    import torch
    from torch.utils.data import DataLoader

    def infer(model, dataset, more, steps):
        model.cuda()
        loader = DataLoader(dataset, 32)
        #        ^^^^^^^^^^
        for step, x in enumerate(itertools.chain.from_iterable(itertools.repeat(loader))):
            print(model(x.cuda(non_blocking=True)).shape)
            if step == steps:
                break
        first = DataLoader(dataset, 32)
        #       ^^^^^^^^^^
        second = DataLoader(more, 32)
        #        ^^^^^^^^^^
        for x in itertools.chain(first, second):
            print(model(x.cuda(non_blocking=True)).shape)
    """,
    fixed="""
    import itertools
    import torch
    from torch.utils.data import DataLoader

    def infer(model, dataset, more, steps):
        model.cuda()
        loader = DataLoader(dataset, 32, pin_memory=torch.cuda.is_available())
        for step, x in enumerate(itertools.chain.from_iterable(itertools.repeat(loader))):
            print(model(x.cuda(non_blocking=True)).shape)
            if step == steps:
                break
        first = DataLoader(dataset, 32, pin_memory=torch.cuda.is_available())
        second = DataLoader(more, 32, pin_memory=torch.cuda.is_available())
        for x in itertools.chain(first, second):
            print(model(x.cuda(non_blocking=True)).shape)
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    from torch.utils import data
    import torch as th
    from tqdm import tqdm

    def loaders(dataset):
        return {"train": data.DataLoader(dataset, 32, True, pin_memory=False)}
        #                ^^^^^^^^^^^^^^^

    def train(model, dataset):
        device = th.device("cuda" if th.cuda.is_available() else "cpu")
        for step, batch in enumerate(tqdm(loaders(dataset)["train"])):
            model(batch["image"].to(device, non_blocking=True))
    """,
    fixed="""
    from torch.utils import data
    import torch as th
    from tqdm import tqdm

    def loaders(dataset):
        return {"train": data.DataLoader(dataset, 32, True, pin_memory=th.cuda.is_available())}

    def train(model, dataset):
        device = th.device("cuda" if th.cuda.is_available() else "cpu")
        for step, batch in enumerate(tqdm(loaders(dataset)["train"])):
            model(batch["image"].to(device, non_blocking=True))
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    from torch.utils.data import DataLoader

    def build(dataset):
        return DataLoader(
            #  ^^^^^^^^^^
            dataset,
            batch_size=32,
        )
    """,
    fixed="""
    import torch
    from torch.utils.data import DataLoader

    def build(dataset):
        return DataLoader(
            dataset,
            batch_size=32,
            pin_memory=torch.cuda.is_available(),
        )
    """,
    applicability=Applicability.UNSAFE,
    files={
        "train.py": """
        from example import build
        from torchvision.datasets import ImageFolder

        for images, _ in build(ImageFolder("photos")):
            images = images.cuda()
        """
    },
    show=False,
)
rule.ok(
    """
    from torch.utils.data import DataLoader

    def train(model, dataset):
        for images, labels in DataLoader(dataset, batch_size=64):
            model(images).sum().backward()
    """,
    why="nothing moves to a GPU",
)
rule.ok(
    """
    import torch
    from torch.utils.data import DataLoader

    def train(model, dataset, **options):
        device = torch.device("cpu")
        for images, labels in DataLoader(dataset, batch_size=64):
            model(images.to(device))
        for images, labels in DataLoader(dataset, batch_size=64, **options):
            model(images.cuda())
    """,
    why="the first stays on the CPU, the second may get `pin_memory` through `**options`",
)
rule.ok(
    """
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Points(Dataset):
        def __init__(self):
            self.points = torch.randn(1000, 3).cuda()

        def __getitem__(self, index):
            return self.points[index]

    for points in DataLoader(Points(), batch_size=64):
        points = points.cuda()
    """,
    why="only CPU tensors can be pinned",
)
rule.ok(
    """
    from torch.utils.data import DataLoader

    def train(model, dataset):
        for images in DataLoader(dataset, batch_size=64):
            model(images.to("mps"))
    """,
    why="the Mac's GPU shares the memory",
    show=False,
)

_POSITION = 7  # of pin_memory among DataLoader's parameters
_CUDA = ("cuda", "cuda?")


@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    if model.is_test:
        return
    here = _moved(model)
    for site, events in model.by_site("construct"):
        loaders = list(made_loaders(events))
        if not loaders or not isinstance(site.node, cst.Call) or not all(map(_is_unpinned, loaders)):
            continue
        if (id(site.node) in here or _is_moved_by_callers(model, loaders[0])) and all(_pins(e, model) for e in loaders):
            yield rule.at(
                model.site(site.node.func),
                "Batches that go to the GPU are copied through pageable memory, which is slower and blocks.",
                help="pass `pin_memory=torch.cuda.is_available()` and move batches with `non_blocking=True`.",
                fix=_fix(model, site.node),
            )


def _moved(model: Model) -> set[int]:
    """Where the loaders are made whose batches go to a CUDA device."""
    return {id(e.subject.flow.batch.site.node) for e in model.events("to_device", everywhere=True)
            if e.subject is not None and isinstance(e.subject.flow.batch, External | Instance)
            and e.subject.flow.batch.site is not None and e.result is not None and device_of(e.result) in _CUDA}


def _is_moved_by_callers(model: Model, loader: Event) -> bool:
    """Whether code in another file, which calls the function that makes the loader, moves its batches."""
    return any(id(loader.site.node) in _moved(other) for other in models_of_callers(model, loader) or ())


def _is_unpinned(event: Event) -> bool:
    value = setting(event, "pin_memory")
    constant, is_default = (None, False) if value is None else constant_of(value)
    return value is None or (constant is not None and constant.value is False and not is_default)


def _pins(event: Event, model: Model) -> bool:
    """Whether the loader's items can be pinned: CUDA tensors cannot."""
    assert event.arguments is not None
    return nature(model.machine, event.arguments.get("dataset", 0)) != "device"


def _fix(model: Model, call: cst.Call) -> Fix | None:
    named = reference(model.tree, "torch.cuda.is_available", call)
    if named is None:
        return None
    text, imports = named
    edits = set_keyword(model.tree, call, "pin_memory", f"{text}()", position=_POSITION)
    if edits is None:
        return None
    return Fix(f"Pass `pin_memory={text}()`", Applicability.UNSAFE, (*imports, *edits))
