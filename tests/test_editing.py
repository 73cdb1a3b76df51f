"""Edits keep the layout: each case says what goes in and what must come out, byte for byte."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path

import libcst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchlint.findings import Edit
from torchlint.syntax import editing
from torchlint.syntax.source import read_source, source_from_bytes
from torchlint.syntax.tree import Statement, Tree, parse, walk

LIBRARY = Path(ast.__file__).parent


def tree_of(text: str) -> Tree:
    return parse(source_from_bytes(text.encode(), "a.py"))


def applied(tree: Tree, edits: list[Edit] | None) -> str:
    assert edits is not None
    edited = tree.source.edited(edits)
    parse(edited)
    return edited.text


def call_in(tree: Tree) -> libcst.Call:
    return next(node for node in walk(tree.module) if isinstance(node, libcst.Call))


def statement_of(tree: Tree, text: str) -> Statement:
    """The first statement that begins with a text."""
    for node in walk(tree.module):
        if isinstance(node, Statement) and tree.text(node).startswith(text):
            return node
    raise AssertionError(text)


def small_of(tree: Tree, text: str) -> libcst.BaseSmallStatement:
    for node in walk(tree.module):
        if isinstance(node, libcst.BaseSmallStatement) and tree.text(node) == text:
            return node
    raise AssertionError(text)


# Calls.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()", "f(x=2)"),
        ("f( )", "f(x=2 )"),
        ("f(\n    # c\n)", "f(x=2\n    # c\n)"),
        ("f(a)", "f(a, x=2)"),
        ("f(a,)", "f(a, x=2,)"),
        ("f((a))", "f((a), x=2)"),
        ("f(a, b)", "f(a, b, x=2)"),
        ("f(\n    a,\n    b\n)", "f(\n    a,\n    b,\n    x=2\n)"),
        ("f(\n    a,\n    b,\n)", "f(\n    a,\n    b,\n    x=2,\n)"),
        ("f(\n\ta,\n)", "f(\n\ta,\n\tx=2,\n)"),
        ("f(\n  a,  # c, d\n  b,  # why\n  # end\n)", "f(\n  a,  # c, d\n  b,  # why\n  x=2,\n  # end\n)"),
        ("f(\n    a,\n    b  # why\n)", "f(\n    a,\n    b,  # why\n    x=2\n)"),
        ("f(\n    a  # why\n    ,\n)", "f(\n    a  # why\n    ,\n    x=2,\n)"),
        ("f(a,\n  b)", "f(a,\n  b,\n  x=2)"),
        ("f(a,\n  b,)", "f(a,\n  b,\n  x=2,)"),
        ("f(a, b,\n  c)", "f(a, b,\n  c, x=2)"),
        ("f(\n  a, b,\n  c,\n)", "f(\n  a, b,\n  c, x=2,\n)"),
        ("f([\n  1,\n])", "f([\n  1,\n], x=2)"),
        ("f(a, \\\n  b)", "f(a, \\\n  b,\n  x=2)"),
        ("f(i for i in y)", "f((i for i in y), x=2)"),
        ("f((i for i in y))", "f((i for i in y), x=2)"),
        ("f(*a)", "f(*a, x=2)"),  # by name only
        ("f(a, x=1)", "f(a, x=2)"),
        ("f(a, x = (1), **k)", "f(a, x = 2, **k)"),
        ("f(a, **{'z': 1})", "f(a, x=2, **{'z': 1})"),
        ("f(\n    a,\n    **{'z': 1},\n)", "f(\n    a,\n    x=2,\n    **{'z': 1},\n)"),
        ("f(g(a), '''\n''')", "f(g(a), '''\n''', x=2)"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_set_keyword(before: str, after: str, newline: str) -> None:
    tree = tree_of(f"y = {before}\n".replace("\n", newline))
    assert applied(tree, editing.set_keyword(tree, call_in(tree), "x", "2")) == f"y = {after}\n".replace("\n", newline)


@pytest.mark.parametrize("text", ["f(**k)", "f(a, **k)", "f(**{'x': 1})", "f(**{**k})", "f(**{n: 1})"])
def test_set_keyword_refuses_what_may_be_passed_already(text: str) -> None:
    tree = tree_of(text)
    assert editing.set_keyword(tree, call_in(tree), "x", "2") is None


def test_set_keyword_that_is_passed_by_position() -> None:
    tree = tree_of("f(a, b, c)\n")
    assert applied(tree, editing.set_keyword(tree, call_in(tree), "x", "2", position=1)) == "f(a, 2, c)\n"
    assert applied(tree, editing.set_keyword(tree, call_in(tree), "x", "2", position=3)) == "f(a, b, c, x=2)\n"
    for text in ("f(*a)", "f(*a, b)", "f(b, *a, c=1)"):
        tree = tree_of(text)
        assert editing.set_keyword(tree, call_in(tree), "x", "2", position=1) is None


@pytest.mark.parametrize(
    ("before", "index", "after"),
    [
        ("f(a)", 0, "f()"),
        ("f(a,)", 0, "f()"),
        ("f(\n  a,\n)", 0, "f()"),
        ("f(\n  a, # x\n)", 0, "f(\n   # x\n)"),
        ("f(a, b)", 0, "f(b)"),
        ("f(a, b)", 1, "f(a)"),
        ("f(a, b,)", 1, "f(a,)"),
        ("f(a, b, c)", 1, "f(a, c)"),
        ("f(\n  a,\n  b\n)", 0, "f(\n  b\n)"),
        ("f(\n  a,\n  b\n)", 1, "f(\n  a\n)"),
        ("f(\n  a,\n  b,\n)", 1, "f(\n  a,\n)"),
        ("f(\n  a,  # a\n  # of b\n  b,  # b\n)", 0, "f(\n  # of b\n  b,  # b\n)"),
        ("f(\n  a,  # a\n  b  # b\n)", 1, "f(\n  a  # a\n)"),
        ("f(a,\n  b)", 0, "f(\n  b)"),
        ("f(a,\n  b)", 1, "f(a)"),
        ("f(a,  # x\n  b)", 1, "f(a  # x\n  )"),
        ("f(a=1, **k)", 0, "f(**k)"),
    ],
)
def test_remove_argument(before: str, index: int, after: str) -> None:
    tree = tree_of(before + "\n")
    call = call_in(tree)
    assert applied(tree, editing.remove_argument(tree, call, call.args[index])) == after + "\n"


def test_replace_callee() -> None:
    tree = tree_of("x = (torch.tensor)(\n    a,  # c\n)\n")
    after = applied(tree, editing.replace_callee(tree, call_in(tree), "torch.from_numpy"))
    assert after == "x = torch.from_numpy(\n    a,  # c\n)\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = f(a,\n      b)", "x = longer(a,\n           b)"),
        ("x = f(g(a,\n        b),\n      c=[\n          1,\n      ])",
         "x = longer(g(a,\n             b),\n           c=[\n               1,\n           ])"),
        ("x = f([\n    a,\n    b])", "x = longer([\n    a,\n    b])"),
        ("x = f(\n          a)", "x = longer(\n          a)"),
        ("if x:\n\tx = f(a,\n\t      '''\n         ''',\n\t      b)",
         "if x:\n\tx = longer(a,\n\t           '''\n         ''',\n\t           b)"),
        ("x = much.longer(a,\n                b,\n\n                c)",
         "x = longer(a,\n           b,\n\n           c)"),
    ],
)
def test_arguments_stay_aligned_with_what_is_called(before: str, after: str) -> None:
    tree = tree_of(before)
    assert applied(tree, editing.replace_callee(tree, call_in(tree), "longer")) == after


def test_wrap_argument() -> None:
    tree = tree_of("x = f([a,\n       b],\n      c)\n")
    call = call_in(tree)
    assert applied(tree, editing.wrap_argument(tree, call, call.args[0], "g")) == (
        "x = f(g([a,\n         b]),\n      c)\n")
    assert applied(tree, editing.wrap_argument(tree, call, call.args[0], "g", maker="fff")) == (
        "x = fff(g([a,\n           b]),\n        c)\n")


WIDE = "argument_of_some_length, another=argument_of_some_length, third=argument_of_some_length"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"f({WIDE})", f"f({WIDE},\n  x=2)"),
        (f"f({WIDE},)", f"f({WIDE},\n  x=2,)"),
        (f"f(g({WIDE}))  # why", f"f(g({WIDE}, x=2))  # why"),
        (f"[f({WIDE}),\n 1]", f"[f({WIDE},\n   x=2),\n 1]"),
        (f"[f({WIDE}), 1]", f"[f({WIDE}, x=2), 1]"),
        (f"f(\n    {WIDE})", f"f(\n    {WIDE},\n    x=2)"),
        (f"f(\n    {WIDE},\n)", f"f(\n    {WIDE},\n    x=2,\n)"),
        (f"f(a,\n  {WIDE}, b=1)", f"f(a,\n  {WIDE}, b=1,\n  x=2)"),
        (f"if y:\n\tf({WIDE})", f"if y:\n\tf({WIDE},\n\t  x=2)"),
        (f"f({WIDE}, b=[\n])", f"f({WIDE}, b=[\n], x=2)"),
        (f"# {'-' * 110}\nf({WIDE})", f"# {'-' * 110}\nf({WIDE}, x=2)"),
        (f"# {'-' * 200}\nf({WIDE}, four={WIDE[:23]})", f"# {'-' * 200}\nf({WIDE}, four={WIDE[:23]},\n  x=2)"),
    ],
)
def test_set_keyword_breaks_a_line_that_would_be_too_wide(before: str, after: str) -> None:
    tree = tree_of(before)
    call = next(node for node in walk(tree.module) if isinstance(node, libcst.Call) and len(node.args) > 1)
    assert applied(tree, editing.set_keyword(tree, call, "x", "2")) == after


def test_replace_keeps_parentheses() -> None:
    tree = tree_of("x = ((a\n  + b))\n")
    node = next(node for node in walk(tree.module) if isinstance(node, libcst.BinaryOperation))
    assert applied(tree, editing.replace(tree, node, "c")) == "x = ((c))\n"


@pytest.mark.parametrize("name", ["argparse.py", "subprocess.py", "tarfile.py"])
def test_keywords_come_and_go_on_every_call_of_real_files(name: str) -> None:
    tree = parse(read_source(LIBRARY / name, name))
    calls = [node for node in walk(tree.module) if isinstance(node, libcst.Call) and node.args]
    for node in calls[::20]:
        edits = editing.set_keyword(tree, node, "new_name", "None")
        if edits is not None:
            text = tree.source.edited(edits).text
            assert "new_name" in {word.arg for word in ast.walk(ast.parse(text)) if isinstance(word, ast.keyword)}
        ast.parse(tree.source.edited(editing.remove_argument(tree, node, node.args[-1])).text)


# Statements.


@pytest.mark.parametrize(
    ("before", "target", "after"),
    [
        ("a\nb", "b", "a"),
        ("a\r\nb", "b", "a"),
        ("a  # why\nb\n", "a", "b\n"),
        ("a; b; c\n", "a", "b; c\n"),
        ("a; b; c\n", "b", "a; c\n"),
        ("a; b; c;\n", "c", "a; b;\n"),
        ("if x:\n    a  # c\n", "a", "if x:\n    pass  # c\n"),
        ("if x: a\n", "a", "if x: pass\n"),
        ("if x: a; b\n", "a", "if x: b\n"),
        ("if x:\n    a(\n        1)\n    b\n", "a(\n        1)", "if x:\n    b\n"),
        ("# keep\na\n", "a", "# keep\n"),
        ("x\n\na\n\nb\n", "a", "x\n\nb\n"),
        ("x\n\n\na\n\nb\n", "a", "x\n\n\nb\n"),
        ("x\r\n\r\na\r\n \r\n\r\nb\r\n", "a", "x\r\n\r\n\r\nb\r\n"),
        ("x\na\n\nb\n", "a", "x\n\nb\n"),
        ("x\n\na\n\n", "a", "x\n\n"),
        ("x\n\na", "a", "x\n"),
        ("if x:\n    a\n\n    b\n", "a", "if x:\n    b\n"),
        ("if x:\n\n    a\n\n    b\n", "a", "if x:\n\n    b\n"),
        ("if x:\n    # keep\n    a\n\n    b\n", "a", "if x:\n    # keep\n\n    b\n"),
    ],
)
def test_delete_statement(before: str, target: str, after: str) -> None:
    tree = tree_of(before)
    assert applied(tree, editing.delete_statement(tree, small_of(tree, target))) == after


def test_delete_a_compound_statement_with_its_comments() -> None:
    tree = tree_of("x\n@d\ndef f():\n    a\n    # end\n\ny\n")
    assert applied(tree, editing.delete_statement(tree, statement_of(tree, "def"))) == "x\n\ny\n"


def test_insert() -> None:
    text = "def f():\n\t# lead\n\t@d\n\tdef g():\n\t\tx  # x\n\t\t# end\n\ty"
    tree = tree_of(text)
    g, y = statement_of(tree, "def g"), statement_of(tree, "y")
    assert applied(tree, editing.insert_before(tree, g, ["a", "b"])) == text.replace("\t@d", "\ta\n\tb\n\t@d")
    assert applied(tree, editing.insert_after(tree, g, ["a", "b"])) == text.replace("# end\n", "# end\n\ta\n\tb\n")
    assert applied(tree, editing.insert_after(tree, y, ["a", "b"])) == text + "\n\ta\n\tb"


LOOP = """\
for epoch in epochs:
    # The rate first.
    scheduler.step()  # once

    for batch in loader:
        optimizer.step()
    # deeper?
"""


def test_move_takes_its_own_comments_along() -> None:
    tree = tree_of(LOOP)
    moved = editing.move_statement_after(tree, statement_of(tree, "scheduler"), statement_of(tree, "for batch"))
    assert applied(tree, moved) == """\
for epoch in epochs:
    for batch in loader:
        optimizer.step()
    # The rate first.
    scheduler.step()  # once
    # deeper?
"""
    moved = editing.move_statement_after(tree, statement_of(tree, "scheduler"), statement_of(tree, "optimizer"))
    assert "        # The rate first.\n        scheduler.step()  # once\n    # deeper" in applied(tree, moved)


@pytest.mark.parametrize(
    ("before", "target", "anchor", "after"),
    [
        ("# both\na\nb\nc\n", "a", "c", "# both\nb\nc\na\n"),
        ("a\nb\nc", "a", "c", "b\nc\na"),
        ("a\nb\nc", "c", "a", "a\nc\nb"),
        ("if x:\n    a\nb\n", "a", "b", "if x:\n    pass\nb\na\n"),
        ("a; b\nc\n", "a", "c", "b\nc\na\n"),
        ("if x: a\nb\n", "a", "b", "if x: pass\nb\na\n"),
        ("f(\n  1,\n)\nif x:\n\tb\n", "f(\n  1,\n)", "b", "if x:\n\tb\n\tf(\n\t  1,\n\t)\n"),
        ("f('''\n  1''')\nif x:\n\tb\n", "f('''\n  1''')", "b", "if x:\n\tb\n\tf('''\n  1''')\n"),
    ],
)
def test_move(before: str, target: str, anchor: str, after: str) -> None:
    tree = tree_of(before)
    edits = editing.move_statement_after(tree, small_of(tree, target), statement_of(tree, anchor))
    assert applied(tree, edits) == after


def test_move_refuses_what_is_there_or_inside() -> None:
    tree = tree_of("a\nif x:\n    b\n")
    a, compound, b = (statement_of(tree, text) for text in ("a", "if", "b"))
    assert editing.move_statement_after(tree, compound, a) is None
    assert editing.move_statement_after(tree, compound, b) is None
    assert editing.move_statement_after(tree, a, a) is None


# Blocks.

BLOCK = '''\
def f():
    x = 1
    # lead
    for a in b:
        s = """
   text
"""
        # inner

        if x: y(
  1,
        )
        # end
    z()  # z'''


def test_wrap_in_with() -> None:
    tree = tree_of(BLOCK)
    loop, last = statement_of(tree, "for"), statement_of(tree, "z()")
    assert applied(tree, editing.wrap_in_with(tree, [loop, last], "with torch.no_grad():")) == '''\
def f():
    x = 1
    # lead
    with torch.no_grad():
        for a in b:
            s = """
   text
"""
            # inner

            if x: y(
      1,
            )
            # end
        z()  # z'''
    only_last = applied(tree, editing.wrap_in_with(tree, [last], "with c:"))
    assert only_last == BLOCK.replace("    z()", "    with c:\n        z()")


def test_wrap_keeps_tabs_decorators_and_windows_newlines() -> None:
    tree = tree_of("class A:\r\n\t@d\r\n\tdef f(self):\r\n\t\treturn 1\r\n\r\n\tx = 1\r\n")
    function = statement_of(tree, "def")
    wrapped = "class A:\r\n\twith c:\r\n\t\t@d\r\n\t\tdef f(self):\r\n\t\t\treturn 1\r\n\r\n\tx = 1\r\n"
    assert applied(tree, editing.wrap_in_with(tree, [function], "with c:")) == wrapped


def test_wrap_at_the_top_uses_the_files_own_indentation() -> None:
    tree = tree_of("if a:\n  b\nc\n")
    edits = editing.wrap_in_with(tree, [statement_of(tree, "c")], "with d:")
    assert applied(tree, edits) == "if a:\n  b\nwith d:\n  c\n"


def test_wrap_refuses_what_is_no_run_of_statements() -> None:
    tree = tree_of("a\nb\nif x: c\nelif y:\n    d\n")
    a, b, compound, d = (statement_of(tree, text) for text in ("a", "b", "if", "d"))
    assert isinstance(compound, libcst.If)
    for statements in ([], [b, a], [a, compound], [a, d]):
        assert editing.wrap_in_with(tree, statements, "with z:") is None
    assert isinstance(compound.orelse, libcst.If)
    assert editing.wrap_in_with(tree, [compound.orelse], "with z:") is None


@pytest.mark.parametrize(
    "text",
    [BLOCK.replace("  1,", ""), "def f():\n\tx\n\ty = '''\n\t'''\n", "if a:\r\n  b\r\n\r\n  # c\r\n  d\r\n"],
)
def test_unwrap_undoes_wrap(text: str) -> None:
    tree = tree_of(text)
    body = tree.module.body[0].body
    assert isinstance(body, libcst.IndentedBlock)
    statements = [node for node in body.body if isinstance(node, Statement)]
    wrapped = parse(tree.source.edited(editing.wrap_in_with(tree, statements[1:], "with c:") or []))
    with_ = statement_of(wrapped, "with")
    assert isinstance(with_, libcst.With)
    assert applied(wrapped, editing.unwrap_with(wrapped, with_)) == text


@pytest.mark.parametrize(
    ("before", "item", "after"),
    [
        ("with a: x; y\n", None, "x; y\n"),
        ("with (\n  a):\n    x\n    y(\n 1)\n", None, "x\ny(\n1)\n"),
        ("with a, b as c:\n    x\n", 0, "with b as c:\n    x\n"),
        ("with a, b as c:\n    x\n", 1, "with a:\n    x\n"),
        ("with (\n    a,\n    b,\n):\n    x\n", 1, "with (\n    a,\n):\n    x\n"),
    ],
)
def test_unwrap(before: str, item: int | None, after: str) -> None:
    tree = tree_of(before)
    with_ = tree.module.body[0]
    assert isinstance(with_, libcst.With)
    assert applied(tree, editing.unwrap_with(tree, with_, None if item is None else with_.items[item])) == after


@pytest.mark.parametrize("text", ["with a:  # why\n    x\n", "with a, b:\n    x\n"])
def test_unwrap_refuses(text: str) -> None:
    tree = tree_of(text)
    with_ = tree.module.body[0]
    assert isinstance(with_, libcst.With)
    assert editing.unwrap_with(tree, with_) is None


@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_decorate_stands_next_to_the_def(keyword: str) -> None:
    text = f"class A:\n\t@staticmethod\n\t# why\n\t{keyword} f(): pass\n"
    tree = tree_of(text)
    function = next(node for node in walk(tree.module) if isinstance(node, libcst.FunctionDef))
    after = text.replace(f"\t{keyword}", f"\t@torch.no_grad()\n\t{keyword}")
    assert applied(tree, editing.decorate(tree, function, "torch.no_grad()")) == after


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_wrapping_any_run_of_a_real_file_keeps_its_program(data: st.DataObject) -> None:
    tree = _library_tree()
    blocks = [node for node in walk(tree.module) if isinstance(node, libcst.IndentedBlock | libcst.Module)]
    block = data.draw(st.sampled_from(blocks))
    first = data.draw(st.integers(0, len(block.body) - 1))
    last = data.draw(st.integers(first, len(block.body) - 1))
    edits = editing.wrap_in_with(tree, block.body[first : last + 1], "with wrapped:")  # type: ignore[arg-type]
    assert edits is not None
    wrapped = ast.parse(tree.source.edited(edits).text)
    assert ast.dump(_Unwrapping().visit(wrapped)) == ast.dump(ast.parse(tree.source.text))


class _Unwrapping(ast.NodeTransformer):
    def visit_With(self, node: ast.With) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        name = node.items[0].context_expr
        return node.body if isinstance(name, ast.Name) and name.id == "wrapped" else node


_TREES: list[Tree] = []


def _library_tree() -> Tree:
    if not _TREES:
        path = LIBRARY / "textwrap.py"
        _TREES.append(parse(read_source(path, path.name)))
    return _TREES[0]


# References.

HEAD = "'''doc'''\nfrom __future__ import annotations\n\nimport os\n\nimport numpy as np\n"


@pytest.mark.parametrize(
    ("text", "name", "expression"),
    [
        ("import torch\n", "torch.from_numpy", "torch.from_numpy"),
        ("import torch as th\n", "torch.from_numpy", "th.from_numpy"),
        ("import torch.nn\n", "torch.nn.Linear", "torch.nn.Linear"),
        ("import torch.nn as nn\n", "torch.nn.functional.relu", "nn.functional.relu"),
        ("import torch\nfrom torch import nn\nimport torch.nn.functional as F\n", "torch.nn.functional.relu", "F.relu"),
        ("from torch import from_numpy as fn\n", "torch.from_numpy", "fn"),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\n", "torch.from_numpy", "torch.from_numpy"),
    ],
)
def test_reference_uses_what_is_there(text: str, name: str, expression: str) -> None:
    tree = tree_of(text)
    assert editing.reference(tree, name) == (expression, [])


@pytest.mark.parametrize(
    ("before", "name", "expression", "after"),
    [
        ("from torch import nn\n", "torch.no_grad", "torch.no_grad", "import torch\nfrom torch import nn\n"),
        ("import torch.nn as nn\n", "torch.no_grad", "torch.no_grad", "import torch\nimport torch.nn as nn\n"),
        (
            f"{HEAD}from x import (\n    y,\n)\n\n\ndef f(): pass\n",
            "torch.no_grad",
            "torch.no_grad",
            f"{HEAD}import torch\nfrom x import (\n    y,\n)\n\n\ndef f(): pass\n",
        ),
        ("import torch\nfrom . import z\n", "os.x", "os.x", "import os\nimport torch\nfrom . import z\n"),
        ("from . import z\n", "torch.no_grad", "torch.no_grad", "import torch\nfrom . import z\n"),
        ("'''doc'''\nx = 1\n", "os.cpu_count", "os.cpu_count", "'''doc'''\n\nimport os\nx = 1\n"),
        ("# license\nx = 1\n", "os.cpu_count", "os.cpu_count", "# license\nimport os\n\nx = 1\n"),
        ("'''doc'''", "os.cpu_count", "os.cpu_count", "'''doc'''\n\nimport os"),
        (
            "import torch\n\ndef f(torch): pass\n",
            "torch.no_grad",
            "no_grad",
            "from torch import no_grad\nimport torch\n\ndef f(torch): pass\n",
        ),
        (
            "from torch.cuda import amp\n",
            "torch.amp.autocast",
            "torch.amp.autocast",
            "import torch\nfrom torch.cuda import amp\n",
        ),
        (
            "import concurrent\n",
            "concurrent.futures.Future",
            "Future",
            "from concurrent.futures import Future\nimport concurrent\n",
        ),
    ],
)
def test_reference_adds_an_import(before: str, name: str, expression: str, after: str) -> None:
    tree = tree_of(before)
    found = editing.reference(tree, name)
    assert found is not None
    assert found[0] == expression
    assert applied(tree, found[1]) == after


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("torch = 1\nno_grad = 2\n", "torch.no_grad"),
        ("from mine import torch, no_grad\n", "torch.no_grad"),
        ("if TYPE_CHECKING:\n    import torch\n", "torch.no_grad"),
        ("try:\n    import torch.nn\nexcept ImportError:\n    nn = 1\nfor torch in x: pass\n", "torch.no_grad"),
        ("", "os.cpu_count"),
    ],
)
def test_reference_refuses(text: str, name: str) -> None:
    assert editing.reference(tree_of(text), name) is None


BINDINGS = [
    "torch = 1", "def torch(): pass", "class torch: pass", "for torch in a: pass", "with a as torch: pass",
    "with a as (b, torch): pass", "try: pass\nexcept E as torch: pass", "(torch := 1)", "lambda torch: 1",
    "[torch for torch in a]", "a, *torch = b", "[a, torch] = b", "torch: int = 1", "torch += 1",
    "import a as torch", "from a import torch", "from a import b as torch", "import torch.b as torch",
    "match a:\n  case [*torch]: pass", "match a:\n  case {**torch}: pass", "match a:\n  case b as torch: pass",
    "def f():\n  global torch", "def f(*torch): pass", "def f(a=1, /, *, torch): pass",
]  # fmt: skip


@pytest.mark.parametrize("binding", BINDINGS)
def test_reference_never_shadows(binding: str) -> None:
    tree = tree_of(f"import numpy\n{binding}\n")
    found = editing.reference(tree, "torch.no_grad")
    assert found is not None
    assert found[0] == "no_grad"


def test_reference_looks_where_it_will_stand() -> None:
    tree = tree_of(inspect.cleandoc("""
        import numpy
        early()
        import torch as late
        def f():
            import torch as inner
            inside()
        def g():
            outside()
    """))
    names = {tree.text(node): node for node in walk(tree.module) if isinstance(node, libcst.Call)}
    assert editing.reference(tree, "torch.x", names["outside()"]) == ("late.x", [])
    found = editing.reference(tree, "torch.x", names["early()"])
    assert found is not None
    assert found[0] == "torch.x"
    assert applied(tree, found[1]).startswith("import numpy\nimport torch\nearly()")
    tree = tree_of(textwrap.dedent("""
        def f():
            import torch as inner
            inside()
    """))
    inside = next(node for node in walk(tree.module) if isinstance(node, libcst.Call))
    assert editing.reference(tree, "torch.x", inside) == ("inner.x", [])


def test_wrap_in_if() -> None:
    tree = tree_of("def f():\n    save(a)  # all\n    save(b)\n    done()\n")
    function = tree.module.body[0]
    assert isinstance(function, libcst.FunctionDef)
    statements = function.body.body[:2]
    assert applied(tree, editing.wrap_in_if(tree, statements, "first()")) == (  # type: ignore[arg-type]
        "def f():\n    if first():\n        save(a)  # all\n        save(b)\n    done()\n")


@pytest.mark.parametrize(("before", "text", "after"), [
    ("f(a, b=1, c=2)\n", "d=3", "f(a, d=3, c=2)\n"),
    ("f(a,\n  b=1)  # why\n", "d=3", "f(a,\n  d=3)  # why\n"),
    (f"x = f({'a' * 60}, b=1, c=2)\n", f"d={'e' * 30}", f"x = f({'a' * 60},\n      d={'e' * 30}, c=2)\n"),
])
def test_replace_argument(before: str, text: str, after: str) -> None:
    tree = tree_of(before)
    call = next(node for node in walk(tree.module) if isinstance(node, libcst.Call))
    assert applied(tree, editing.replace_argument(tree, call, call.args[1], text)) == after
