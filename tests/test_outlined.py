"""Outlines: what is found in one is what the whole tree shows, to the last edit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libcst as cst
import pytest

from tests.harness import StrictChecker, WholeTreeChecker
from tests.throwaway import make_rule
from torchlint.checking import Checker, FileResult, Task, _ask
from torchlint.config import Settings
from torchlint.findings import Finding
from torchlint.rules import all_rules
from torchlint.rules.example import MAIN
from torchlint.semantics.model import Model, build_model
from torchlint.semantics.project import Project
from torchlint.syntax.linked import LazyBody, LinkedTree, WholeTreeNeeded
from torchlint.syntax.outlined import OutlinedTree
from torchlint.syntax.source import source_from_bytes
from torchlint.syntax.tree import parse, walk

FIXTURES = sorted(Path(__file__).parents[1].joinpath("fixtures").rglob("*.py"))
EXAMPLES = [
    pytest.param(example.sources, id=f"{rule.slug}-{number}")
    for rule in all_rules()
    for number, example in enumerate(rule.examples, 1)
]

LOADER = "from torch.utils.data import DataLoader\nfrom torchvision.datasets import ImageFolder\n"
NET = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.bn = nn.BatchNorm2d(8)
    def forward(self, x):
        y = self.conv(x)
        {0}
        return self.bn(y)
"""
TRAIN = """
import torch
def train(model, loader, criterion, optimizer):
    for step, (x, y) in enumerate(loader):
        loss = criterion(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {0}
"""
MATCH = f"""
import torch
{LOADER}
def load(mode):
    match mode:
        case {{0}}:
            return DataLoader(ImageFolder("a"), num_workers=8)
        case {{1}}:
            return DataLoader(ImageFolder("b"), num_workers=0)
load({{2}})
load({{3}})
"""
SOURCES = {
    "match of words": MATCH.format('"train"', '"test"', '"train"', '"test"'),
    "match of sequences": MATCH.format('["train", n]', '("test",)', '("train", 3)', '("test",)'),
    "match with a guard": MATCH.format("str() if len(mode) > 3", "_ as rest", '"a"', '"b"'),
    "match of classes": MATCH.format("dict(a=1) | [*_]", "{'b': b, **rest}", "{'a': 1}", "{'b': 1}"),
    "a joined string that reads": NET.format('print(f"shape {y.shape} " f"mean {y.mean()}")'),
    "a joined string that does not": NET.format('print("one " f"two {x.shape}")'),
    "a field's width": NET.format('print(f"{1:{y.mean()}}")'),
    "a field with =": NET.format('print(f"{y.shape=}")'),
    "an assertion's message": NET.format('assert x.shape, f"{y.mean()}"'),
    "a cause": NET.format("if not x.shape: raise ValueError() from TypeError(y)"),
    "a joined string in the loop": TRAIN.format('print(f"step {step} " f"loss {loss.item():.3f}")'),
    "a semicolon": TRAIN.format("print(loss.item()); print(1)"),
    "an assertion in the loop": TRAIN.format('assert step, f"{loss.item()}"'),
    "dead behind a semicolon": f"import torch\n{LOADER}def f():\n    return None; DataLoader(ImageFolder('x'))\nf()\n",
    "a line that goes on": NET.format("pass") + f"{LOADER}z = 1; \\\nDataLoader(ImageFolder('x')); \\\n  z = 2\n",
    "an alias behind a semicolon": f"import torch\n{LOADER}x = 1; Load = DataLoader\n"
    "def load(): return Load(ImageFolder('x'))\ndef main(y): return load()\n",
    "strings side by side": NET.format("pass") + "def init(m):\n    if type(m).__name__.find('Lin' 'ear') != -1:\n"
    "        m.bias.data.zero_()\nNet().apply(init)\n",
    "a guard of strings side by side": f"import torch\n{LOADER}if __name__ == '__main' '__':\n"
    "    DataLoader(ImageFolder('x'))\n",
    "braces and escapes between fields": f"import torch\n{LOADER}workers = {{'a{{b': 0}}\n"
    "DataLoader(ImageFolder('x'), num_workers=workers[f'\\x61{{{\"b\"}'])\n"
    "DataLoader(ImageFolder('x'), num_workers={'\\\\x61b': 0}[rf'\\x61{\"b\"}'])\n",
    "numbers": f"import torch\n{LOADER}DataLoader(ImageFolder('x'), num_workers=0x0)\nx = 3j, 1e999\n",
    "the same width, written otherwise": NET.replace("self.conv = nn.Conv2d(3, 8, 3)", "self.conv = nn.Linear(3, 0x8)")
    .replace("BatchNorm2d", "BatchNorm1d").format("pass"),
    "nonlocal": f"""
import torch
{LOADER}
def main():
    workers = 0
    def configure():
        nonlocal workers
        workers = 8
    configure()
    return DataLoader(ImageFolder("x"), num_workers=workers)
main()
""",
}
REPORTED = {
    "match of words", "match of sequences", "match with a guard", "match of classes", "a joined string that does not",
    "a field with =", "a joined string in the loop", "a semicolon", "an assertion in the loop", "a line that goes on",
    "braces and escapes between fields", "an alias behind a semicolon", "strings side by side",
    "a guard of strings side by side", "numbers",
    "the same width, written otherwise",
}


def found_by(checker: Checker, folder: Path, name: str, data: bytes) -> FileResult:
    return checker.check_bytes(data, Task(folder / name, name, 0, folder, None))


def test_a_question_that_is_put_again_is_answered_once(tmp_path: Path) -> None:
    rule = make_rule("TL990", "asked-twice", triggers=())

    @rule.question
    def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
        function = cst.ensure_type(model.tree.module.body[-1], cst.FunctionDef)
        is_outline = isinstance(function.body, LazyBody)
        yield rule.at(model.site(function), "an outline" if is_outline else "whole")
        if is_outline:
            raise WholeTreeNeeded

    source = source_from_bytes(b"import torch\ndef f():\n    pass\n", "a.py")
    findings, failure = _ask(rule, build_model(Project(tmp_path, tmp_path), source, tmp_path / "a.py"), {})
    assert failure is None
    assert [finding.message for finding in findings] == ["whole"]


class OutlineChecker(StrictChecker):
    """A Checker that never looks at a whole tree from the start."""

    looks = (False,)


@pytest.mark.parametrize("name", SOURCES)
def test_outlines_and_whole_trees_show_the_same(name: str, tmp_path: Path) -> None:
    data = SOURCES[name].encode()
    whole = found_by(WholeTreeChecker([Settings(root=tmp_path)]), tmp_path, "net.py", data)
    assert whole.diagnostics == ()
    assert found_by(StrictChecker([Settings(root=tmp_path)]), tmp_path, "net.py", data) == whole
    assert bool(whole.findings) == (name in REPORTED)


@pytest.mark.parametrize("sources", [*EXAMPLES, *(pytest.param({MAIN: f.read_text()}, id=f.stem) for f in FIXTURES)])
def test_an_outline_is_enough(sources: dict[str, str], tmp_path: Path) -> None:
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    data = sources[MAIN].encode()
    settings = [Settings(root=tmp_path)]
    assert found_by(OutlineChecker(settings), tmp_path, MAIN, data) == found_by(
        WholeTreeChecker(settings), tmp_path, MAIN, data)


# Whatever CPython's parser and libcst see differently, and some of what they see alike.
EVERY_SHAPE = """
from __future__ import annotations
import torch, os.path as path; from . import near; from ..far import *
x = (1, *y)[0]; z[(1, 2)] = z[(3,)] = z[(4, 5),] = z[1:2, ::3, ...] = w[((1, 2))]

@torch.no_grad()  # why
@wraps(f)
async def f(a, /, b: int = 0x1F, *c, d="one " 'two' f"{b} {b!r:>{c}}" rf"{d=}", **e) -> None:
    f(1, k=2, *c, l=3, **e); return; yield
    async with a as b, c: pass
    async for i, (j, *k) in zip(a, b): await i
    else: del i, j
    lambda q, *r, s=1, **t: (yield)
    return [m async for m in n if m if n for o in m]

class C(Base, metaclass=M, **rest):
    \"\"\"Doc.\"\"\" "more"
    u: int; v: str = b'1' b"2"
    w += 1_000 + 1e3j - -1 ** ~2 @ 3

    def g(self):
        global h; nonlocal_ = not a in b is not c
        if a: pass
        elif b: pass
        else:
            if c: d = 1
            else: e = 2
        while (n := 5) < 4 <= 3: break
        else: continue
        try:
            raise A() from None
        except (B, C) as error: assert x, f"{y}" 'z'
        except D: ...
        else: pass
        finally: print(f'''{
            x
        }''', end='')

match a, b:
    case [1, *_] | (2, {"k": v, **rest}) if v: pass
    case Point(x=0, y=C.D) as p, None, "s" "t", -1: pass
    case x, : pass
    case _: pass
if x: a = 1; b = 2
s = {**a, 'k': 1, **b}; t = {1, *u}; v = {k: w for k, w in x}
(lambda: (a if b else c))()
print((yield_) or a and b or (c and d) or not e)
"""
TRY_STAR = "try:\n    pass\nexcept* ValueError as group: a(); b()\n"
WITHOUT_PLACE = (
    cst.FormattedStringText, cst.BaseUnaryOp, cst.BaseBinaryOp, cst.BaseBooleanOp, cst.BaseCompOp, cst.BaseAugOp,
    cst.Dot,
)


@pytest.mark.parametrize("text", [
    EVERY_SHAPE, EVERY_SHAPE.replace("\n", "\r\n"), EVERY_SHAPE.replace("    ", "\t"),
    f"\f\n{EVERY_SHAPE}\n\n  # end", "x = 1 + \\\n    2\n", "", "# nothing", "'doc'",
    "x = 1; \\\ny = 2; \\\n  z = 3 \\\n\n# no \\\na(); b()\n", "x = 1; \\\r\ny = 2\r\n",
    *([TRY_STAR] if sys.version_info >= (3, 11) else []),
])
@pytest.mark.parametrize("converted", ["all", "some"])
def test_completed_outlines_are_whole(text: str, converted: str) -> None:
    source = source_from_bytes(text.encode(), "shapes.py")
    outlined, whole = OutlinedTree(LinkedTree(source)), parse(source)
    nodes = list(walk(outlined.module)) if converted == "all" else list(outlined.module.body)
    outlined.complete()
    ours, theirs = list(walk(outlined.module)), list(walk(whole.module))
    assert [type(node) for node in ours] == [type(node) for node in theirs]
    for one, other in zip(ours[1:], theirs[1:], strict=True):
        assert outlined.offsets_with_parens(one) == whole.offsets_with_parens(other)
        assert list(map(type, outlined.ancestors(one))) == list(map(type, whole.ancestors(other)))
    for node in nodes:  # what was known before is still known
        if node is not outlined.module and not isinstance(node, WITHOUT_PLACE):
            assert outlined.parent(node) is not None


@pytest.mark.parametrize("text", ["if x:\n  a\n\nif y:\n        b\n"])
def test_what_an_outline_cannot_tell(text: str) -> None:
    outlined = OutlinedTree(LinkedTree(source_from_bytes(text.encode(), "shapes.py")))
    for _ in range(2):  # what was tried in vain is not taken for complete
        with pytest.raises(WholeTreeNeeded):
            outlined.complete()


def test_what_is_not_completed_has_no_place() -> None:
    """Nodes are known by their identity, which those made later must not share with any that are gone."""
    text = "".join(f"def f{i}(a):\n    x = f(a)(b)\n    return g(a, b)\n\n" for i in range(40))
    tree = OutlinedTree(LinkedTree(source_from_bytes(text.encode(), "many.py")))
    for statement, below in zip(tree.module.body, tree.module.body[1:]):
        tree.span(statement)
        assert not [node for node in walk(below) if id(node) in tree._positions or id(node) in tree._parents]


def test_what_the_parser_does_not_give_back_is_no_crash(tmp_path: Path) -> None:
    data = f"\\\nimport torch\n{LOADER}DataLoader(ImageFolder('x'))\n".encode()
    whole = found_by(WholeTreeChecker([Settings(root=tmp_path)]), tmp_path, "a.py", data)
    assert {diagnostic.kind for diagnostic in whole.diagnostics} == {"parser-limit"}
    assert found_by(StrictChecker([Settings(root=tmp_path)]), tmp_path, "a.py", data).diagnostics == ()


def test_only_what_is_asked_about_is_completed() -> None:
    source = source_from_bytes(b"def f():\n    a()\n\ndef g():\n    b()  # why\n", "two.py")
    tree = OutlinedTree(LinkedTree(source))
    first, second = (cst.ensure_type(statement, cst.FunctionDef) for statement in tree.module.body)
    line = cst.ensure_type(second.body.body[0], cst.SimpleStatementLine)
    call = cst.ensure_type(line.body[0], cst.Expr).value
    assert tree.text(call) == "b()"
    assert tree.statement(call) is line
    assert tree.parent(second) is tree.module
    assert isinstance(second.body, cst.IndentedBlock)
    assert not isinstance(first.body, cst.IndentedBlock)


def test_a_check_leaves_nothing_behind(tmp_path: Path) -> None:
    tmp_path.joinpath("options.py").write_text(
        "import argparse\n\ndef parse():\n    parser = argparse.ArgumentParser()\n"
        "    parser.add_argument('--workers', default=0, type=int)\n    return parser.parse_args()\n")
    tmp_path.joinpath("train.py").write_text(
        f"import torch\n{LOADER}from options import parse\n\ndef loaders():\n    args = parse()\n"
        "    return DataLoader(ImageFolder('x'), num_workers=args.workers)\n\n"
        "def epoch(model, loader, optimizer, scheduler, warm):\n    for x in loader:\n        if warm:\n"
        "            scheduler.step()\n        loss = model(x).sum()\n        loss.backward()\n        if warm:\n"
        "            optimizer.step()\n")
    tmp_path.joinpath("zoo.py").write_text(
        "import torch\nfrom train import epoch\n\ndef main(model, loader, warm):\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)\n    for i in range(3):\n"
        "        epoch(model, loader, optimizer, scheduler, warm)\n    optimizer.step()\n")
    command = [sys.executable, "-m", "torchlint", "fix", "--isolated", "--unsafe-fixes", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "default=4" in tmp_path.joinpath("options.py").read_text()


CYCLE = {  # in a.py, whose tree cannot be completed, lies what c.py's finding names
    "a.py": "import torch\nimport argparse\nimport numpy as np\nif x:\n  pass\nif y:\n        pass\n"
    "class Base:\n    @staticmethod\n    def parse():\n        parser = argparse.ArgumentParser()\n"
    "        parser.add_argument('--workers', default=0, type=int)\n        return parser.parse_args()\n"
    "import b\nclass Derived(b.Base):\n    pass\nz = 1; x = torch.tensor(np.stack(y))\n",
    "b.py": "import torch\nimport a\nclass Base(a.Base):\n    pass\n",
    "c.py": f"import torch\n{LOADER}import b\ndef loaders():\n    args = b.Base.parse()\n"
    "    return DataLoader(ImageFolder('x'), num_workers=args.workers)\n",
}


@pytest.mark.parametrize("order", [["a.py", "b.py", "c.py"], ["c.py", "b.py", "a.py"]])
def test_files_that_import_each_other_are_seen_alike_in_any_order(order: list[str], tmp_path: Path) -> None:
    for name, text in CYCLE.items():
        tmp_path.joinpath(name).write_text(text)
    settings = [Settings(root=tmp_path)]
    together = StrictChecker(settings)
    for name in order:
        data = CYCLE[name].encode()
        alone = found_by(StrictChecker(settings), tmp_path, name, data)
        assert (alone.diagnostics, bool(alone.findings)) == ((), name != "b.py")
        assert found_by(together, tmp_path, name, data) == alone
