"""``json``: an array of findings, for programs; the shape is a contract (docs/ci.md)."""

from __future__ import annotations

import json
from typing import Any

from torchlint.findings import Finding, Fix, Position
from torchlint.reporting.report import Report, Write


def render(report: Report, write: Write) -> None:
    """Write the array, an object for each finding."""
    write(json.dumps([as_object(finding) for finding in report.findings], indent=2) + "\n")


def as_object(finding: Finding) -> dict[str, Any]:
    """A finding as JSON: lines and columns from 1, columns in characters, ends exclusive."""
    span = finding.span
    return {
        "code": finding.code,
        "rule": finding.rule,
        "message": finding.message,
        "help": finding.help,
        "severity": finding.severity.value,
        "path": span.path,
        "line": span.start.line,
        "column": span.start.column,
        "end_line": span.end.line,
        "end_column": span.end.column,
        "cell": span.start.cell,
        "fix": None if finding.fix is None else _fix(finding.fix),
        "url": None,
    }


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "applicability": fix.applicability.value,
        "message": fix.message,
        "edits": [
            {
                "path": edit.span.path,
                "cell": edit.span.start.cell,
                "start": _pair(edit.span.start),
                "end": _pair(edit.span.end),
                "content": edit.content,
            }
            for edit in fix.edits
        ],
    }


def _pair(position: Position) -> list[int]:
    return [position.line, position.column]
