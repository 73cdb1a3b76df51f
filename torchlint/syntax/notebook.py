"""Notebooks: the code cells of an ``.ipynb`` file joined into one text, with a map back to cell and line."""

from __future__ import annotations

import codecs
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchlint.findings import Edit, Position
from torchlint.syntax.magics import Frozen, without_magics
from torchlint.syntax.source import EditRefused, Source, SourceError, apply_edits

_BLANK = re.compile(r"[ \t\r\n]*")
_BLOCK = "if True:"
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell: its number among all cells, from 1, its place in the joined text, and what the user wrote."""

    number: int
    begin: int
    original: str
    json_begin: int
    json_finish: int

    @property
    def finish(self) -> int:
        return self.begin + len(self.original)


class Notebook(Source):
    """The code cells of a notebook. Its bytes change only in the source of the cells that edits touch."""

    is_notebook = True

    def __init__(self, path: str, layout: str, *, mark: bytes = b"") -> None:
        self._layout = layout
        self.cells: list[Cell] = []
        self._frozen: list[Frozen] = []
        texts: list[str] = []
        begin = 0
        for number, original, json_begin, json_finish in _code_cells(layout):
            text, frozen = without_magics(original)
            if _is_indented(text):  # IPython takes the margin of such a cell away
                texts.append(_BLOCK)
                begin += len(_BLOCK) + 1
            self.cells.append(Cell(number, begin, original, json_begin, json_finish))
            self._frozen += [Frozen(begin + part.begin, begin + part.finish, part.sealed) for part in frozen]
            texts.append(text)
            begin += len(text) + 1
        super().__init__(path, "\n".join(texts), mark=mark)
        self._begins = [cell.begin for cell in self.cells]

    def _cell(self, offset: int) -> Cell:
        return self.cells[max(bisect_right(self._begins, offset) - 1, 0)]

    def position(self, offset: int) -> Position:
        if not self.cells:
            return Position(1, 1)
        cell = self._cell(offset)
        inside = super().position(offset)
        return Position(inside.line - self.line_number(cell.begin) + 1, inside.column, cell.number)

    def line(self, number: int, cell: int | None = None) -> str:
        for found in self.cells:
            if found.number == cell:
                return Source(self.path, found.original).line(number)
        raise IndexError(cell)

    @property
    def parts(self) -> list[tuple[str, str]]:
        return [(f"{self.path}:cell {cell.number}", cell.original) for cell in self.cells]

    def region(self, offset: int) -> tuple[int, int]:
        if not self.cells:
            return 0, 0
        cell = self._cell(offset)
        return cell.begin, cell.finish

    def is_editable(self, begin: int, finish: int) -> bool:
        if self.region(begin) != self.region(finish):
            return False
        return not any(
            (part.begin < finish and begin < part.finish)
            or (begin == finish and part.begin + (not part.sealed) <= begin <= part.finish)
            for part in self._frozen
        )

    def edited(self, edits: Sequence[Edit]) -> Notebook:
        by_cell: dict[int, list[Edit]] = {}
        for edit in edits:
            if not self.cells or not self.is_editable(edit.span.begin, edit.span.finish):
                where = f"{edit.span.start.cell}:{edit.span.start.line}"
                raise EditRefused(f"the edit at cell {where} touches a magic or more than one cell")
            cell = self._cell(edit.span.begin)
            begin, finish = edit.span.begin - cell.begin, edit.span.finish - cell.begin
            moved = replace(edit, span=replace(edit.span, begin=begin, finish=finish))
            by_cell.setdefault(cell.number, []).append(moved)
        changed = {number: apply_edits(self._original(number), own) for number, own in by_cell.items()}
        return Notebook(self.path, self._with_cells(changed), mark=self._mark)

    def _original(self, number: int) -> str:
        return next(cell.original for cell in self.cells if cell.number == number)

    def _with_cells(self, changed: dict[int, str]) -> str:
        pieces: list[str] = []
        done = 0
        for cell in self.cells:
            if cell.number in changed and changed[cell.number] != cell.original:
                value = self._layout[cell.json_begin : cell.json_finish]
                pieces += (self._layout[done : cell.json_begin], _rewritten(value, changed[cell.number]))
                done = cell.json_finish
        return "".join([*pieces, self._layout[done:]])

    def encode(self, text: str) -> bytes:
        """The notebook's bytes; a text that does not say which cell it changes cannot be written: use ``edited``."""
        if text != self.text:
            raise EditRefused("a notebook is changed by edits, not as one text")
        return self.data

    @property
    def data(self) -> bytes:
        return self._mark + self._layout.encode()


def notebook_from_bytes(data: bytes, shown: str) -> Notebook:
    """The Source of a notebook's bytes. Raises SourceError."""
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    try:
        notebook = Notebook(shown, data[len(mark) :].decode(), mark=mark)
    except UnicodeDecodeError as error:
        raise SourceError(f"not valid utf-8: byte 0x{data[len(mark) + error.start]:02x}", kind="unreadable") from None
    except json.JSONDecodeError as error:
        where = Position(error.lineno, error.colno)
        raise SourceError(f"not a notebook: {error.msg}", kind="unreadable", position=where) from None
    except (TypeError, RecursionError) as error:
        raise SourceError(f"not a notebook: {error}", kind="unreadable") from None
    _refuse_characters(notebook)
    return notebook


def _refuse_characters(notebook: Notebook) -> None:
    wrong = re.search("[\0\ud800-\udfff]", notebook.text)
    if wrong:
        where = notebook.position(wrong.start())
        kind = "null byte" if wrong[0] == "\0" else "lone surrogate"
        raise SourceError(f"the cell holds a {kind}", kind="syntax-error", position=where)


def _code_cells(layout: str) -> Iterator[tuple[int, str, int, int]]:
    """Number, text, and where the source stands in the JSON, of each code cell in Python."""
    members = {key: (begin, finish) for key, begin, finish in _members(layout, _skip(layout, 0))}
    if "cells" not in members:
        raise TypeError("no cells (format 4 is what can be read)")
    metadata = _value(layout, *members["metadata"]) if "metadata" in members else {}
    if not _is_python(metadata):
        return
    for number, begin in enumerate(_elements(layout, members["cells"][0]), 1):
        places = {key: (start, end) for key, start, end in _members(layout, begin)}
        if "source" not in places or _value(layout, *places.get("cell_type", (0, 0))) != "code":
            continue
        source = _value(layout, *places["source"])
        text = "".join(source) if isinstance(source, list) else source
        if not isinstance(text, str):
            raise TypeError(f"cell {number} has no text")
        yield number, text, *places["source"]


def _is_python(metadata: Any) -> bool:
    """Whether the kernel runs Python; a notebook that does not say is taken to."""
    if not isinstance(metadata, dict):
        return True
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        about = metadata.get(key)
        if isinstance(about, dict) and isinstance(about.get(name), str):
            return "python" in about[name].lower()
    return True


def _is_indented(text: str) -> bool:
    """Whether the cell's first line of code has a margin."""
    code = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return bool(code) and code[0][0] in " \t"


def _skip(layout: str, here: int) -> int:
    blank = _BLANK.match(layout, here)
    return blank.end() if blank else here


def _value(layout: str, begin: int, finish: int) -> Any:
    return _DECODER.decode(layout[begin:finish]) if finish > begin else None


def _end_of_value(layout: str, begin: int) -> int:
    finish: int = _DECODER.raw_decode(layout, begin)[1]
    return finish


def _members(layout: str, begin: int) -> Iterator[tuple[str, int, int]]:
    """Key, and begin and finish of the value, of each member of the object at ``begin``."""
    for key_begin in _items(layout, begin, "{", "}"):
        key, key_finish = _DECODER.raw_decode(layout, key_begin)
        colon = _skip(layout, key_finish)
        value = _skip(layout, colon + 1)
        if not isinstance(key, str) or layout[colon : colon + 1] != ":":
            raise json.JSONDecodeError("Expecting ':' delimiter", layout, colon)
        yield key, value, _end_of_value(layout, value)


def _elements(layout: str, begin: int) -> Iterator[int]:
    """Where each element of the array at ``begin`` stands."""
    return _items(layout, begin, "[", "]")


def _items(layout: str, begin: int, opening: str, closing: str) -> Iterator[int]:
    if layout[begin : begin + 1] != opening:
        raise json.JSONDecodeError(f"Expecting {opening!r}", layout, begin)
    here = _skip(layout, begin + 1)
    while layout[here : here + 1] != closing:
        yield here
        here = _skip(layout, _end_of_value(layout, here))
        if opening == "{":
            here = _skip(layout, _end_of_value(layout, _skip(layout, here + 1)))
        if layout[here : here + 1] == ",":
            here = _skip(layout, here + 1)
        elif layout[here : here + 1] != closing:
            raise json.JSONDecodeError("Expecting ',' delimiter", layout, here)


def _rewritten(value: str, text: str) -> str:
    """The JSON of a cell's source with a new text: in the layout of the old, whose unchanged lines stay as they are."""
    ascii_only = value.isascii() and "\\u" in value
    if not value.startswith("["):
        return json.dumps(text, ensure_ascii=ascii_only)
    begins = list(_elements(value, 0))
    finishes = [_end_of_value(value, begin) for begin in begins]
    known = {_value(value, begin, finish): value[begin:finish] for begin, finish in zip(begins, finishes)}
    lines = [known.get(line) or json.dumps(line, ensure_ascii=ascii_only) for line in text.splitlines(keepends=True)]
    if not begins or not lines:
        return "[" + ", ".join(lines) + "]"
    separator = value[finishes[0] : begins[1]] if len(begins) > 1 else "," + value[1 : begins[0]]
    return value[: begins[0]] + separator.join(lines) + value[finishes[-1] :]
