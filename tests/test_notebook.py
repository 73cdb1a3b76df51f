"""Notebooks: cells are joined, magics put aside, and bytes change only where an edit says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchlint.findings import Edit, Position
from torchlint.syntax.editing import delete_statement, insert_after, reference, wrap_in_with
from torchlint.syntax.magics import without_magics
from torchlint.syntax.notebook import Notebook, notebook_from_bytes
from torchlint.syntax.source import EditRefused, SourceError
from torchlint.syntax.tree import parse


def notebook_of(*cells: str, indent: int | None = 1, **metadata: Any) -> Notebook:
    """A notebook of code cells, with a text cell in front and outputs behind each, as Jupyter writes it."""
    described: list[dict[str, Any]] = [{"cell_type": "markdown", "metadata": {}, "source": ["# title\n", "é"]}]
    for text in cells:
        source = text.splitlines(keepends=True)
        described.append({"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [{"text": ["é\u2028"]}],
                          "source": source})
    whole = {"cells": described, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return notebook_from_bytes((json.dumps(whole, indent=indent, ensure_ascii=False) + "\n").encode(), "n.ipynb")


def replaced(notebook: Notebook, old: str, new: str) -> Notebook:
    begin = notebook.text.index(old)
    return notebook.edited([Edit(notebook.span(begin, begin + len(old)), new)])


def cells_of(notebook: Notebook) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(notebook.data)["cells"][1:]]


def test_cells_are_joined_and_counted_among_all() -> None:
    notebook = notebook_of("import torch\nx = 1", "", "y = é(2)\n")
    assert notebook.text == "import torch\nx = 1\n\ny = é(2)\n"
    assert notebook.position(notebook.text.index("x")) == Position(2, 1, 2)
    span = notebook.span(notebook.text.index("2"), notebook.text.index("2") + 1)
    assert (span.start, span.end) == (Position(1, 7, 4), Position(1, 8, 4))
    assert notebook.line(2, 2) == "x = 1"
    assert notebook.line(1, 4) == "y = é(2)"
    for number, cell in ((3, 2), (1, 1), (1, None), (1, 9)):
        with pytest.raises(IndexError):
            notebook.line(number, cell)


@pytest.mark.parametrize("indent", [None, 1, 4])
def test_an_edit_changes_one_literal(indent: int | None) -> None:
    notebook = notebook_of("a = 1\nb = 'ü'\n", "c = 3", indent=indent)
    after = replaced(notebook, "a = 1", 'a = "ö"')
    assert after.data == notebook.data.replace(b'"a = 1\\n"', '"a = \\"ö\\"\\n"'.encode())
    assert replaced(after, 'a = "ö"', "a = 1").data == notebook.data


def test_lines_come_and_go_in_the_layout_of_the_others() -> None:
    notebook = notebook_of("a\nb\nc")
    tree = parse(notebook)
    more = notebook.edited(insert_after(tree, tree.module.body[2], ["d"]))
    assert more.data == notebook_of("a\nb\nc\nd").data
    fewer = notebook.edited(delete_statement(tree, tree.module.body[2]))
    assert fewer.data == notebook_of("a\nb").data


def test_escapes_and_single_strings_stay() -> None:
    data = (
        b'''{"cells": [{"cell_type": "code", "source": ["x = '\\u00e9'\\n", "y"]}, '''
        b'''{"cell_type": "code", "source": "z = 1\\nw"}, {"cell_type": "code", "source": []}]}'''
    )
    notebook = notebook_from_bytes(data, "n.ipynb")
    assert notebook.data == data
    assert replaced(notebook, "y", "v").data == data.replace(b'"y"', b'"v"')
    assert replaced(notebook, "x =", "é =").data == data.replace(b"x =", b"\\u00e9 =")
    assert replaced(notebook, "w", "u").data == data.replace(b"\\nw", b"\\nu")
    end = len(notebook.text)
    assert notebook.edited([Edit(notebook.span(end, end), "q")]).data == data.replace(b"[]", b'["q"]')


def test_windows_newlines_and_the_mark_survive() -> None:
    data = b"\xef\xbb\xbf" + notebook_of("a\nb").data.replace(b"\n", b"\r\n")
    notebook = notebook_from_bytes(data, "n.ipynb")
    assert notebook.data == data
    assert replaced(notebook, "b", "c").data == data.replace(b'"b"', b'"c"')


@pytest.mark.parametrize(
    ("cell", "plain"),
    [
        ("%matplotlib inline\nx = 1", "0                 \nx = 1"),
        ("if a:\n    !ls {b}\n", "if a:\n    0      \n"),
        ("files = !ls *.py\ny", "files = _       \ny"),
        ("a, b = %magic x", "a, b = _       "),
        ("x?\nx.y??\n?z", "0 \n0    \n0 "),
        ("%%time\nx = 1", "0     \nx = 1"),
        ("\n%%capture out\nx = 1", "\n0            \nx = 1"),
        ("%%bash\necho 'it", "      \n        "),
        ("%%writefile a.py\nimport torch\n", "                \n            \n"),
        ("!pip install a \\\n  b\nx", "0               \n   \nx"),
        ("!echo \"it's (\nx = 1", "0            \nx = 1"),
        ("x = (a\n  % b)", "x = (a\n  % b)"),
        ("x = '''\n%cd ..\n'''", "x = '''\n%cd ..\n'''"),
        ("x = a \\\n  % b", "x = a \\\n  % b"),
        ("# what?\nx = 'y?'", "# what?\nx = 'y?'"),
        ("pip install torch\nls -l data\ncd ..", "0                \n0         \n0    "),
        ("ls = 1\ncat.x\ncp(a)\nls in x\nrm += 1", "ls = 1\ncat.x\ncp(a)\nls in x\nrm += 1"),
        ("/f x", "0   "),
        ("x = a / b\n", "x = a / b\n"),
    ],
)
def test_magics_are_put_aside(cell: str, plain: str) -> None:
    assert without_magics(cell)[0] == plain
    parse(notebook_of(cell))


@settings(deadline=None)
@given(st.text("%!?x=(' \\\n\r#a", max_size=40))
def test_magics_keep_every_offset(cell: str) -> None:
    plain, frozen = without_magics(cell)
    assert len(plain) == len(cell)
    changed = [index for index, (old, new) in enumerate(zip(cell, plain)) if old != new]
    assert all(any(part.begin <= index < part.finish for part in frozen) for index in changed)
    assert [c in "\r\n" for c in plain] == [c in "\r\n" for c in cell]


@pytest.mark.parametrize("text", ["0", "%x"])
def test_edits_that_touch_a_magic_are_refused(text: str) -> None:
    notebook = notebook_of("a = 1\n%x y\nb = 2", "%%time\nc = 3")
    magic = notebook.text.index("0 ")
    time = notebook.text.rindex("0 ")
    inside = (magic + 4, magic + 4)
    for begin, finish in ((magic, magic + 1), (magic - 1, magic + 1), inside, (time, time), (0, magic + 9)):
        with pytest.raises(EditRefused):
            notebook.edited([Edit(notebook.span(begin, finish), text)])
    assert cells_of(notebook.edited([Edit(notebook.span(magic, magic), "d\n")]))[0] == "a = 1\nd\n%x y\nb = 2"
    assert cells_of(replaced(notebook, "c = 3", "c"))[1] == "%%time\nc"


def test_edits_across_cells_are_refused() -> None:
    notebook = notebook_of("a", "b")
    with pytest.raises(EditRefused):
        notebook.edited([Edit(notebook.span(0, 2), "")])
    with pytest.raises(EditRefused):
        notebook.encode("x")
    assert notebook.encode(notebook.text) == notebook.data


def test_wrapping_refuses_a_run_with_a_magic_or_of_two_cells() -> None:
    notebook = notebook_of("a\n%x\nb", "c")
    tree = parse(notebook)
    a, magic, b, c = tree.module.body
    for statements in ([a, magic], [magic], [b, c], [a, magic, b, c]):
        assert wrap_in_with(tree, statements, "with z:") is None
    edits = wrap_in_with(tree, [c], "with z:")
    assert cells_of(notebook.edited(edits or []))[1] == "with z:\n    c"


def test_an_import_goes_into_the_cell_of_the_others() -> None:
    notebook = notebook_of("%matplotlib inline\nimport numpy as np", "x = 1")
    found = reference(parse(notebook), "torch.no_grad")
    assert found is not None
    after = notebook.edited(found[1])
    assert cells_of(after) == ["%matplotlib inline\nimport numpy as np\nimport torch", "x = 1"]


def test_a_cell_with_a_margin_is_python_to_ipython() -> None:
    notebook = notebook_of("x = 1", "  # c\n  y = 2\n  z", "w = 3")
    tree = parse(notebook)
    begin = notebook.text.index("y = 2")
    assert notebook.position(begin) == Position(2, 3, 3)
    assert tree.text(tree.module.body[-1]) == "w = 3"
    assert cells_of(replaced(notebook, "y = 2", "y = 3"))[1] == "  # c\n  y = 3\n  z"


def test_syntax_errors_name_the_cell() -> None:
    with pytest.raises(SourceError) as caught:
        parse(notebook_of("a", "\nx = = 1"))
    assert caught.value.position == Position(2, 5, 3)


@pytest.mark.parametrize(
    "metadata",
    [{"kernelspec": {"language": "R"}}, {"language_info": {"name": "julia"}}],
)
def test_other_languages_have_no_cells(metadata: dict[str, Any]) -> None:
    notebook = notebook_of("x <- 1", **metadata)
    assert notebook.text == ""
    assert notebook.position(0) == Position(1, 1)
    assert notebook.region(0) == (0, 0)


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{", b'{"cells": 1}', b'{"cells": [1]}', b'{"a" 1}', b'{"cells": [{"cell_type": "code" "a": ""}]}',
     b'{"worksheets": []}', b"\xff", b'{"cells": [{"cell_type": "code", "source": 1}]}', b"[" * 100_000,
     b'{"cells": [{"cell_type": "code", "source": [1]}]}'],
)  # fmt: skip
def test_what_is_no_notebook_cannot_be_read(data: bytes) -> None:
    with pytest.raises(SourceError) as caught:
        notebook_from_bytes(data, "n.ipynb")
    assert caught.value.kind == "unreadable"


@pytest.mark.parametrize("character", ["\\u0000", "\\ud800"])
def test_characters_that_no_file_may_hold(character: str) -> None:
    data = ('{"cells": [{"cell_type": "code", "source": "x = \'' + character + '\'"}]}').encode()
    with pytest.raises(SourceError) as caught:
        notebook_from_bytes(data, "n.ipynb")
    assert caught.value.position == Position(1, 6, 1)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(st.sampled_from("ab \n'\"\\é😀\u2028\r%"), max_size=12), min_size=1, max_size=4), st.data())
def test_any_edit_changes_its_cell_alone(cells: list[str], data: st.DataObject) -> None:
    notebook = notebook_of(*cells)
    assert [cell.original for cell in notebook.cells] == cells
    cell = data.draw(st.sampled_from(notebook.cells))
    begin = data.draw(st.integers(cell.begin, cell.finish))
    finish = data.draw(st.integers(begin, cell.finish))
    if not notebook.is_editable(begin, finish):
        return
    edited = notebook.edited([Edit(notebook.span(begin, finish), "é\n")])
    index = cell.number - 2
    old = cells[index]
    cells[index] = old[: begin - cell.begin] + "é\n" + old[finish - cell.begin :]
    assert cells_of(edited) == cells
    before, after = json.loads(notebook.data), json.loads(edited.data)
    for document in (before, after):
        del document["cells"][cell.number - 1]["source"]
    assert before == after
