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
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise HarnessError("--save-plot needs matplotlib: pip install 'torchlint[harness]'") from None
    shown = [result for result in measurement.results if result.before or result.rates_before]
    figure = Figure(figsize=(10, 2.6 * max(len(shown), 1)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(max(len(shown), 1), 2, squeeze=False)
    for (left, right), result in zip(axes, shown):
        left.set_title(f"{title(result)}: {result.verdict.value}", fontsize=10, loc="left")
        for axis in (left, right):
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.set_xlabel("optimizer step", fontsize=8)
        if result.rates_before:
            for rates, colour, label in ((result.rates_before, "tab:orange", "before"),
                                         (result.rates_after, "tab:green", "after")):
                left.step(range(1, len(rates) + 1), rates, color=colour, label=label)
            left.set_ylabel("learning rate")
            right.set_axis_off()
            left.legend(fontsize=8)
            continue
        right.sharex(left)
        for runs, colour, label in ((result.before, "tab:orange", "before"), (result.after, "tab:green", "after")):
            for number, run in enumerate(runs):
                name = label if number == 0 else None
                losses = [float("nan") if loss is None else loss for loss in run.losses]
                steps = range(1, len(losses) + 1)
                times = [time * 1000 for time in run.times]  # those of the warm-up are not kept
                style = {"color": colour, "alpha": 0.6, "linewidth": 0.9, "label": name}
                left.plot(steps[len(losses) - len(times):], times, **style)
                right.plot(steps, losses, **style)
        left.set_ylabel("step time, ms")
        left.set_ylim(bottom=0)
        left.legend(fontsize=8)
        right.set_ylabel("loss")
    figure.suptitle(f"{measurement.device}; torch {measurement.torch}", fontsize=9)
    figure.savefig(path, dpi=120)
