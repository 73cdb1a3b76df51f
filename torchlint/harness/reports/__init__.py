"""What a measurement comes to, for people (text, HTML, a picture) and for programs (JSON): one file a form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module

from torchlint.harness.statistics import Ratio
from torchlint.harness.verdicts import Comparison

FORMATS = ("text", "json", "html")


@dataclass(frozen=True, slots=True)
class Measurement:
    """All comparisons of one command, and what they were made on.

    ``machine``, ``device`` and ``torch`` in words, ``kind`` cpu, cuda or mps, ``commit`` that of the
    checkout, ``date`` as ISO 8601; ``effort`` says how much was run, ``notes`` what a reader should
    know of all of it.
    """

    machine: str
    device: str
    kind: str
    torch: str
    commit: str | None
    date: str
    effort: str
    results: tuple[Comparison, ...]
    notes: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether a fix is slower, or changes the result."""
        return any(result.verdict.fails for result in self.results)


def render(measurement: Measurement, form: str, *, colour: bool, width: int, diffs: bool = True) -> str:
    """The report in one of ``FORMATS``; colour, width (characters) and whether diffs are shown are for text."""
    renderer: Callable[..., str] = import_module(f"torchlint.harness.reports.{form}").render
    return renderer(measurement, colour=colour, width=width, diffs=diffs) if form == "text" else renderer(measurement)


def made_on(measurement: Measurement) -> str:
    """What it was measured on, in words; a processor that trained is part of the machine's."""
    device = "" if measurement.kind == "cpu" else f"{measurement.device}; "
    return f"{device}torch {measurement.torch}; {measurement.machine}"


def title(result: Comparison) -> str:
    """What was compared, with its size."""
    return f"{result.name}, {result.size}" if result.size else result.name


def duration(seconds: float) -> str:
    """Seconds with a fitting unit and three digits."""
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def interval(ratio: Ratio) -> str:
    """A ratio with its interval."""
    return f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})" if ratio.low is not None \
        else f"{ratio.median:.2f} (no interval)"


def memory(count: int) -> str:
    """Bytes in MiB, or GiB from one on."""
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def curve(values: Iterable[float], width: int = 40) -> str:
    """A curve as one line of blocks, lowest to highest; empty without values."""
    known = list(values)
    if not known:
        return ""
    picked = [known[i * len(known) // width] for i in range(width)] if len(known) > width else known
    low, high = min(picked), max(picked)
    steps = "▁▂▃▄▅▆▇█"
    return "".join(steps[round((value - low) / (high - low) * 7) if high > low else 3] for value in picked)
