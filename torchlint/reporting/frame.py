"""The code frame of a finding: its lines with the span underlined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torchlint.findings import Span
from torchlint.reporting.report import CONTEXT, Lines
from torchlint.reporting.text import Laid, lay

Segment = tuple[str, str]
"""A piece of text and the name of its style (empty: plain)."""

Row = list[Segment]

_UNBOUNDED = 160
"""Columns shown of a line where no terminal sets a limit: minified data stays readable."""

_LONGEST = 7
"""Lines shown of a span; of a longer one the first four and the last two."""

_MARGIN = 8
"""Columns kept before the span where the line is cropped."""


@dataclass(frozen=True, slots=True)
class _View:
    """What part of the lines is shown, and how wide the numbers' column is."""

    left: int
    room: int
    digits: int

    def code(self, number: int, bar: str, line: Laid) -> Row:
        text = line.window(self.left, self.room)
        return [(f"{number:>{self.digits}} |", "gutter"), (bar, "mark"), (f" {text}".rstrip(), "")]

    def mark(self, text: str) -> Row:
        return [(" " * self.digits + " |", "gutter"), (text, "mark")]

    def empty(self) -> Row:
        return [(" " * self.digits + " |", "gutter")]

    def clip(self, column: int) -> int:
        return min(max(column - self.left, 0), self.room)


def frame(span: Span, lines: Lines, width: int | None) -> list[Row]:
    """The rows of a code frame, without line ends; empty where the lines are not known."""
    cell, first, last = span.start.cell, span.start.line, _last_line(span)
    numbers = [n for n in range(first - CONTEXT, last + CONTEXT + 1) if (span.path, cell, n) in lines]
    if first not in numbers or last not in numbers:
        return []
    laid = {n: lay(lines[span.path, cell, n]) for n in numbers}
    shown = _shown(numbers, first, last, laid)
    digits = len(str(shown[-1]))
    view = _view(span, laid, (width or _UNBOUNDED) - digits - 5, digits)
    body = _one_line(span, laid, shown, view) if first == last else _several_lines(span, laid, shown, view)
    return [view.empty(), *body, view.empty()]


def _last_line(span: Span) -> int:
    """The last line that holds a character of the span: an end in column 1 holds none."""
    reaches = span.end.column > 1 or span.end.line == span.start.line
    return span.end.line if reaches else span.end.line - 1


def _shown(numbers: list[int], first: int, last: int, laid: dict[int, Laid]) -> list[int]:
    """The numbers without blank context at the outer edges and without a long span's middle."""
    shown = [n for n in numbers if last - first < _LONGEST or n < first + 4 or n > last - 2]
    while shown[0] < first and not laid[shown[0]].width:
        shown.pop(0)
    while shown[-1] > last and not laid[shown[-1]].width:
        shown.pop()
    return shown


def _view(span: Span, laid: dict[int, Laid], room: int, digits: int) -> _View:
    """Crop from the left only as far as needed for the span's beginning to be seen."""
    room = max(room, 20)
    line = laid[span.start.line]
    start = line.column(span.start.column)
    finish = line.column(span.end.column) if span.end.line == span.start.line else line.width
    if line.width <= room or min(finish, start + room - _MARGIN) <= room - 1:
        return _View(0, room, digits)
    centred = start - max(_MARGIN, (room - (finish - start)) // 2)
    return _View(max(0, min(centred, line.width - room)), room, digits)


def _one_line(span: Span, laid: dict[int, Laid], shown: list[int], view: _View) -> Iterator[Row]:
    for number in shown:
        yield view.code(number, "", laid[number])
        if number == span.start.line:
            start = view.clip(laid[number].column(span.start.column))
            finish = view.clip(laid[number].column(span.end.column))
            yield view.mark(" " * (1 + start) + "^" * max(1, finish - start))


def _several_lines(span: Span, laid: dict[int, Laid], shown: list[int], view: _View) -> Iterator[Row]:
    """A bar joins the lines; it begins beside the first where only blanks stand before the span."""
    first, last = span.start.line, _last_line(span)
    start = laid[first].column(span.start.column)
    from_margin = start <= laid[first].indentation
    finish = laid[last].column(span.end.column) if span.end.line == last else laid[last].width
    before = shown[0]
    for number in shown:
        if number > before + 1:
            yield [("." * 3 + " " * (view.digits - 1), "gutter"), (" |", "mark")]
        before = number
        inside = first < number <= last
        yield view.code(number, " /" if number == first and from_margin else " |" if inside else "  ", laid[number])
        if number == first and not from_margin:
            yield view.mark("  " + "_" * (1 + min(view.clip(start), view.room - 1)) + "^")
        if number == last:
            yield view.mark(" |" + "_" * max(1, view.clip(finish)) + "^")
