"""``concise``: a line for each finding, then the summary."""

from __future__ import annotations

from torchlint.findings import Applicability, Finding
from torchlint.reporting import summary
from torchlint.reporting.frame import Row
from torchlint.reporting.painting import painter
from torchlint.reporting.report import Report, Write
from torchlint.reporting.text import name, place, visible

_FIXABLE = {Applicability.SAFE: " [fixable]", Applicability.UNSAFE: " [unsafe fix]", Applicability.DISPLAY: ""}


def render(report: Report, write: Write) -> None:
    """Write ``path:line:column: CODE slug: message [fixable]`` lines."""
    paint = painter(colour=report.display.colour)
    for finding in report.findings:
        write(f"{paint(_row(finding), finding.severity)}\n")
    for line in summary.lines(report):
        write(f"{line}\n")


def _row(finding: Finding) -> Row:
    fixable = "" if finding.fix is None else _FIXABLE[finding.fix.applicability]
    return [
        (place(finding.path, finding.span.start), "place"), (": ", ""), (name(finding), "mark"),
        (f": {visible(finding.message)}", ""), (fixable, "fixable"),
    ]  # fmt: skip
