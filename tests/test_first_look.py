"""The first look: it may only say that there is nothing, never miss what the whole tree shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import WholeTreeChecker
from torchlint.checking import Checker, Task, outlined_findings, screened
from torchlint.config import Settings
from torchlint.rules import all_rules
from torchlint.rules.example import MAIN
from torchlint.syntax.linked import WholeTreeNeeded
from torchlint.syntax.source import source_from_bytes

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
    "a field with =", "a joined string in the loop", "a semicolon", "an assertion in the loop", "numbers",
    "the same width, written otherwise",
}


def rules_found(folder: Path, name: str, data: bytes, checker: type[Checker]) -> list[tuple[str, int]]:
    settings = Settings(root=folder)
    result = checker([settings]).check_bytes(data, Task(folder / name, name, 0, folder, None))
    assert result.diagnostics == ()
    return [(finding.rule, finding.span.start.line) for finding in result.findings]


@pytest.mark.parametrize("name", SOURCES)
def test_both_looks_see_the_same(name: str, tmp_path: Path) -> None:
    data = SOURCES[name].encode()
    whole = rules_found(tmp_path, "net.py", data, WholeTreeChecker)
    assert rules_found(tmp_path, "net.py", data, Checker) == whole
    assert bool(whole) == (name in REPORTED)


@pytest.mark.parametrize("sources", [*EXAMPLES, *(pytest.param({MAIN: f.read_text()}, id=f.stem) for f in FIXTURES)])
def test_nothing_is_missed_and_nothing_breaks(sources: dict[str, str], tmp_path: Path) -> None:
    for path, text in sources.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    data = sources[MAIN].encode()
    checker = WholeTreeChecker([Settings(root=tmp_path)])
    task = Task(tmp_path / MAIN, MAIN, 0, tmp_path, None)
    rules = [rule for rule in screened(all_rules(), data) if rule.family != "suppression"]
    whole = checker.check_bytes(data, task).findings
    try:
        looked = outlined_findings(
            checker._project(task), source_from_bytes(data, MAIN), task, checker._selection(task), rules)
    except WholeTreeNeeded:  # any other exception is a defect of the outline, or of the rule
        return
    assert looked or not [finding for finding in whole if finding.rule != "unused-ignore"]


def test_a_look_leaves_nothing_behind(tmp_path: Path) -> None:
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
