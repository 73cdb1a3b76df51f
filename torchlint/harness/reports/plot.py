"""The measurement as a picture, for who would rather look than read. Needs matplotlib (``torchlint[harness]``)."""

from __future__ import annotations

from pathlib import Path

from torchlint.harness.recordings import HarnessError
from torchlint.harness.reports import Measurement, title


def save(measurement: Measurement, path: Path) -> None:
    """Write step times and loss curves of every comparison, side by side. HarnessError without matplotlib."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise HarnessError("--save-plot needs matplotlib: pip install 'torchlint[harness]'") from None
    shown = [result for result in measurement.results if result.before or result.rates_before]
    figure = Figure(figsize=(10, 2.6 * max(len(shown), 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(max(len(shown), 1), 2, squeeze=False)
    for (left, right), result in zip(axes, shown):
        left.set_title(f"{title(result)}: {result.verdict.value}", fontsize=10, loc="left")
        if result.rates_before:
            left.step(range(len(result.rates_before)), result.rates_before, color="tab:orange", label="before")
            left.step(range(len(result.rates_after)), result.rates_after, color="tab:green", label="after")
            left.set_ylabel("learning rate")
            right.set_axis_off()
            left.legend(fontsize=8)
            continue
        for runs, colour, label in ((result.before, "tab:orange", "before"), (result.after, "tab:green", "after")):
            for number, run in enumerate(runs):
                name = label if number == 0 else None
                left.plot([time * 1000 for time in run.times], color=colour, alpha=0.6, linewidth=0.9, label=name)
                losses = [float("nan") if loss is None else loss for loss in run.losses]
                right.plot(losses, color=colour, alpha=0.6, linewidth=0.9, label=name)
        left.set_ylabel("step time, ms")
        left.set_ylim(bottom=0)
        left.legend(fontsize=8)
        right.set_ylabel("loss")
        right.set_xlabel("step", fontsize=8)
    figure.suptitle(f"{measurement.device}; torch {measurement.torch}", fontsize=9)
    figure.savefig(path, dpi=120)
