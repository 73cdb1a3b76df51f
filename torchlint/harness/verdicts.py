"""What two arms' recordings come to, in one word of a fixed list and the figures behind it."""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torchlint.harness.recordings import Recording
from torchlint.harness.statistics import Ratio, largest_difference, mean_loss, ratio, shift, typical
from torchlint.rules.rule import Training

LEAST_GAIN = 0.02
"""A change of step time below this part is not called one: it would not be felt, and machines drift as much."""

LEAST_MEMORY = 0.05
"""The same for peak memory, whose runs differ less."""

TOO_WIDE = 0.15
"""An interval wider than this part of the ratio says little: more runs are made, up to a limit. So they are where a
change that would be felt may still be chance."""

TOO_VARIED = 0.25
"""Where chance alone may move losses by more than this part, more seeds are run, and no verdict goes unqualified."""

LEAST_SEEDS = 5
"""Losses of fewer seeds say nothing about their spread."""


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

    Times are seconds of a step: a run's median, or its mean where the rule gains over a run; of several runs
    the geometric mean, so that ``time_before`` / ``time_after`` is ``time_ratio``. Memory is bytes at the
    peak, of several runs the median. Ratios are before / after. ``loss_difference`` is
    relative: the largest along the curves of one seed, or, for a fix that moves the random stream,
    the mean over seeds of how far a run's mean loss moved. None: not known, as where no loss was seen.
    ``loss_allowed`` is None where nothing says how much chance moves losses.
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
    times = ratio([run.blocks for run in before], [run.blocks for run in after], middle)
    memory_before, memory_after = _memory(before), _memory(after)
    memory = memory_before / memory_after if memory_before and memory_after else None
    losses = _losses(before, after, training)
    notes = [*losses.notes, *_memory_notes(memory), *_process_notes(before, after, training)]
    verdict, reason = _verdict(times, memory if _all_save(before, after) else None, losses)
    if times.low is None:
        notes.append("one pair of runs has no interval, and shows no change of time: give --repeat 2 or more")
    elif times.width > TOO_WIDE:
        notes.append(f"the machine is too noisy for a finer answer: the interval is {times.width:.0%} wide")
    return Comparison(
        name, rule, verdict, reason,
        time_before=typical([run.blocks for run in before], middle),
        time_after=typical([run.blocks for run in after], middle),
        time_ratio=times,
        memory_before=memory_before, memory_after=memory_after, memory_ratio=memory,
        loss_difference=losses.difference, loss_allowed=losses.allowed,
        repeats=len(before), diff=diff, notes=tuple(notes), before=tuple(before), after=tuple(after),
    )  # fmt: skip


def _memory(runs: Sequence[Recording]) -> int | None:
    peaks = [run.peak_memory for run in runs if run.peak_memory]
    return round(statistics.median(peaks)) if peaks else None


def _all_save(before: Sequence[Recording], after: Sequence[Recording]) -> bool:
    return all((a.peak_memory or 0) > (b.peak_memory or 0) for a, b in zip(before, after))


@dataclass(frozen=True, slots=True)
class _Losses:
    """How far training moved, how far it may, and what a reader should know about it."""

    difference: float | None
    allowed: float | None
    notes: tuple[str, ...] = ()
    broken: str = ""

    @property
    def is_different(self) -> bool:
        return self.difference is not None and self.allowed is not None and self.difference > self.allowed

    @property
    def is_open(self) -> bool:
        """Whether training could be another without being noticed."""
        return self.allowed is None or self.allowed > TOO_VARIED


def _verdict(times: Ratio, memory: float | None, losses: _Losses) -> tuple[Verdict, str]:
    """``memory``: the ratio of peaks, where every pair of runs saves some."""
    if losses.broken:
        return Verdict.DIFFERENT, losses.broken
    if losses.is_different:
        return Verdict.DIFFERENT, f"losses differ by {losses.difference:.2g}, more than {losses.allowed:.2g}"
    if times.high is not None and times.high < 1 - LEAST_GAIN:
        return Verdict.SLOWER, ""
    if times.low is not None and times.low > 1 + LEAST_GAIN:
        return Verdict.FASTER, _condition(losses)
    if memory is not None and memory > 1 + LEAST_MEMORY:
        return Verdict.LESS_MEMORY, _condition(losses)
    return Verdict.UNCHANGED, ""


def _condition(losses: _Losses) -> str:
    """What a gain rests on that was not shown."""
    if not losses.is_open:
        return ""
    shown = f"only a change of losses above {losses.allowed:.0%} would show" if losses.allowed is not None \
        else "that is not known"
    return f"if training is the same: {shown}"


def _memory_notes(memory: float | None) -> list[str]:
    grown = 1 / memory if memory else 0.0
    return [f"peak memory grew to {grown:.2f} times what it was"] if grown > 1 + LEAST_MEMORY else []


def _process_notes(before: Sequence[Recording], after: Sequence[Recording], training: Training) -> Iterator[str]:
    """What cannot be told of programs that start processes: data-loader workers, most of all."""
    if any(run.has_children and run.peak_memory is None for run in (*before, *after)):
        yield "memory is not compared: what other processes of the program take is not seen"
    if training.gains == "run" and any(run.has_children for run in after) and not any(r.loader_starts for r in after):
        yield "no start of data-loader workers lies in the timed steps: more --steps show what it costs"


def is_unclear(judged: Comparison) -> bool:
    """Whether more runs may say more: of time, or of whether training is the same."""
    varied = judged.loss_allowed is not None and judged.loss_allowed > TOO_VARIED
    return varied or (judged.time_ratio is not None and _is_undecided(judged.time_ratio))


def _is_undecided(times: Ratio) -> bool:
    """Whether a change that would be felt is likely, and may be none."""
    if times.low is None or times.high is None or times.width > TOO_WIDE:
        return True
    least = 1 + LEAST_GAIN
    return times.low <= least < times.median or times.median < 1 - LEAST_GAIN <= times.high


def _losses(before: Sequence[Recording], after: Sequence[Recording], training: Training) -> _Losses:
    made = next(((a.steps, b.steps) for a, b in zip(before, after) if abs(a.steps - b.steps) > 1), None)
    if made is not None:
        return _Losses(None, None, broken=f"{made[0]} optimizer steps before, {made[1]} after")
    if not any(loss is not None for run in before for loss in run.losses):
        return _Losses(None, None, ("no loss was seen: whether training is the same is not known",))
    if training.moves_random_stream:
        return _moved_losses(before, after, training)
    difference = max(largest_difference(a.losses, b.losses) for a, b in zip(before, after))
    if math.isinf(difference):
        return _Losses(None, training.tolerance, broken="losses vanish, or are no longer finite, on one side only")
    return _Losses(difference, training.tolerance)


def _moved_losses(before: Sequence[Recording], after: Sequence[Recording], training: Training) -> _Losses:
    """Of a fix after which random numbers are drawn in another order: no curve stays as it was."""
    means = [(mean_loss(a.losses), mean_loss(b.losses)) for a, b in zip(before, after)]
    known = [(a, b) for a, b in means if a is not None and b is not None]
    if len(known) < len(means):
        return _Losses(None, None, broken="losses vanish on one side only")
    moved, chance = shift([a for a, _ in known], [b for _, b in known])
    if math.isinf(moved):
        return _Losses(None, training.tolerance, broken="losses are no longer finite")
    seeds = f"the fix moves the random stream, and {len(known)} seed{'s' * (len(known) > 1)}"
    if len(known) < LEAST_SEEDS:
        return _Losses(moved, None, (f"{seeds} cannot show that training is the same",))
    if chance is None:
        return _Losses(moved, None, (f"{seeds} train alike: whether training is the same is open",))
    return _Losses(moved, chance + training.tolerance, (f"{seeds} are compared by their mean losses",))
