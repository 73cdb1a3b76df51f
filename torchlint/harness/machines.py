"""What a measurement was made on: the machine, and what its torch can use. torch itself is asked in a child process."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from torchlint.harness.recordings import HarnessError

_ASK = """
import json, torch
cuda = torch.cuda.is_available()
mps = getattr(torch.backends, "mps", None)
print(json.dumps({
    "torch": torch.__version__,
    "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if cuda else [],
    "mps": bool(mps is not None and mps.is_available()),
}))
"""
OLDEST = (2, 6)
"""The oldest torch that the harness is made for."""


@dataclass(frozen=True, slots=True)
class Device:
    """Where a program trains: ``kind`` cpu, cuda or mps, its name, how many there are, and the torch that drives it."""

    kind: str
    name: str
    count: int
    torch: str


def device(wanted: str, python: str = sys.executable) -> Device:
    """The device that is asked for, or with ``auto`` the fastest there is. HarnessError where it cannot be had."""
    try:
        answer = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=120, check=False)
    except OSError as error:
        raise HarnessError(f"{python} cannot be run: {error.strerror or error}") from None
    if answer.returncode != 0:
        missing = "No module named 'torch'" in answer.stderr
        raise HarnessError(
            f"torch is not installed for {python}: pip install 'torchlint[harness]'" if missing
            else f"torch cannot be imported by {python}:\n{answer.stderr.strip()}"
        )
    found = json.loads(answer.stdout.splitlines()[-1])
    version = tuple(int(part) for part in found["torch"].split("+")[0].split(".")[:2])
    if version < OLDEST:
        raise HarnessError(f"the harness needs torch {OLDEST[0]}.{OLDEST[1]} or newer, and this is {found['torch']}")
    kind = wanted if wanted != "auto" else "cuda" if found["gpus"] else "mps" if found["mps"] else "cpu"
    if (kind == "cuda" and not found["gpus"]) or (kind == "mps" and not found["mps"]):
        raise HarnessError(f"torch sees no {kind} device here; --device auto takes what there is")
    if kind == "cuda":
        return Device("cuda", found["gpus"][0], len(found["gpus"]), found["torch"])
    return Device(kind, name(kind), 1, found["torch"])


def name(kind: str) -> str:
    """What a device that torch has no name for is called."""
    return _processor() if kind == "cpu" else "Apple GPU"


def cpus() -> int:
    """The CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> str:
    """The machine in words: processor, number of usable CPUs, system, Python."""
    system = f"{platform.system()} {platform.machine()}"
    return f"{_processor()}, {cpus()} CPUs, {system}, Python {platform.python_version()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def commit(folder: Path) -> str | None:
    """The git commit that is checked out around a folder, with ``+`` where files were changed; None outside of git."""
    head = _git(folder, "rev-parse", "HEAD")
    return head and head + ("+" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
