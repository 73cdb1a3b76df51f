"""What a run found, as every format is given it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from torchlint.findings import Diagnostic, Finding, Span

Place = tuple[str, int | None, int]
"""A line of a file: path, cell (None outside notebooks), line from 1."""

Lines = Mapping[Place, str]
"""The few source lines that code frames and fingerprints need, without line ends."""

LineOf = Callable[[int, int | None], str | None]
"""Gives line n (from 1) of a cell (None outside notebooks); None where there is no such line."""

Write = Callable[[str], object]
"""Where a format puts its text: called with pieces of any length."""

CONTEXT = 2
"""Lines of context on either side of a span."""

_WHOLE_SPAN = 12
"""A longer span is excerpted at both ends only (a class, a loop), so that reports stay small."""


@dataclass(frozen=True, slots=True)
class Applied:
    """How many fixes of one rule were written to one file.

    A fix may be written to several: then all but one of them say that it is ``counted_elsewhere``.
    """

    path: str
    code: str
    rule: str
    count: int
    counted_elsewhere: int = 0


@dataclass(frozen=True, slots=True)
class Display:
    """How the person at the other end sees it.

    ``width`` is the terminal's, in columns; None where nothing limits it. ``unsafe_fixes`` says
    that the run was asked to apply unsafe fixes too, ``show_fixes`` that applied ones are listed.
    ``done`` is what the run did to what it says is applied: it "Fixed" or "Silenced" it.
    """

    colour: bool = False
    width: int | None = None
    unsafe_fixes: bool = False
    show_fixes: bool = False
    done: str = "Fixed"


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one run: what is left to say after suppression and fixing.

    ``findings`` come in the order of :func:`torchlint.findings.sorted_findings`; ``files`` counts
    the files that were looked at. The command line writes ``diagnostics`` to stderr whatever the
    format; formats that have a place for them carry them as well.
    """

    findings: tuple[Finding, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    lines: Lines = field(default_factory=lambda: MappingProxyType({}))
    applied: tuple[Applied, ...] = ()
    files: int = 0
    display: Display = Display()

    @property
    def fixed(self) -> int:
        """How many problems were fixed."""
        return sum(applied.count - applied.counted_elsewhere for applied in self.applied)


def excerpt(findings: Iterable[Finding], line_of: LineOf) -> dict[Place, str]:
    """The lines of one file that a report of these findings needs.

    ``line_of`` reads the file of the findings; edits in other files are left out.
    """
    lines: dict[Place, str] = {}
    for finding in findings:
        spans = [finding.span]
        if finding.fix is not None:
            spans += [edit.span for edit in finding.fix.edits if edit.span.path == finding.path]
        for span in spans:
            for number in _wanted(span):
                place = (span.path, span.start.cell, number)
                if place not in lines and (text := line_of(number, span.start.cell)) is not None:
                    lines[place] = text.rstrip("\r\n")
    return lines


def _wanted(span: Span) -> Iterable[int]:
    first, last = max(1, span.start.line - CONTEXT), span.end.line + CONTEXT
    if span.end.line - span.start.line <= _WHOLE_SPAN:
        return range(first, last + 1)
    return (*range(first, span.start.line + CONTEXT + 1), *range(span.end.line - CONTEXT, last + 1))
