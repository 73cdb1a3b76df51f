"""Measures two trees against each other: runs of both in turn, until the answer is clear or the effort spent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torchlint.harness.arms import Fixes, Place, Tree
from torchlint.harness.recordings import HarnessError, Plan, Recording, TooSlow
from torchlint.harness.runs import record, record_in_turn
from torchlint.harness.statistics import largest_difference
from torchlint.harness.verdicts import LEAST_SEEDS, Comparison, Verdict, is_unclear, judge
from torchlint.rules.rule import Training


@dataclass(frozen=True, slots=True)
class Step:
    """What is run next: the comparison that it is a part of, and which run of it.

    ``done`` runs are behind it, and ``most`` is the largest number that the comparison may take.
    """

    part: str
    run: str = ""
    done: int = 0
    most: int = 1

    def __str__(self) -> str:
        return f"{self.part}, {self.run}" if self.run else self.part


OnRun = Callable[[Step], None]
"""Called before every run with what is run."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is run: optimizer steps that are timed and steps before them, pairs of runs, seconds a run may take.

    Where the programs of a pair take turns, ``block`` steps at a time, another start costs nothing, and
    ``turns`` are made of each.
    """

    steps: int
    warm_up: int
    repeats: int
    most_repeats: int
    threads: int | None = None
    timeout: float = 600.0
    block: int | None = None
    turns: int = 0

    @property
    def words(self) -> str:
        """What is run, for a report."""
        threads = f", {self.threads} thread{'s' * (self.threads > 1)}" if self.threads else ""
        in_turns = self.for_turns(taken=True).steps
        side_by_side = f" ({in_turns} in short turns where every step gains)" if in_turns > self.steps else ""
        return f"Pairs of runs in turn, each {self.steps} steps{side_by_side} after {self.warm_up} of warm-up{threads}"

    def for_turns(self, *, taken: bool) -> Effort:
        """The effort for programs that take turns, or for such that cannot."""
        if taken and self.block:
            return replace(self, steps=max(self.steps, self.turns * self.block))
        return replace(self, block=None)

    def plan(self, seed: int) -> Plan:
        return Plan(self.steps, self.warm_up, seed, self.threads, timeout=self.timeout, block=self.block)


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison: a command (given a seed) in a tree."""

    tree: Tree
    command: Callable[[int], Sequence[str]]

    def run(self, plan: Plan) -> Recording:
        return record(self.command(plan.seed), self.tree, plan)


def compare(
    name: str, rule: str | None, arms: tuple[Arm, Arm], fixes: Fixes, training: Training, effort: Effort, on_run: OnRun,
    known: Recording | None = None,
) -> Comparison:  # fmt: skip
    """Run both arms in turn, A B A B, each pair with a seed of its own, until the answer is clear.

    ``known`` is a run of the first arm with the first seed: a program that does not repeat itself is
    judged by how far chance moves it. Raises HarnessError where the program does not run as it is;
    where it runs only without the fixes, that is the verdict.
    """
    runs_before: list[Recording] = []
    runs_after: list[Recording] = []
    notes: list[str] = []
    while True:
        seed = len(runs_before)
        least = _least(training, effort)
        step = Step(name, f"run {seed + 1}", 2 * seed, 2 * max(effort.most_repeats, least))
        before, after = _pair(step, arms, effort.plan(seed), on_run)
        if isinstance(after, HarnessError):
            return _broken(name, rule, fixes, after)
        if known is not None and (apart := _own_difference(known, before)):
            notes.append(f"the program does not repeat itself: two runs of one seed, without fixes, differ by {apart}")
        known = None
        if notes or _began_apart(before, after):
            training = replace(training, moves_random_stream=True)
        runs_before.append(before)
        runs_after.append(after)
        least = _least(training, effort)
        if len(runs_before) < least:
            continue
        judged = judge(name, rule, runs_before, runs_after, training, fixes.diff)
        if not is_unclear(judged) or len(runs_before) >= max(effort.most_repeats, least):
            return replace(judged, notes=(*judged.notes, *notes))


def _least(training: Training, effort: Effort) -> int:
    """The pairs without which there is no verdict."""
    return max(effort.repeats, LEAST_SEEDS) if training.moves_random_stream else effort.repeats


def _pair(
    step: Step, arms: tuple[Arm, Arm], plan: Plan, on_run: OnRun
) -> tuple[Recording, Recording | HarnessError]:
    """One run of each arm. Raises HarnessError where the first, the program as it is, fails."""
    if plan.block:
        on_run(replace(step, run=f"before and after in turn, {step.run}"))
        before, after = record_in_turn([(arm.command(plan.seed), arm.tree) for arm in arms], plan)
        if isinstance(before, HarnessError):
            raise before
        return before, after
    on_run(replace(step, run=f"before, {step.run}"))
    before = arms[0].run(plan)
    on_run(replace(step, run=f"after, {step.run}", done=step.done + 1))
    try:
        return before, arms[1].run(plan)
    except HarnessError as error:
        return before, error


def _own_difference(one: Recording, other: Recording) -> str:
    """By how much the losses of two runs of one program with one seed differ; empty where they do not."""
    difference = largest_difference(one.losses, other.losses)
    return f"{difference:.1g}" if difference > Training().tolerance else ""


def _broken(name: str, rule: str | None, fixes: Fixes, error: HarnessError) -> Comparison:
    """The verdict on fixes without which the program runs, and with which it does not."""
    verdict = Verdict.SLOWER if isinstance(error, TooSlow) else Verdict.DIFFERENT
    what, _, output = str(error).partition(":\n")
    notes = ("without the fixes it does not", *([f"what it wrote last:\n{output}"] if output else []))
    return Comparison(name, rule, verdict, f"with the fixes applied, {what}", diff=fixes.diff, notes=notes)


def _began_apart(one: Recording, other: Recording) -> bool:
    """Whether two runs of one seed had other weights before their first step."""
    return bool(one.weights and other.weights and one.weights != other.weights)


@dataclass(frozen=True, slots=True)
class Exercise:
    """What a run of the program comes to: ``loaded``, the fixes in files that it loads; ``unreached``, those of them
    whose lines it does not run, so that nothing proves them; and the run itself."""

    loaded: Fixes
    unreached: tuple[Place, ...]
    run: Recording

    @property
    def reached(self) -> tuple[Place, ...]:
        """The fixes that a comparison is about."""
        return tuple(place for place in self.loaded.places if place not in self.unreached)


def exercised(before: Arm, fixes: Fixes, effort: Effort) -> Exercise:
    """Run the program once, with the first seed, and see which fixes it comes to."""
    run = before.run(replace(effort.plan(0), lines=fixes.lines(), timeout=effort.timeout * 5))
    loaded = fixes.within(run.loaded)
    unreached = tuple(p for p in loaded.places if not any((p.file, line) in run.lines for line in p.lines))
    return Exercise(loaded, unreached, run)
