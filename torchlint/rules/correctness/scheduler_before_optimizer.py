"""A learning-rate scheduler that steps before its optimizer skips the first value of the schedule.

What it does:
Reports a `scheduler.step()` that the first iteration of a training loop reaches before the first `step()` of the
optimizer that the scheduler drives, also where the two are in different functions, methods or files, and where a
`GradScaler` steps the optimizer. Only schedulers of `torch.optim.lr_scheduler` and classes that derive from them count.

Why is this bad:
Since PyTorch 1.1 a scheduler sets the first learning rate when it is made. A step of the scheduler before the first
step of the optimizer replaces that value before it was used, every later change comes one step early, and
PyTorch warns: "Detected call of `lr_scheduler.step()` before `optimizer.step()`".

Limits:
A step behind a test that may be false in the first iteration (`if epoch > 0:`) is not reported, nor is
`ReduceLROnPlateau`, which waits for a metric, nor a scheduler whose `last_epoch` is set by hand.

Fix safety:
Unsafe: the learning rate of every step changes, which is the point. The fix moves the statement behind the
optimizer's step and what reads its rate, or to the end of the loop's body. There is none where the step takes arguments
(an epoch may mean something else at the end of the loop) or where `continue` could jump over its new place.

Evidence:
No measurement yet: what is lost depends on the schedule.

References:
- [How to adjust learning rate](https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate)
- [`LRScheduler.step`](https://github.com/pytorch/pytorch/blob/v2.8.0/torch/optim/lr_scheduler.py), its warning
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.findings import Applicability, Finding, Fix
from torchlint.rules.rule import Rule, Training
from torchlint.semantics.schedules import Premature, premature_steps
from torchlint.syntax.editing import move_statement_after
from torchlint.syntax.tree import Statement, walk

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.syntax.tree import Tree

rule = Rule("TL201", since="0.1", names=("step",), triggers=(b"step",),
            training=Training(gains="schedule"))

rule.bad(
    """
    import torch

    def train(model, loader, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
        for epoch in range(epochs):
            scheduler.step()
        #   ^^^^^^^^^^^^^^^^
            for x, y in loader:
                optimizer.zero_grad()
                model(x, y).backward()
                optimizer.step()
    """,
    fixed="""
    import torch

    def train(model, loader, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                model(x, y).backward()
                optimizer.step()
            scheduler.step()
    """,
    applicability=Applicability.UNSAFE,
)
rule.bad(
    """
    from torch.optim import SGD
    from torch.optim.lr_scheduler import OneCycleLR

    class Trainer:
        def __init__(self, model, loader):
            self.model, self.loader = model, loader
            self.optimizer = SGD(model.parameters(), lr=0.1)
            self.scheduler = OneCycleLR(self.optimizer, 1.0, total_steps=1000)

        def train_epoch(self):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                self.scheduler.step()  # a new rate
        #       ^^^^^^^^^^^^^^^^^^^^^
                self.model(x, y).backward()
                self.optimizer.step()
                print("next")

        def fit(self):
            for epoch in range(10):
                self.train_epoch()
    """,
    fixed="""
    from torch.optim import SGD
    from torch.optim.lr_scheduler import OneCycleLR

    class Trainer:
        def __init__(self, model, loader):
            self.model, self.loader = model, loader
            self.optimizer = SGD(model.parameters(), lr=0.1)
            self.scheduler = OneCycleLR(self.optimizer, 1.0, total_steps=1000)

        def train_epoch(self):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                self.model(x, y).backward()
                self.optimizer.step()
                self.scheduler.step()  # a new rate
                print("next")

        def fit(self):
            for epoch in range(10):
                self.train_epoch()
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    from torch.optim import SGD
    from torch.optim.lr_scheduler import LinearLR

    def find_rate(model, loader):
        optimizer = SGD(model.parameters(), lr=1e-4)
        scheduler = LinearLR(optimizer, 1.0, 1000.0)
        rates = []
        for x, y in loader:
            scheduler.step()
        #   ^^^^^^^^^^^^^^^^

            model(x, y).backward()
            optimizer.step()
            optimizer.zero_grad()
            rates.append(optimizer.param_groups[0]["lr"])
            print(x.shape)
        return rates
    """,
    fixed="""
    from torch.optim import SGD
    from torch.optim.lr_scheduler import LinearLR

    def find_rate(model, loader):
        optimizer = SGD(model.parameters(), lr=1e-4)
        scheduler = LinearLR(optimizer, 1.0, 1000.0)
        rates = []
        for x, y in loader:
            model(x, y).backward()
            optimizer.step()
            optimizer.zero_grad()
            rates.append(optimizer.param_groups[0]["lr"])
            scheduler.step()
            print(x.shape)
        return rates
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    import torch
    from torch.optim import Adam
    from torch.optim.lr_scheduler import LambdaLR
    from engine import train_epoch

    def main(net, loader, scaler=None):
        optimizer = Adam(net.parameters())
        scheduler = LambdaLR(optimizer, lambda epoch: 0.9 ** epoch)
        for epoch in range(10):
            if scheduler is not None:
                scheduler.step()
        #       ^^^^^^^^^^^^^^^^
            train_epoch(net, loader, optimizer, torch.amp.GradScaler())
    """,
    fixed="""
    import torch
    from torch.optim import Adam
    from torch.optim.lr_scheduler import LambdaLR
    from engine import train_epoch

    def main(net, loader, scaler=None):
        optimizer = Adam(net.parameters())
        scheduler = LambdaLR(optimizer, lambda epoch: 0.9 ** epoch)
        for epoch in range(10):
            train_epoch(net, loader, optimizer, torch.amp.GradScaler())
            if scheduler is not None:
                scheduler.step()
    """,
    applicability=Applicability.UNSAFE,
    files={
        "engine.py": """
        def train_epoch(net, loader, optimizer, scaler):
            for x, y in loader:
                optimizer.zero_grad()
                scaler.scale(net(x, y)).backward()
                scaler.step(optimizer)
                scaler.update()
        """
    },
    show=False,
)
rule.bad(
    """
    import torch.nn.functional as F

    def fit(model, loader, optimizer, scheduler):
        for epoch in range(90):
            scheduler.step()
        #   ^^^^^^^^^^^^^^^^
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
    """,
    fixed="""
    import torch.nn.functional as F

    def fit(model, loader, optimizer, scheduler):
        for epoch in range(90):
            for x, y in loader:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()
            scheduler.step()
    """,
    applicability=Applicability.UNSAFE,
    files={
        "main.py": """
        import torch
        from example import fit

        def main(model, loader):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            fit(model, loader, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 30))

        if __name__ == "__main__":
            main(None, [])
        """
    },
    show=False,
)
rule.bad(
    """
    import torch

    def train(generator, critic, loader):
        opt_g = torch.optim.Adam(generator.parameters())
        opt_d = torch.optim.Adam(critic.parameters())
        sched_g = torch.optim.lr_scheduler.ExponentialLR(opt_g, 0.9)
        sched_d = torch.optim.lr_scheduler.ExponentialLR(opt_d, 0.9)
        for epoch in range(10):
            for x in loader:
                critic(x).mean().backward()
                opt_d.step()
                sched_d.step()
                sched_g.step(epoch)
            #   ^^^^^^^^^^^^^^^^^^^
                critic(generator(x)).mean().backward()
                opt_g.step()
    """,
    show=False,
)
rule.bad(
    """
    import torch

    def adjust(scheduler):
        scheduler.step()

    def train(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
        for epoch in range(10):
            adjust(scheduler)
        #   ^^^^^^^^^^^^^^^^^
            for x in loader:
                if x is None:
                    continue
                model(x).backward()
                optimizer.step()
    """,
    show=False,
)
rule.ok(
    """
    import torch

    def train(model, loader, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                model(x, y).backward()
                optimizer.step()
            scheduler.step()
    """,
    why="the scheduler steps at the end of the epoch",
)
rule.ok(
    """
    import torch

    def train(model, loader, epochs):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
        for epoch in range(epochs):
            if epoch > 0:
                scheduler.step()
            for x, y in loader:
                optimizer.zero_grad()
                model(x, y).backward()
                optimizer.step()
    """,
    why="the first epoch trains with the first learning rate",
)
rule.ok(
    """
    import torch

    def train(model, train_epoch, validate, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        for epoch in range(10):
            plateau.step(validate(model))
            for x in loader:
                model(x).backward()
                optimizer.step()
    """,
    why="`ReduceLROnPlateau` waits for a metric",
)
rule.ok(
    """
    import torch

    def resume(model, loader, start):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
        for _ in range(start):
            scheduler.step()
        for epoch in range(start, 90):
            for x in loader:
                model(x).backward()
                optimizer.step()
            scheduler.step()
    """,
    why="the schedule is wound forward before training goes on",
    show=False,
)
rule.ok(
    """
    import torch

    class Warmup:
        def __init__(self, optimizer):
            self.optimizer, self.count = optimizer, 0

        def step(self):
            self.count += 1
            for group in self.optimizer.param_groups:
                group["lr"] = self.count * 1e-5

    def train(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = Warmup(optimizer)
        for x in loader:
            scheduler.step()
            model(x).backward()
            optimizer.step()
    """,
    why="a class of the project's own sets the rate of the coming step",
    show=False,
)
rule.ok(
    """
    import torch

    def train(model, engine, loader, env):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
        for x in loader:
            engine.train_batch(optimizer, x)
            scheduler.step()
            env.step(x)
            optimizer.step()
    """,
    why="code that nobody sees is handed the optimizer first",
    show=False,
)
rule.ok(
    """
    import torch

    def plot(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
        rates = []
        for epoch in range(90):
            scheduler.step()
            rates.append(scheduler.get_last_lr())
        return rates
    """,
    why="the schedule is drawn, nothing is trained",
    show=False,
)

rule.ok(
    """
    import torch
    from torch.optim.lr_scheduler import LRScheduler

    class Warmup(LRScheduler):
        def step(self, epoch=None):
            self.last_epoch += 1
            for group in self.optimizer.param_groups:
                group["lr"] = self.last_epoch * 1e-5

    def train(model, loader):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = Warmup(optimizer)
        for x in loader:
            scheduler.step()
            model(x).backward()
            optimizer.step()
    """,
    why="its `step()` is not torch's: it sets the rate of the coming step",
    show=False,
)


@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    for step in premature_steps(model):
        what = "The scheduler steps" if step.is_direct else "This call steps the scheduler"
        yield rule.at(
            model.site(step.site.node),
            f"{what} before its optimizer's first step, so the schedule's first learning rate is skipped.",
            help="step the scheduler after the optimizer: behind `optimizer.step()`, or at the end of the epoch.",
            fix=_moved(model.tree, step),
        )


def _moved(tree: Tree, step: Premature) -> Fix | None:
    """The scheduler's statement behind the optimizer's, or at the end of the loop's body."""
    if not step.is_direct or not isinstance(step.site.node, cst.Call) or step.site.node.args:
        return None
    statement = _only_statement(tree, step.site.node)
    block = tree.parent(statement) if statement is not None else None
    if statement is None or not isinstance(block, cst.IndentedBlock):
        return None
    anchor = _anchor(tree, block, step)
    if anchor is None or anchor is statement:
        return None
    edits = move_statement_after(tree, statement, anchor)
    return Fix("Step the scheduler after the optimizer", Applicability.UNSAFE, tuple(edits)) if edits else None


def _only_statement(tree: Tree, call: cst.Call) -> Statement | None:
    """The statement that is nothing but the call, with the `if`s around that guard nothing else."""
    statement = tree.statement(call)
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    if not isinstance(statement.body[0], cst.Expr) or statement.body[0].value is not call:
        return None
    while True:
        block = tree.parent(statement)
        above = tree.parent(block) if block is not None else None
        if not isinstance(above, cst.If) or len(block.body) > 1 or above.orelse is not None:  # type: ignore[union-attr]
            return statement
        statement = tree.statement(above)


def _anchor(tree: Tree, block: cst.IndentedBlock, step: Premature) -> Statement | None:
    """The statement behind which the scheduler's belongs: the optimizer's own, or the block's last.

    What reads the rate after the optimizer's step wants the one of that step.
    """
    if step.optimizer_site.tree is tree:
        own = tree.statement(step.optimizer_site.node)
        if tree.parent(own) is block:
            below = block.body[block.body.index(own):]
            readers = [statement for statement in below if _holds(statement, cst.Name, _RATES)]
            last = readers[-1] if readers else own
            leaves = any(_holds(statement, cst.Continue | cst.Break) for statement in below[:below.index(last) + 1])
            return own if leaves or not isinstance(last, Statement) else last
    loop = tree.parent(block)
    if not isinstance(loop, cst.For | cst.While) or any(isinstance(node, cst.Continue) for node in walk(block)):
        return None
    last = block.body[-1]
    return last if isinstance(last, cst.SimpleStatementLine | cst.BaseCompoundStatement) else None


_RATES = frozenset({"param_groups", "get_last_lr", "get_lr"})


def _holds(statement: cst.CSTNode, kind: Any, names: frozenset[str] | None = None) -> bool:
    return any(isinstance(node, kind) and (names is None or node.value in names) for node in walk(statement))
