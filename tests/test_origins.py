"""Where the value of a name may come from."""

from __future__ import annotations

import libcst
import pytest

from torchlint.syntax.origins import Origins
from torchlint.syntax.source import source_from_bytes
from torchlint.syntax.tree import parse, walk


@pytest.mark.parametrize(("code", "origins"), [
    ("a = f()\nshow(a)", ["f()"]),
    ("a = f()\nb = a\nshow(b)", ["f()"]),
    ("a = f()\na = g()\nshow(a)", ["f()", "g()"]),
    ("a, b = f(), g()\nshow(b)", ["g()"]),
    ("a, *b = f(), g()\nshow(b)", []),
    ("a, b = f()\nshow(a)", []),
    ("for a in f():\n    show(a)", []),
    ("with f() as a:\n    show(a)", []),
    ("a = 1\na += 2\nshow(a)", []),
    ("show(a)", []),
    ("show(f(1))", ["f(1)"]),
    ("a = f()\ndef h():\n    show(a)\nh()", ["f()"]),
    ("a = f()\ndef h():\n    a = g()\n    show(a)\nh()", ["g()"]),
    ("def h(x, a):\n    show(a)\nh(1, f())\nh(2, a=g())", ["f()", "g()"]),
    ("def h(x, *, a):\n    show(a)\nh(1, a=f())", ["f()"]),
    ("def h(a=1):\n    show(a)\nh()", []),
    ("def h(a):\n    show(a)\nh(*f())", []),
    ("def h(a):\n    show(a)\nobject.h(1)", []),
    ("def h(a):\n    show(a)\ndef h(b):\n    pass\nh(f())", []),
    ("def h(a):\n    show(a)\n    h(a)\nh(f())", []),
])
def test_origins(code: str, origins: list[str]) -> None:
    tree = parse(source_from_bytes(code.encode(), "code.py"))
    shown = next(node for node in walk(tree.module)
                 if isinstance(node, libcst.Call) and isinstance(node.func, libcst.Name) and node.func.value == "show")
    assert [tree.text(origin) for origin in Origins(tree).of(shown.args[0].value)] == origins
