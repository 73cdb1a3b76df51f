"""The work of one process: files one after the other, within its share of memory."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Sequence

from torchlint import memory
from torchlint.checking import Checker, FileResult, Setup, Task, origin_of
from torchlint.findings import Diagnostic

MEMORY = 400 * memory.MEGABYTE
"""What a process should stay below, as far as huge files allow."""

_WITHOUT_MEASURE = 2_000_000
"""Where memory cannot be measured: bytes of source after which a process cleans up."""

OnResult = Callable[[FileResult], None]


def usable_cpus() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def starts_quickly() -> bool:
    """Whether a worker is a fork, ready in milliseconds, and not a new interpreter."""
    return sys.platform.startswith("linux") and threading.active_count() == 1


class Housekeeper:
    """Keeps a process below its share of memory; asked after every file.

    ``replaceable`` says that a fresh process costs next to nothing: it is a fork. A collection
    looks at millions of nodes, so such a process is not cleaned but replaced.
    """

    def __init__(self, checker: Checker, share: int, *, replaceable: bool) -> None:
        self._checker = checker
        self._share = share
        self._replaceable = replaceable
        self._unmeasured = 0

    def over_budget(self, size: int) -> bool:
        """Clean up where needed. True when the process had better be replaced."""
        held = memory.resident()
        if held is None:
            self._unmeasured += size
            if self._unmeasured > _WITHOUT_MEASURE:
                self._unmeasured = 0
                self._clean()
            return False
        if held <= self._share:
            return False
        memory.trim()
        # Less than the whole share must be reached, or the next file would bring us here again.
        if (memory.resident() or 0) <= 0.9 * self._share:
            return False
        if not self._replaceable:
            self._clean()
        return self._replaceable

    def _clean(self) -> None:
        self._checker.forget_projects()
        gc.collect()
        memory.trim()


def guarded(checker: Checker, task: Task, data: bytes | None = None) -> FileResult:
    """The result of one file (of ``data`` in its place, where given); what is raised becomes its diagnostic."""
    try:
        return checker.check_file(task) if data is None else checker.check_bytes(data, task)
    except RecursionError:
        checker.forget_projects()
        return lost(task, "parser-limit", "nested too deeply")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of the native parser is no Exception
        checker.forget_projects()
        kind = "parser-limit" if type(error).__name__ == "PanicException" else "worker-crash"
        return lost(task, kind, f"{type(error).__name__}: {error}{origin_of(error)}")


_turn = threading.Lock()
_checkers: dict[str, Checker] = {}


def check_batch(run: str, tasks: Sequence[Task], setup: Setup) -> list[FileResult]:
    """The results of some of a run's tasks, in a process that serves several runs, or several batches of one.

    What the files of a project have in common is kept until another run's batch comes: files may
    have changed then.
    """
    with _turn:  # threads of one process would gain nothing, and share what is kept
        checker = _checkers.get(run)
        if checker is None:
            _checkers.clear()
            checker = _checkers[run] = setup.checker()
        results: list[FileResult] = []
        _in_order(checker, tasks, results.append)
        return results


def run_here(tasks: Sequence[Task], setup: Setup, on_result: OnResult) -> None:
    """Check the tasks one after the other in this process."""
    _in_order(setup.checker(), tasks, on_result)


def _in_order(checker: Checker, tasks: Sequence[Task], on_result: OnResult) -> None:
    keeper = Housekeeper(checker, MEMORY, replaceable=False)

    def work() -> None:
        for task in tasks:
            on_result(guarded(checker, task))
            keeper.over_budget(task.size)

    with memory.collection_paused():
        memory.with_deep_stack(work)


def lost(task: Task, kind: str, message: str) -> FileResult:
    """The result of a file that could not be checked to the end."""
    return FileResult(task.shown, diagnostics=(Diagnostic(kind, task.shown, message),))
