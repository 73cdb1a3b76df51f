"""``torchlint bench``: the reference loops train, and the gate catches fixes that harm. Real processes, real torch."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from torchlint.cli import measuring
from torchlint.cli.bench import _named
from torchlint.harness import loops
from torchlint.harness.arms import Tree, fix
from torchlint.harness.measuring import Step
from torchlint.harness.recordings import Plan, Recording
from torchlint.harness.runs import record
from torchlint.harness.statistics import largest_difference
from torchlint.rules import all_rules

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

PERSONAL = {"sync-in-hot-loop"}  # what to do about it is for a person to say
LOOPS = [pytest.param(loop, id=loop.name) for loop in loops.loops()]


def trained(loop: loops.Loop, folder: Path, *, fixed: bool) -> tuple[Recording, set[str]]:
    """What a loop's run was, and the rules that were fixed."""
    folder.mkdir()
    (folder / loop.path.name).write_bytes(loop.path.read_bytes())
    tree = Tree(folder, folder)
    fixes = fix(tree, [loop.rule.slug] if loop.rule else [], unsafe=True) if fixed else None
    rules = {place.rule for place in fixes.places} if fixes is not None else set()
    return record([sys.executable, *loop.command("small", 1, "cpu")], tree, Plan(4, 1, seed=0, threads=1)), rules


def mistakes(loop: loops.Loop) -> set[str]:
    """The rules that a whole script's docstring names, and that have a fix for it: its losses are sums too."""
    (named,) = re.findall(r"^The mistakes: ([^.]*)", loop.source, re.MULTILINE)
    return set(re.split(r",\s+", named)) - {"data-parallel"}


@pytest.mark.parametrize("loop", LOOPS)
def test_every_loop_trains_before_and_after(loop: loops.Loop, tmp_path: Path) -> None:
    before, _ = trained(loop, tmp_path / "before", fixed=False)
    assert before.kind == "cpu"
    assert len(before.times) == 4
    assert all(loss is not None and loss == loss for loss in before.losses)
    after, fixed = trained(loop, tmp_path / "after", fixed=True)
    assert fixed == (mistakes(loop) if loop.rule is None else {loop.rule.slug}) - PERSONAL
    if not loop.training.moves_random_stream:
        assert before.weights == after.weights
    if not loop.training.moves_random_stream and loop.training.gains != "schedule":
        assert largest_difference(before.losses, after.losses) <= loop.training.tolerance
    assert all(loss is not None and loss == loss for loss in after.losses)


def test_every_rule_that_a_run_can_show_has_a_loop() -> None:
    assert {loop.rule.slug for loop in loops.loops() if loop.rule} == {r.slug for r in all_rules() if r.training}
    assert [loop.name for loop in loops.loops() if loop.rule is None] == [
        "char-language-model", "image-classifier", "segmentation-unet"]


@pytest.mark.parametrize("loop", LOOPS)
def test_every_loop_says_whose_proportions_it_keeps(loop: loops.Loop) -> None:
    assert len(loop.source.splitlines()) > 2
    assert re.search(r"^Proportions: [\w.-]+/[\w.-]+, ", loop.source, re.MULTILINE)


# A rule of the test's own: its fix makes the loop slower, or train differently, or changes nothing that counts.
RULE = '''
"""A fix to be measured."""
import libcst as cst
from torchlint.findings import Applicability, Fix
from torchlint.rules.rule import Rule, Training
from torchlint.syntax.editing import replace

rule = Rule("TL999", since="0.1", triggers=(b"BEFORE",), training=Training())


@rule.question
def check(model, options):
    for line in model.tree.module.body:
        value = getattr(line.body[0], "value", None) if isinstance(line, cst.SimpleStatementLine) else None
        value = value.body if isinstance(value, cst.Lambda) else value
        if isinstance(value, cst.Name) and value.value == "BEFORE":
            edits = tuple(replace(model.tree, value, "AFTER"))
            yield rule.at(model.site(value), "It is before.", fix=Fix("Go on", Applicability.UNSAFE, edits))
'''
LOOP = '''
"""Proportions of nothing."""
import argparse, time
import torch
BEFORE, AFTER = (0.004, 0.01), {after}
pause, rate = BEFORE
placed = lambda: (
BEFORE
)
pause, rate = placed()
parser = argparse.ArgumentParser()
parser.add_argument("--size")
parser.add_argument("--seed", type=int)
parser.add_argument("--device")
torch.manual_seed(parser.parse_args().seed)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
while True:
    time.sleep(pause)
    loss = model(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
'''
DRIVER = '''
import sys
from pathlib import Path
import torchlint.rules
torchlint.rules.__path__.append(sys.argv[1])
from torchlint.cli import measuring
from torchlint.harness import loops, machines
from torchlint.harness.measuring import Effort
from torchlint.rules.registry import rule_by_name
device = machines.device("cpu")
effort = Effort(20, 3, 3, 6, 1, float(sys.argv[4]))
loop = loops.Loop(Path(sys.argv[2]), rule_by_name("a-fix"))
results = list(loops.measured(loop, ["small"], device, effort, lambda what: None))
given = {"output_format": "json", "output_file": None, "save_plot": sys.argv[3], "no_diff": False}
sys.exit(measuring.deliver(measuring.measurement(device, None, effort, results, []), given))
'''


def gate(folder: Path, after: str, timeout: int = 60) -> tuple[int, dict[str, Any]]:
    family = folder / "rules" / "tried"
    family.mkdir(parents=True)
    (family / "__init__.py").write_text("")
    (family / "a_fix.py").write_text(RULE.lstrip())
    (folder / "a_fix.py").write_text(LOOP.format(after=after).lstrip())
    (folder / "driver.py").write_text(DRIVER)
    command = [sys.executable, "driver.py", str(folder / "rules"), str(folder / "a_fix.py"), str(folder / "plot.png"),
               str(timeout)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["results"][0]


def test_a_fix_that_helps_passes(tmp_path: Path) -> None:
    code, result = gate(tmp_path, "(0.0, 0.01)")
    assert (code, result["verdict"], result["loss_difference"]) == (0, "faster", 0)
    assert result["time_ratio"]["low"] > 1.02
    assert "-BEFORE\n+AFTER\n" in result["diff"]
    if importlib.util.find_spec("matplotlib") is not None:
        assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_a_harmful_fix_is_caught(tmp_path: Path) -> None:
    code, result = gate(tmp_path, "(0.02, 0.01)")
    assert (code, result["verdict"]) == (1, "slower")
    assert result["time_ratio"]["high"] < 0.98


def test_a_fix_that_changes_the_result_is_caught(tmp_path: Path) -> None:
    code, result = gate(tmp_path, "(0.004, 0.0101)")
    assert (code, result["verdict"]) == (1, "different result")
    assert result["loss_difference"] > result["loss_allowed"]


def test_a_fix_that_stops_the_loop_is_caught(tmp_path: Path) -> None:
    code, result = gate(tmp_path, "('never', 0.01)")
    assert (code, result["verdict"]) == (1, "different result")
    assert result["reason"].startswith("with the fixes applied, the program failed")
    assert any("TypeError" in note for note in result["notes"])


def test_a_fix_that_takes_forever_is_caught(tmp_path: Path) -> None:
    code, result = gate(tmp_path, "(20.0, 0.01)", timeout=20)
    assert (code, result["verdict"]) == (1, "slower")
    assert result["reason"].startswith("with the fixes applied, the program had not made its steps after 20 seconds")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torchlint", "bench", "--device", "cpu", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_loops_are_named_as_rules_are() -> None:
    def named(name: str) -> list[str]:
        return [loop.name for loop in _named(name, loops.loops())]

    assert named("TL101") == named("conv-bias-before-batchnorm") == ["conv-bias-before-batchnorm"]
    assert named("correctness") == named("TL2") == ["scheduler-before-optimizer"]
    assert named("image-classifier") == ["image-classifier"]
    assert len(named("all")) == len(loops.loops())
    for wrong, said in (("conv-bias-before-batchnrm", "(did you mean 'conv-bias-before-batchnorm'?)"),
                        ("image-clasifier", "(did you mean 'image-classifier'?)"),
                        ("unused-ignore", "there is no reference loop 'unused-ignore'; there are")):
        with pytest.raises(click.UsageError) as error:
            named(wrong)
        assert said in error.value.message


def test_a_pipe_is_told_what_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    with measuring.Progress() as progress:
        progress.place = "2/3 "
        for step in (Step("one"), Step("all", "before, run 1", 0, 6), Step("all", "after, run 1", 1, 6), Step("two")):
            progress.say(step)
    assert capsys.readouterr().err.splitlines() == [
        "torchlint: 2/3 one", "torchlint: 2/3 all, before, run 1", "torchlint: 2/3 two"]


def test_the_command_on_rules_that_a_cpu_cannot_show() -> None:
    done = bench("--rule", "device-round-trip", "--rule", "scheduler-before-optimizer", "--quick")
    assert done.returncode == 0, done.stderr
    assert "device-round-trip: not measurable on this device (on the CPU" in done.stdout
    assert "learning rate before" in done.stdout
    assert "+" in done.stdout


def test_the_pages_are_whole(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = bench("--rule", "tensor-from-ndarray-list", "--quick", "--steps", "5", "--repeat", "1", "--output-format",
                 "html", "-o", str(page))
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert text.count("<svg") == text.count("</svg>") == 2
    assert "as_tensor" in text


def test_what_cannot_be_measured_is_said() -> None:
    done = bench("--rule", "no-such-rule")
    assert done.returncode == 2
    assert "there is no reference loop 'no-such-rule'; there are conv-bias-before-batchnorm," in done.stderr
    if sys.platform != "darwin":
        command = [sys.executable, "-m", "torchlint", "bench", "--device", "mps"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (
            2, "torchlint: torch sees no mps device here; --device auto takes what there is\n")
