"""The reference loops: one script for each rule that a training run can show, and whole scripts with all mistakes."""

from __future__ import annotations

import ast
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchlint.harness.arms import Tree, fix
from torchlint.harness.machines import Device
from torchlint.harness.measuring import Arm, Effort, OnRun, Step, compare
from torchlint.harness.recordings import HarnessError, TooLarge
from torchlint.harness.verdicts import Comparison, Verdict
from torchlint.rules.registry import all_rules
from torchlint.rules.rule import Rule, Training

SIZES = ("small", "medium", "large")
_WHOLE = Training(gains="run", moves_random_stream=True)
"""How a script with all of the mistakes is judged: some of its fixes move the random stream."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A reference loop: its script, and the rule whose mistake it has (None: it has them all)."""

    path: Path
    rule: Rule | None

    @property
    def name(self) -> str:
        return self.path.stem.replace("_", "-")

    @property
    def source(self) -> str:
        """What its docstring says: whose proportions it keeps."""
        return ast.get_docstring(ast.parse(self.path.read_text(encoding="utf-8"))) or ""

    def command(self, size: str, seed: int, device: str) -> list[str]:
        """The script and its arguments. One that torchrun starts when fixed takes what GPUs there are."""
        chosen = ["--device", device] if self.training.launcher == "python" else []
        return [self.path.name, "--size", size, "--seed", str(seed), *chosen]

    @property
    def training(self) -> Training:
        return _WHOLE if self.rule is None else self.rule.training or Training()

    @property
    def takes_turns(self) -> bool:
        """Whether both arms can be held still between steps. What workers load meanwhile would come for free."""
        return self.training.gains == "step" and self.training.launcher == "python"


def folder() -> Path:
    """Where the loops are: beside the package, as a checkout and a wheel have it. HarnessError where they are not."""
    for found in (Path(__file__).parent / "reference", Path(__file__).parents[2] / "fixtures" / "loops"):
        if found.is_dir():
            return found
    raise HarnessError("the reference loops are not installed")


def loops() -> list[Loop]:
    """Every loop: those of the rules in the order of their codes, then the whole scripts."""
    rules = {rule.slug: rule for rule in all_rules()}
    found = [Loop(path, rules.get(path.stem.replace("_", "-"))) for path in sorted(folder().glob("*.py"))]
    return sorted(found, key=lambda loop: (loop.rule is None, loop.rule.code if loop.rule else loop.name))


def measured(
    loop: Loop, sizes: Sequence[str], device: Device, effort: Effort, on_run: OnRun
) -> Iterator[Comparison]:
    """Fix a loop, and measure it before and after, in each size up to the largest that fits. Raises HarnessError."""
    with tempfile.TemporaryDirectory(prefix="torchlint-bench-") as work:
        before, after = _tree(loop, Path(work, "before")), _tree(loop, Path(work, "after"))
        fixes = fix(after, [loop.rule.slug] if loop.rule else [], unsafe=True)
        if fixes.broken:
            raise HarnessError(f"{loop.name} cannot be fixed: {'; '.join(fixes.complaints)}")
        nothing = Comparison(loop.name, loop.rule.slug if loop.rule else None, Verdict.UNMEASURABLE, diff=fixes.diff)
        why = _why_not(loop, device, fixes.diff)
        if why:
            yield replace(nothing, reason=why)
            return
        effort = effort.for_turns(taken=loop.takes_turns)
        for size in sizes:
            arms = (Arm(before, _Command(loop, size, device.kind)),
                    Arm(after, _Command(loop, size, device.kind, _launcher(loop, device))))
            if loop.training.gains == "schedule":
                yield _schedule(nothing, arms, effort, on_run)
                return

            def on_sized(step: Step, size: str = size) -> None:
                on_run(replace(step, part=f"{step.part}, {size}"))

            try:
                yield replace(compare(loop.name, nothing.rule, arms, fixes, loop.training, effort, on_sized), size=size)
            except TooLarge as error:
                yield replace(nothing, size=size, diff="", reason=f"too large: {error}".partition(":\n")[0])
                return


def _schedule(nothing: Comparison, arms: tuple[Arm, Arm], effort: Effort, on_run: OnRun) -> Comparison:
    """The learning rates of both arms: all that there is to see of a rule about correctness."""
    on_run(Step(nothing.name, "learning rates"))
    before, after = (arm.run(effort.plan(0)).rates for arm in arms)
    if before == after:
        raise HarnessError(f"the fix of {nothing.name} leaves the learning rates as they were")
    return replace(nothing, reason="its gain is no time or memory: see the learning rates",
                   rates_before=before, rates_after=after)


@dataclass(frozen=True, slots=True)
class _Command:
    loop: Loop
    size: str
    device: str
    launcher: tuple[str, ...] = ()

    def __call__(self, seed: int) -> Sequence[str]:
        return [sys.executable, *self.launcher, *self.loop.command(self.size, seed, self.device)]


def _launcher(loop: Loop, device: Device) -> tuple[str, ...]:
    """What Python runs a fixed script with: nothing, or torchrun with a process for each GPU."""
    if loop.training.launcher == "python":
        return ()
    return ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(device.count))


def _tree(loop: Loop, to: Path) -> Tree:
    to.mkdir(parents=True)
    shutil.copy2(loop.path, to)
    return Tree(to.resolve(), to.resolve())


def _why_not(loop: Loop, device: Device, diff: str) -> str:
    """Why a loop cannot show anything here; empty where it can."""
    if loop.training.gpus > (device.count if device.kind != "cpu" else 0):
        return loop.training.on_gpu_only or f"it takes {loop.training.gpus} GPUs"
    if not diff:
        return "torchlint has no fix for it"
    return ""
