"""A rule's examples: snippets that are its tests and its documentation at once.

Findings are marked below the line that they are in, in a comment made of carets::

    block = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16))
    #                     ^^^^^^^^^^^^^^^^^^^

Several groups of carets are several findings. A ``#`` directly before a caret stands for a caret
itself, so that a span may begin in the comment's own column. A finding of several lines begins
with ``^...`` under its first line; ``...^`` under its last line marks its last character, and
may be left out, then only the beginning is compared::

    for batch in loader:
    #^...
        predict(batch)
    #             ...^

Mark lines are no part of the snippet that is checked, fixed and shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from torchlint.findings import Applicability

MAIN = "example.py"
"""The path of the snippet itself, beside its ``files``."""

_MARK_LINE = re.compile(r"[ \t]*#[ .^]*\^[ .^]*$")
_GROUP = re.compile(r"(?P<open>#?\^+\.\.\.)|(?P<close>\.\.\.\^)|(?P<whole>#?\^+)")


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """Where a finding must be: lines and columns from 1, the end exclusive; ``end`` None: anywhere."""

    path: str
    start: tuple[int, int]
    end: tuple[int, int] | None


@dataclass(frozen=True)
class Example:
    """A snippet that must be reported exactly at its marks (``bad``), or must stay silent.

    ``fixed`` is the whole snippet after ``torchlint fix --unsafe-fixes``; ``applicability`` what
    the first fix must be, None where any will do. ``why`` says why an ``ok`` snippet is right.
    ``files`` are further files of the project, path to text; the snippet itself is ``example.py``.
    ``show`` puts it into the documentation, ``options`` are the rule's settings it is checked with.
    """

    code: str
    bad: bool
    why: str = ""
    fixed: str | None = None
    applicability: Applicability | None = None
    files: dict[str, str] = field(default_factory=dict)
    show: bool = True
    options: dict[str, object] = field(default_factory=dict)

    @cached_property
    def source(self) -> str:
        """The snippet without its mark lines."""
        return _without_marks(self.code)

    @cached_property
    def sources(self) -> dict[str, str]:
        """Every file of the example's project without mark lines, by path."""
        return {MAIN: self.source, **{path: _without_marks(text) for path, text in self.files.items()}}

    @cached_property
    def marks(self) -> tuple[Mark, ...]:
        """The places of the findings, in the order of a report; ValueError for marks that make no sense."""
        texts = {MAIN: self.code, **self.files}
        return tuple(sorted((m for path in texts for m in _marks(path, texts[path])), key=lambda m: (m.path, m.start)))


def _without_marks(code: str) -> str:
    return "".join(line for line in code.splitlines(keepends=True) if not _MARK_LINE.match(line.rstrip("\r\n")))


def _marks(path: str, code: str) -> list[Mark]:
    marks: list[Mark] = []
    number = 0
    for line in code.splitlines():
        if not _MARK_LINE.match(line):
            number += 1
            continue
        for group in _GROUP.finditer(line):
            if group.lastgroup == "close":
                _close(marks, (number, group.end() + 1))
            else:
                end = (number, group.end() + 1) if group.lastgroup == "whole" else None
                marks.append(Mark(path, (number, group.start() + 1), end))
    return marks


def _close(marks: list[Mark], end: tuple[int, int]) -> None:
    for index in reversed(range(len(marks))):
        if marks[index].end is None:
            marks[index] = Mark(marks[index].path, marks[index].start, end)
            return
    raise ValueError(f"`...^` below line {end[0]} closes nothing")
