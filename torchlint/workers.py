"""Spreads files over processes, so that no file can take the run down with it."""

from __future__ import annotations

import contextlib
import gc
import itertools
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from torchlint import memory
from torchlint.checking import Setup, Task
from torchlint.work import MEMORY, Housekeeper, OnResult, guarded, lost, starts_quickly

PATIENCE = 60.0
"""Seconds that a file may take, plus as much for every million bytes: ten times the slowest file seen."""

_CRASH_CODES = {
    *(-number for name in ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL") if (number := getattr(signal, name, None))),
    0xC0000005, 0xC00000FD, 0xC0000409,  # Windows: access violation, stack overflow, fail fast
    -0x3FFFFFFB, -0x3FFFFF03, -0x3FFFFBF7,
}  # fmt: skip


def run_apart(tasks: Sequence[Task], setup: Setup, jobs: int, on_result: OnResult) -> None:
    """Check the tasks in ``jobs`` processes; results come in any order, one for each task."""
    pool = _Pool(tasks, setup, jobs, on_result)
    try:
        pool.run()
    finally:
        pool.close()


def batches(tasks: Sequence[Task], jobs: int) -> list[list[int]]:
    """Indices of tasks in batches: files of one folder together, the heaviest batch first."""
    total = sum(task.size for task in tasks)
    limit = max(total // (jobs * 4), 1)
    order = sorted(range(len(tasks)), key=lambda i: (tasks[i].root, tasks[i].path.parent, -tasks[i].size, i))
    made: list[tuple[int, list[int]]] = []
    for _, group in itertools.groupby(order, key=lambda i: (tasks[i].root, tasks[i].path.parent)):
        weight = 0
        batch: list[int] = []
        for index in group:
            if batch and weight + tasks[index].size > limit:
                made.append((weight, batch))
                weight, batch = 0, []
            batch.append(index)
            weight += tasks[index].size
        made.append((weight, batch))
    return [batch for _, batch in sorted(made, key=lambda pair: (-pair[0], pair[1]))]


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    pending: deque[int] = field(default_factory=deque)
    started: float = 0.0
    done: int = 0


class _Pool:
    def __init__(
        self, tasks: Sequence[Task], setup: Setup, jobs: int, on_result: OnResult
    ) -> None:
        self._tasks, self._setup, self._on_result = tasks, setup, on_result
        self._jobs = max(1, min(jobs, len(tasks)))
        self._queue = deque(batches(tasks, self._jobs))
        self._retried: set[int] = set()
        self._workers: list[_Worker] = []
        self._context = multiprocessing.get_context("fork" if starts_quickly() else "spawn")
        # Shared with the forks as they are: a collection would touch, and so copy, every page.
        gc.collect()
        gc.freeze()

    def run(self) -> None:
        while self._queue or self._workers:
            while self._queue and len(self._workers) < self._jobs:
                self._start()
            for worker in self._readable():
                self._receive(worker)
            self._stop_hanging()

    def close(self) -> None:
        """Stop every worker at once; nothing of theirs is on disk, so nothing is lost."""
        gc.unfreeze()
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()
        self._workers.clear()

    def _start(self) -> None:
        ours, theirs = self._context.Pipe()
        to_close = [ours, *(worker.connection for worker in self._workers)]
        forked = self._context.get_start_method() == "fork"
        process = self._context.Process(  # type: ignore[attr-defined]  # every context has it
            target=_work,
            args=(theirs, to_close if forked else [], self._tasks, self._setup, forked),
            daemon=True,
        )
        with _interrupts_held():
            process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.append(worker)
        self._feed(worker)

    def _feed(self, worker: _Worker) -> None:
        """Give an idle worker its next batch, or send it home."""
        worker.started = time.monotonic()
        batch = self._queue.popleft() if self._queue else []
        worker.pending.extend(batch)
        with contextlib.suppress(OSError):  # it is gone: reading from it will say so
            worker.connection.send(batch)

    def _readable(self) -> Iterator[_Worker]:
        ready = set(wait([worker.connection for worker in self._workers], timeout=1.0))
        return iter([worker for worker in self._workers if worker.connection in ready])

    def _receive(self, worker: _Worker) -> None:
        try:
            result = worker.connection.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return
        worker.pending.popleft()
        worker.done += 1
        worker.started = time.monotonic()
        self._on_result(result)
        if not worker.pending:
            self._feed(worker)

    def _bury(self, worker: _Worker) -> None:
        """A worker has gone: home, to be replaced, or by a crash, which costs the file it was at."""
        worker.process.join()
        code = worker.process.exitcode
        self._remove(worker)
        if worker.pending and code != 0:
            index = worker.pending.popleft()
            if worker.done and index not in self._retried:
                # Files before it may have filled the memory: it gets a process for itself.
                self._retried.add(index)
                self._queue.appendleft([index])
            else:
                self._on_result(lost(self._tasks[index], *_reason(code)))
        if worker.pending:
            self._queue.appendleft(list(worker.pending))

    def _stop_hanging(self) -> None:
        now = time.monotonic()
        for worker in list(self._workers):
            if not worker.pending:
                continue
            task = self._tasks[worker.pending[0]]
            allowed = PATIENCE * (1 + task.size / 1_000_000)
            if now - worker.started > allowed:
                worker.process.kill()
                worker.process.join()
                self._remove(worker)
                worker.pending.popleft()
                self._on_result(lost(task, "worker-crash", f"not done after {allowed:.0f} seconds: given up"))
                if worker.pending:
                    self._queue.appendleft(list(worker.pending))

    def _remove(self, worker: _Worker) -> None:
        worker.connection.close()
        self._workers.remove(worker)


def _reason(code: int | None) -> tuple[str, str]:
    if code in _CRASH_CODES:
        return "parser-limit", "the parser crashed on this file"
    cause = "killed, perhaps for want of memory" if code == -9 else f"exit code {code}"
    return "worker-crash", f"the process that checked this file died ({cause})"


def _work(
    connection: Connection,
    to_close: Sequence[Connection],
    tasks: Sequence[Task],
    setup: Setup,
    forked: bool,
) -> None:
    """A worker: batches of indices in, a result for each out, until an empty batch or the parent's end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    for other in to_close:
        other.close()  # or this worker would keep its siblings' pipes, and so them, alive
    gc.disable()
    checker = setup.checker()
    keeper = Housekeeper(checker, MEMORY, replaceable=forked)

    def serve() -> None:
        while batch := connection.recv():
            for index in batch:
                connection.send(guarded(checker, tasks[index]))
                if keeper.over_budget(tasks[index].size):
                    return

    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):  # the parent has gone
        memory.with_deep_stack(serve)
    os._exit(0)  # tearing down a heap of trees takes longer than leaving it to the system


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until the child is started: neither side may be interrupted half-way."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
