"""`DataParallel` is slower than `DistributedDataParallel`, even on one machine.

What it does:
Reports calls of `torch.nn.DataParallel` and `torch.nn.parallel.data_parallel`.

Why is this bad:
`DataParallel` runs one process with a thread for each GPU: it copies the model to every GPU in every forward, gathers
the outputs on the first GPU, and its threads wait for each other at the interpreter lock. PyTorch's own documentation
recommends `DistributedDataParallel` instead, with one process for each GPU, also on a single machine.

Fix safety:
There is no automatic fix: `DistributedDataParallel` needs a process group, a launcher (`torchrun`), a
`DistributedSampler` for the loader and a batch size for each process. These are decisions in several places of a
script, and half a rewrite would train on the wrong data.

Evidence:
No measurement yet: the gain needs several GPUs.

References:
- [`torch.nn.DataParallel`](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html), its warning
- [Use DistributedDataParallel instead of multiprocessing or DataParallel](https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-nn-ddp-instead)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.findings import Finding
from torchlint.rules.rule import Rule

if TYPE_CHECKING:
    from torchlint.semantics.model import Model

rule = Rule("TL301", since="0.1", names=("DataParallel", "data_parallel"), triggers=(b"DataParallel", b"data_parallel"))

rule.bad(
    """
    import torch

    model = torch.nn.DataParallel(torch.nn.Linear(4, 2)).cuda()
    #       ^^^^^^^^^^^^^^^^^^^^^
    """
)
rule.bad(
    """
    from torch.nn.parallel import DataParallel, data_parallel

    def build(model):
        return DataParallel(model, device_ids=[0, 1])
        #      ^^^^^^^^^^^^

    def forward(model, x):
        return data_parallel(model, x)
        #      ^^^^^^^^^^^^^
    """,
    show=False,
)
rule.ok(
    """
    from torch.nn.parallel import DistributedDataParallel

    def build(model, rank):
        return DistributedDataParallel(model, device_ids=[rank])
    """,
    why="this is the recommended wrapper",
)
rule.ok(
    """
    import torch

    def unwrap(model):
        return model.module if isinstance(model, torch.nn.DataParallel) else model
    """,
    why="nothing is wrapped: the class is only compared with",
)
rule.ok(
    """
    import torch

    class DataParallel:
        def __init__(self, model):
            self.model = model

    model = DataParallel(torch.nn.Linear(4, 2))
    """,
    why="a class of the project's own",
    show=False,
)

_WRAPPERS = ("torch.nn.DataParallel", "torch.nn.parallel.data_parallel")


@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    for site, events in model.by_site("construct"):
        if events[0].data["name"] in _WRAPPERS and isinstance(site.node, cst.Call):
            yield rule.at(
                model.site(site.node.func),
                "`DataParallel` copies the model to every GPU in every forward, and its threads share one interpreter.",
                help="run one process per GPU with `torchrun` and wrap the model in `DistributedDataParallel`.",
            )
