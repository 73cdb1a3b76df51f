"""The report as one HTML file without scripts: a table, and for each comparison its step times and losses as curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from torchlint.harness.reports import Measurement, duration, interval, made_on, memory, title
from torchlint.harness.verdicts import Comparison, Verdict

_WIDTH, _HEIGHT = 420, 120  # of a picture, in pixels
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100% } td, th { padding: .3rem .6rem; text-align: left }
tr { border-bottom: 1px solid #ddd } .good { color: #17692b } .bad { color: #b3261e } .even { color: #666 }
pre { background: #f6f6f6; padding: .6rem; overflow-x: auto } figure { display: inline-block; margin: 0 1rem 1rem 0 }
figcaption { color: #666; font-size: 13px } .before { stroke: #b3661e } .after { stroke: #17692b }
svg { background: #fafafa } path { fill: none; stroke-width: 1.5 }
"""
_CLASSES = {
    Verdict.FASTER: "good", Verdict.LESS_MEMORY: "good", Verdict.SLOWER: "bad", Verdict.DIFFERENT: "bad",
    Verdict.UNCHANGED: "even", Verdict.UNMEASURABLE: "even",
}  # fmt: skip


def render(measurement: Measurement) -> str:
    """A page of its own."""
    rows = "\n".join(_row(result) for result in measurement.results)
    details = "\n".join(_details(result) for result in measurement.results if result.diff or result.reason)
    notes = "".join(f"<p>{escape(note)}</p>" for note in measurement.notes)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>torchlint: what the fixes gain</title><style>{_STYLE}</style></head>
<body>
<h1>What the fixes gain</h1>
<p>{escape(made_on(measurement))};
{escape(measurement.date)}; commit {escape(measurement.commit or "unknown")}.
{escape(measurement.effort)}. Ratios are before / after: above 1 is a gain.</p>{notes}
<table><tr><th>fix</th><th>size</th><th>verdict</th><th>step before</th><th>after</th><th>ratio (95%)</th>
<th>memory before</th><th>after</th><th>losses differ</th><th>runs</th></tr>
{rows}
</table>
{details}
</body></html>
"""


def _row(result: Comparison) -> str:
    ratio = result.time_ratio
    cells = [
        escape(result.name),
        result.size or "",
        f'<span class="{_CLASSES[result.verdict]}">{result.verdict.value}</span>',
        duration(result.time_before) if result.time_before else "",
        duration(result.time_after) if result.time_after else "",
        interval(ratio) if ratio else "",
        memory(result.memory_before) if result.memory_before else "",
        memory(result.memory_after) if result.memory_after else "",
        "" if result.loss_difference is None else f"{result.loss_difference:.1g}",
        str(2 * result.repeats) if result.repeats else "",
    ]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _details(result: Comparison) -> str:
    pictures = ""
    if result.before and result.after:
        first, fixed = result.before[0], result.after[0]
        pictures = _figure("step time of the first runs, ms", *([t * 1000 for t in r.times] for r in (first, fixed)))
        pictures += _figure("loss of the first runs", first.losses, fixed.losses)
    if result.rates_before:
        pictures += _figure("learning rate", result.rates_before, result.rates_after)
    said = [result.reason, *result.notes, *(f"not exercised, so not proven: {place}" for place in result.not_exercised)]
    words = "".join(f"<p>{escape(line)}</p>" for line in said if line)
    diff = f"<pre>{escape(result.diff)}</pre>" if result.diff else ""
    return f"<h2>{escape(title(result))}</h2>{words}{pictures}{diff}"


def _figure(caption: str, before: Sequence[float | None], after: Sequence[float | None]) -> str:
    values = [value for value in (*before, *after) if value is not None and math.isfinite(value)]
    if not values:
        return ""
    low, high = min(values), max(values)
    lines = "".join(f'<path class="{name}" d="{_path(curve, low, high)}"/>'
                    for name, curve in (("before", before), ("after", after)))
    return (f'<figure><svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{escape(caption)}">{lines}</svg>'
            f"<figcaption>{escape(caption)}, {low:.3g} to {high:.3g}; before brown, after green</figcaption></figure>")


def _path(values: Sequence[float | None], low: float, high: float) -> str:
    span = (high - low) or 1.0
    points = [(i * (_WIDTH - 8) / max(len(values) - 1, 1) + 4, _HEIGHT - 6 - (value - low) / span * (_HEIGHT - 12))
              for i, value in enumerate(values) if value is not None and math.isfinite(value)]
    return "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in points) if points else ""
