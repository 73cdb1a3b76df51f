"""``full``: the terminal's format, a code frame for every finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torchlint.findings import Applicability, Finding, Severity
from torchlint.reporting import suggestion, summary
from torchlint.reporting.frame import Row, frame
from torchlint.reporting.report import Report, Write
from torchlint.reporting.text import name, place, visible

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.HINT: "cyan"}

_STYLES = {"gutter": "bright_blue", "title": "bold", "added": "green", "removed": "red", "note": "bold"}

_HOW = {
    Applicability.SAFE: "`torchlint fix` applies it",
    Applicability.UNSAFE: "unsafe: `torchlint fix --unsafe-fixes` applies it",
    Applicability.DISPLAY: "shown only, apply it by hand",
}


def render(report: Report, write: Write) -> None:
    """Write a frame for each finding, then the summary."""
    paint = _painter() if report.display.colour else _plain
    for finding in report.findings:
        mark = f"bold {_COLOURS[finding.severity]}"
        for row in _rows(finding, report):
            write(paint(row, mark) + "\n")
        write("\n")
    for line in summary.lines(report):
        write(paint([(line, "")], "") + "\n")


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


def _plain(row: Row, mark: str) -> str:
    return "".join(text for text, _ in row).rstrip()


def _painter() -> Callable[[Row, str], str]:
    """A function that paints a row with ANSI colours; rich is imported here and nowhere sooner."""
    from rich.color import ColorSystem
    from rich.style import Style

    def paint(row: Row, mark: str) -> str:
        return "".join(
            Style.parse(mark if style == "mark" else _STYLES[style]).render(text, color_system=ColorSystem.STANDARD)
            if style and text.strip()
            else text
            for text, style in row
        ).rstrip()

    return paint
