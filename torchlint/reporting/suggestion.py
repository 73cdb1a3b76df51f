"""The lines that a fix would change, before and after: for fixes that are only shown."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.findings import Edit, Fix
from torchlint.reporting.frame import Row
from torchlint.reporting.report import Lines
from torchlint.reporting.text import lay

_UNBOUNDED = 160


def rows(fix: Fix, lines: Lines, margin: str) -> Iterator[Row]:
    """The changed lines with ``-`` and ``+``; nothing where a line is not known."""
    for group in _groups(fix):
        before = _before(group, lines)
        if before is not None:
            changed = [("removed", f"- {_shown(text)}") for text in before.values()]
            changed += [("added", f"+ {_shown(text)}") for text in _apply(group, before)]
            yield from ([(f"{margin}| ", "gutter"), (text.rstrip(), style)] for style, text in changed)


def _groups(fix: Fix) -> list[list[Edit]]:
    """The edits in file order, those that touch the same lines together."""
    groups: list[list[Edit]] = []
    for edit in sorted(fix.edits, key=lambda e: (e.span.path, e.span.begin, e.span.finish)):
        last = groups[-1][-1].span if groups else None
        same = last is not None and (last.path, last.end.cell) == (edit.span.path, edit.span.start.cell)
        if same and last is not None and edit.span.start.line <= last.end.line:
            groups[-1].append(edit)
        else:
            groups.append([edit])
    return groups


def _before(group: list[Edit], lines: Lines) -> dict[int, str] | None:
    first, last = group[0].span, group[-1].span
    numbers = range(first.start.line, last.end.line + 1)
    found = {n: lines.get((first.path, first.start.cell, n)) for n in numbers}
    if last.end.column == 1 and last.end.line > first.start.line:
        found[last.end.line] = found[last.end.line] or ""  # the end of the file has no line
    return {n: text for n, text in found.items() if text is not None} if None not in found.values() else None


def _apply(group: list[Edit], before: dict[int, str]) -> list[str]:
    starts: dict[int, int] = {}
    offset = 0
    for number, text in before.items():
        starts[number] = offset
        offset += len(text) + 1
    text = "\n".join(before.values())
    for edit in reversed(group):
        begin = starts[edit.span.start.line] + edit.span.start.column - 1
        finish = starts[edit.span.end.line] + edit.span.end.column - 1
        text = text[:begin] + edit.content + text[finish:]
    return text.splitlines()


def _shown(text: str) -> str:
    return lay(text).window(0, _UNBOUNDED)
