"""``junit``: an XML report that CI servers show with their test results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from xml.etree import ElementTree

from torchlint.findings import Diagnostic, Finding
from torchlint.reporting.report import Report, Write
from torchlint.reporting.text import name, place

# What XML 1.0 forbids even as a reference: https://www.w3.org/TR/xml/#charsets
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report, write: Write) -> None:
    """Write a suite for each file; a clean run is one passing case, for servers that reject an empty report."""
    root = ElementTree.Element("testsuites", name="torchlint")
    for path, findings, diagnostics in _by_path(report):
        suite = _suite(root, path, len(findings), len(diagnostics))
        for finding in findings:
            _failure(suite, finding)
        for diagnostic in diagnostics:
            _error(suite, diagnostic)
    if not len(root):
        suite = _suite(root, "torchlint", 0, 0, tests=1)
        ElementTree.SubElement(suite, "testcase", name="no problems", classname="torchlint")
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ElementTree.indent(root)
    write('<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n")


def _by_path(report: Report) -> Iterator[tuple[str, list[Finding], list[Diagnostic]]]:
    findings = {path: list(group) for path, group in groupby(report.findings, lambda f: f.path)}
    diagnostics: dict[str, list[Diagnostic]] = {}
    for diagnostic in report.diagnostics:
        diagnostics.setdefault(diagnostic.path, []).append(diagnostic)
    for path in sorted({*findings, *diagnostics}):
        yield path, findings.get(path, []), diagnostics.get(path, [])


def _suite(
    root: ElementTree.Element, path: str, failures: int, errors: int, tests: int | None = None
) -> ElementTree.Element:
    counts = {"tests": failures + errors if tests is None else tests, "failures": failures, "errors": errors}
    attributes = {key: str(count) for key, count in counts.items()}
    return ElementTree.SubElement(root, "testsuite", {"name": _legal(path), **attributes})


def _failure(suite: ElementTree.Element, finding: Finding) -> None:
    start = finding.span.start
    case = _case(suite, name(finding), finding.path, start.line, start.column)
    failure = ElementTree.SubElement(case, "failure", message=_legal(finding.message), type=finding.severity.value)
    text = f"{place(finding.path, start)}: {finding.message}"
    failure.text = _legal(text if finding.help is None else f"{text}\n{finding.help}")


def _error(suite: ElementTree.Element, diagnostic: Diagnostic) -> None:
    position = diagnostic.position
    line, column = (1, 1) if position is None else (position.line, position.column)
    case = _case(suite, diagnostic.kind, diagnostic.path, line, column)
    error = ElementTree.SubElement(case, "error", message=_legal(diagnostic.message), type=diagnostic.kind)
    error.text = _legal(f"{place(diagnostic.path, position)}: {diagnostic.message}")


def _case(suite: ElementTree.Element, title: str, path: str, line: int, column: int) -> ElementTree.Element:
    attributes = {"name": title, "classname": path, "file": path, "line": str(line), "column": str(column)}
    return ElementTree.SubElement(suite, "testcase", {key: _legal(value) for key, value in attributes.items()})


def _legal(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
