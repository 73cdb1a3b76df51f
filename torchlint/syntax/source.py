"""One thing to analyse: a file's bytes as text, and the way back from text to bytes.

Offsets, everywhere in torchlint, count characters of ``Source.text``.
"""

from __future__ import annotations

import codecs
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from torchlint.findings import Edit, Position, Span

_LINE_BREAK = re.compile(r"\r\n?|\n")


class SourceError(Exception):
    """A file that cannot be analysed: ``kind`` is ``unreadable`` or ``syntax-error``."""

    def __init__(self, message: str, *, kind: str, position: Position | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.position = position


class EditRefused(Exception):
    """Edits that overlap each other or touch what must not change; nothing was applied."""


class Source:
    """A Python file.

    ``path`` is what the user reads; ``text`` is what is parsed: the decoded bytes without a byte
    order mark, newlines as they are in the file.
    """

    is_notebook = False

    def __init__(self, path: str, text: str, *, encoding: str = "utf-8", mark: bytes = b"") -> None:
        self.path = path
        self.text = text
        self.encoding = encoding
        self._mark = mark

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    @cached_property
    def line_starts(self) -> list[int]:
        """The offset of each line's first character; line breaks are those of Python: ``\\n``, ``\\r\\n``, ``\\r``."""
        return [0, *(found.end() for found in _LINE_BREAK.finditer(self.text))]

    @property
    def lines(self) -> list[str]:
        """All lines of the text, without their line breaks."""
        return _LINE_BREAK.split(self.text)

    def line(self, number: int, cell: int | None = None) -> str:
        """Line ``number`` (from 1; inside ``cell`` in a notebook) without its line break, as the user wrote it.

        Raises IndexError where there is no such line.
        """
        if number < 1:
            raise IndexError(number)
        begin = self.line_starts[number - 1]
        found = _LINE_BREAK.search(self.text, begin)
        return self.text[begin : found.start() if found else len(self.text)]

    def line_number(self, offset: int) -> int:
        """The number, from 1, of the line of ``text`` that holds ``offset``; a notebook's cells are not told apart."""
        return bisect_right(self.line_starts, offset)

    def position(self, offset: int) -> Position:
        """Where the character at ``offset`` lies."""
        line = self.line_number(offset)
        return Position(line, offset - self.line_starts[line - 1] + 1)

    def span(self, begin: int, finish: int) -> Span:
        """The characters ``begin`` to ``finish`` (exclusive) as a span of this file."""
        return Span(self.path, begin, finish, self.position(begin), self.position(finish))

    @property
    def parts(self) -> list[tuple[str, str]]:
        """What a diff compares, as the user wrote it: a name and a text for the file, or for each cell."""
        return [(self.path, self.text)]

    def region(self, offset: int) -> tuple[int, int]:
        """Begin and finish of the text around ``offset`` that edits may not leave: the file, or a notebook's cell."""
        return 0, len(self.text)

    def is_editable(self, begin: int, finish: int) -> bool:
        """Whether these characters may be replaced; some lines of a notebook may not."""
        return True

    def line_begin(self, offset: int) -> int:
        """Where the line of ``offset`` begins."""
        return self.line_starts[self.line_number(offset) - 1]

    def line_finish(self, offset: int) -> int:
        """Where the line of ``offset`` ends, in front of its line break."""
        found = _LINE_BREAK.search(self.text, offset)
        return found.start() if found else len(self.text)

    def next_line(self, offset: int) -> int | None:
        """Where the line below that of ``offset`` begins; None on the last line of the region."""
        number = self.line_number(offset)
        if number == len(self.line_starts) or self.line_starts[number] > self.region(offset)[1]:
            return None
        return self.line_starts[number]

    @cached_property
    def newline(self) -> str:
        """The line break that the file uses most (the first one wins a tie), for lines that are added."""
        breaks = _LINE_BREAK.findall(self.text)
        return max(dict.fromkeys(breaks), key=breaks.count, default="\n")

    def edited(self, edits: Sequence[Edit]) -> Source:
        """This file with the edits applied. Raises EditRefused where they overlap or cannot be encoded."""
        changed = Source(self.path, apply_edits(self.text, edits), encoding=self.encoding, mark=self._mark)
        changed.encode(changed.text)
        return changed

    def encode(self, text: str) -> bytes:
        """The whole file's bytes with ``text`` in place of ``self.text``.

        Raises EditRefused where the file's encoding has no way to write it.
        """
        try:
            return self._mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise EditRefused(f"{self.encoding} cannot write {error.object[error.start]!r}") from None

    @property
    def data(self) -> bytes:
        """The file's bytes."""
        return self.encode(self.text)


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """``text`` with all edits applied; several insertions at one place keep their order.

    Raises EditRefused where two overlap or one lies outside the text.
    """
    pieces: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.span.begin, edit.span.finish)):
        begin, finish = edit.span.begin, edit.span.finish
        if not done <= begin <= finish <= len(text):
            raise EditRefused(f"edits overlap at {edit.span.start.line}:{edit.span.start.column}")
        pieces += (text[done:begin], edit.content)
        done = finish
    return "".join([*pieces, text[done:]])


def read_source(path: Path, shown: str) -> Source:
    """Read a ``.py`` file or a notebook. Raises SourceError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(error.strerror or str(error), kind="unreadable") from error
    return source_from_bytes(data, shown)


def source_from_bytes(data: bytes, shown: str) -> Source:
    """The Source of a file's bytes; a name that ends in ``.ipynb`` makes a notebook. Raises SourceError."""
    if shown.endswith(".ipynb"):
        from torchlint.syntax.notebook import notebook_from_bytes  # few files are notebooks

        return notebook_from_bytes(data, shown)
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    encoding = _declared_encoding(data)
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding  # the mark is kept apart
    body = data[len(mark) :]
    text = _decoded(body, encoding)
    source = Source(shown, text, encoding=encoding, mark=mark)
    if "\0" in text:
        where = source.position(text.index("\0"))
        raise SourceError("the file holds a null byte", kind="syntax-error", position=where)
    if encoding != "utf-8" and text.encode(encoding, "replace") != body:
        raise SourceError(f"its encoding, {encoding}, cannot be written back byte for byte", kind="unreadable")
    return source


def _declared_encoding(data: bytes) -> str:
    """The encoding that a byte order mark or a cookie in the first two lines declares (PEP 263)."""
    if b"coding" not in data[:1000]:
        return "utf-8"
    # The standard library's detection decodes whole lines first, which would blame the cookie for a bad byte.
    head = [line.decode("ascii", "replace").encode("ascii", "replace") for line in data.splitlines(True)[:2]]
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(_without_mark(data, b"".join(head))).readline)
        if not codecs.lookup(encoding)._is_text_encoding:
            raise SyntaxError(f"unknown encoding: {encoding}")
    except (SyntaxError, LookupError) as error:
        raise SourceError(str(error), kind="syntax-error", position=Position(1, 1)) from None
    return encoding


def _without_mark(data: bytes, head: bytes) -> bytes:
    return data[:3] + head[3:] if data.startswith(codecs.BOM_UTF8) else head


def _decoded(body: bytes, encoding: str) -> str:
    try:
        return body.decode(encoding)
    except UnicodeDecodeError as error:
        before = body[: error.start].decode(encoding, "replace")
        where = Source("", before).position(len(before))
        message = f"not valid {encoding}: byte 0x{body[error.start]:02x}"
        raise SourceError(message, kind="unreadable", position=where) from None
    except (ValueError, LookupError) as error:
        raise SourceError(f"cannot be decoded as {encoding}: {error}", kind="unreadable") from None
