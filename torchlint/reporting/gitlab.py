"""``gitlab``: a Code Quality report, https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format."""

from __future__ import annotations

import json
from typing import Any

from torchlint.findings import Finding, Severity
from torchlint.reporting.fingerprint import fingerprints
from torchlint.reporting.report import Report, Write
from torchlint.reporting.text import name

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.HINT: "minor"}


def render(report: Report, write: Write) -> None:
    """Write the report's array."""
    marks = fingerprints(report)
    write(json.dumps([_issue(f, mark) for f, mark in zip(report.findings, marks, strict=True)], indent=2) + "\n")


def _issue(finding: Finding, mark: str) -> dict[str, Any]:
    start, end = finding.span.start, finding.span.end
    lines = {"begin": start.line, "end": end.line}
    where = ""
    if start.cell is not None:  # a line of a cell is no line of the notebook's file
        lines, where = {"begin": 1, "end": 1}, f" (cell {start.cell}, line {start.line})"
    return {
        "description": f"{name(finding)}: {finding.message}{where}",
        "check_name": finding.rule,
        "fingerprint": mark,
        "severity": _SEVERITIES[finding.severity],
        "location": {"path": finding.path, "lines": lines},
    }
