"""Measures two trees against each other: runs of both in turn, until the answer is clear or the effort spent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torchlint.harness.arms import Fixes, Place, Tree
from torchlint.harness.runs import Plan, Recording, record
from torchlint.harness.verdicts import LEAST_SEEDS, TOO_WIDE, Comparison, judge
from torchlint.rules.rule import Training

OnRun = Callable[[str], None]
"""Called before every run with what is run, in words."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is run: optimizer steps that are timed and steps before them, pairs of runs, seconds a run may take."""

    steps: int
    warm_up: int
    repeats: int
    most_repeats: int
    threads: int | None = None
    timeout: float = 600.0

    @property
    def words(self) -> str:
        """What is run, for a report."""
        threads = f", {self.threads} thread{'s' * (self.threads > 1)}" if self.threads else ""
        return (f"{self.repeats} to {self.most_repeats} pairs of runs in turn, each {self.steps} steps after "
                f"{self.warm_up} of warm-up{threads}")

    def plan(self, seed: int) -> Plan:
        return Plan(self.steps, self.warm_up, seed, self.threads, timeout=self.timeout)


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison: a command (given a seed) in a tree."""

    tree: Tree
    command: Callable[[int], Sequence[str]]

    def run(self, plan: Plan) -> Recording:
        return record(self.command(plan.seed), self.tree, plan)


def compare(
    name: str, rule: str | None, arms: tuple[Arm, Arm], fixes: Fixes, training: Training, effort: Effort, on_run: OnRun
) -> Comparison:
    """Run both arms in turn, A B A B, each pair with a seed of its own. Raises HarnessError where a run fails."""
    before, after = arms
    runs_before: list[Recording] = []
    runs_after: list[Recording] = []
    least = max(effort.repeats, LEAST_SEEDS) if training.moves_random_stream else effort.repeats
    while True:
        seed = len(runs_before)
        on_run(f"{name}, before, run {seed + 1}")
        runs_before.append(before.run(effort.plan(seed)))
        on_run(f"{name}, after, run {seed + 1}")
        runs_after.append(after.run(effort.plan(seed)))
        if len(runs_before) < least:
            continue
        judged = judge(name, rule, runs_before, runs_after, training, fixes.diff)
        is_clear = judged.time_ratio is None or judged.time_ratio.width <= TOO_WIDE
        if is_clear or len(runs_before) >= max(effort.most_repeats, least):
            return judged


def exercised(before: Arm, fixes: Fixes, effort: Effort) -> tuple[Fixes, tuple[Place, ...]]:
    """The fixes in files that the program loads, and those of them that a run never comes to: nothing proves these."""
    run = before.run(replace(effort.plan(0), lines=fixes.lines(), timeout=effort.timeout * 5))
    loaded = fixes.within(run.loaded)
    return loaded, tuple(p for p in loaded.places if not any((p.file, line) in run.lines for line in p.lines))
