"""Results as plain lists, for JSON and back. Paths are left out: a result is kept with its file."""

from __future__ import annotations

from typing import Any

from torchlint.checking import FileResult
from torchlint.findings import Applicability, Diagnostic, Edit, Finding, Fix, Position, Severity, Span


def is_lasting(result: FileResult) -> bool:
    """Whether a result would come out the same again.

    What died, or was too much for the parser, may do better next time; as what a fix may be made
    that edits other files depends on the settings of these.
    """
    own = all(edit.span.path == finding.path for finding in result.findings if finding.fix is not None
              for edit in finding.fix.edits)
    return own and all(diagnostic.kind == "syntax-error" for diagnostic in result.diagnostics)


def encoded(result: FileResult) -> list[Any]:
    return [[_finding_to(finding) for finding in result.findings],
            [[d.kind, d.message, _position_to(d.position)] for d in result.diagnostics],
            [[cell, number, text] for (_, cell, number), text in result.lines]]


def decoded(shown: str, held: list[Any]) -> FileResult:
    findings, diagnostics, lines = held
    return FileResult(
        shown,
        tuple(_finding_from(shown, finding) for finding in findings),
        tuple(Diagnostic(kind, shown, message, _position_from(at)) for kind, message, at in diagnostics),
        tuple(((shown, cell, number), text) for cell, number, text in lines),
    )


def _finding_to(finding: Finding) -> list[Any]:
    fix = None if finding.fix is None else [finding.fix.message, finding.fix.applicability.value, [
        [_span_to(edit.span), edit.content] for edit in finding.fix.edits]]
    return [finding.code, finding.rule, finding.severity.value, _span_to(finding.span), finding.message, finding.help,
            fix]


def _finding_from(shown: str, held: list[Any]) -> Finding:
    code, rule, severity, span, message, advice, fix = held
    made = None if fix is None else Fix(fix[0], Applicability(fix[1]), tuple(
        Edit(_span_from(shown, place), content) for place, content in fix[2]))
    return Finding(code, rule, Severity(severity), _span_from(shown, span), message, advice, made)


def _span_to(span: Span) -> list[Any]:
    return [span.begin, span.finish, _position_to(span.start), _position_to(span.end)]


def _span_from(shown: str, held: list[Any]) -> Span:
    begin, finish, start, end = held
    return Span(shown, begin, finish, Position(*start), Position(*end))


def _position_to(position: Position | None) -> list[Any] | None:
    return None if position is None else [position.line, position.column, position.cell]


def _position_from(held: list[Any] | None) -> Position | None:
    return None if held is None else Position(*held)
