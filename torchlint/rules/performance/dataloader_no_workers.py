"""A `DataLoader` without workers loads every batch in the training process.

What it does:
Reports constructions of `torch.utils.data.DataLoader` (and of subclasses that add no constructor) whose `num_workers`
is absent or 0, also where the 0 is the default of a parameter or of a command-line option that nothing in the project
overrides. A loader whose `**kwargs` may hold the number is not reported.

Why is this bad:
Without workers the training process itself reads, decodes and transforms each sample while the GPU waits. With
workers, that happens in other processes while the GPU computes. PyTorch's tuning guide lists it first.

Which number:
The fix writes the option `num-workers`, 4 unless configured: the default of PyTorch's own ImageNet example, within the
CPUs of an ordinary machine. No number is right everywhere. The rules of thumb "4 per CPU" and "4 per GPU" are old:
workers that outnumber the CPUs take time from each other, and `DataLoader` warns when there are more of them than CPUs
this process may use (`len(os.sched_getaffinity(0))`, which containers and schedulers make smaller than
`os.cpu_count()`). Try a few values and keep the smallest that keeps the GPU busy.

Limits:
Workers make loading slower where an item is only an index into memory, since it must be sent between processes. So
these are left alone: `TensorDataset`, lists and tensors, datasets whose `__getitem__` only indexes; loaders of which
one batch is drawn; `IterableDataset`s that do not split their stream with `get_worker_info` (each worker would repeat
all of it); datasets that give CUDA tensors (not possible in a forked worker); a 0 that is written next to
`batch_size=None` (such a dataset makes whole batches, often ahead of time); unit tests.

Fix safety:
Unsafe. On Windows and macOS, and from Python 3.14 on Linux too, workers are not forked: they import the script again,
so it needs an `if __name__ == "__main__":` guard, and a dataset and a `collate_fn` that can be pickled. Workers also
take memory, draw other random numbers than the main process, and the right number depends on the machine. Where the 0
is a default or a literal, that is edited.

Evidence:
No measurement yet.

References:
- [`torch.utils.data`: single- and multi-process data loading](https://docs.pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading)
- [Performance tuning guide: enable asynchronous data loading](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.findings import Applicability, Finding, Fix
from torchlint.rules.rule import Option, Rule, Training
from torchlint.semantics.callers import events_of_callers
from torchlint.semantics.loading import constant_of, made_loaders, nature, setting
from torchlint.semantics.values import Const, Site, Value
from torchlint.syntax.editing import replace, set_keyword

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Event

rule = Rule(
    "TL108",
    since="0.1",
    names=("DataLoader", "next"),
    triggers=(b"DataLoader",),
    options=(Option("num-workers", 4, int, "The number of workers that the fix writes.", least=1),),
    training=Training(gains="run", moves_random_stream=True),
)

rule.bad(
    """
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms

    photos = datasets.ImageFolder("photos", transforms.ToTensor())
    loader = DataLoader(photos, batch_size=64, shuffle=True)
    #        ^^^^^^^^^^
    """,
    fixed="""
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms

    photos = datasets.ImageFolder("photos", transforms.ToTensor())
    loader = DataLoader(photos, batch_size=64, shuffle=True, num_workers=4)
    """,
    applicability=Applicability.UNSAFE,
)
rule.bad(
    """
    import argparse

    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    loader = DataLoader(ImageFolder("photos"), batch_size=64, num_workers=args.workers)
    #        ^^^^^^^^^^
    """,
    fixed="""
    import argparse

    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()
    loader = DataLoader(ImageFolder("photos"), batch_size=64, num_workers=args.workers)
    """,
    applicability=Applicability.UNSAFE,
)
rule.bad(
    """
    import torch.utils.data as data

    def loaders(training_set, validation_set, workers=0):
        training = data.DataLoader(
            #      ^^^^^^^^^^^^^^^
            training_set,
            batch_size=32,  # per GPU
            num_workers=workers,
        )
        validation = data.DataLoader(validation_set, 32, False, None, None, 0)
        #            ^^^^^^^^^^^^^^^
        return training, validation
    """,
    fixed="""
    import torch.utils.data as data

    def loaders(training_set, validation_set, workers=2):
        training = data.DataLoader(
            training_set,
            batch_size=32,  # per GPU
            num_workers=workers,
        )
        validation = data.DataLoader(validation_set, 32, False, None, None, 2)
        return training, validation
    """,
    applicability=Applicability.UNSAFE,
    options={"num-workers": 2},
    show=False,
)
rule.bad(
    """
    import torch

    class Loader(torch.utils.data.DataLoader):
        pass

    def build(dataset):
        return Loader(
            #  ^^^^^^
            dataset,
            shuffle=True,  # every epoch
        )
    """,
    fixed="""
    import torch

    class Loader(torch.utils.data.DataLoader):
        pass

    def build(dataset):
        return Loader(
            dataset,
            shuffle=True,  # every epoch
            num_workers=4,
        )
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    import torch

    def build(dataset):
        options = dict(batch_size=8)
        return torch.utils.data.DataLoader(dataset, **options)
        #      ^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    show=False,
)
rule.ok(
    """
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    use_cuda = torch.cuda.is_available()
    options = {"num_workers": 1, "pin_memory": True} if use_cuda else {}
    loader = DataLoader(ImageFolder("photos"), batch_size=64, **options)
    """,
    why="`**options` may hold the number",
)
rule.ok(
    """
    from torch.utils.data import DataLoader

    def train(rank, size, data, model):
        nodes = data.train_mask.nonzero(as_tuple=False).view(-1)
        nodes = nodes.split(size)[rank]
        for batch in DataLoader(nodes, batch_size=1024, shuffle=True):
            model(data, batch).backward()
    """,
    why="the items are numbers of a tensor in memory",
    show=False,
)
rule.ok(
    """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    points = TensorDataset(torch.randn(1000, 3), torch.randn(1000))
    loader = DataLoader(points, batch_size=64)
    pairs = DataLoader([(i, i * i) for i in range(1000)], batch_size=64)
    """,
    why="the items are in memory: sending them between processes takes longer than reading them",
)
rule.ok(
    """
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Table(Dataset):
        def __init__(self, path):
            self.rows = np.load(path)

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, index):
            return torch.from_numpy(self.rows[index])

    loader = DataLoader(Table("table.npy"), batch_size=64)
    """,
    why="an item is only an index into an array",
)
rule.ok(
    """
    from torch.utils.data import DataLoader, IterableDataset

    class Lines(IterableDataset):
        def __iter__(self):
            with open("lines.txt") as lines:
                yield from lines

    loader = DataLoader(Lines(), batch_size=64)
    """,
    why="every worker would read the whole stream, and each line would come several times",
)
rule.ok(
    """
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset
    from torchvision.transforms.functional import to_tensor

    class Photos(Dataset):
        def __init__(self, paths):
            self.paths = paths

        def __getitem__(self, index):
            return to_tensor(Image.open(self.paths[index])).cuda()

    loader = DataLoader(Photos(["a.png"]), batch_size=64)
    """,
    why="a forked worker cannot use CUDA",
)
rule.ok(
    """
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    images, labels = next(iter(DataLoader(ImageFolder("photos"), batch_size=64)))
    """,
    why="one batch is drawn; starting workers would take longer",
)
rule.ok(
    """
    from torch.utils.data import DataLoader

    def build(dataset, workers=0):
        return DataLoader(dataset, batch_size=64, num_workers=workers)
    """,
    files={
        "train.py": """
        from torchvision.datasets import ImageFolder

        from example import build

        loader = build(ImageFolder("photos"), workers=8)
        """
    },
    why="the caller in another file passes a number",
    show=False,
)
rule.bad(
    """
    import torch
    from torchvision.datasets import ImageFolder

    from options import parse

    args = parse()
    loader = torch.utils.data.DataLoader(ImageFolder("photos"), batch_size=64, num_workers=args.workers)
    #        ^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import torch
    from torchvision.datasets import ImageFolder

    from options import parse

    args = parse()
    loader = torch.utils.data.DataLoader(ImageFolder("photos"), batch_size=64, num_workers=args.workers)
    """,
    applicability=Applicability.UNSAFE,
    files={
        "options.py": """
        import argparse

        def parse():
            parser = argparse.ArgumentParser("entraîner")
            parser.add_argument("--workers", default=0, type=int)
            return parser.parse_args()
        """
    },
    show=False,
)

_POSITION = 5  # of num_workers among DataLoader's parameters


rule.ok(
    """
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

    class Numbers(Dataset):
        def __init__(self):
            self.data = torch.randn(64, 32)

        def __len__(self):
            return len(self.data)

        def __getitem__(self, index):
            return self.data[index]

    class Stream(IterableDataset):
        def __iter__(self):
            yield from torch.randn(64, 32)

    class Data:
        def setup(self, stage):
            self.whole = Numbers()
            if stage == "fit":
                self.train = Subset(self.whole, range(32))
                self.stream = Stream()
            if stage == "test":
                self.test = Subset(self.whole, range(32, 64))

        def train_dataloader(self):
            return DataLoader(self.train), DataLoader(self.stream)

        def test_dataloader(self):
            return DataLoader(self.test)

        @classmethod
        def of(cls, dataset, num_workers=0):
            return DataLoader(dataset, num_workers=num_workers)
    """,
    why="what another method sets may be in memory, or a stream; nobody is seen to rely on the default",
)


@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    if model.is_test:
        return
    for site, events in model.by_site("construct"):
        loaders = list(made_loaders(events))
        if not loaders or not isinstance(site.node, cst.Call):
            continue
        sources = [source for event in loaders for source in _sources(event, model)]
        if any(source is None for source in sources) or not all(_gains(event, model) for event in loaders):
            continue
        yield _finding(model, site, [s for s in sources if s is not None], options["num-workers"])


def _sources(event: Event, model: Model) -> list[tuple[str, Site | None] | None]:
    """What the loader's contexts say, those in other files too where this one only has a parameter's default."""
    value = setting(event, "num_workers")
    own = _source(event)
    if own is None or own[0] != "default" or not getattr(value, "generic", False):
        return [own]
    others = events_of_callers(model, event, own[1])
    if others is None or (not others and own[1] is not None and _is_of_method(own[1])):
        return [None]  # the default of a class that others use, on which nobody is seen to rely
    return [own, *map(_source, others)]


def _is_of_method(default: Site) -> bool:
    return any(isinstance(node, cst.ClassDef) for node in default.tree.ancestors(default.node))


def _source(event: Event) -> tuple[str, Site | None] | None:
    """Why a loader has no workers ("absent", "zero", "default"), and the 0 itself; None where it may have some."""
    value = setting(event, "num_workers")
    if value is None:
        return "absent", None
    constant, is_default = constant_of(value)
    if constant is None or constant.value != 0 or isinstance(constant.value, bool) or _is_meant(event, value):
        return None
    return "default" if is_default else "zero", constant.site


def _is_meant(event: Event, value: Value) -> bool:
    """Whether a 0 is written next to ``batch_size=None``: such a dataset makes whole batches, often ahead of time."""
    size = setting(event, "batch_size")
    return isinstance(value, Const) and isinstance(size, Const) and size.value is None


def _gains(event: Event, model: Model) -> bool:
    """Whether workers could help: not for items that are in memory, streams, CUDA tensors or a single batch."""
    arguments = event.arguments
    assert arguments is not None
    assert event.subject is not None
    kind = nature(model.machine, arguments.get("dataset", 0))
    return kind in (None, "work") and not model.draws_single_batch(event.subject)


def _finding(model: Model, site: Site, sources: list[tuple[str, Site | None]], number: int) -> Finding:
    assert isinstance(site.node, cst.Call)
    why, zero = sources[0]
    if why == "absent":
        message = "Without `num_workers`, every batch is loaded in the main process while the GPU waits."
    elif why == "zero":
        message = "`num_workers=0` loads every batch in the main process while the GPU waits."
    else:
        message = "`num_workers` is 0 by default, so every batch is loaded in the main process while the GPU waits."
    text = f"pass `num_workers={number}` and keep the smallest number that keeps the GPU busy."
    if why == "default" and zero is not None:
        text = f"change the default in {zero.seen_from(site)}, or pass a number."
    return rule.at(model.site(site.node.func), message, help=text, fix=_fix(model, site.node, sources, number))


def _fix(model: Model, call: cst.Call, sources: list[tuple[str, Site | None]], number: int) -> Fix | None:
    whys = {why for why, _ in sources}
    zeros = {zero.key: zero for _, zero in sources if zero is not None}
    if whys == {"absent"}:
        edits = set_keyword(model.tree, call, "num_workers", str(number), position=_POSITION)
        message = f"Pass `num_workers={number}`"
    elif len(zeros) == 1 and "absent" not in whys:
        (zero,) = zeros.values()
        edits = replace(zero.tree, zero.node, str(number))
        message = f"Change `num_workers` to {number}"
    else:
        return None
    return Fix(message, Applicability.UNSAFE, tuple(edits)) if edits is not None else None
