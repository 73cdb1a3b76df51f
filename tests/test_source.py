"""Bytes to text and back: nothing is lost, and positions are those that people count."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchlint.findings import Edit, Position
from torchlint.syntax.source import EditRefused, Source, SourceError, apply_edits, read_source, source_from_bytes

ODD_BYTES = {
    "empty": b"",
    "no final newline": b"x = 1",
    "windows": b"x = 1\r\ny = 2\r\n",
    "mixed newlines": b"x = 1\r\ny = 2\nz = 3\r",
    "old mac": b"x = 1\ry = 2\r",
    "form feeds": b"\x0cx = 1\n\x0c\ny = 2\n",
    "byte order mark": b"\xef\xbb\xbfx = 1\n",
    "mark and cookie": b"\xef\xbb\xbf# coding: utf-8\nx = 1\n",
    "latin-1": b"# -*- coding: latin-1 -*-\nx = '\xe9\xff'\n",
    "cp1252, second line": b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n",
    "utf-8": "x = 'é€𝛼'\n".encode(),
    "tabs": b"if x:\n\ty = 1\n",
    "line separators": "x = '\u2028\x0b\x1c'\n".encode(),
}


@pytest.mark.parametrize("data", ODD_BYTES.values(), ids=ODD_BYTES)
def test_bytes_survive(data: bytes) -> None:
    source = source_from_bytes(data, "a.py")
    assert source.data == data
    assert source.edited([]).data == data


@pytest.mark.parametrize("data", ODD_BYTES.values(), ids=ODD_BYTES)
def test_an_edit_changes_nothing_else(data: bytes) -> None:
    source = source_from_bytes(data, "a.py")
    end = len(source.text)
    edited = source.edited([Edit(source.span(end, end), "# more")])
    assert edited.data == data + b"# more"


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_survives(text: str) -> None:
    assert source_from_bytes(text.encode(), "a.py").data == text.encode()


@settings(deadline=None)
@given(st.text("ab\r\n\f", max_size=30))
def test_positions_count_lines_as_python_does(text: str) -> None:
    source = Source("a.py", text)
    for offset in range(len(text) + 1):
        where = source.position(offset)
        begin = source.line_starts[where.line - 1]
        assert begin + where.column - 1 == offset
        assert source.line(where.line) == source.lines[where.line - 1]
    assert len(source.lines) == len(source.line_starts)
    assert source.lines == text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def test_span() -> None:
    span = Source("a.py", "é = 1\r\nb = 2\n").span(7, 8)
    assert (span.path, span.begin, span.finish) == ("a.py", 7, 8)
    assert (span.start, span.end) == (Position(2, 1), Position(2, 2))


def test_a_line_that_is_not_there() -> None:
    source = Source("a.py", "a\nb")
    for number in (0, 3):
        with pytest.raises(IndexError):
            source.line(number)


@pytest.mark.parametrize(
    ("data", "kind", "position"),
    [
        (b"x = 1\ny = '\xff'\n", "unreadable", Position(2, 6)),
        (b"x = 1\ny =\0 2\n", "syntax-error", Position(2, 4)),
        (b"# coding: no-such-thing\n", "syntax-error", Position(1, 1)),
        (b"# coding: rot13\n", "syntax-error", Position(1, 1)),
        (b"\xef\xbb\xbf# coding: latin-1\n", "syntax-error", Position(1, 1)),
        (b"# coding: ascii\nx = '\xe9'\n", "unreadable", Position(2, 6)),
        (b"# coding: utf-7\nx = '+AGE-'\n", "unreadable", None),
    ],
)
def test_what_cannot_be_read(data: bytes, kind: str, position: Position | None) -> None:
    with pytest.raises(SourceError) as caught:
        source_from_bytes(data, "a.py")
    assert (caught.value.kind, caught.value.position) == (kind, position)
    assert caught.value.message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.py", tmp_path):
        with pytest.raises(SourceError) as caught:
            read_source(path, "none.py")
        assert caught.value.kind == "unreadable"


def test_the_standard_library_survives() -> None:
    folder = Path(ast.__file__).parent
    for path in sorted(folder.glob("*.py"))[::7]:
        assert read_source(path, path.name).data == path.read_bytes()


def test_what_the_encoding_cannot_write_is_refused() -> None:
    source = source_from_bytes(b"# coding: latin-1\n", "a.py")
    with pytest.raises(EditRefused, match="iso-8859-1"):
        source.edited([Edit(source.span(0, 0), "€")])


def test_newline_is_the_commonest() -> None:
    assert Source("a.py", "a\r\nb\r\nc\n").newline == "\r\n"
    assert Source("a.py", "a").newline == "\n"


def test_edits_in_any_order_and_insertions_in_theirs() -> None:
    source = Source("a.py", "abcdef")
    edits = [Edit(source.span(4, 6), "-"), Edit(source.span(1, 1), "1"), Edit(source.span(1, 1), "2")]
    assert apply_edits(source.text, edits) == "a12bcd-"


@pytest.mark.parametrize("spans", [[(0, 2), (1, 3)], [(0, 3), (1, 1)], [(5, 7)]])
def test_edits_that_overlap_are_refused(spans: list[tuple[int, int]]) -> None:
    wide = Source("a.py", "abcdefgh")
    with pytest.raises(EditRefused):
        Source("a.py", "abcdef").edited([Edit(wide.span(*span), "") for span in spans])


@settings(deadline=None)
@given(st.text("ab\n", max_size=20), st.data())
def test_edits_keep_what_lies_outside(text: str, data: st.DataObject) -> None:
    source = Source("a.py", text)
    bounds = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    spans = list(zip(bounds[::2], bounds[1::2]))
    edited = apply_edits(text, [Edit(source.span(*span), "<>") for span in spans])
    kept = [text[a:b] for a, b in zip([0, *(span[1] for span in spans)], [*(span[0] for span in spans), len(text)])]
    assert edited == "<>".join(kept)
