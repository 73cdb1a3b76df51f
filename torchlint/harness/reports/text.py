"""The report for a terminal: a line for each comparison, then what stands behind it; plain in a pipe."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table
from rich.text import Text

from torchlint.harness.reports import Measurement, curve, duration, interval, made_on, memory, title
from torchlint.harness.statistics import Ratio
from torchlint.harness.verdicts import Comparison, Verdict

_COLOURS = {
    Verdict.FASTER: "bold green", Verdict.LESS_MEMORY: "bold green", Verdict.UNCHANGED: "yellow",
    Verdict.SLOWER: "bold red", Verdict.DIFFERENT: "bold red", Verdict.UNMEASURABLE: "dim",
}  # fmt: skip
_BAR = 24  # characters of the longer of two times


def render(measurement: Measurement, *, colour: bool, width: int, diffs: bool) -> str:
    """Each comparison with its bars, the diffs that were measured, and a table of all verdicts."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=colour, no_color=not colour, highlight=False,
                      color_system="standard" if colour else None, legacy_windows=False, soft_wrap=True)
    for result in measurement.results:
        _describe(console, result)
        if diffs:
            _show_diff(console, result)
    console.print(_table(measurement), soft_wrap=False)
    console.print(Text(f"\n{made_on(measurement)}", "dim"))
    console.print(Text(f"{measurement.effort}. Ratios are before / after: above 1 is a gain.", "dim"))
    for note in measurement.notes:
        console.print(Text(f"Note: {note}."))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _table(measurement: Measurement) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("verdict", no_wrap=True)
    table.add_column("time ratio (95%)", no_wrap=True)
    table.add_column("memory", no_wrap=True)
    for result in measurement.results:
        ratio = result.time_ratio
        table.add_row(
            title(result),
            Text(result.verdict.value.removesuffix(" on this device"), _COLOURS[result.verdict]),
            interval(ratio) if ratio is not None else "",
            f"{result.memory_ratio:.2f}" if result.memory_ratio is not None else "",
        )
    return table


def _describe(console: Console, result: Comparison) -> None:
    console.print(Text.assemble((title(result), "bold"), ": ", (result.verdict.value, _COLOURS[result.verdict]),
                                f" ({result.reason})" if result.reason else ""))
    ratio = result.time_ratio
    if ratio is not None and result.time_before is not None and result.time_after is not None:
        longest = max(result.time_before, result.time_after)
        console.print(f"  step    before {_bar(result.time_before, longest)} {duration(result.time_before)}")
        console.print(f"          after  {_bar(result.time_after, longest)} {duration(result.time_after)}: "
                      f"{_speed(result.verdict, ratio)}; {result.repeats} pair{'s' * (result.repeats > 1)} of runs")
    if result.memory_before and result.memory_after:
        console.print(f"  memory  {memory(result.memory_before)} before, {memory(result.memory_after)} after, peak")
    if ratio is not None:
        console.print(f"  losses  {_losses(result)}")
    if result.rates_before:
        console.print(f"  learning rate before {curve(result.rates_before)} {_rates(result.rates_before)}")
        console.print(f"                after  {curve(result.rates_after)} {_rates(result.rates_after)}")
    for note in result.notes:
        console.print(Text(f"  note: {note}"))
    for place in result.not_exercised:
        console.print(Text(f"  not exercised, so not proven: {place}"))


def _bar(seconds: float, longest: float) -> str:
    return f"{'█' * max(1, round(seconds / longest * _BAR)):<{_BAR}}"


def _speed(verdict: Verdict, ratio: Ratio) -> str:
    """The ratio of times in words: a speed where the verdict is about it, and no more than a ratio elsewhere."""
    low, high = ratio.low, ratio.high
    if verdict is Verdict.FASTER:
        return f"{ratio.median:.2f} times as fast{_between(low, high)}"
    if verdict is Verdict.SLOWER and low is not None and high is not None:
        return f"{1 / ratio.median:.2f} times as slow{_between(1 / high, 1 / low)}"
    return f"ratio {ratio.median:.2f}{_between(low, high)}"


def _between(low: float | None, high: float | None) -> str:
    return f" (95%: {low:.2f} to {high:.2f})" if low is not None else ""


def _losses(result: Comparison) -> str:
    if result.loss_difference is None:
        return "not known to agree"
    allowed = f"{result.loss_allowed:.1g} is allowed" if result.loss_allowed is not None \
        else "how much chance moves them is not known"
    return f"differ by {result.loss_difference:.1g} of their size; {allowed}"


def _rates(rates: tuple[float, ...]) -> str:
    """The learning rates in words: how long each was held."""
    held: list[tuple[float, int]] = []
    for rate in rates:
        if held and abs(held[-1][0] - rate) <= 1e-12 + 1e-9 * abs(rate):
            held[-1] = rate, held[-1][1] + 1
        else:
            held.append((rate, 1))
    words = [f"{rate:.3g} for {count} step{'s' * (count > 1)}" for rate, count in held[:4]]
    return ", ".join([*words, *(["…"] if len(held) > 4 else [])])


def _show_diff(console: Console, result: Comparison) -> None:
    for line in result.diff.splitlines():
        style = "green" if line.startswith("+") else "red" if line.startswith("-") else "dim"
        console.print(Text(f"    {line}", style))
    console.print()
