"""What torchlint reports: spans, edits, fixes, findings and diagnostics.

Everything here is a frozen value that can cross a process boundary.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class Severity(enum.Enum):
    """How bad the mistake is: wrong results, waste, or worth a look."""

    ERROR = "error"
    WARNING = "warning"
    HINT = "hint"


class Applicability(enum.Enum):
    """How far a fix may be trusted; proven for each finding, not fixed for a rule.

    SAFE: the program keeps its meaning, or loses only the wrong behaviour that the finding
    describes; it cannot start to fail, and old checkpoints still load.
    UNSAFE: anything else that is still worth applying on request.
    DISPLAY: shown, never applied.
    """

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a file as people and editors count: line and column from 1, in characters.

    ``cell`` is the index, from 1, among all cells of a notebook; lines then count inside the
    cell. It is None in a plain file.
    """

    line: int
    column: int
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """The characters ``begin`` to ``finish`` (exclusive) of ``Source.text``, and where they lie."""

    path: str
    begin: int
    finish: int
    start: Position
    end: Position


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters of a span by ``content``; an empty span inserts."""

    span: Span
    content: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that belong together (all or none) and how far they may be trusted."""

    message: str
    applicability: Applicability
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake at one place.

    ``message`` says what happens, ``help`` what to do, in a sentence each. ``rule`` is the slug.
    """

    code: str
    rule: str
    severity: Severity
    span: Span
    message: str
    help: str | None = None
    fix: Fix | None = None

    @property
    def path(self) -> str:
        return self.span.path

    @property
    def sort_key(self) -> tuple[str, int, int, str]:
        return (self.span.path, self.span.begin, self.span.finish, self.code)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something that could not be done: it never hides other files' findings; the exit code is 2.

    ``kind`` is one of ``syntax-error``, ``parser-limit``, ``unreadable``, ``rule-crash``,
    ``worker-crash``, ``fix-failed``.
    """

    kind: str
    path: str
    message: str
    position: Position | None = None


def sorted_findings(findings: Sequence[Finding]) -> list[Finding]:
    """The findings in the one order in which every report lists them."""
    return sorted(findings, key=lambda finding: finding.sort_key)


def shown_path(path: Path, working_folder: Path) -> str:
    """How reports name a file: with forward slashes, relative to the working folder where it lies below it."""
    name, above = str(path), str(working_folder)
    above = above if above.endswith(os.sep) else above + os.sep
    return name.removeprefix(above).replace(os.sep, "/")
