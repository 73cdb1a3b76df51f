"""Whole files and a whole project, checked through the command line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures"
FILES = sorted((FIXTURES / "files").glob("*.py"))

TRAIN_LOADER = 'DataLoader(Squares(folder, "train"), batch_size=batch_size, shuffle=True)'

TRAINING = {
    ("data.py", "dataloader-no-pin-memory", TRAIN_LOADER),
    ("data.py", "dataloader-no-pin-memory", "DataLoader("),
    ("data.py", "dataloader-no-workers", TRAIN_LOADER),
    ("data.py", "dataloader-no-workers", "DataLoader("),
    ("data.py", "torch-tensor-from-numpy", "torch.tensor(image), label"),
    ("engine.py", "device-round-trip", "torch.from_numpy(outputs.detach().cpu().numpy()).to(device).argmax(1)"),
    ("engine.py", "missing-no-grad-eval", "model(images)"),
    ("engine.py", "sync-in-hot-loop", "loss.item()"),
    ("engine.py", "sync-in-hot-loop", "outputs.detach().cpu().numpy()).to(device).argmax(1)"),
    ("engine.py", "tensor-created-then-moved", "torch.randn(images.shape).to(device)"),
    ("engine.py", "tensor-from-ndarray-list", "torch.tensor([hits, counts])"),
    ("explore.ipynb", "conv-bias-before-batchnorm", "nn.Conv2d(3, 8, 3),"),
    ("explore.ipynb", "torch-tensor-from-numpy", "torch.tensor(np.stack(images))"),
    ("model.py", "conv-bias-before-batchnorm", "nn.Conv2d(channels, channels, kernel_size=3, padding=1)"),
    (
        "model.py",
        "conv-bias-before-batchnorm",
        "nn.Conv2d(in_channels, channels, kernel_size=3, stride=stride, padding=1)",
    ),
    ("model.py", "conv-bias-before-batchnorm", "nn.Conv2d(in_channels, channels, kernel_size=1, stride=stride),"),
    ("train.py", "data-parallel", "nn.DataParallel(model)"),
    ("train.py", "scheduler-before-optimizer", "scheduler.step()"),
    ("train.py", "tensor-created-then-moved", "torch.ones(CLASSES).to(device)"),
}
"""File, rule, and the rest of the line from where the finding begins."""

NOT_FIXED = {"data-parallel", "sync-in-hot-loop"}
"""Their docs say why there is no fix."""


def torchlint(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torchlint", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False)


def check(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    done = torchlint("check", "--output-format", "json", "--isolated", "--no-cache", *arguments, folder=folder)
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == ""
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def rest_of_line(folder: Path, finding: dict[str, Any]) -> str:
    text = Path(folder, finding["path"]).read_text(encoding="utf-8")
    if finding["cell"] is not None:
        text = str("".join(json.loads(text)["cells"][finding["cell"] - 1]["source"]))
    line, column = int(finding["line"]), int(finding["column"])
    return text.split("\n")[line - 1][column - 1 :]


def expectations(path: Path) -> Counter[tuple[int, str]]:
    """Line and slug of every `# expect: slug, slug` comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    marked = ((number, re.search(r"# expect: (.*)", line)) for number, line in enumerate(lines, 1))
    return Counter((number, slug.strip()) for number, found in marked if found for slug in found[1].split(","))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_findings_are_on_the_lines_that_say_so(path: Path) -> None:
    found = Counter((finding["line"], finding["rule"]) for finding in check(path.parent, path.name))
    assert found == expectations(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_expectation_of_a_fixable_rule_goes_with_a_fix(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path)
    done = torchlint("fix", "--unsafe-fixes", "--isolated", path.name, folder=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    compile((tmp_path / path.name).read_bytes(), path.name, "exec")
    assert {finding["rule"] for finding in check(tmp_path)} <= NOT_FIXED


def copied(tmp_path: Path) -> Path:
    return shutil.copytree(
        FIXTURES / "training", tmp_path / "training", ignore=shutil.ignore_patterns("squares", "*.pt", "__pycache__")
    )


def test_the_training_project(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    found = {(finding["path"], finding["rule"], rest_of_line(folder, finding)) for finding in check(folder)}
    assert found == TRAINING


def test_the_training_project_is_fixed(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    done = torchlint("fix", "--unsafe-fixes", "--isolated", ".", folder=folder)
    assert done.returncode == 1, done.stderr
    assert {finding["rule"] for finding in check(folder)} == NOT_FIXED
    for path in folder.glob("*.py"):
        compile(path.read_bytes(), str(path), "exec")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    torchlint("fix", "--unsafe-fixes", "--isolated", ".", folder=folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_the_fixed_training_project_still_trains(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not needed for anything else here")
    folder = copied(tmp_path)
    torchlint("fix", "--unsafe-fixes", "--isolated", ".", folder=folder)
    few_cpus = "ignore:This DataLoader will create"  # more workers than this machine has processors
    command = [sys.executable, "-W", "error::UserWarning", "-W", few_cpus, "train.py", "--epochs", "1"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
