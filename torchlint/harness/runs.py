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
from typing import TypeVar

from torchlint.harness.arms import Tree

INJECTED = Path(__file__).parent / "inject"
_TAIL = 12  # lines of a program's output that an error shows
_ENOUGH = 3  # steps without which nothing can be said

T = TypeVar("T")


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
    resident (None where the system does not tell, or where other processes shared the work:
    ``has_children``); ``weights`` a fingerprint of the parameters before the first step; ``loaded``
    and ``lines`` the files of the tree that were loaded, and the planned lines that ran;
    ``loader_starts`` how many times data-loader workers were started within ``times``.
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
    has_children: bool = False
    loader_starts: int = 0


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
        records = sorted((_Record.read(f) for f in Path(folder).glob("*.json") if f != file), key=lambda r: r.place)
        output = log.read_text(encoding="utf-8", errors="replace")
        if not records:
            raise _failure(output)(_why_nothing(command, code, _counted(Path(folder)), output))
        made = records[0].one("steps", int)
        if code != 0 and made <= plan.steps + plan.warm_up:
            raise _failure(output)(f"the program failed after {made} steps (exit code {code}):\n{_tail(output)}")
        lines = Path(folder, "lines")
        return _recording(records[0], plan, lines.read_text(encoding="utf-8") if lines.exists() else "")


@dataclass(frozen=True, slots=True)
class _Record:
    """What the recorder wrote of one process, field by field. HarnessError where one is not what it should be."""

    fields: Mapping[str, object]

    @classmethod
    def read(cls, file: Path) -> _Record:
        return cls(json.loads(file.read_text(encoding="utf-8")))

    def one(self, name: str, kind: type[T]) -> T:
        return _known(name, self.fields.get(name), kind)

    def many(self, name: str, kind: type[T]) -> tuple[T, ...]:
        return tuple(_known(name, value, kind) for value in self.one(name, list))

    def maybe(self, name: str, kind: type[T]) -> T | None:
        return None if self.fields.get(name) is None else self.one(name, kind)

    @property
    def place(self) -> tuple[int, int, str, float]:
        """Where the process stands among those of a run, the same one first in every run."""
        return self.one("rank", int), -self.one("steps", int), self.one("process", str), self.one("started", float)


def _known(name: str, value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise HarnessError(f"the recorder wrote {value!r} where {name} should be")
    return value


def _recording(record: _Record, plan: Plan, lines: str) -> Recording:
    made = record.one("steps", int)
    if made - 1 - plan.warm_up < _ENOUGH:
        raise HarnessError(
            f"the program ended after {made} optimizer steps: {plan.warm_up} of warm-up and {_ENOUGH} more are needed; "
            "give it more data or epochs, or ask for fewer with --steps"
        )
    seen = (line.split(" ", 1) for line in lines.splitlines())
    kind, has_children = record.one("kind", str), record.one("has_children", bool)
    starts = record.many("loader_starts", int)
    return Recording(
        device=record.one("device", str),
        kind=kind,
        torch=record.one("torch", str),
        threads=record.one("threads", int),
        steps=made,
        times=record.many("times", float)[plan.warm_up:],
        losses=tuple(None if loss is None else _known("losses", loss, float) for loss in record.one("losses", list)),
        rates=record.many("rates", float),
        peak_memory=None if has_children and kind != "cuda" else record.maybe("peak_memory", int),
        weights=None if record.maybe("weights", list) is None else record.many("weights", float),
        from_original=record.many("from_original", str),
        loaded=frozenset(record.many("loaded", str)),
        lines=frozenset((file, int(number)) for number, file in seen),
        has_children=has_children,
        loader_starts=starts[-1] - starts[plan.warm_up],
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


def _counted(folder: Path) -> int:
    """The most optimizer steps that a process of the run had counted, whatever ended it."""
    return max((int.from_bytes(file.read_bytes(), "little") for file in folder.glob("*.steps")), default=0)


def _why_nothing(command: Sequence[str], code: int, made: int, output: str) -> str:
    if made:
        return (f"the program was ended after {made} optimizer steps, by a signal or else so that no record was left "
                f"(exit code {code}):\n{_tail(output)}")
    if code != 0:
        return f"the program failed before its first optimizer step (exit code {code}):\n{_tail(output)}"
    return (
        f"`{' '.join(command)}` ended without an optimizer step that could be seen; it must train with torch.optim, "
        f"in a Python that reads PYTHONPATH (no -I, no -S):\n{_tail(output)}"
    )


def _tail(output: str) -> str:
    lines = output.rstrip().splitlines()[-_TAIL:]
    return "\n".join(f"  | {line}" for line in lines) or "  | (no output)"
