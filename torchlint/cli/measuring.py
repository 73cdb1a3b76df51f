"""What ``bench`` and ``verify`` have in common: options, a progress bar, and where the report goes."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from torchlint.harness.machines import Device
    from torchlint.harness.measuring import Effort, Step
    from torchlint.harness.reports import Measurement
    from torchlint.harness.verdicts import Comparison

Command = TypeVar("Command", bound=Callable[..., Any])

BLOCK = 4
"""Steps of a turn, where the programs of a pair take turns: on a CPU. Two models may not fit on one GPU."""

TURNS = 20
"""How many turns each program of a pair takes."""

_OPTIONS = (
    click.option("--steps", type=click.IntRange(min=5), metavar="N", help="Optimizer steps that each run times."),
    click.option("--repeat", type=click.IntRange(min=1), metavar="N",
                 help="Pairs of runs, before and after, at least 5 where a fix moves the random stream; by default "
                      "as many as the noise asks for."),
    click.option("--output-format", type=click.Choice(["text", "json", "html"]), default="text", show_default=True,
                 help="How to report."),
    click.option("-o", "--output-file", type=click.Path(dir_okay=False), help="Write the report to this file."),
    click.option("--save-plot", type=click.Path(dir_okay=False), metavar="FILE.png",
                 help="Write step times and losses as a picture (needs matplotlib)."),
    click.option("--no-diff", is_flag=True, help="Leave the diffs that were measured out of the text."),
)


def options(command: Command) -> Command:
    """Decorator: the options of both commands."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def guarded(work: Callable[[], int]) -> int:
    """The exit code of ``work``; 2, with a message, where it cannot be done. A signal ends it with its cleaning up."""
    from torchlint.config import ConfigError
    from torchlint.harness.recordings import HarnessError

    try:
        with _endable():
            return work()
    except (HarnessError, ConfigError, OSError) as error:
        click.echo(f"torchlint: {error}", err=True)
        return 2


@contextlib.contextmanager
def _endable() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP raise, so that programs are stopped and temporary folders removed."""

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # the cleaning up is not to be interrupted
        raise SystemExit(128 + number)

    # One that is ignored stays so: nohup ignores SIGHUP.
    numbers = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
               and signal.getsignal(number) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def measurement(
    device: Device, commit: str | None, effort: Effort, results: Sequence[Comparison], notes: Sequence[str]
) -> Measurement:
    """The results with what they were made on, here and now."""
    from torchlint.harness import machines
    from torchlint.harness.reports import Measurement

    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return Measurement(machines.machine(), device.name, device.kind, device.torch, commit, now, effort.words,
                       tuple(results), tuple(notes))


def deliver(measured: Measurement, given: dict[str, Any], failed: Sequence[str] = ()) -> int:
    """Write the report where the options say; the exit code: 1 where a fix fails its gate, 2 where a run failed."""
    from torchlint.harness.reports import render
    from torchlint.reporting import display
    from torchlint.reporting.terminal import columns

    to_file = given["output_file"]
    colour = to_file is None and display(sys.stdout, os.environ).colour
    text = render(measured, given["output_format"], colour=colour, width=max(columns(), 100),
                  diffs=not given["no_diff"])
    if to_file is not None:
        Path(to_file).write_text(text, encoding="utf-8")
    else:
        click.echo(text, nl=False, color=colour)
    if given["save_plot"]:
        from torchlint.harness.reports import plot

        plot.save(measured, Path(given["save_plot"]))
    for message in failed:
        click.echo(f"torchlint: {message}", err=True)
    return 2 if failed else 1 if measured.fails else 0


_SECONDS_BETWEEN = 30.0
"""Where lines stand for the bar: a log of some hours is to stay readable."""


class Progress:
    """A bar on stderr over the runs of each comparison, with what is being run.

    Where stderr is no terminal: a line for each comparison, and now and then one more while it takes long.
    ``place`` says how far the whole is.
    """

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.place = ""
        self._watched = sys.stderr.isatty()
        self._said = ("", 0.0)
        self._bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(),
            TextColumn("{task.completed} runs of {task.total} at most"), TimeElapsedColumn(),
            console=Console(stderr=True), transient=True, disable=not self._watched,
        )  # fmt: skip
        self._task = self._bar.add_task("measuring", total=1)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def say(self, step: Step) -> None:
        """Show what is run now."""
        self._bar.update(self._task, description=f"{self.place}{step}", completed=step.done, total=step.most)
        part, when = self._said
        if not self._watched and (step.part != part or time.monotonic() - when > _SECONDS_BETWEEN):
            click.echo(f"torchlint: {self.place}{step}", err=True)
            self._said = step.part, time.monotonic()
