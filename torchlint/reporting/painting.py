"""Colours for the formats made for people: rows of pieces, each with the name of a style."""

from __future__ import annotations

from collections.abc import Callable

from torchlint.findings import Severity
from torchlint.reporting.frame import Row

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.HINT: "cyan"}

_STYLES = {
    "gutter": "bright_blue", "title": "bold", "added": "green", "removed": "red", "note": "bold", "place": "bold",
    "hunk": "cyan", "fixable": "cyan",
}  # fmt: skip

Paint = Callable[[Row, Severity | None], str]
"""A row as text; what has the style ``mark`` takes the severity's colour."""


def painter(*, colour: bool) -> Paint:
    """How rows become text: with ANSI colours, or without."""
    return _colourful() if colour else _plain


def patch(text: str) -> str:
    """A unified diff in the colours that git gives it."""
    from rich.color import ColorSystem
    from rich.style import Style

    lines = ((line, _style_of(line)) for line in text.split("\n"))
    return "\n".join(Style.parse(_STYLES[style]).render(line, color_system=ColorSystem.STANDARD) if style else line
                     for line, style in lines)


def _style_of(line: str) -> str:
    if line.startswith(("--- ", "+++ ")):
        return "title"
    return {"@": "hunk", "+": "added", "-": "removed"}.get(line[:1], "")


def _plain(row: Row, severity: Severity | None) -> str:
    return "".join(text for text, _ in row).rstrip()


def _colourful() -> Paint:
    """rich is imported here and nowhere sooner."""
    from rich.color import ColorSystem
    from rich.style import Style

    def paint(row: Row, severity: Severity | None) -> str:
        mark = "bold" if severity is None else f"bold {_COLOURS[severity]}"
        return "".join(
            Style.parse(mark if style == "mark" else _STYLES[style]).render(text, color_system=ColorSystem.STANDARD)
            if style and text.strip()
            else text
            for text, style in row
        ).rstrip()

    return paint
