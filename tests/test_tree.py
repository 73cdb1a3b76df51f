"""Trees: positions are those of libcst's own provider, and what the parser cannot take is told from what is wrong."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import libcst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from libcst.metadata import MetadataWrapper, PositionProvider

from torchlint.findings import Position
from torchlint.syntax.source import Source, SourceError, read_source, source_from_bytes
from torchlint.syntax.tree import ParserLimit, Tree, children, parse, walk

LIBRARY = Path(ast.__file__).parent


def tree_of(text: str) -> Tree:
    return parse(source_from_bytes(text.encode(), "a.py"))


def assert_positions_are_libcsts(tree: Tree) -> None:
    positions = MetadataWrapper(tree.module, unsafe_skip_copy=True).resolve(PositionProvider)
    for node in walk(tree.module):
        if isinstance(node, libcst.Module):
            continue
        span, expected = tree.span(node), positions[node]
        assert (span.start.line, span.start.column - 1) == (expected.start.line, expected.start.column)
        assert (span.end.line, span.end.column - 1) == (expected.end.line, expected.end.column)


@pytest.mark.parametrize("name", ["ast.py", "heapq.py", "dataclasses.py", "contextlib.py", "types.py", "__future__.py"])
def test_positions_of_real_files(name: str) -> None:
    tree = parse(read_source(LIBRARY / name, name))
    assert_positions_are_libcsts(tree)
    for node in walk(tree.module):
        assert list(tree.ancestors(node))[-1:] == ([] if node is tree.module else [tree.module])


LINES = ["x = f(a, b)", "@d\ndef g(p: int = 1): return p", "if a: pass\nelif b: c\nelse:\n    d", "# note", "", "\f",
         "class A(B):\n\tx = 1  # one\n\n\t# end", "y = (1 +\n  2)", "'''a\n b'''", "async def h():\n  await z;", "   "]


@settings(deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=6), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_positions_of_any_layout(lines: list[str], newline: str, ends: bool) -> None:
    text = newline.join(line.replace("\n", newline) for line in lines) + (newline if ends else "")
    tree = tree_of(text)
    for node in walk(tree.module):
        begin, finish = tree.offsets(node)
        assert 0 <= begin <= finish <= len(text)
        if isinstance(node, libcst.Name):
            assert tree.text(node) == node.value
        if isinstance(node, libcst.SimpleString):
            assert tree.text(node).split() == node.value.split()


@pytest.mark.parametrize(
    "text",
    [
        "try: y\nexcept (A, B)  :\n    z\nexcept C\t:\n    x = 1  # d\n",
        "\fx = 1\n",
        "x = 1\ry = 2\r",
        "y\nx = 1\n  # lost\n   ",
        "\f# a\n\n\f\nx = 1\n\n  # z",
    ],
)
def test_positions_where_libcst_loses_characters(text: str) -> None:
    tree = tree_of(text)
    target = next(node for node in walk(tree.module) if isinstance(node, libcst.Assign))
    begin = text.index("x = 1")
    assert tree.offsets(target) == (begin, begin + 5)


def test_parentheses_belong_to_a_node_only_when_asked() -> None:
    tree = tree_of("x = ( (a + b) )\n")
    node = next(node for node in walk(tree.module) if isinstance(node, libcst.BinaryOperation))
    assert tree.text(node) == "a + b"
    assert tree.text_with_parens(node) == "( (a + b) )"
    assert tree.span_with_parens(node).start == Position(1, 5)


def test_statement_and_indentation() -> None:
    tree = tree_of("class A:\n\t@d\n\tdef f(self):\n\t\tif a:\n\t\t\tb(); c()\n\t\telif e: g()\n")
    calls = {tree.text(node): node for node in walk(tree.module) if isinstance(node, libcst.Call)}
    line = tree.statement(calls["c()"])
    assert (type(line), tree.text(line), tree.indentation(line)) == (libcst.SimpleStatementLine, "b(); c()", "\t\t\t")
    names = {tree.text(node): node for node in walk(tree.module) if isinstance(node, libcst.Name)}
    for name in ("a", "e", "g"):
        assert tree.text(tree.statement(names[name])).startswith("if a")
    function = tree.statement(names["d"])
    assert isinstance(function, libcst.FunctionDef)
    assert tree.indentation(function) == "\t"
    assert tree.source.text[tree.first_offset(function)] == "@"


def test_children_leave_layout_out() -> None:
    tree = tree_of("x = f(a,  # c\n  b)\n")
    kinds = {type(node).__name__ for node in walk(tree.module)}
    assert kinds == {"Module", "SimpleStatementLine", "Assign", "AssignTarget", "Name", "Call", "Arg"}
    assert [type(node) for node in children(tree.module)] == [libcst.SimpleStatementLine]
    assert tree.parent(tree.module) is None


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("x = 1\nprint 'a'\n", Position(2, 1)),
        ("x = (1\n", Position(1, 5)),
        ("if x:\ny\n", Position(2, 1)),
        ("exec 'a' in b\n", Position(1, 1)),
        ("x = 'a\n", Position(1, 5)),
        ("x\\\n", None),
    ],
)
def test_syntax_errors_say_where(text: str, position: Position | None) -> None:
    with pytest.raises(SourceError) as caught:
        tree_of(text)
    assert caught.value.kind == "syntax-error"
    if position is not None:
        assert caught.value.position == position


def test_python_that_libcst_does_not_know_is_not_the_users_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str) -> libcst.Module:
        raise libcst.ParserSyntaxError("error at 1:3: expected ...", lines=[text], raw_line=1, raw_column=0)

    monkeypatch.setattr(libcst, "parse_module", refuse)
    with pytest.raises(ParserLimit) as caught:
        tree_of("x = 1\n")
    assert caught.value.position == Position(1, 3)


LIMITS: dict[str, Callable[[int], str]] = {
    "sum": lambda n: "x = " + " + ".join(["a"] * n),
    "sum of products": lambda n: "x = " + " + ".join(["a*b"] * n),
    "and": lambda n: "x = " + " and\\\n ".join(["a"] * n),
    "attributes": lambda n: "x = a" + ".b" * n,
    "calls": lambda n: "x = (a" + "\n.b()" * n + ")",
    "subscripts": lambda n: "x = a" + "[0]" * n,
    "parentheses": lambda n: "x = " + "(" * n + ")" * n,
    "unclosed": lambda n: "x = " + "[" * n,
    "nested calls": lambda n: "x = " + "f(" * n + ")" * n,
    "not": lambda n: "x = " + "not " * n + "a",
    "minus": lambda n: "x = " + "-" * n + "a",
    "lambda": lambda n: "x = " + "lambda: " * n + "a",
    "conditions": lambda n: "x = " + "a if b else " * n + "a",
    "joined strings": lambda n: "x = (" + "'a'  # c\n" * n + ")",
    "elif": lambda n: "if a: pass\n" + "elif a: pass\n" * n,
    "comprehension": lambda n: "x = [a " + "for a in b " * n + "]",
    "dotted import": lambda n: "import a" + ".b" * n,
    "in an f-string": lambda n: "x = f'{" + "a + " * n + "a}'",
    "behind a docstring": lambda n: "'''one\ntwo'''\nx = " + "a + " * n + "a",
}


@pytest.mark.parametrize("make", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("count", [1_000, 10_000, 100_000])
def test_what_would_crash_the_parser_is_a_limit(make: Callable[[int], str], count: int) -> None:
    with pytest.raises(ParserLimit) as caught:
        tree_of(make(count))
    assert caught.value.position is not None


def test_limits_say_in_which_line() -> None:
    with pytest.raises(ParserLimit) as caught:
        tree_of("'''one\ntwo'''  # three\ny = f(\n  1)\nx = " + "a + " * 1000 + "a\n")
    assert caught.value.position == Position(5, 1)


@pytest.mark.parametrize("make", [make for name, make in LIMITS.items() if name != "unclosed"])
def test_what_is_below_the_limits_has_positions(make: Callable[[int], str]) -> None:
    tree = tree_of(make(150))
    assert tree.offsets(tree.module.body[-1])[1] <= len(tree.source.text)


FLAT: dict[str, Callable[[int], str]] = {
    "arguments": lambda n: "f(" + ", ".join(["-a.b"] * n) + ")",
    "table": lambda n: "x = [\n" + "    (1, -2.5, 'a', b.c(d)),  # row\n" * n + "]",
    "mapping": lambda n: "x = {" + "'a': 'b' + c,\n" * n + "}",
    "statements": lambda n: "x = a.b(c)\n" * n,
    "semicolons": lambda n: "a + b; " * n,
    "comparison": lambda n: "x = " + " < ".join(["a"] * n),
    "f-string": lambda n: "x = f'" + "{a}.b-c" * n + "'",
    "style sheet": lambda n: "x = f'''a {{ " + "b-c-d: e.f;\n" * n + "}} {g}'''",
    "separate ifs": lambda n: "if a: pass\nelif b: pass\n" * n,
}


@pytest.mark.parametrize("make", FLAT.values(), ids=FLAT)
def test_what_is_long_but_flat_is_no_limit(make: Callable[[int], str]) -> None:
    assert_positions_are_libcsts(tree_of(make(700)))


@pytest.mark.parametrize("opening", ["(", "[a, ", "A(b=", "{1: "])
def test_deep_patterns_are_a_limit(opening: str) -> None:
    closing = {"(": ")", "[": "]", "A": ")", "{": "}"}[opening[0]]
    with pytest.raises(ParserLimit) as caught:
        tree_of(f"match x:\n    case {opening * 40}a{closing * 40}:\n        pass\n")
    assert caught.value.position == Position(2, 1)
    tree_of(f"match x:\n    case {opening * 6}a{closing * 6}:\n        pass\n")
    tree_of(f"case = {'[' * 40}{']' * 40}\n")


def test_fifty_thousand_lines() -> None:
    tree = tree_of("x = 1\n" * 50_000)
    assert tree.span(tree.module.body[-1]).start == Position(50_000, 1)


def test_the_recursion_limit_is_put_back() -> None:
    before = sys.getrecursionlimit()
    tree = tree_of("x = 1\n")
    tree.span(tree.module.body[0])
    assert sys.getrecursionlimit() == before


def test_no_matchers_are_imported() -> None:
    """They and the metadata providers take longer to import than a small file takes to check."""
    script = "import sys, torchlint.syntax.editing; print([m for m in sys.modules if m.startswith('libcst.m')])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "libcst.matchers" not in shown


def test_empty_files() -> None:
    for text in ("", "\n", "   ", "# only\n"):
        tree = tree_of(text)
        assert list(walk(tree.module)) == [tree.module]
        assert tree.span(tree.module).begin == 0


def test_source_is_not_copied() -> None:
    source = Source("a.py", "x = 1\n")
    assert parse(source).source is source
