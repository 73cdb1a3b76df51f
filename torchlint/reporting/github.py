"""``github``: workflow commands, which GitHub Actions shows as annotations on the changed lines.

The syntax and its escapes: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
and ``command.ts`` of actions/toolkit.
"""

from __future__ import annotations

from torchlint.findings import Diagnostic, Finding, Severity
from torchlint.reporting.report import Report, Write
from torchlint.reporting.text import name, place, visible

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.HINT: "notice"}


def render(report: Report, write: Write) -> None:
    """Write a command for each finding and each diagnostic."""
    for finding in report.findings:
        write(_finding(finding) + "\n")
    for diagnostic in report.diagnostics:
        write(_diagnostic(diagnostic) + "\n")


def _finding(finding: Finding) -> str:
    start, end = finding.span.start, finding.span.end
    properties = {"title": f"torchlint ({name(finding)})", "file": finding.path}
    if start.cell is None:  # a line of a cell is no line of the notebook's file
        properties |= {"line": str(start.line), "endLine": str(end.line)}
        if start.line == end.line:  # GitHub takes columns only within one line
            properties |= {"col": str(start.column), "endColumn": str(end.column)}
    text = f"{place(finding.path, start)}: {finding.message}"
    return _command(_LEVELS[finding.severity], properties, text if finding.help is None else f"{text}\n{finding.help}")


def _diagnostic(diagnostic: Diagnostic) -> str:
    properties = {"title": f"torchlint ({diagnostic.kind})", "file": diagnostic.path}
    if diagnostic.position is not None and diagnostic.position.cell is None:
        properties["line"] = str(diagnostic.position.line)
    return _command("error", properties, f"{place(diagnostic.path, diagnostic.position)}: {diagnostic.message}")


def _command(level: str, properties: dict[str, str], message: str) -> str:
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{level} {listed}::{_data(message)}"


def _data(text: str) -> str:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "%0A".join(visible(line).replace("%", "%25") for line in lines)


def _property(text: str) -> str:
    return visible(text).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
