"""What two arms' recordings come to, in one word of a fixed list and the figures behind it."""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from torchlint.harness.runs import Recording
from torchlint.harness.statistics import Ratio, final_loss, largest_difference, ratio, shift
from torchlint.rules.rule import Training

LEAST_GAIN = 0.02
"""A change of step time below this part is not called one: it would not be felt, and machines drift as much."""

LEAST_MEMORY = 0.05
"""The same for peak memory, whose runs differ less."""

TOO_WIDE = 0.15
"""An interval wider than this part of the ratio says little: more runs are made, up to a limit."""

TOO_VARIED = 0.25
"""Where chance alone may move the mean final loss by more than this part, the comparison is said to show little."""

LEAST_SEEDS = 5
"""Final losses of fewer seeds say nothing about their spread."""


class Verdict(str, enum.Enum):
    """The words that a report may say of a fix."""

    FASTER = "faster"
    LESS_MEMORY = "less memory"
    UNCHANGED = "no measurable change"
    SLOWER = "slower"
    DIFFERENT = "different result"
    UNMEASURABLE = "not measurable on this device"

    @property
    def fails(self) -> bool:
        """Whether a gate stops here."""
        return self in (Verdict.SLOWER, Verdict.DIFFERENT)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One fix (or all of them together), measured.

    Times are seconds of a step (a run's median, or its mean where the rule gains over a run), memory
    bytes at the peak; of several runs the median. Ratios are before / after. ``loss_difference`` is
    relative: the largest along the curves of one seed, or, for a fix that moves the random stream,
    of the mean final loss over seeds.
    """

    name: str
    rule: str | None
    verdict: Verdict
    reason: str = ""
    time_before: float | None = None
    time_after: float | None = None
    time_ratio: Ratio | None = None
    memory_before: int | None = None
    memory_after: int | None = None
    memory_ratio: float | None = None
    loss_difference: float | None = None
    loss_allowed: float | None = None
    repeats: int = 0
    size: str | None = None
    diff: str = ""
    notes: tuple[str, ...] = ()
    not_exercised: tuple[str, ...] = ()
    rates_before: tuple[float, ...] = ()
    rates_after: tuple[float, ...] = ()
    before: tuple[Recording, ...] = field(default=(), repr=False)
    after: tuple[Recording, ...] = field(default=(), repr=False)


def judge(
    name: str, rule: str | None, before: Sequence[Recording], after: Sequence[Recording], training: Training, diff: str
) -> Comparison:
    """The verdict on pairs of runs, the n-th of both arms with the n-th seed."""
    middle = statistics.median if training.gains == "step" else statistics.fmean
    times = ratio([run.times for run in before], [run.times for run in after], middle)
    memory_before, memory_after = _memory(before), _memory(after)
    memory = memory_before / memory_after if memory_before and memory_after else None
    difference, allowed, notes = _losses(before, after, training)
    if difference > allowed:
        verdict, reason = Verdict.DIFFERENT, f"losses differ by {difference:.2g}, more than {allowed:.2g}"
    elif times.low > 1 + LEAST_GAIN:
        verdict, reason = Verdict.FASTER, ""
    elif times.high < 1 - LEAST_GAIN:
        verdict, reason = Verdict.SLOWER, ""
    elif memory is not None and memory > 1 + LEAST_MEMORY and _all_save(before, after):
        verdict, reason = Verdict.LESS_MEMORY, ""
    else:
        verdict, reason = Verdict.UNCHANGED, ""
    if times.width > TOO_WIDE:
        notes.append(f"the machine is too noisy for a finer answer: the interval is {times.width:.0%} wide")
    return Comparison(
        name, rule, verdict, reason,
        time_before=statistics.median(middle(run.times) for run in before),
        time_after=statistics.median(middle(run.times) for run in after),
        time_ratio=times,
        memory_before=memory_before, memory_after=memory_after, memory_ratio=memory,
        loss_difference=difference if math.isfinite(difference) else None, loss_allowed=allowed,
        repeats=len(before), diff=diff, notes=tuple(notes), before=tuple(before), after=tuple(after),
    )  # fmt: skip


def _memory(runs: Sequence[Recording]) -> int | None:
    peaks = [run.peak_memory for run in runs if run.peak_memory]
    return round(statistics.median(peaks)) if peaks else None


def _all_save(before: Sequence[Recording], after: Sequence[Recording]) -> bool:
    return all((a.peak_memory or 0) > (b.peak_memory or 0) for a, b in zip(before, after))


def _losses(
    before: Sequence[Recording], after: Sequence[Recording], training: Training
) -> tuple[float, float, list[str]]:
    """How far training moved, how far it may, and what a reader should know about it."""
    notes: list[str] = []
    if not any(loss is not None for run in before for loss in run.losses):
        return 0.0, 0.0, ["no loss was seen: whether training is the same is not known"]
    if not training.moves_random_stream:
        if any(a.weights != b.weights for a, b in zip(before, after) if a.weights and b.weights):
            notes.append("the runs began with different weights although they had the same seed")
        return max(largest_difference(a.losses, b.losses) for a, b in zip(before, after)), training.tolerance, notes
    finals = [(final_loss(a.losses), final_loss(b.losses)) for a, b in zip(before, after)]
    known = [(a, b) for a, b in finals if a is not None and b is not None]
    if len(known) < LEAST_SEEDS:
        notes.append(f"the fix moves the random stream, and {len(known)} seeds cannot show that training is the same")
        broken = any(math.isfinite(a) and not math.isfinite(b) for a, b in known)
        return (math.inf if broken else 0.0), 0.0, notes
    if len({a for a, _ in known}) == 1:
        notes.append("the fix moves the random stream, and all seeds train alike: whether training is the same is open")
        return 0.0, 0.0, notes
    notes.append(f"the fix moves the random stream: mean final losses over {len(known)} seeds are compared")
    moved, chance = shift([a for a, _ in known], [b for _, b in known])
    if chance > TOO_VARIED:
        notes.append(f"the seeds' final losses differ so much that only a change above {chance:.0%} would show")
    return moved, chance + training.tolerance, notes
