"""Evaluation with gradients on builds a graph that nobody uses.

What it does:
Reports forwards of an evaluation that autograd records although no backward pass uses their graph: nothing turns
gradients off there, neither `torch.no_grad`, `torch.inference_mode` or `torch.set_grad_enabled(False)`, nor a
decorator, nor any caller that is seen. What shows an evaluation is the module's eval mode, data of a test split, or an
output that is only detached, saved or turned into numbers.

Why is this bad:
Autograd keeps the activations of every layer until the output is gone. Without them a batch of evaluation takes a
fraction of the memory, larger batches fit, and the forward is a little faster. `model.eval()` does not turn gradients
off. The tuning guide asks to disable gradient calculation for validation and inference.

Limits:
Gradients that somebody wants make it silent: a backward, `torch.autograd.grad`, inputs that require gradients, outputs
that are returned to code that nobody sees. So does `.numpy()` without `.detach()`, which proves that gradients are off.

Fix safety:
Safe where the module is proven to be in eval mode: inside `torch.no_grad()` all values stay the same. Otherwise unsafe,
and there is none where only a part of a compound statement would have to be wrapped.

Evidence:
No measurement yet.

References:
- [Performance tuning guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html),
  "Disable gradient calculation for validation or inference"
- [Locally disabling gradient computation](https://docs.pytorch.org/docs/stable/notes/autograd.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torchlint.findings import Applicability, Finding, Fix
from torchlint.rules.rule import Rule
from torchlint.semantics.autograd import Wasted, wasted_forwards
from torchlint.syntax.editing import decorate, reference, wrap_in_with

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.syntax.tree import Tree

rule = Rule("TL107", since="0.1", triggers=(b"torch",))

rule.bad(
    """
    import torch

    def evaluate(model: torch.nn.Module, loader):
        model.eval()
        correct = 0
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
    #                   ^^^^^^^^
        return correct
    """,
    fixed="""
    import torch

    @torch.no_grad()
    def evaluate(model: torch.nn.Module, loader):
        model.eval()
        correct = 0
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
        return correct
    """,
    applicability=Applicability.SAFE,
)


@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    for wasted in wasted_forwards(model):
        yield rule.at(
            wasted.first,
            "Autograd records this forward although no backward uses its graph.",
            help="evaluate under `torch.no_grad()`; `eval()` does not turn gradients off.",
            fix=_without_gradients(model.tree, wasted),
        )


def _without_gradients(tree: Tree, wasted: Wasted) -> Fix | None:
    named = reference(tree, "torch.no_grad", wasted.first.node)
    if named is None:
        return None
    name, edits = named
    if wasted.function is not None:
        change = decorate(tree, wasted.function, f"{name}()")
    else:
        change = wrap_in_with(tree, wasted.statements, f"with {name}():") or []
    if not change:
        return None
    safety = Applicability.SAFE if wasted.proven else Applicability.UNSAFE
    return Fix(f"Turn gradients off with `{name}()`", safety, (*edits, *change))
