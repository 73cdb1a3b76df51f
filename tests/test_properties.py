"""Properties that hold of every program: hypothesis looks for the one that breaks them."""

from __future__ import annotations

import ast
import random
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests import throwaway
from tests.harness import StrictChecker
from torchlint import engine, memory
from torchlint.checking import FileResult, Mode, Task
from torchlint.config import Configuration, Settings
from torchlint.discovery import discover
from torchlint.rules import all_rules
from torchlint.syntax.source import source_from_bytes

RULES = all_rules()

SNIPPETS = [example.source for rule in RULES for example in rule.examples]

NOWHERE = Path("no-such-folder").absolute()
"""Where the files are that are on no disk."""

few = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))

LINES = st.sampled_from(
    [
        "",
        "bad()",
        "x = bad + risky",
        "call(\n    bad,\n    plain,\n)",
        "good()",
        "'''\nbad\n'''",
        "y = (plain, 'é', bad)",
        "if bad:\n    plain()",
        "x = bad + \\\n    1",
        "def f(): bad",
        "risky  # noqa",
        "bad  # torchlint: ignore[first-rule]",
        "good  # torchlint: ignore",
        "plain  # noqa: TL903, E501",
        "# torchlint: ignore[nothing]",
        "good()  # torchlint: ignore[first-rule, third-rule] for now",
    ]
)

BREAKS = st.sampled_from(["\n", "\r\n"])


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Files of the throwaway words, in every layout."""
    text = "\n".join(["import torch", *draw(st.lists(LINES, max_size=8))]) + draw(st.sampled_from(["\n", ""]))
    mark = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return mark + text.replace("\n", draw(BREAKS)).encode()


def checked(data: bytes, mode: Mode = Mode.CHECK, name: str = "a.py") -> FileResult:
    task = Task(NOWHERE / name, name, 0, NOWHERE, None)
    checker = StrictChecker([Settings(root=NOWHERE)], mode)
    return memory.with_deep_stack(lambda: checker.check_bytes(data, task))


def after(result: FileResult, data: bytes) -> bytes:
    return result.rewrites[0].after if result.rewrites else data


@few
@given(texts())
def test_ignores_that_are_written_silence_everything_and_change_nothing_else(data: bytes) -> None:
    with throwaway.installed():
        written = after(checked(data, Mode.ADD_IGNORE), data)
        assert {f.rule for f in checked(written).findings} <= {"unused-ignore"}
        assert after(checked(written, Mode.ADD_IGNORE), written) == written
        new = [f for f in checked(written).findings if "first-rule" in f.message and "no rule" not in f.message]
        old = [f for f in checked(data).findings if "first-rule" in f.message and "no rule" not in f.message]
        assert len(new) <= len(old), "no ignore was written that is not needed"
    source, wrote = source_from_bytes(data, "a.py"), source_from_bytes(written, "a.py")
    assert ast.dump(ast.parse(source.text)) == ast.dump(ast.parse(wrote.text))
    assert len(source.lines) == len(wrote.lines)
    assert written[:3] == data[:3] or not data.startswith(b"\xef")
    for line, changed in zip(source.lines, wrote.lines, strict=True):
        assert changed == line or changed.startswith(line.rstrip()) or "torchlint" in line


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the throwaway rules are known to forks only")
@settings(few, max_examples=10)
@given(st.lists(texts(), min_size=2, max_size=8), st.integers(1, 4), st.randoms(use_true_random=False))
def test_neither_the_order_of_files_nor_the_number_of_processes_matters(
    contents: list[bytes], jobs: int, chance: random.Random
) -> None:
    with tempfile.TemporaryDirectory() as name, throwaway.installed():
        root = Path(name).resolve()
        for number, data in enumerate(contents):
            folder = root / chance.choice("ab")
            folder.mkdir(exist_ok=True)
            (folder / f"{number}.py").write_bytes(data)
        targets = discover(["."], Configuration(working_folder=root), root).targets
        one_process = engine.run(targets, jobs=1).results
        chance.shuffle(targets)
        limits = pytest.MonkeyPatch()
        with limits.context() as patch:
            patch.setattr(engine, "_HERE_AT_MOST", -1)
            patch.setattr(engine, "_ALONE_AT_MOST", -1)
            several = engine.run(targets, jobs=jobs).results
    assert several == one_process


@few
@given(st.binary(max_size=200))
def test_no_bytes_crash_it(data: bytes) -> None:
    result = checked(b"import torch\nfrom torch import nn\nx = nn.DataParallel(y)\n" + data)
    assert not {d.kind for d in result.diagnostics} & {"rule-crash", "worker-crash"}, result.diagnostics


@settings(few, max_examples=6)  # making a program takes seconds
@given(st.data())
def test_no_program_crashes_it(data: st.DataObject) -> None:
    hypothesmith = pytest.importorskip("hypothesmith")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = data.draw(hypothesmith.from_grammar())
    text = f"import torch\nfrom torch import nn\n{program}\nmodel = nn.DataParallel(nn.Linear(2, 2))\n"
    result = checked(text.encode("utf-8", "replace"))
    assert not {d.kind for d in result.diagnostics} & {"rule-crash", "worker-crash"}, result.diagnostics


def indented(text: str, unit: str) -> str:
    return "def wrapped():\n" + "".join(f"{unit}{line}" if line.strip() else line for line in text.splitlines(True))


@st.composite
def programs(draw: st.DrawFn) -> bytes:
    """The rules' own examples, several in one file, some inside functions, in every layout."""
    parts = draw(st.lists(st.sampled_from(SNIPPETS), min_size=1, max_size=3))
    text = "".join(indented(part, "    ") if draw(st.booleans()) and '"""' not in part else part for part in parts)
    text = text if draw(st.booleans()) else text.removesuffix("\n")
    mark = draw(st.sampled_from([b"", b"\xef\xbb\xbf"]))
    return mark + text.replace("\n", draw(BREAKS)).encode()


def parses(data: bytes) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(data)
    except SyntaxError:
        return False
    return True


TWICE = b"""
import torch

def evaluate(model, loader):
    model.eval()
    for x, y in loader:
        print((model(x) - y).abs().mean())

def evaluate(model, loader):
    return torch.cat([model(x) for x in loader])
"""


ONE_LINE = b"""
def wrapped():
    import torch

    def once(model: torch.nn.Module, x): model.eval(); print(model(x).mean().item())

    def twice(model: torch.nn.Module, x): model.eval(); print(model(model(x)).mean().item())
"""


@few
@example(TWICE, Mode.FIX)
@example(ONE_LINE, Mode.FIX)
@given(programs(), st.sampled_from([Mode.FIX, Mode.FIX_UNSAFE]))
def test_fixing_keeps_programs_and_ends(data: bytes, mode: Mode) -> None:
    before = checked(data)
    assert not before.diagnostics
    result = checked(data, mode)
    fixed = after(result, data)
    assert not result.diagnostics
    assert parses(fixed) or not parses(data), "what parsed does not parse any more"
    assert after(checked(fixed, mode), fixed) == fixed, "a second run changes something"
    assert checked(fixed).findings == result.findings, "what is reported as left is what is left"
    assert fixed.startswith(b"\xef\xbb\xbf") is data.startswith(b"\xef\xbb\xbf")
    assert (b"\r\n" in fixed) is (b"\r\n" in data)
    assert fixed.count(b"\n") == fixed.count(b"\r\n") or b"\r\n" not in data, "line breaks of two kinds"
    if not result.applied:
        assert fixed == data
