"""`DataParallel` is slower than `DistributedDataParallel`, even on one machine.

What it does:
Reports calls of `torch.nn.DataParallel` and `torch.nn.parallel.data_parallel`.

Why is this bad:
`DataParallel` runs one process with a thread for each GPU: it copies the model to every GPU in every forward, gathers
the outputs on the first GPU, and its threads wait for each other at the interpreter lock. PyTorch's own documentation
recommends `DistributedDataParallel` instead, with one process for each GPU, also on a single machine.

Limits:
There is no fix for notebooks, classes that train, models or loaders made in other functions or files, iterable
datasets, several optimizers, training that may stop early, schedulers that follow a metric, chosen GPUs, and loggers
that are kept open.

Fix safety:
Unsafe: the script becomes one for `torchrun --nproc-per-node=GPUS train.py`; `python train.py` still runs it, as one
process on one GPU. Either the whole script is rewritten or nothing is: the process group, the device of each process,
the wrapper, a `DistributedSampler` with `set_epoch` for every loader that is trained on, the batch size divided by the
number of processes, and writing files on rank 0 only. That needs a plain script, which makes its model and loaders and
trains in one block of one file, with one optimizer and a loss that is a mean over the batch; the help says what stands
in the way of it. What changes then:

- Loaders that are only evaluated on are left whole on every process, so that reported metrics and decisions made from
  them stay right and equal everywhere. What is printed of training is that of a process's own share of the batches,
  and every process prints.
- The global batch stays what it was where the number of processes divides it, and gets smaller by the remainder where
  not; the sampler repeats a few samples where their number is not divisible. The order of shuffling is the sampler's,
  no longer that of `torch.manual_seed`.
- Every process runs the whole script: data that it makes at random must be seeded.
- Batch normalisation sees the samples of its own process, as under `DataParallel`, and rank 0's running statistics are
  kept; `torch.nn.SyncBatchNorm.convert_sync_batchnorm` makes it see the global batch.
- A loss that compares the samples of a batch with each other sees those of one process, and one that weighs them
  (class weights, `ignore_index`) is averaged with the weights of each process.
- Parameters that a forward does not use raise an error; then pass `find_unused_parameters=True`.
- On the CPU, gloo may abort a process when Python ends, after all is done (pytorch/pytorch#179291); no process ends
  before rank 0 has written its files.
- A checkpoint has the keys that it had: `module.` in front where the wrapper's own `state_dict` is saved.

Evidence:
No measurement of the gain yet: it needs several GPUs. That the rewritten script trains as before is tested: two gloo
processes on the CPU against one with the same global batch.

References:
- [`torch.nn.DataParallel`](https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html), its warning
- [Multi-GPU training with `torchrun`](https://docs.pytorch.org/tutorials/beginner/ddp_series_multigpu.html)
- [`torch.utils.data.distributed.DistributedSampler`](https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler)
- [Use DistributedDataParallel instead of multiprocessing or DataParallel](https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-nn-ddp-instead)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import libcst as cst

from torchlint.findings import Applicability, Edit, Finding, Fix
from torchlint.rules.rule import Rule, Training
from torchlint.semantics.paths import comes_first
from torchlint.semantics.scripts import NotPlain, Script, batch_size, plain_script, qualified, shuffle
from torchlint.syntax.editing import (
    block_unit,
    insert_after,
    insert_before,
    reference,
    replace,
    replace_argument,
    set_keyword,
    wrap_in_if,
)
from torchlint.syntax.origins import Origins, last_name
from torchlint.syntax.tree import Statement, Tree, walk

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Event

rule = Rule(
    "TL301",
    since="0.1",
    names=("DataParallel", "data_parallel", "DataLoader", "backward", "step", "parameters", "cuda", "to", "eval"),
    triggers=(b"DataParallel", b"data_parallel"),
    training=Training(gains="run", moves_random_stream=True, gpus=2, launcher="torchrun",
                      on_gpu_only="it takes two GPUs to copy a model between them"),
)

rule.bad(
    """
    import argparse

    import torch
    import torch.nn as nn
    from torch.utils.data import DataLoader
    from torchvision.datasets import FakeData
    from torchvision.models import resnet18
    from torchvision.transforms import ToTensor

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--batch-size", type=int, default=256)
        args = parser.parse_args()
        device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        train_set = FakeData(10_000, transform=ToTensor())
        train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, num_workers=8)
        model = resnet18(num_classes=10)
        model = nn.DataParallel(model)
        #       ^^^^^^^^^^^^^^^
        model.to(device)
        criterion = nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(90):
            for images, labels in train_loader:
                loss = criterion(model(images.to(device)), labels.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            torch.save(model.module.state_dict(), "last.pt")

    if __name__ == "__main__":
        main()
    """,
    fixed="""
    import argparse
    import os

    import torch
    import torch.nn as nn
    from torch.utils.data import DataLoader
    from torchvision.datasets import FakeData
    from torchvision.models import resnet18
    from torchvision.transforms import ToTensor

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("--batch-size", type=int, default=256)
        args = parser.parse_args()
        local_rank = int(os.environ.get("LOCAL_RANK", 0))
        if torch.cuda.is_available():
            torch.cuda.set_device(local_rank)
        if torch.distributed.is_torchelastic_launched():  # by torchrun
            torch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        else:  # one process alone
            torch.distributed.init_process_group(
                "nccl" if torch.cuda.is_available() else "gloo",
                store=torch.distributed.HashStore(), rank=0, world_size=1,
            )
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        train_set = FakeData(10_000, transform=ToTensor())
        train_loader = DataLoader(train_set, batch_size=args.batch_size // torch.distributed.get_world_size(),
                                  sampler=torch.utils.data.DistributedSampler(train_set), num_workers=8)
        model = resnet18(num_classes=10)
        model = nn.parallel.DistributedDataParallel(
            model.to(device), device_ids=[local_rank] if torch.cuda.is_available() else None
        )
        model.to(device)
        criterion = nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(90):
            train_loader.sampler.set_epoch(epoch)
            for images, labels in train_loader:
                loss = criterion(model(images.to(device)), labels.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if torch.distributed.get_rank() == 0:
                torch.save(model.module.state_dict(), "last.pt")
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()

    if __name__ == "__main__":
        main()
    """,
    applicability=Applicability.UNSAFE,
)
rule.bad(
    """
    import os
    import torch
    import torchvision
    import torchvision.transforms as transforms
    from torch import nn
    from torch.utils.data import DataLoader

    trainset = torchvision.datasets.CIFAR10('./data', train=True, download=True, transform=transforms.ToTensor())
    testset = torchvision.datasets.CIFAR10('./data', train=False, download=True, transform=transforms.ToTensor())
    trainloader = DataLoader(trainset, 128, True, num_workers=2)
    testloader = DataLoader(testset, batch_size=100)

    net = torchvision.models.resnet18().cuda()
    if torch.cuda.device_count() > 1:
        print("Let's use", torch.cuda.device_count(), "GPUs!")
        net = nn.DataParallel(net, device_ids=range(torch.cuda.device_count()))
        #     ^^^^^^^^^^^^^^^
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


    def train(loader):
        net.train()
        for step, (inputs, targets) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(net(inputs.cuda()), targets.cuda())
            loss.backward()
            optimizer.step()
            print(step * len(inputs), len(loader.dataset))


    def test(loader, epoch):
        net.eval()
        correct = 0
        with torch.no_grad():
            for inputs, targets in loader:
                correct += net(inputs.cuda()).argmax(1).eq(targets.cuda()).sum().item()
        with open('log.txt', 'a') as log:
            log.write(f'{epoch} {correct / len(loader.dataset)}\\n')
        # both, with and without the wrapper
        torch.save(net.state_dict(), f'{epoch}.pt')
        torch.save(optimizer.state_dict(), f'{epoch}.optimizer.pt')


    for epoch in range(20):
        train(trainloader)
        test(testloader, epoch)
    """,
    fixed="""
    import os
    import torch
    import torchvision
    import torchvision.transforms as transforms
    from torch import nn
    from torch.utils.data import DataLoader

    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    if torch.distributed.is_torchelastic_launched():  # by torchrun
        torch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    else:  # one process alone
        torch.distributed.init_process_group(
            "nccl" if torch.cuda.is_available() else "gloo",
            store=torch.distributed.HashStore(), rank=0, world_size=1,
        )
    if local_rank != 0:  # the first one downloads
        torch.distributed.barrier()
    trainset = torchvision.datasets.CIFAR10('./data', train=True, download=True, transform=transforms.ToTensor())
    testset = torchvision.datasets.CIFAR10('./data', train=False, download=True, transform=transforms.ToTensor())
    if local_rank == 0:
        torch.distributed.barrier()
    trainloader = DataLoader(trainset, 128 // torch.distributed.get_world_size(),
                             sampler=torch.utils.data.DistributedSampler(trainset), num_workers=2)
    testloader = DataLoader(testset, batch_size=100)

    net = torchvision.models.resnet18().cuda()
    if torch.distributed.get_world_size() > 1:
        print("Let's use", torch.cuda.device_count(), "GPUs!")
        net = nn.parallel.DistributedDataParallel(
            net, device_ids=[local_rank] if torch.cuda.is_available() else None
        )
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


    def train(loader):
        net.train()
        for step, (inputs, targets) in enumerate(loader):
            optimizer.zero_grad()
            loss = criterion(net(inputs.cuda()), targets.cuda())
            loss.backward()
            optimizer.step()
            print(step * len(inputs), len(loader.sampler))


    def test(loader, epoch):
        net.eval()
        correct = 0
        with torch.no_grad():
            for inputs, targets in loader:
                correct += net(inputs.cuda()).argmax(1).eq(targets.cuda()).sum().item()
        if torch.distributed.get_rank() == 0:
            with open('log.txt', 'a') as log:
                log.write(f'{epoch} {correct / len(loader.dataset)}\\n')
            # both, with and without the wrapper
            torch.save(net.state_dict(), f'{epoch}.pt')
            torch.save(optimizer.state_dict(), f'{epoch}.optimizer.pt')


    for epoch in range(20):
        trainloader.sampler.set_epoch(epoch)
        train(trainloader)
        test(testloader, epoch)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
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
_PARAMETERS = ("module", "device_ids", "output_device", "dim")
_STEPS = (
    "run `DistributedDataParallel` under `torchrun`: process group, `DistributedSampler`, batch size per process, "
    "saving on rank 0"
)
_OF_STATE = frozenset(
    "state_dict load_state_dict parameters named_parameters buffers named_buffers modules named_modules children "
    "named_children train eval requires_grad_ zero_grad apply register_buffer".split()
)
"""What may be called of the module inside the wrapper: nothing that runs it, as gradients would not be averaged."""


@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    found = [(site, events) for site, events in model.by_site("construct") if events[0].data["name"] in _WRAPPERS]
    for site, events in found:
        if not isinstance(site.node, cst.Call):
            continue
        fix, why = _fix(model, site.node, events) if len(found) == 1 else (None, "it wraps models in several places")
        yield rule.at(
            model.site(site.node.func),
            "`DataParallel` copies the model to every GPU in every forward, and its threads share one interpreter.",
            help=f"{_STEPS}." if fix is not None else f"{_STEPS}; no fix, as {why}.",
            fix=fix,
        )


def _fix(model: Model, call: cst.Call, events: list[Event]) -> tuple[Fix | None, str]:
    """The rewrite of the whole script, or why there is none."""
    if not isinstance(model.tree, Tree):
        return None, "only its outline was read"
    try:
        if events[0].data["name"] != _WRAPPERS[0] or len(events) != 1:
            raise NotPlain("the model is not wrapped in the script's own course")
        edits = _Rewrite(model, call, events[0]).edits()
    except NotPlain as refused:
        return None, str(refused)
    return Fix("Train with `DistributedDataParallel` under `torchrun`", Applicability.UNSAFE, tuple(edits)), ""


class _Rewrite:
    """The edits that make a plain script one process of several; each method raises NotPlain where it must refuse."""

    def __init__(self, model: Model, call: cst.Call, event: Event) -> None:
        self.model = model
        self.tree = model.tree
        self.call = call
        self.event = event
        self.imports: list[Edit] = []

    def edits(self) -> list[Edit]:
        script = plain_script(self.model, self.event)
        self._refuse_uses()
        edits = [*self._set_up(script), *self._wrap()]
        if script.downloads:
            edits += self._take_turns(script.downloads)
        for loader in script.loaders:
            edits += self._share_out(loader.call, loader.dataset)
        edits += insert_before(self.tree, _first_of(script.epochs), [
            f"{loader.name}.sampler.set_epoch({script.epoch})" for loader in script.loaders])
        for length in script.lengths:
            edits += replace(self.tree, length.attr, "sampler")
        for device in script.devices:
            edits += replace(self.tree, device, self.tree.text(device).replace("cuda:0", "cuda"))
        for run in script.writes:
            edits += self._checked(wrap_in_if(self.tree, run, f"{self._named('get_rank')}() == 0"))
        edits += insert_after(self.tree, cast("Statement", script.block.body[-1]),
                              [f"{self._named('barrier')}()", f"{self._named('destroy_process_group')}()"])
        return [*dict.fromkeys(self.imports), *edits]

    def _named(self, name: str, module: str = "torch.distributed", at: cst.CSTNode | None = None) -> str:
        named = reference(self.tree, f"{module}.{name}", at)
        if named is None:
            raise NotPlain(f"no import of `{module}` can be added")
        self.imports += named[1]
        return named[0]

    def _checked(self, edits: list[Edit] | None) -> list[Edit]:
        if edits is None:
            raise NotPlain("a line cannot be changed")
        return edits

    def _set_up(self, script: Script) -> list[Edit]:
        unit = block_unit(self.tree, script.block)
        cuda, environ = self._named("cuda", "torch"), self._named("environ", "os")
        backend = f'"nccl" if {cuda}.is_available() else "gloo"'
        init = self._named("init_process_group")
        return insert_before(self.tree, script.first, [
            f'local_rank = int({environ}.get("LOCAL_RANK", 0))',
            f"if {cuda}.is_available():",
            f"{unit}{cuda}.set_device(local_rank)",
            f"if {self._named('is_torchelastic_launched')}():  # by torchrun",
            f"{unit}{init}({backend})",
            "else:  # one process alone",
            f"{unit}{init}(",
            f"{unit * 2}{backend},",
            f"{unit * 2}store={self._named('HashStore')}(), rank=0, world_size=1,",
            f"{unit})",
        ])

    def _take_turns(self, downloads: tuple[Statement, ...]) -> list[Edit]:
        """The first process of a machine downloads, then the others find the files."""
        barrier, unit = self._named("barrier"), block_unit(self.tree, self.tree.parent(downloads[0]))
        return [
            *insert_before(self.tree, downloads[0], ["if local_rank != 0:  # the first one downloads",
                                                     f"{unit}{barrier}()"]),
            *insert_after(self.tree, downloads[-1], ["if local_rank == 0:", f"{unit}{barrier}()"]),
        ]

    # ------------------------------------------------------------------ loaders

    def _share_out(self, call: cst.Call, dataset: cst.Name) -> list[Edit]:
        """Give each process its share of a loader's batches."""
        size, order = batch_size(call), shuffle(call)
        world = self._named("get_world_size", at=call)
        end = self.tree.offsets_with_parens(size.value)[1]
        edits = [Edit(self.tree.source.span(end, end), f" // {world}()")]
        added = len(edits[0].content)
        sampler = f"{self._named('DistributedSampler', 'torch.utils.data', call)}({dataset.value}"
        if order is None:
            return edits + self._checked(set_keyword(self.tree, call, "sampler", f"{sampler}, shuffle=False)"))
        value = self.tree.text(order.value)
        sampler += ")" if value == "True" else f", shuffle={value})"
        if order.keyword is not None:
            return [*edits, *replace_argument(self.tree, call, order, f"sampler={sampler}", added)]
        if any(arg.keyword is None for arg in call.args[3:]):
            raise NotPlain("its loader takes a sampler by position")
        return [*edits, *replace_argument(self.tree, call, order, f"sampler={sampler}", added)]

    # --------------------------------------------------------------- the wrapper

    def _wrap(self) -> list[Edit]:
        """The model on its device, wrapped; where only several GPUs were to be used, in several processes only."""
        outer, move = self.call, ""
        parent = self.tree.parent(self.call)
        moved = self.tree.parent(parent) if isinstance(parent, cst.Attribute) else None
        if isinstance(parent, cst.Attribute) and isinstance(moved, cst.Call) and parent.attr.value in ("cuda", "to"):
            outer, move = moved, self._move(moved)
        assign = self.tree.parent(outer)
        inner = _argument(self.call, "module", 0)
        if not (isinstance(assign, cst.Assign) and len(assign.targets) == 1 and inner is not None
                and isinstance(target := assign.targets[0].target, cst.Name)):
            raise NotPlain("the wrapped model gets no plain name")
        if isinstance(inner, cst.Name) and inner.value != target.value:
            raise NotPlain("the model goes on being used without its wrapper")
        if not isinstance(inner, cst.Name | cst.Call | cst.Attribute) or "#" in self.tree.text(outer):
            raise NotPlain("the call that wraps the model is not a plain one")
        self._refuse_arguments()
        move = move or self._later_move(outer)
        wrapper = self._named("DistributedDataParallel", "torch.nn.parallel", self.call)
        cuda = self._named("cuda", "torch", self.call)
        margin = self.tree.indentation(self.tree.statement(assign))
        unit, end = block_unit(self.tree, self.tree.parent(self.tree.statement(assign))), self.tree.source.newline
        given = f"{self.tree.text(inner)}{move}, device_ids=[local_rank] if {cuda}.is_available() else None"
        text = f"{wrapper}({end}{margin}{unit}{given}{end}{margin})"
        return [*replace(self.tree, outer, text), *self._guard(assign)]

    def _later_move(self, outer: cst.Call) -> str:
        """The move to the device that the model must have made before it is wrapped; none where it has."""
        moves = [event for event in self.model.events("module_moved")
                 if event.subject is self.event.subject and event.data["where"] in ("cuda", "cuda?")]
        here = self.tree.offsets(outer)[0]
        if any(comes_first(event, self.event) and not _guarded(event) for event in moves):
            return ""
        later = [event for event in moves if comes_first(self.event, event) and not _guarded(event)]
        if not later:
            raise NotPlain("the model is not seen to be on a GPU")
        call = cast("cst.Call", later[0].site.node)
        names = [arg.value for arg in call.args if isinstance(arg.value, cst.Name)]
        if self.tree.offsets(call)[0] < here or any(not self._is_bound_before(name, outer) for name in names):
            raise NotPlain("the model is not seen to be on a GPU when it is wrapped")
        return self._move(call)

    def _is_bound_before(self, name: cst.Name, node: cst.CSTNode) -> bool:
        origins = Origins(self.tree)
        return origins.is_bound_once(name) and all(
            self.tree.offsets(origin)[1] < self.tree.offsets(node)[0] for origin in origins.of(name))

    def _move(self, call: cst.Call) -> str:
        """``.cuda()`` or ``.to(device)`` as text."""
        if not isinstance(call.func, cst.Attribute) or not all(
                isinstance(arg.value, cst.Name | cst.SimpleString) and not arg.star for arg in call.args):
            raise NotPlain("the model is moved in an unusual way")
        arguments = ", ".join(self.tree.text(arg).rstrip(", ") for arg in call.args)
        return f".{call.func.attr.value}({arguments.replace('cuda:0', 'cuda')})"

    def _refuse_arguments(self) -> None:
        for index, arg in enumerate(self.call.args):
            name = arg.keyword.value if arg.keyword is not None else _PARAMETERS[index]
            text = re.sub(r"\s", "", self.tree.text(arg.value))
            is_all = name == "device_ids" and (text == "None" or _is_count(arg.value) or bool(
                re.fullmatch(r"(list\()?range\([\w.]*device_count\(\)\)\)?", text)))
            is_default = name in ("output_device", "dim") and text in ("0", "None")
            if arg.star or not (name == "module" or is_all or is_default):
                raise NotPlain("it chooses its GPUs, or how a batch is split, itself")

    def _guard(self, assign: cst.Assign) -> list[Edit]:
        """A test for several GPUs becomes one for several processes; other tests are refused."""
        tests = [context for context in self.event.context if context.kind == "guard"]
        counts = [node for node in walk(self.tree.module) if isinstance(node, cst.Call)
                  and qualified(self.model, node.func) == "torch.cuda.device_count"]
        allowed: set[cst.CSTNode] = set(walk(self.call))
        edits: list[Edit] = []
        if tests:
            branch = next(node for node in self.tree.ancestors(assign) if isinstance(node, cst.If))
            if len(tests) > 1 or tests[0].taken is not True or not self._is_of_several(branch.test):
                raise NotPlain("the wrapping has a condition of its own")
            allowed |= set(walk(branch.test))
            edits = [Edit(self.tree.span_with_parens(branch.test), f"{self._named('get_world_size', at=branch)}() > 1")]
        for node in counts:
            line = self.tree.statement(node)
            shown = isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Expr) and isinstance(
                line.body[0].value, cst.Call) and last_name(line.body[0].value.func) == "print"
            if node not in allowed and not shown:
                raise NotPlain("it uses the number of GPUs elsewhere too")
        return edits

    def _is_of_several(self, test: cst.BaseExpression) -> bool:
        if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
            sides = (test.left, test.right)
            return any(map(self._is_of_several, sides)) and all(
                self._is_of_several(side) or self._calls(side, "torch.cuda.is_available") for side in sides)
        if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
            return False
        operator, number = test.comparisons[0].operator, self.tree.text(test.comparisons[0].comparator)
        many = (isinstance(operator, cst.GreaterThan) and number == "1") or (
            isinstance(operator, cst.GreaterThanEqual) and number == "2")
        return many and self._calls(test.left, "torch.cuda.device_count")

    def _calls(self, node: cst.BaseExpression, name: str) -> bool:
        return isinstance(node, cst.Call) and qualified(self.model, node.func) == name

    def _refuse_uses(self) -> None:
        own = set(walk(self.call.func))
        for node in walk(self.tree.module):
            named = isinstance(node, cst.Name) and node.value == "DataParallel" and node not in own
            if named and not any(isinstance(above, cst.ImportFrom) for above in self.tree.ancestors(node)):
                raise NotPlain("it asks for `DataParallel` elsewhere too")
            if isinstance(node, cst.Attribute) and node.attr.value == "module":
                above = self.tree.parent(node)
                method = self.tree.parent(above) if isinstance(above, cst.Attribute) else None
                runs = isinstance(above, cst.Call) and above.func is node
                if runs or (isinstance(above, cst.Attribute) and isinstance(method, cst.Call) and method.func is above
                            and above.attr.value not in _OF_STATE):
                    raise NotPlain("it runs the module inside the wrapper")


def _first_of(loop: cst.For) -> Statement:
    return cast("Statement", loop.body.body[0])


def _argument(call: cst.Call, name: str, position: int) -> cst.BaseExpression | None:
    for index, arg in enumerate(call.args):
        if (arg.keyword is not None and arg.keyword.value == name) or (arg.keyword is None and index == position):
            return arg.value
    return None


def _guarded(event: Event) -> bool:
    return any(context.kind in ("guard", "loop") for context in event.context)


def _is_count(node: cst.BaseExpression) -> bool:
    """Whether a list counts from 0."""
    numbers = [element.value for element in node.elements] if isinstance(node, cst.List | cst.Tuple) else []
    return bool(numbers) and all(isinstance(n, cst.Integer) and n.value == str(i) for i, n in enumerate(numbers))
