"""``sarif``: SARIF 2.1.0, https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import quote

from torchlint import __version__
from torchlint.findings import Applicability, Diagnostic, Finding, Fix, Position, Severity, Span
from torchlint.reporting.fingerprint import fingerprints
from torchlint.reporting.report import Report, Write
from torchlint.rules.docs import as_markdown, as_text, sections
from torchlint.rules.registry import rule_by_name

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.HINT: "note"}


def render(report: Report, write: Write) -> None:
    """Write the log: one run, with the rules that were found."""
    slugs = sorted({finding.rule for finding in report.findings})
    index = {slug: number for number, slug in enumerate(slugs)}
    marks = fingerprints(report)
    run = {
        "tool": {
            "driver": {
                "name": "torchlint",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [_rule(slug, report) for slug in slugs],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not report.diagnostics,
                "toolExecutionNotifications": [_notification(diagnostic) for diagnostic in report.diagnostics],
            }
        ],
        "results": [
            _result(finding, index[finding.rule], mark, report)
            for finding, mark in zip(report.findings, marks, strict=True)
        ],
    }
    write(json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n")


def _rule(slug: str, report: Report) -> dict[str, Any]:
    finding = next(f for f in report.findings if f.rule == slug)
    rule = rule_by_name(slug)
    described: dict[str, Any] = {"id": finding.code, "name": slug}
    if rule is None:
        return described
    return described | {
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": sections(rule).get("What it does") or rule.summary},
        "help": {"text": as_text(rule), "markdown": as_markdown(rule)},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": [rule.family]},
    }


def _result(finding: Finding, index: int, mark: str, report: Report) -> dict[str, Any]:
    text = finding.message if finding.help is None else f"{finding.message}\n{finding.help}"
    result = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [_location(finding.span, report)],
        "partialFingerprints": {"torchlint/v1": mark},
    }
    if finding.fix is not None and _can_be_applied(finding.fix):
        result["fixes"] = [_fix(finding.fix)]
    return result


def _can_be_applied(fix: Fix) -> bool:
    """Viewers apply a fix to the file's own lines: a notebook's cells have none."""
    shown_only = fix.applicability is Applicability.DISPLAY
    return bool(fix.edits) and not shown_only and all(edit.span.start.cell is None for edit in fix.edits)


def _location(span: Span, report: Report) -> dict[str, Any]:
    if span.start.cell is not None:
        return _in_cell(span.path, span.start)
    region = _region(span)
    lines = [report.lines.get((span.path, None, n)) for n in range(span.start.line, span.end.line + 1)]
    if None not in lines:
        region["snippet"] = {"text": "\n".join(map(str, lines))[:1000]}
    return {"physicalLocation": {"artifactLocation": _artifact(span.path), "region": region}}


def _in_cell(path: str, position: Position) -> dict[str, Any]:
    """A cell's line is no line of the file, so the cell is named and the file's first line pointed at."""
    return {
        "physicalLocation": {"artifactLocation": _artifact(path), "region": {"startLine": 1}},
        "logicalLocations": [{"fullyQualifiedName": f"cell {position.cell}, line {position.line}", "kind": "member"}],
    }


def _fix(fix: Fix) -> dict[str, Any]:
    changes: dict[str, list[dict[str, Any]]] = {}
    for edit in fix.edits:
        replacement = {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.content}}
        changes.setdefault(edit.span.path, []).append(replacement)
    return {
        "description": {"text": fix.message},
        "artifactChanges": [
            {"artifactLocation": _artifact(path), "replacements": replacements}
            for path, replacements in changes.items()
        ],
        "properties": {"applicability": fix.applicability.value},
    }


def _region(span: Span) -> dict[str, Any]:
    return {
        "startLine": span.start.line,
        "startColumn": span.start.column,
        "endLine": span.end.line,
        "endColumn": span.end.column,
    }


def _artifact(path: str) -> dict[str, str]:
    return {"uri": quote(os.fsencode(path)), "uriBaseId": "%SRCROOT%"}


def _notification(diagnostic: Diagnostic) -> dict[str, Any]:
    position = diagnostic.position
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": _artifact(diagnostic.path)}}
    if position is not None and position.cell is not None:
        location = _in_cell(diagnostic.path, position)
    elif position is not None:
        region = {"startLine": position.line, "startColumn": position.column}
        location["physicalLocation"]["region"] = region
    return {
        "descriptor": {"id": diagnostic.kind},
        "level": "error",
        "message": {"text": diagnostic.message},
        "locations": [location],
    }
