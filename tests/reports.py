"""Reports for the tests of the formats, made from snippets whose carets mark the findings."""

from __future__ import annotations

from itertools import cycle

from torchlint.findings import Applicability, Edit, Finding, Fix, Position, Severity, Span, sorted_findings
from torchlint.reporting import Report, excerpt
from torchlint.rules.example import Example

MESSAGE = "The bias is cancelled by the normalisation after it."


Pair = tuple[int, int]


def span(text: str, start: Pair, end: Pair, path: str = "train.py", cell: int | None = None) -> Span:
    """The span between two (line, column) pairs of the text."""

    def offset(place: Pair) -> int:
        return sum(len(line) for line in text.splitlines(keepends=True)[: place[0] - 1]) + place[1] - 1

    return Span(path, offset(start), offset(end), Position(*start, cell), Position(*end, cell))


def report(
    code: str,
    *,
    path: str = "train.py",
    cell: int | None = None,
    message: str = MESSAGE,
    fix: Applicability | None = None,
    replacement: str = "None",
) -> Report:
    """A report with a finding at each mark; severities take turns: warning, error, hint."""
    example = Example(code, bad=True)
    text = example.source
    findings = []
    for mark, severity in zip(example.marks, cycle((Severity.WARNING, Severity.ERROR, Severity.HINT))):
        assert mark.end is not None
        where = span(text, mark.start, mark.end, path, cell)
        edits = (Edit(where, replacement),)
        findings.append(
            Finding(
                "TL101",
                "conv-bias-before-batchnorm",
                severity,
                where,
                message,
                "Pass bias=False.",
                None if fix is None else Fix("Drop the bias", fix, edits),
            )
        )
    lines = text.split("\n")
    known = excerpt(findings, lambda number, _: lines[number - 1] if 0 < number <= len(lines) else None)
    return Report(tuple(sorted_findings(findings)), lines=known, files=1)
