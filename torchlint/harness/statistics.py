"""What repeated timings of two arms prove: a ratio, with the interval that chance leaves open.

What an arm takes is the median step of a run, which no interruption by the system moves; or the
mean step, where the gain is not in every step: a validation, or batches that arrive in bursts.
Runs come in pairs, one of each arm, near in time, so that what slows the machine for a while slows
both; where two programs take turns, each block of steps has one of the other arm beside it. Steps of
one run are alike and runs are not, so the bootstrap draws pairs of runs first, and within them then
pairs of blocks, or steps where there is one block (a cluster bootstrap: Davison and Hinkley,
Bootstrap Methods and their Application, 1997, section 3.8). Few pairs make it too sure, so its
interval is widened as Student's t asks (Hesterberg, What Teachers Should Know About the Bootstrap,
2015, section 4.3): in simulations it then holds the truth in 95 to 100 of 100 cases, from three
pairs on.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_RESAMPLES = 1_000
_MOST_STEPS = 60  # of one run: more make the bootstrap slower and the interval hardly narrower
_SEED = 20_240_229  # the same timings give the same interval


@dataclass(frozen=True, slots=True)
class Ratio:
    """Before divided by after, with a 95% interval: above 1 is a gain. One pair of runs has no interval.

    ``median`` is the geometric mean over pairs of runs: the reports in JSON call it so since before it was one.
    """

    median: float
    low: float | None
    high: float | None

    @property
    def width(self) -> float:
        """The interval's width as a part of the ratio."""
        return (self.high - self.low) / self.median if self.low is not None and self.high is not None else math.inf


Middle = Callable[[Sequence[float]], float]
Blocks = Sequence[Sequence[float]]
"""The step times of one run, those of each block that it made without a break."""


def ratio(before: Sequence[Blocks], after: Sequence[Blocks], middle: Middle) -> Ratio:
    """The ratio of step times, each arm given as its runs (at least one), in pairs of as many blocks.

    ``middle``, the median or the mean, is what a block takes; of a run's blocks the median ratio
    counts, which no spell of something else on the machine moves; over pairs it is the geometric mean.
    """
    pairs = [[(_positive(a), _positive(b)) for a, b in zip(one, other, strict=True)]
             for one, other in zip(before, after, strict=True)]
    observed = _of_runs(pairs, middle)
    if len(pairs) < 2:
        return Ratio(math.exp(observed), None, None)
    generator = random.Random(_SEED)
    drawn = []
    for _ in range(_RESAMPLES):
        runs = generator.choices(pairs, k=len(pairs))
        drawn.append(_of_runs([_redrawn(run, generator) for run in runs], middle))
    drawn.sort()
    below, above = (drawn[round(part * (_RESAMPLES - 1))] - observed for part in (0.025, 0.975))
    wider = _student(len(pairs) - 1, _95) / _95.normal * math.sqrt(len(pairs) / (len(pairs) - 1))
    return Ratio(math.exp(observed), math.exp(observed + wider * below), math.exp(observed + wider * above))


def typical(runs: Sequence[Blocks], middle: Middle) -> float:
    """What a step of an arm takes, averaged as in the ratio: the typical times of two arms have just that ratio."""
    return math.exp(statistics.fmean(
        statistics.fmean(math.log(middle(_positive(block))) for block in blocks) for blocks in runs))


_Pair = Sequence[tuple[Sequence[float], Sequence[float]]]
"""Two runs: the steps of each block of the one, and those of the other's beside them."""


def _of_runs(pairs: Sequence[_Pair], middle: Middle) -> float:
    """The mean over pairs of the logarithm of the ratio of their runs."""
    return statistics.fmean(statistics.median(math.log(middle(a) / middle(b)) for a, b in run) for run in pairs)


def _redrawn(blocks: _Pair, generator: random.Random) -> _Pair:
    if len(blocks) > 1:
        return generator.choices(blocks, k=len(blocks))
    return [(_some(a, generator), _some(b, generator)) for a, b in blocks]


def _some(times: Sequence[float], generator: random.Random) -> Sequence[float]:
    return generator.choices(times, k=min(len(times), _MOST_STEPS))


def _positive(times: Sequence[float]) -> Sequence[float]:
    return [max(time, 1e-9) for time in times]


def largest_difference(before: Sequence[float | None], after: Sequence[float | None]) -> float:
    """The largest relative difference between two loss curves, over the steps that both made.

    Infinite where only one has a loss, or where one is finite and the other is not.
    """
    largest = 0.0
    for a, b in zip(before, after):
        if a is None or b is None:
            largest = max(largest, 0.0 if a is b else math.inf)
        elif math.isfinite(a) and math.isfinite(b):
            largest = max(largest, abs(a - b) / max(abs(a), abs(b), 1e-12))
        elif not (math.isnan(a) and math.isnan(b)) and a != b:
            return math.inf
    return largest


def mean_loss(losses: Sequence[float | None]) -> float | None:
    """The mean over a whole curve; None where there is no loss.

    Of a curve's end alone, once training has converged, chance moves more than there is left.
    """
    known = [loss for loss in losses if loss is not None]
    return statistics.fmean(known) if known else None


def shift(before: Sequence[float], after: Sequence[float]) -> tuple[float, float | None]:
    """By how much the losses of some seeds moved, and by how much chance alone may move them.

    Both are relative. The n-th of both saw the same data, so that their differences are compared:
    chance is Student's interval at 99.9%, so that a gate over a dozen rules cries wolf once in a
    hundred runs; None where one seed, or seeds that all do the same, leave it open.
    """
    moved = [2 * (b - a) / max(abs(a) + abs(b), 1e-12) for a, b in zip(before, after, strict=True)]
    if not all(map(math.isfinite, moved)):
        return (math.inf if all(map(math.isfinite, before)) else 0.0), 0.0
    mean = abs(statistics.fmean(moved))
    if len(moved) < 2 or len({*before}) == 1:
        return mean, None
    return mean, _student(len(moved) - 1, _999) * statistics.stdev(moved) / math.sqrt(len(moved))


@dataclass(frozen=True, slots=True)
class _Level:
    """A two-sided level: the normal distribution's quantile, and Student's for 1 to 4 degrees of freedom."""

    normal: float
    student: tuple[float, float, float, float]


_95 = _Level(1.95996, (12.706, 4.303, 3.182, 2.776))
_999 = _Level(3.29053, (636.6, 31.60, 12.92, 8.610))


def _student(freedom: int, level: _Level) -> float:
    """The quantile of Student's t (Cornish and Fisher's expansion; a table below 5 degrees)."""
    if freedom < 5:
        return level.student[freedom - 1]
    z, n = level.normal, freedom
    return z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2) + (
        3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
