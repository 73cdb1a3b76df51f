"""The fix of ``data-parallel``, run: two processes under torchrun train as one process with the same global batch."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.test_data_parallel_shapes import SCRIPT

torch = pytest.importorskip("torch", reason="the rewritten script is run with torch, which nothing else here needs")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no gloo, by which processes on the CPU talk to each other", allow_module_level=True)

EPOCHS, STEPS, SAMPLES = 3, 4, 64

TORCHRUN = tuple("-m torch.distributed.run --nproc-per-node 2 --standalone --redirects 3 --log-dir logs".split())
"""Each process writes what it prints to a file of its own: lines in one pipe get mixed up."""

ABORT = "terminate called without an active exception"
"""What a process says that gloo's threads abort while Python ends, all work done and all files written: one in ten
of the tutorial's own scripts does, on the CPU only (see pytorch/pytorch#179291). torchrun then reports a failure."""

_STEP = re.compile(r"step (\d+) (\d+) (\S+) \[([\d, ]+)\] of (\d+)")


class Run:
    """What a script printed and wrote in a folder of its own."""

    def __init__(self, folder: Path, script: str, *launcher: str) -> None:
        folder.mkdir()
        (folder / "train.py").write_text(script, encoding="utf-8")
        self.folder = folder
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, *launcher, "train.py"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        logs = {kind: "".join(log.read_text(encoding="utf-8") for log in sorted(folder.glob(f"logs/**/{kind}.log")))
                for kind in ("stdout", "stderr")}
        assert done.returncode == 0 or (launcher and ABORT in logs["stderr"]), done.stderr + logs["stderr"]
        printed = done.stdout + logs["stdout"]
        self.losses: dict[tuple[int, int], list[float]] = defaultdict(list)
        self.order: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.lengths: set[int] = set()
        for epoch, step, loss, indices, length in _STEP.findall(printed):
            self.losses[int(epoch), int(step)].append(float(loss))
            self.order[int(epoch), int(step)] += [int(index) for index in indices.split(", ")]
            self.lengths.add(int(length))
        assert all(len(losses) == (2 if launcher else 1) for losses in self.losses.values())
        assert len(self.losses) == EPOCHS * STEPS, "it did not come to its end"
        self.accuracies = sorted(re.findall(r"accuracy (\d+ \S+)", printed))

    @property
    def curve(self) -> list[float]:
        """The loss of each step: the mean over the processes, whose shares of a batch are equally large."""
        return [sum(losses) / len(losses) for _, losses in sorted(self.losses.items())]

    def epoch(self, number: int) -> list[int]:
        """The samples of an epoch in the order of its steps."""
        return [index for step in range(STEPS) for index in self.order[number, step]]

    @property
    def weights(self) -> dict[str, Any]:
        """The checkpoint, which must fit the plain model."""
        nn = torch.nn
        plain = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
        plain.load_state_dict(torch.load(self.folder / "checkpoints" / "last.pt"), strict=True)
        return dict(plain.state_dict())


def fixed(script: str, folder: Path) -> str:
    """The script after ``torchlint fix --unsafe-fixes``; a second run must change nothing more."""
    path = folder / "fixed.py"
    path.write_text(script, encoding="utf-8")
    fix = [sys.executable, "-m", "torchlint", "fix", "--isolated", "--unsafe-fixes", "--select", "data-parallel"]
    for _ in range(2):
        done = subprocess.run([*fix, path.name], cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        script = path.read_text(encoding="utf-8")
    assert "DistributedDataParallel" in script
    assert subprocess.run([*fix, "--diff", path.name], cwd=folder, capture_output=True, timeout=120).stdout == b""
    return script


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    """Without shuffling, process r takes the samples r, r + 2, ...: both together see the same global batches.

    The mean of their losses is then the loss of the global batch, and the averaged gradients are its gradients, up to
    the order in which float32 numbers are added: 1e-5 is over 50 times what was measured, and 1000 times less than
    what one forgotten part (an undivided batch size, no averaging) makes of it.
    """
    script = SCRIPT.replace("SHUFFLE", "False")
    rewritten = fixed(script, tmp_path)
    before = Run(tmp_path / "before", script)
    alone = Run(tmp_path / "alone", rewritten)
    together = Run(tmp_path / "together", rewritten, *TORCHRUN)

    assert len(before.curve) == EPOCHS * STEPS
    for key, samples in before.order.items():
        assert sorted(together.order[key]) == sorted(samples), "the global batch is another one"
        assert alone.order[key] == samples
        assert len(together.losses[key]) == 2
    print("largest difference:", max(abs(a - b) for a, b in zip(before.curve, together.curve, strict=True)))
    assert alone.curve == pytest.approx(before.curve, rel=1e-5)
    assert together.curve == pytest.approx(before.curve, rel=1e-5)
    assert before.curve[-1] < 0.9 * before.curve[0], "the comparison needs a script that learns"

    assert together.accuracies == sorted(2 * before.accuracies)  # each process evaluates on all of the test data
    assert (before.lengths, alone.lengths, together.lengths) == ({SAMPLES}, {SAMPLES}, {SAMPLES // 2})


def test_files_are_written_once_and_fit_the_plain_model(tmp_path: Path) -> None:
    script = SCRIPT.replace("SHUFFLE", "False")
    before = Run(tmp_path / "before", script)
    together = Run(tmp_path / "together", fixed(script, tmp_path), *TORCHRUN)

    assert (together.folder / "log.txt").read_text() == (before.folder / "log.txt").read_text()
    assert [path.name for path in (together.folder / "checkpoints").iterdir()] == ["last.pt"]
    for name, weights in before.weights.items():
        assert torch.allclose(together.weights[name], weights, rtol=1e-4, atol=1e-5), name


def test_every_epoch_has_an_order_of_its_own(tmp_path: Path) -> None:
    together = Run(tmp_path / "together", fixed(SCRIPT.replace("SHUFFLE", "True"), tmp_path), *TORCHRUN)

    epochs = [together.epoch(number) for number in range(EPOCHS)]
    assert all(sorted(epoch) == list(range(SAMPLES)) for epoch in epochs), "each sample belongs to one process"
    assert len({frozenset(epoch[:16]) for epoch in epochs}) == EPOCHS
