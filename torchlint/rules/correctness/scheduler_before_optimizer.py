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
optimizer's step, or to the end of the loop's body. There is none where the step takes arguments (an epoch may mean
something else at the end of the loop) or where `continue` could jump over its new place.

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
from torchlint.rules.rule import Rule
from torchlint.semantics.schedules import Premature, premature_steps
from torchlint.syntax.editing import move_statement_after
from torchlint.syntax.tree import walk

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.syntax.tree import Statement, Tree

rule = Rule("TL201", since="0.1", names=("step",), triggers=(b"step",))

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


@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    for step in premature_steps(model):
        whole = step.is_direct
        what = "`step()` of the scheduler" if whole else "This call steps the scheduler"
        yield rule.at(
            model.site(step.site.node),
            f"{what} comes before the first `step()` of its optimizer, so the schedule's first learning rate is skipped.",
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
    """The statement behind which the scheduler's belongs: the optimizer's own, or the block's last."""
    if step.optimizer_site.tree is tree:
        own = tree.statement(step.optimizer_site.node)
        if tree.parent(own) is block:
            return own
    loop = tree.parent(block)
    if not isinstance(loop, cst.For | cst.While) or any(isinstance(node, cst.Continue) for node in walk(block)):
        return None
    last = block.body[-1]
    return last if isinstance(last, cst.SimpleStatementLine | cst.BaseCompoundStatement) else None
