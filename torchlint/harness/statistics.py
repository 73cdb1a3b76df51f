"""What repeated timings of two arms prove: a ratio of medians, with the interval that chance leaves open.

Runs come in pairs, one of each arm, near in time, so that what slows the machine for a while slows
both. Steps of one run are alike and runs are not, so the bootstrap draws pairs of runs first and
steps within them then (a cluster bootstrap: Davison and Hinkley, Bootstrap Methods and their
Application, 1997, section 3.8). Medians, because a step that the system interrupts says nothing.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
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


def ratio(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> Ratio:
    """The ratio of median step times, each arm given as the steps of its runs, in pairs (at least one)."""
    pairs = [(_thinned(a), _thinned(b)) for a, b in zip(before, after, strict=True)]
    observed = _of_medians(pairs)
    generator = random.Random(_SEED)
    drawn = []
    for _ in range(_RESAMPLES):
        runs = generator.choices(pairs, k=len(pairs))
        drawn.append(_of_medians([(generator.choices(a, k=len(a)), generator.choices(b, k=len(b))) for a, b in runs]))
    drawn.sort()
    return Ratio(observed, drawn[round(0.025 * (_RESAMPLES - 1))], drawn[round(0.975 * (_RESAMPLES - 1))])


def _of_medians(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """The geometric mean over pairs of the ratio of the runs' medians: each pair counts once."""
    logs = [math.log(statistics.median(a) / statistics.median(b)) for a, b in pairs]
    return math.exp(statistics.fmean(logs))


def _thinned(times: Sequence[float]) -> Sequence[float]:
    step = math.ceil(len(times) / _MOST_STEPS)
    return [max(time, 1e-9) for time in times[::step]]


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
