"""``concise``: a line for each finding, then the summary."""

from __future__ import annotations

from torchlint.findings import Applicability, Finding
from torchlint.reporting import summary
from torchlint.reporting.report import Report, Write
from torchlint.reporting.text import name, place, visible

_FIXABLE = {Applicability.SAFE: " [fixable]", Applicability.UNSAFE: " [unsafe fix]", Applicability.DISPLAY: ""}


def render(report: Report, write: Write) -> None:
    """Write ``path:line:column: CODE slug: message [fixable]`` lines."""
    for finding in report.findings:
        write(f"{_line(finding)}\n")
    for line in summary.lines(report):
        write(f"{line}\n")


def _line(finding: Finding) -> str:
    fixable = "" if finding.fix is None else _FIXABLE[finding.fix.applicability]
    return f"{place(finding.path, finding.span.start)}: {name(finding)}: {visible(finding.message)}{fixable}"
