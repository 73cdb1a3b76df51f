"""Outlines of linked files: the same calls at the same places as in a whole tree."""

from __future__ import annotations

import sys
from typing import Any

import libcst as cst
import pytest

from torchlint.semantics.names import code_children, names_in
from torchlint.syntax.linked import LinkedTree, UnreadExpression, WholeTreeNeeded
from torchlint.syntax.source import source_from_bytes
from torchlint.syntax.tree import parse, same_code, walk

TEXT = """
import torch.nn as nn
from . import near

@decorated(1)
class Net(base("é"), nn.Module, metaclass=meta()):
    def __init__(self, width=default(), *args, only=kw(), **kwargs):
        super().__init__()
        self.é = (nn.Linear(3, 8)); self.late = lambda x=a(): b(x)

    async def forward(self, x: annotation() = None) -> returned():
        async with lock() as held:
            await self.conv(x)[first():, ..., last()]
        return x if test() else {k(): v(), **more()}

for i in range(3):
    [f(i) for j in g(i) if h(j)]
else:
    print(*args(), sep=sep(), **keywords())
while (n := step()) and not done() or late() < 3:
    n += inc()
    del x[index()]
    assert check(), message()
try:
    risky()
except (A, errors()) as e:
    raise wrapped(e)
else:
    good()
finally:
    end()
with open("a") as f, open("b"):
    yield_(x)
if main(): run()
elif other(): stop()
match subject():
    case 1: one()
global_()
"""


def _calls(node: Any) -> list[cst.Call]:
    found = [node] if isinstance(node, cst.Call) else []
    return found + [call for child in code_children(node) for call in _calls(child)]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_calls_are_where_they_are(newline: str) -> None:
    source = source_from_bytes(TEXT.replace("\n", newline).encode(), "net.py")
    whole, outline = parse(source), LinkedTree(source)
    expected = {whole.span(node) for node in walk(whole.module) if isinstance(node, cst.Call)}
    texts = [whole.source.text[span.begin:span.finish] for span in expected]
    found = {outline.span(call) for call in _calls(outline.module)}
    unread = {"annotation()", "returned()", "message()"}  # nothing asks for these
    assert {source.text[span.begin:span.finish] for span in found} | unread == set(texts)
    assert found <= expected


def test_functions_and_classes_have_a_place() -> None:
    outline = LinkedTree(source_from_bytes(b"x = 1\nclass A:\n    def f(self): pass\n", "a.py"))
    cls = outline.module.body[1]
    assert outline.span(cls).start.line == 2
    assert outline.span(cls.body.body[0]).start.line == 3
    assert outline.span(cst.Pass()).start.line == 1


def test_names_are_found_without_converting() -> None:
    source = source_from_bytes(b"def f(a, b=c):\n    return d.e(g=1)\n", "a.py")
    assert names_in(LinkedTree(source).module.body[0].body) == {"d", "e", "g"}


@pytest.mark.parametrize("data", [b"def f(:", b"(" * 1000])
def test_what_cannot_be_parsed_raises(data: bytes) -> None:
    with pytest.raises((SyntaxError, RecursionError, MemoryError)):
        LinkedTree(source_from_bytes(data, "a.py"))


PAIRS = [
    ("2 * (a + b)", "2*(a  +  b)", True),
    ("2 * (a + b)", "2 * a + b", False),
    ("f(x, *y, key=z[0])", "f(x,*y,key = z[ 0 ])", True),
    ("f(x, *y)", "f(x, y)", False),
    ("a + b", "a - b", False),
    ("a[1:2]", "a[1:]", False),
    ("lambda x: x", "lambda y: x", False),
    ("f'{a}b'", "f'{a}c'", False),
    ("1", "'1'", False),
]


@pytest.mark.parametrize(("one", "other", "same"), PAIRS)
def test_code_is_compared_without_its_layout(one: str, other: str, same: bool) -> None:
    source = source_from_bytes(f"{one}\n{other}\n".encode(), "a.py")
    for module in (parse(source).module, LinkedTree(source).module):
        first, second = (cst.ensure_type(line, cst.SimpleStatementLine).body[0] for line in module.body)
        assert same_code(first, second) is same


def test_names_are_the_same_as_in_a_whole_tree() -> None:
    source = source_from_bytes(TEXT.encode(), "net.py")
    whole, outline = parse(source).module.body, LinkedTree(source).module.body
    assert [names_in(statement) for statement in whole[3:]] == [names_in(statement) for statement in outline[3:]]
    assert len(whole) == len(outline)


@pytest.mark.parametrize("digits", [640, 5_000])
def test_numbers_of_any_length_are_read(digits: int) -> None:
    text = f"x = {16 ** digits:#x}\n"
    number = next(node for node in walk(LinkedTree(source_from_bytes(text.encode(), "a.py")).module.body[0])
                  if isinstance(node, cst.Integer))
    assert number.evaluated_value == 16**digits


@pytest.mark.skipif(sys.version_info < (3, 11), reason="PEP 646")
def test_an_expression_of_a_newer_python_is_unread() -> None:
    tree = LinkedTree(source_from_bytes(b"def f(*args: *Ts): pass\n", "a.py"))
    unread = [node for node in walk(tree.module.body[0]) if isinstance(node, UnreadExpression)]
    assert [tree.source.text[span.begin:span.finish] for span in map(tree.span, unread)] == ["*Ts"]
    with pytest.raises(WholeTreeNeeded):
        unread[0].visit(cst.CSTTransformer())
    assert not same_code(unread[0], unread[0])


def test_an_outline_that_is_linked_to_leaves_some_questions_open() -> None:
    outline = LinkedTree(source_from_bytes(b"f(x)\n", "a.py"))
    call = outline.module.body[0].body[0].value
    assert (outline.parent(call), list(outline.ancestors(call)), outline.text(call)) == (None, [], "f(x)")
    for ask in (outline.offsets, outline.statement, outline.is_parenthesized):
        with pytest.raises(WholeTreeNeeded):
            ask(call)
