"""A comment that silences torchlint has nothing to silence.

What it does:
Reports `# torchlint: ignore[...]` and `# noqa: TL...` comments that hide no finding, and names in them that are no rule
of torchlint's. Only names of rules that ran are judged. A bare `# noqa` and the codes of other tools are never touched.

Why is this bad:
A leftover comment says that something is wrong where nothing is, and hides the next mistake in that place.

Fix safety:
Safe: only the name is removed, or the comment when nothing else is left in it. A name that is spelled almost like a
rule's is not removed. Where that rule finds something here, the fix writes the rule's name: unsafe, as it is a guess.

Evidence:
None is needed: a comment changes nothing at run time.

References:
- ruff's [unused-noqa](https://docs.astral.sh/ruff/rules/unused-noqa/) (`RUF100`) and
  [invalid-rule-code](https://docs.astral.sh/ruff/rules/invalid-rule-code/) (`RUF102`). Tell ruff about torchlint's
  codes, so that it leaves them in `# noqa` comments: `lint.external = ["TL"]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torchlint.findings import Applicability, Finding
from torchlint.rules.rule import Rule

if TYPE_CHECKING:
    from torchlint.semantics.model import Model

rule = Rule("TL001", since="0.1", triggers=(b"torchlint:", b"noqa:"))

rule.bad(
    """
    import torch

    zeros = torch.zeros(3)  # torchlint: ignore[no-such-rule]
    #                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import torch

    zeros = torch.zeros(3)
    """,
    applicability=Applicability.SAFE,
)
rule.ok("import torch  # noqa: F401", why="the code belongs to another tool")


@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    """Ask nothing of the model: the engine compares the comments with what was found."""
    return iter(())
