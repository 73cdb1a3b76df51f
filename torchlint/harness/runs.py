"""Runs programs in child processes with the recorder beside them: one alone, or several in turn."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from torchlint.harness import recordings
from torchlint.harness.arms import Tree
from torchlint.harness.recordings import HarnessError, Plan, Recording, TooLarge, TooSlow

INJECTED = Path(__file__).parent / "inject"
_TAIL = 12  # lines of a program's output that an error shows
_TURN = 0.001  # seconds between two looks at whose turn it is
_NUMBER = 8  # bytes


def record(command: Sequence[str], tree: Tree, plan: Plan, environment: Mapping[str, str] | None = None) -> Recording:
    """Run the command in a tree until it has made the planned steps. Raises HarnessError where it does not."""
    with _Run(command, tree, plan, environment) as run:
        run.wait()
        return run.recording()


def record_in_turn(commands: Sequence[tuple[Sequence[str], Tree]], plan: Plan) -> list[Recording | HarnessError]:
    """Run all of the commands at once, but for the timed steps: these they make in turn, a block each.

    What slows the machine for a while slows all of them, and none pays for another start. Only for
    programs of one process that can be held still: what is loaded ahead meanwhile comes for free.
    """
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(_Run(command, tree, plan)) for command, tree in commands]
        _spend(runs, until=lambda: all(run.waits for run in runs))  # they start and warm up side by side
        while going := [run for run in runs if not run.has_ended]:
            for run in going:
                run.go_on()
                _spend([run], until=lambda run=run: run.waits)  # type: ignore[misc]
        return [run.outcome() for run in runs]


def _spend(runs: Sequence[_Run], until: Callable[[], bool]) -> None:
    """Wait for programs that are at work. One that takes too long is stopped."""
    now = time.monotonic()
    while not until():
        time.sleep(_TURN)
        before, now = now, time.monotonic()
        for run in runs:
            if not run.waits:
                run.spend(now - before)


class _Run:
    """A program that runs; it is ended, with all that it started, where the context is left."""

    def __init__(
        self, command: Sequence[str], tree: Tree, plan: Plan, environment: Mapping[str, str] | None = None
    ) -> None:
        self._command, self._tree, self._plan, self._given = command, tree, plan, environment
        self._left = plan.timeout
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> _Run:
        with self._closing as closing:
            self._folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="torchlint-run-")))
            self._file = self._folder / "plan.json"
            self._log = self._folder / "output"
            self._turn = self._folder / "turn"
            self._turn.write_bytes(bytes(2 * _NUMBER))
            self._file.write_text(json.dumps(self._written()), encoding="utf-8")
            environment = _environment(self._tree, self._file, self._plan, self._given)
            command = [self._tree.moved(part) for part in self._command]
            with self._log.open("wb") as output:
                try:
                    self._process = subprocess.Popen(command, cwd=self._tree.folder, env=environment, stdout=output,
                                                     stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                                                     start_new_session=True)
                except OSError as error:
                    raise HarnessError(f"{command[0]} cannot be run: {error.strerror or error}") from None
            closing.callback(_end, self._process, str(self._file))
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def _written(self) -> dict[str, object]:
        """The plan, as the recorder reads it."""
        plan, tree = self._plan, self._tree
        return {
            "folder": str(self._folder), "steps": plan.steps + plan.warm_up, "warm_up": plan.warm_up,
            "seed": plan.seed, "threads": plan.threads, "block": plan.block, "turn": str(self._turn),
            "patience": plan.timeout * 2,
            "root": os.path.realpath(tree.root), "original": str(tree.original), "names": tree.names,
            "lines": {f: list(ls) for f, ls in plan.lines.items()} if plan.lines is not None else None,
        }  # fmt: skip

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def waits(self) -> bool:
        """Whether it does nothing until it is told to go on, or nothing at all any more."""
        granted, reached = self._numbers()
        return reached > granted or self.has_ended

    def go_on(self) -> None:
        """Let it make its next block of steps."""
        with self._turn.open("r+b") as file:
            file.write(self._numbers()[1].to_bytes(_NUMBER, "little"))

    def _numbers(self) -> tuple[int, int]:
        """How often it may go on after it has stopped, and how often it has stopped."""
        written = self._turn.read_bytes()
        return int.from_bytes(written[:_NUMBER], "little"), int.from_bytes(written[_NUMBER:], "little")

    def spend(self, seconds: float) -> None:
        """Take from the time that it has; where none is left, it is ended."""
        self._left -= seconds
        if self._left < 0 and not self.has_ended:
            _end(self._process, str(self._file))

    def wait(self) -> None:
        """Wait for the end. Raises TooSlow."""
        try:
            self._process.wait(self._plan.timeout)
        except subprocess.TimeoutExpired:
            raise self._too_slow() from None

    def _too_slow(self) -> TooSlow:
        return TooSlow(f"the program had not made its steps after {self._plan.timeout:.0f} seconds:\n"
                       f"{_tail(self._output())}")

    def outcome(self) -> Recording | HarnessError:
        """What it did, or why there is nothing to say of it."""
        try:
            return self.recording()
        except HarnessError as error:
            return self._too_slow() if self._left < 0 else error

    def recording(self) -> Recording:
        """What it did; it has ended. Raises HarnessError."""
        code, output, plan = self._process.returncode, self._output(), self._plan
        written = recordings.records(self._folder)
        if not written:
            raise _failure(output)(_why_nothing(self._command, code, _counted(self._folder), output))
        made = written[0].steps
        if code != 0 and made <= plan.steps + plan.warm_up:
            raise _failure(output)(f"the program failed after {made} steps (exit code {code}):\n{_tail(output)}")
        lines = self._folder / "lines"
        return written[0].recording(plan, lines.read_text(encoding="utf-8") if lines.exists() else "")

    def _output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")


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
