"""The report as JSON: seconds and bytes, ratios before / after."""

from __future__ import annotations

import json
import statistics
from typing import Any

from torchlint.harness.recordings import Recording
from torchlint.harness.reports import Measurement
from torchlint.harness.statistics import mean_loss
from torchlint.harness.verdicts import Comparison


def render(measurement: Measurement) -> str:
    """One object; see ``as_data``."""
    return json.dumps(as_data(measurement), indent=2, ensure_ascii=False) + "\n"


def as_data(measurement: Measurement) -> dict[str, Any]:
    """What is written: the machine and, in ``results``, an object for each comparison."""
    return {
        "machine": measurement.machine,
        "device": measurement.device,
        "kind": measurement.kind,
        "torch": measurement.torch,
        "commit": measurement.commit,
        "date": measurement.date,
        "effort": measurement.effort,
        "notes": list(measurement.notes),
        "results": [_result(result) for result in measurement.results],
    }


def _pair(seed: int, before: Recording, after: Recording) -> dict[str, Any]:
    """A pair of runs of one seed: what a reader needs to do the statistics again."""
    return {"seed": seed, "before": _run(before), "after": _run(after)}


def _run(run: Recording) -> dict[str, Any]:
    return {"step_median": statistics.median(run.times), "step_mean": statistics.fmean(run.times),
            "memory": run.peak_memory, "loss_mean": mean_loss(run.losses)}


def _result(result: Comparison) -> dict[str, Any]:
    ratio = result.time_ratio
    return {
        "name": result.name,
        "rule": result.rule,
        "size": result.size,
        "verdict": result.verdict.value,
        "reason": result.reason,
        "time_before": result.time_before,
        "time_after": result.time_after,
        "time_ratio": None if ratio is None else {"median": ratio.median, "low": ratio.low, "high": ratio.high},
        "memory_before": result.memory_before,
        "memory_after": result.memory_after,
        "memory_ratio": result.memory_ratio,
        "loss_difference": result.loss_difference,
        "loss_allowed": result.loss_allowed,
        "repeats": result.repeats,
        "runs": [_pair(seed, *pair) for seed, pair in enumerate(zip(result.before, result.after))],
        "rates_before": list(result.rates_before),
        "rates_after": list(result.rates_after),
        "notes": list(result.notes),
        "not_exercised": list(result.not_exercised),
        "diff": result.diff,
    }
