"""What repeated timings of two arms prove: a ratio, with the interval that chance leaves open.

What an arm takes is the median step of a run, which no interruption by the system moves; or the
mean step, where the gain is not in every step: a validation, or batches that arrive in bursts.
Runs come in pairs, one of each arm, near in time, so that what slows the machine for a while slows
both. Steps of one run are alike and runs are not, so the bootstrap draws pairs of runs first and
steps within them then (a cluster bootstrap: Davison and Hinkley, Bootstrap Methods and their
Application, 1997, section 3.8).
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
    """Before divided by after, with a 95% interval: above 1 is a gain."""

    median: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """The interval's width as a part of the ratio."""
        return (self.high - self.low) / self.median


Middle = Callable[[Sequence[float]], float]


def ratio(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]], middle: Middle) -> Ratio:
    """The ratio of step times, each arm given as the steps of its runs, in pairs (at least one).

    ``middle`` is the median or the mean.
    """
    pairs = [(_positive(a), _positive(b)) for a, b in zip(before, after, strict=True)]
    observed = _of_runs(pairs, middle)
    generator = random.Random(_SEED)
    drawn = []
    for _ in range(_RESAMPLES):
        runs = generator.choices(pairs, k=len(pairs))
        drawn.append(_of_runs([(_redrawn(a, generator), _redrawn(b, generator)) for a, b in runs], middle))
    drawn.sort()
    return Ratio(observed, drawn[round(0.025 * (_RESAMPLES - 1))], drawn[round(0.975 * (_RESAMPLES - 1))])


def _of_runs(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], middle: Middle) -> float:
    """The median over pairs of the ratio of their runs: each pair counts once."""
    return statistics.median(middle(a) / middle(b) for a, b in pairs)


def _redrawn(times: Sequence[float], generator: random.Random) -> Sequence[float]:
    return generator.choices(times, k=min(len(times), _MOST_STEPS))


def _positive(times: Sequence[float]) -> Sequence[float]:
    return [max(time, 1e-9) for time in times]


def largest_difference(before: Sequence[float | None], after: Sequence[float | None]) -> float:
    """The largest relative difference between two loss curves, over the steps that both made; infinite for a NaN."""
    largest = 0.0
    for a, b in zip(before, after):
        if a is None or b is None:
            continue
        if math.isfinite(a) and math.isfinite(b):
            largest = max(largest, abs(a - b) / max(abs(a), abs(b), 1e-12))
        elif not (math.isnan(a) and math.isnan(b)) and a != b:
            return math.inf
    return largest


def final_loss(losses: Sequence[float | None]) -> float | None:
    """The mean over the last quarter of a curve: where training has come to; None where there is no loss."""
    known = [loss for loss in losses if loss is not None]
    return statistics.fmean(known[-max(1, len(known) // 4):]) if known else None


def shift(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """By how much the final losses of some seeds moved, and by how much chance alone may move them.

    Both are relative to the mean of ``before``. Chance: Welch's interval at 99.9%, so that a gate
    over a dozen rules cries wolf once in a hundred runs.
    """
    a, b = statistics.fmean(before), statistics.fmean(after)
    scale = max(abs(a), 1e-12)
    if len(before) < 2 or not all(map(math.isfinite, (*before, *after))):
        return abs(b - a) / scale if math.isfinite(b - a) else math.inf, 0.0
    variances = statistics.variance(before) / len(before), statistics.variance(after) / len(after)
    error = math.sqrt(sum(variances))
    degrees = sum(v**2 / (n - 1) for v, n in zip(variances, (len(before), len(after))))
    freedom = sum(variances) ** 2 / max(degrees, 1e-300)
    return abs(b - a) / scale, _student(freedom) * error / scale


def _student(freedom: float) -> float:
    """The two-sided 99.9% quantile of Student's t (Cornish and Fisher's expansion; tables below 5 degrees)."""
    if freedom < 5:
        return {1: 636.6, 2: 31.6, 3: 12.92, 4: 8.61}[max(1, math.floor(freedom))]
    z, n = 3.2905, freedom
    return z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2) + (
        3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
