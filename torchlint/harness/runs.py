"""Runs a program in a child process with the recorder beside it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchlint.harness.arms import Tree

INJECTED = Path(__file__).parent / "inject"
_TAIL = 12  # lines of a program's output that an error shows
_ENOUGH = 3  # steps without which nothing can be said


class HarnessError(Exception):
    """A run that gives nothing to compare; the message says what happened and what to do."""


class TooLarge(HarnessError):
    """A run that takes more memory than the device has, or too long."""


class TooSlow(TooLarge):
    """A run that takes too long."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run records. ``steps`` and ``warm_up`` count optimizer steps, ``timeout`` seconds."""

    steps: int
    warm_up: int
    seed: int
    threads: int | None = None
    lines: Mapping[str, Sequence[int]] | None = None
    timeout: float = 600.0


@dataclass(frozen=True, slots=True)
class Recording:
    """What one run did.

    ``times`` are seconds from each optimizer step to the next, after the warm-up; ``losses`` the
    sum of what ``backward`` began from before each step (None where nothing did), ``rates`` the
    first parameter group's learning rate; ``peak_memory`` bytes, of the allocator on a GPU, else
    resident in the main process; ``weights`` a fingerprint of the parameters before the first step;
    ``loaded`` and ``lines`` the files of the tree that were loaded, and the planned lines that ran.
    """

    device: str
    kind: str
    torch: str
    threads: int
    steps: int
    times: tuple[float, ...]
    losses: tuple[float | None, ...]
    rates: tuple[float, ...]
    peak_memory: int | None
    weights: tuple[float, ...] | None
    from_original: tuple[str, ...] = ()
    loaded: frozenset[str] = field(default_factory=frozenset)
    lines: frozenset[tuple[str, int]] = field(default_factory=frozenset)


def record(command: Sequence[str], tree: Tree, plan: Plan, environment: Mapping[str, str] | None = None) -> Recording:
    """Run the command in a tree until it has made the planned steps. Raises HarnessError where it does not."""
    with tempfile.TemporaryDirectory(prefix="torchlint-run-") as folder:
        file = Path(folder, "plan.json")
        file.write_text(json.dumps({
            "folder": folder, "steps": plan.steps + plan.warm_up, "warm_up": plan.warm_up, "seed": plan.seed,
            "threads": plan.threads,
            "root": os.path.realpath(tree.root), "original": str(tree.original), "names": tree.names,
            "lines": {f: list(ls) for f, ls in plan.lines.items()} if plan.lines is not None else None,
        }), encoding="utf-8")
        log = Path(folder, "output")
        there = [tree.moved(part) for part in command]
        code = _run(there, tree, _environment(tree, file, plan, environment), log, plan.timeout)
        records = [json.loads(f.read_text(encoding="utf-8")) for f in Path(folder).glob("*.json") if f != file]
        records.sort(key=lambda record: (record["rank"], -record["steps"]))
        output = log.read_text(encoding="utf-8", errors="replace")
        if not records:
            raise _failure(output)(_why_nothing(command, code, output))
        if code != 0 and records[0]["steps"] <= plan.steps + plan.warm_up:
            made = records[0]["steps"]
            raise _failure(output)(f"the program failed after {made} steps (exit code {code}):\n{_tail(output)}")
        lines = Path(folder, "lines")
        return _recording(records[0], plan, lines.read_text(encoding="utf-8") if lines.exists() else "")


def _recording(record: dict[str, object], plan: Plan, lines: str) -> Recording:
    made = int(record["steps"])  # type: ignore[call-overload]
    if made - 1 - plan.warm_up < _ENOUGH:
        raise HarnessError(
            f"the program ended after {made} optimizer steps: {plan.warm_up} of warm-up and {_ENOUGH} more are needed; "
            "give it more data or epochs, or ask for fewer with --steps"
        )
    seen = (line.split(" ", 1) for line in lines.splitlines())
    weights = record["weights"]
    return Recording(
        device=str(record["device"]),
        kind=str(record["kind"]),
        torch=str(record["torch"]),
        threads=int(record["threads"]),  # type: ignore[call-overload]
        steps=made,
        times=tuple(record["times"][plan.warm_up:]),  # type: ignore[index]
        losses=tuple(record["losses"]),  # type: ignore[arg-type]
        rates=tuple(record["rates"]),  # type: ignore[arg-type]
        peak_memory=record["peak_memory"],  # type: ignore[arg-type]
        weights=None if weights is None else tuple(weights),  # type: ignore[arg-type]
        from_original=tuple(record["from_original"]),  # type: ignore[arg-type]
        loaded=frozenset(record["loaded"]),  # type: ignore[call-overload]
        lines=frozenset((file, int(number)) for number, file in seen),
    )


_SWITCHES = {
    "WANDB_MODE": "disabled",  # https://docs.wandb.ai/guides/track/environment-variables
    "CLEARML_OFFLINE_MODE": "1",  # https://clear.ml/docs/latest/docs/guides/set_offline
    "NEPTUNE_MODE": "offline",  # https://docs.neptune.ai/modes
    "SWANLAB_MODE": "disabled",  # https://docs.swanlab.cn/en/api/cli-swanlab-disabled.html
}
"""What keeps experiment trackers from uploading runs that are no experiments, where the user has not set it."""


def _environment(tree: Tree, file: Path, plan: Plan, more: Mapping[str, str] | None) -> dict[str, str]:
    given = {**os.environ, **(more or {})}
    environment = {**_SWITCHES, **_threads(plan), **{name: tree.moved(value) for name, value in given.items()}}
    path = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{INJECTED}{os.pathsep}{path}" if path else str(INJECTED)
    environment["PWD"] = str(tree.folder)
    environment["TORCHLINT_RECORD"] = str(file)
    environment["PYTHONUNBUFFERED"] = "1"
    environment["PYTHONHASHSEED"] = str(plan.seed)
    return environment


def _threads(plan: Plan) -> dict[str, str]:
    return dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(plan.threads)) if plan.threads else {}


def _run(command: Sequence[str], tree: Tree, environment: dict[str, str], log: Path, timeout: float) -> int:
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(command, cwd=tree.folder, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            raise HarnessError(f"{command[0]} cannot be run: {error.strerror or error}") from None
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            tail = _tail(log.read_text(encoding="utf-8", errors="replace"))
            raise TooSlow(f"the program had not made its steps after {timeout:.0f} seconds:\n{tail}") from None
        finally:
            _end(process, environment["TORCHLINT_RECORD"])


def _end(process: subprocess.Popen[bytes], record: str) -> None:
    """Stop a program, if it still runs, and all that it started."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS forbids it where only a zombie is left
            os.killpg(process.pid, signal.SIGKILL)
        for child in _with_variable(f"TORCHLINT_RECORD={record}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    process.wait()


def _with_variable(variable: str) -> Iterator[int]:
    """Processes that have it in their environment: torchrun and daemons leave the group. Linux only."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended, or somebody else's
            if os.fsencode(variable) in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)


def _failure(output: str) -> type[HarnessError]:
    return TooLarge if "out of memory" in output else HarnessError


def _why_nothing(command: Sequence[str], code: int, output: str) -> str:
    if code != 0:
        return f"the program failed before its first optimizer step (exit code {code}):\n{_tail(output)}"
    return (
        f"`{' '.join(command)}` ended without an optimizer step that could be seen; it must train with torch.optim, "
        f"in a Python that reads PYTHONPATH (no -I, no -S):\n{_tail(output)}"
    )


def _tail(output: str) -> str:
    lines = output.rstrip().splitlines()[-_TAIL:]
    return "\n".join(f"  | {line}" for line in lines) or "  | (no output)"
