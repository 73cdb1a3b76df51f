"""Where a run's words go: reports to stdout or a file, diagnostics and warnings to stderr."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import click

from torchlint.findings import Diagnostic
from torchlint.reporting import Display, Report, display, renderer
from torchlint.reporting.text import plural


def prepare_streams() -> None:
    """Let no character stop a report: what a stream's encoding lacks is written as an escape."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def warn(message: str) -> None:
    click.echo(f"warning: {message}", err=True)


def write_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    """What could not be done, on stderr."""
    from torchlint.reporting import diagnostics as lines

    pieces: list[str] = []
    lines.render(diagnostics, pieces.append)
    if pieces:
        click.echo("".join(pieces), err=True, nl=False)


def display_for(stream: IO[str] | None, *, unsafe_fixes: bool, show_fixes: bool, done: str = "Fixed") -> Display:
    """How to write for whoever reads the stream; None for a file, which gets neither colours nor a width."""
    shown = display(stream, os.environ) if stream is not None else Display()
    return dataclasses.replace(shown, unsafe_fixes=unsafe_fixes, show_fixes=show_fixes, done=done)


def write_diff_summary(report: Report) -> None:
    """How much ``--diff`` would fix, on stderr, beside the patch on stdout."""
    files = len({applied.path for applied in report.applied})
    click.echo(f"Would fix {plural(report.fixed, 'problem')} in {plural(files, 'file')}.", err=True)


def write_report(report: Report, format: str, *, statistics: bool, file: str | None, stream: IO[str]) -> None:
    """Write the report; to ``file`` where there is one. UsageError where that cannot be written."""
    pieces: list[str] = []
    if statistics:
        from torchlint.reporting import statistics as table

        (table.render_json if format.startswith("json") else table.render)(report, pieces.append)
    else:
        renderer(format)(report, pieces.append)
    text = "".join(pieces)
    if file is None:
        click.echo(text, file=stream, nl=False, color=report.display.colour)
        return
    try:
        Path(file).write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise click.UsageError(f"--output-file {file}: {error.strerror or error}") from error
