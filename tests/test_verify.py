"""``torchlint verify`` on scripts as people write and start them: real processes, real torch."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

DATA = """
import argparse
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __init__(self, count):
        self.x = np.random.default_rng(0).standard_normal((count, 16)).astype(np.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        x = np.flip(self.x[index]).copy()
        return torch.tensor(x), x.sum()


def validate(model, loader):
    model.eval()
    total = 0.0
    for x, y in loader:
        total += nn.functional.mse_loss(model(x).squeeze(1), y).item()
    model.train()
    return total
"""
SCRIPT = DATA + """
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    if args.seed is not None:
        torch.manual_seed(args.seed)
    loader = DataLoader(Points(512), batch_size=16, shuffle=True, num_workers=args.workers, drop_last=True)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(30):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save(model.state_dict(), "model.pt")
        print(epoch, validate(model, loader))


if __name__ == "__main__":
    main()
"""
RULES = ["--rule", "torch-tensor-from-numpy", "--rule", "missing-no-grad-eval"]
QUICK = ["--steps", "40", "--repeat", "1", "--output-format", "json"]


def verify(folder: Path, *arguments: str, options: list[str] | None = None) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON report (empty where there is none) and what was said on stderr."""
    command = [sys.executable, "-m", "torchlint", "verify", "--unsafe-fixes",
               *(QUICK if options is None else options), *RULES, "--"]
    done = subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else {}, done.stderr


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {str(f): (f.read_bytes(), f.stat().st_mtime_ns) for f in sorted(folder.rglob("*")) if f.is_file()}


def check(code: int, report: dict[str, Any], errors: str) -> dict[str, Any]:
    assert report, errors
    (result,) = report["results"]
    assert code == 0, errors
    assert result["verdict"] not in ("different result", "slower")
    assert result["loss_difference"] == 0
    assert result["rule"] is None
    assert result["repeats"] >= 1
    assert "+        return torch.as_tensor(x), x.sum()" in result["diff"]
    assert result["time_before"] > 0
    return dict(result)


def test_a_script_with_arguments(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    before = snapshot(tmp_path)
    result = check(*verify(tmp_path, sys.executable, "train.py", "--lr", "0.1", "--seed", "3"))
    assert result["not_exercised"] == []
    assert snapshot(tmp_path) == before, "verify touched the user's tree"


def test_a_module_of_a_package_that_forks_workers(tmp_path: Path) -> None:
    package = tmp_path / "project" / "job"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "data.py").write_text(DATA)
    main = SCRIPT.replace(DATA, "import argparse\nimport torch\nfrom torch import nn\nfrom torch.utils.data import "
                                "DataLoader\nfrom .data import Points, validate\n")
    (package / "train.py").write_text(main)
    check(*verify(tmp_path / "project", sys.executable, "-m", "job.train", "--workers", "2"))


def test_mixed_precision_and_a_path_from_the_root(tmp_path: Path) -> None:
    script = SCRIPT.replace("loss = nn", "with torch.autocast('cpu', torch.bfloat16):\n                loss = nn")
    (tmp_path / "train.py").write_text(script)
    check(*verify(tmp_path, sys.executable, str(tmp_path / "train.py")))


def test_two_processes_of_torchrun(tmp_path: Path) -> None:
    script = SCRIPT.replace("    optimizer = torch", "    torch.distributed.init_process_group('gloo')\n"
                            "    model = nn.parallel.DistributedDataParallel(model)\n    optimizer = torch")
    (tmp_path / "train.py").write_text(script)
    check(*verify(tmp_path, sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                  "train.py"))


def test_what_is_not_reached_is_not_proven(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace("drop_last=True)", "drop_last=True)  # 32 batches an epoch"))
    code, report, errors = verify(tmp_path, sys.executable, "train.py",
                                  options=["--steps", "10", "--repeat", "1", "--output-format", "json"])
    result = check(code, report, errors)
    assert [place.split()[-1] for place in result["not_exercised"]] == ["missing-no-grad-eval"]
    (tmp_path / "train.py").write_text(SCRIPT)
    alone = [sys.executable, "-m", "torchlint", "verify", "--steps", "10", "--repeat", "1", "--rule",
             "missing-no-grad-eval", "--", sys.executable, "train.py"]
    done = subprocess.run(alone, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0
    assert "no fix is reached in 15 steps" in done.stdout
    assert "not exercised, so not proven: train.py:" in done.stdout


def test_each_rule_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    _, report, errors = verify(tmp_path, sys.executable, "train.py", options=[*QUICK, "--each"])
    assert [result["rule"] for result in report["results"]] == [None, *RULES[1::2]], errors
    numpy, no_grad = (result["diff"] for result in report["results"][1:])
    assert "as_tensor" in numpy
    assert "no_grad" not in numpy
    assert "no_grad" in no_grad


FAILING = {
    "crashes": (SCRIPT.replace("def main():", "def main():\n    raise RuntimeError('no data here')"),
                "failed before its first optimizer step", "no data here"),
    "crashes later": (SCRIPT.replace("        print(epoch", "        raise OSError('bad')\n        print(epoch"),
                      "the program failed after 32 steps", "bad"),
    "never steps": (SCRIPT.replace("optimizer.step()", "pass"), "without an optimizer step that could be seen", "29 "),
    "steps too little": (SCRIPT.replace("range(30)", "range(1)").replace("Points(512)", "Points(64)"),
                         "ended after 4 optimizer steps", "--steps"),
    "has nothing to fix": (SCRIPT.replace("torch.tensor(x)", "torch.as_tensor(x)").replace(
        "def validate", "@torch.no_grad()\ndef validate"), "there is nothing to fix", "torchlint:"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILING)
def test_programs_that_give_nothing(name: str, tmp_path: Path) -> None:
    script, said, shown = FAILING[name]
    (tmp_path / "train.py").write_text(script)
    code, _, errors = verify(tmp_path, sys.executable, "train.py")
    assert code == 2
    assert said in errors
    assert shown in errors


def test_a_command_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    code, _, errors = verify(tmp_path, "no-such-program", "train.py")
    assert (code, errors.splitlines()[1:]) == (
        2, ["torchlint: no-such-program cannot be run: No such file or directory"])


def test_large_files_are_linked_and_kept(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT.replace('"model.pt"', '"large.pt"').replace(
        "def main():", "def main():\n    with open('appended.bin', 'ab') as file:\n        file.write(b'more')"))
    for name in ("large.pt", "appended.bin"):
        with (tmp_path / name).open("wb") as file:
            file.truncate((16 << 20) + 1)
    before = snapshot(tmp_path)
    check(*verify(tmp_path, sys.executable, "train.py"))
    assert snapshot(tmp_path) == before
