"""``full``: the terminal's format, a code frame for every finding."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Applicability, Finding
from torchlint.reporting import suggestion, summary
from torchlint.reporting.frame import Row, frame
from torchlint.reporting.painting import painter
from torchlint.reporting.report import Report, Write
from torchlint.reporting.text import name, place, visible

_HOW = {
    Applicability.SAFE: "`torchlint fix` applies it",
    Applicability.UNSAFE: "unsafe: `torchlint fix --unsafe-fixes` applies it",
    Applicability.DISPLAY: "shown only, apply it by hand",
}


def render(report: Report, write: Write) -> None:
    """Write a frame for each finding, then the summary."""
    paint = painter(colour=report.display.colour)
    for finding in report.findings:
        for row in _rows(finding, report):
            write(paint(row, finding.severity) + "\n")
        write("\n")
    for line in summary.lines(report):
        write(paint([(line, "")], None) + "\n")


def _rows(finding: Finding, report: Report) -> Iterator[Row]:
    yield [(f"{finding.severity.value}[{name(finding)}]", "mark"), (f": {visible(finding.message)}", "title")]
    rows = frame(finding.span, report.lines, report.display.width)
    margin = " " * (len(rows[0][0][0]) - 1 if rows else 2)
    yield [(f"{margin[1:]}--> ", "gutter"), (place(finding.path, finding.span.start), "")]
    yield from rows
    if finding.help is not None:
        yield [(f"{margin}= ", "gutter"), ("help", "note"), (f": {visible(finding.help)}", "")]
    if (fix := finding.fix) is not None:
        yield [
            (f"{margin}= ", "gutter"),
            ("fix", "note"),
            (f": {visible(fix.message)} ({_HOW[fix.applicability]})", ""),
        ]
        if fix.applicability is Applicability.DISPLAY:
            yield from suggestion.rows(fix, report.lines, margin)
