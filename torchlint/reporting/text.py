"""Text as a terminal can show it: widths, tabs, control characters, cropping."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from torchlint.findings import Finding, Position

TAB = 4
"""Columns from one tab stop to the next in a code frame."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Bidirectional controls reorder what follows them, so that code reads as what it is not
# (CVE-2021-42574, "Trojan Source").
_BIDIRECTIONAL = frozenset(map(chr, (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))))


def visible(text: str) -> str:
    """The text without anything that would move the cursor, change colours or fail to encode."""
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character < " ":
        return chr(0x2400 + ord(character))
    if character == "\x7f":
        return "\N{SYMBOL FOR DELETE}"
    if character in _BIDIRECTIONAL or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
        return _REPLACEMENT
    return character


def _width(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def width(text: str) -> int:
    """The columns that a visible text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


@dataclass(frozen=True, slots=True)
class Laid:
    """A source line laid out in columns: what stands for each character, and where it begins."""

    pieces: tuple[str, ...]
    columns: tuple[int, ...]

    @property
    def width(self) -> int:
        return self.columns[-1]

    @property
    def indentation(self) -> int:
        """The column of the first character that is not a blank; the width of a blank line."""
        for piece, column in zip(self.pieces, self.columns, strict=False):
            if not piece.isspace():
                return column
        return self.width

    def column(self, position: int) -> int:
        """The column, from 0, of a character counted from 1; past the end it is the width."""
        return self.columns[min(position - 1, len(self.pieces))]

    def window(self, left: int, room: int) -> str:
        """The columns ``left`` to ``left + room``, with ellipses where something is cut."""
        if left == 0 and self.width <= room:
            return "".join(self.pieces)
        right = left + room
        cut_before, cut_after = left > 0 and self.width > 0, self.width > right
        begin, finish = left + cut_before, right - cut_after
        kept = [
            (column, piece)
            for piece, column, after in zip(self.pieces, self.columns, self.columns[1:], strict=False)
            if begin <= column and after <= finish
        ]
        # A wide character that the edge halves is left out; blanks keep the columns.
        blanks = " " * (kept[0][0] - begin) if kept else ""
        return ("…" if cut_before else "") + blanks + "".join(p for _, p in kept) + ("…" if cut_after else "")


def lay(line: str) -> Laid:
    """Lay out a line: tabs widened to the next stop, control characters made visible."""
    pieces: list[str] = []
    column = 0
    for character in line:
        piece = " " * (TAB - column % TAB) if character == "\t" else _visible(character)
        column += width(piece)
        pieces.append(piece)
    return Laid(tuple(pieces), tuple(accumulate(map(width, pieces), initial=0)))


def place(path: str, position: Position | None) -> str:
    """``path:line:column`` as editors and terminals understand it; notebooks name the cell."""
    if position is None:
        return visible(path)
    cell = "" if position.cell is None else f"cell {position.cell}:"
    return f"{visible(path)}:{cell}{position.line}:{position.column}"


def name(finding: Finding) -> str:
    """The code and the slug of a finding's rule."""
    return f"{finding.code} {finding.rule}"


def plural(count: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(parts: Iterable[str]) -> str:
    """The parts that say something, with commas."""
    return ", ".join(part for part in parts if part)
