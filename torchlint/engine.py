"""A run: the files that may have findings are found by a bytes search, checked, and their results put in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint import memory, work
from torchlint.checking import Checker, FileResult, Mode, Rewrite, Setup, Task, screened
from torchlint.config import ConfigError, Settings, TorchVersion
from torchlint.discovery import Target
from torchlint.findings import Diagnostic, sorted_findings
from torchlint.reporting.report import Applied, Display, Report
from torchlint.requirements import required_torch
from torchlint.selection import Selection, check_selectors, needs_rules, selection_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from torchlint.cache.store import Cache
    from torchlint.rules.rule import Rule

__all__ = ["ConfigError", "Mode", "Run", "check_bytes", "report_of", "run"]

_HERE_AT_MOST = 50_000
"""Bytes that are checked before two worker processes would have been started."""

_ALONE_AT_MOST = 200_000
"""Bytes of a single file that are checked in this process; a larger file could take the memory of a machine."""

_SPAWN_SECONDS_WORTH = 500_000
"""Bytes that are checked while a worker that is no fork starts."""


@dataclass
class Run:
    """What came of a run: the files' results in the order of their names, and how many files there were."""

    results: list[FileResult] = field(default_factory=list)
    files: int = 0

    @property
    def rewrites(self) -> list[Rewrite]:
        return [rewrite for result in self.results for rewrite in result.rewrites]


class _Plan:
    """The tasks of a run. Settings that name no rule are not resolved before a file needs them."""

    def __init__(self, cache: Cache | None = None, mode: Mode = Mode.CHECK) -> None:
        self.cache = cache
        self.mode = mode
        self.known: list[FileResult] = []
        self.settings: list[Settings] = []
        self.tasks: list[Task] = []
        self.failed: list[FileResult] = []
        self._rules: dict[int, tuple[Rule, ...]] = {}
        self._index: dict[int, int] = {}
        self._required: dict[Path, TorchVersion | None] = {}

    def consider(self, target: Target) -> None:
        """Make a task of a file unless an earlier run, or a search of its bytes, shows what comes of it."""
        settings = self.add_settings(target.settings)
        try:
            known = self._known(target)
            if known is not None:
                self.known.append(known)
                return
            data = target.path.read_bytes()
        except OSError as error:
            self.failed.append(_unreadable(target.shown, error))
            return
        if b"torch" not in data:
            return
        if screened(self._rules_of(settings), data):
            self.tasks.append(self.task(target, settings, len(data)))
        elif self.cache is not None:
            self.cache.of(target).keep_nothing_found(target.path, target.shown, self._key(target))

    def _known(self, target: Target) -> FileResult | None:
        """What an earlier run came to, where that tells the outcome. Raises OSError where a file cannot be read."""
        if self.cache is None:
            return None
        store = self.cache.of(target)
        if not store.names_torch(target.path):
            return FileResult(target.shown)
        found = store.result(target.path, target.shown, self._key(target))
        if found is not None and self.mode is not Mode.CHECK and (found.findings or found.diagnostics):
            return None  # its fixes need the file itself
        return found

    def _key(self, target: Target) -> str:
        assert self.cache is not None
        return self.cache.key(target.settings, self._version_for(target))

    def keep(self, task: Task, result: FileResult) -> None:
        """Keep what came of a task for later runs."""
        if self.cache is not None and self.mode is Mode.CHECK:
            self.cache.keep(task, self.settings[task.settings], result)

    def task(self, target: Target, settings: int, size: int, *, on_disk: bool = True) -> Task:
        version = self._version_for(target)
        return Task(
            target.path, target.shown, settings, target.root, version, size, on_disk, target.configuration
        )

    def _version_for(self, target: Target) -> TorchVersion | None:
        return target.settings.target_torch or self._required_by(target.path.parent, target.root)

    def add_settings(self, settings: Settings) -> int:
        # Settings are shared by all files below one configuration: identity tells them apart.
        index = self._index.get(id(settings))
        if index is None:
            index = self._index[id(settings)] = len(self.settings)
            self.settings.append(settings)
            if needs_rules(settings):
                self._rules_of(index)
        return index

    def _rules_of(self, index: int) -> tuple[Rule, ...]:
        if index not in self._rules:
            check_selectors(self.settings[index])
            self._rules[index] = selection_of(self.settings[index]).rules
        return self._rules[index]

    def _required_by(self, folder: Path, root: Path) -> TorchVersion | None:
        """The torch that the nearest requirement files ask for, in the folder or above it in the project."""
        if folder not in self._required:
            version = required_torch(folder)
            if version is None and folder != root and folder.parent != folder and folder.is_relative_to(root):
                version = self._required_by(folder.parent, root)
            self._required[folder] = version
        return self._required[folder]


OnDone = Callable[[int, int], None]
"""Called after every file with the bytes done and the bytes to do."""


def run(
    targets: Sequence[Target], mode: Mode = Mode.CHECK, *, jobs: int | None = None, on_done: OnDone | None = None,
    cached: bool = False, executor: Executor | None = None,
) -> Run:  # fmt: skip
    """Check files. ConfigError where their settings name what does not exist; nothing else is raised.

    ``cached``: use what earlier runs came to, and keep what this one does. ``executor``: check them on
    its processes, which must see the same files, and not on ``jobs`` processes here.
    """
    plan = _Plan(_cache() if cached else None, mode)
    for target in targets:
        plan.consider(target)
    results = plan.failed + plan.known
    tasks = {task.shown: task for task in plan.tasks}
    total = sum(task.size for task in plan.tasks)
    done = 0

    def on_result(result: FileResult) -> None:
        nonlocal done
        results.append(result)
        task = tasks.get(result.path)
        if task is not None:
            plan.keep(task, result)
            done += task.size
        if on_done is not None:
            on_done(done, total)

    if plan.tasks:
        preload()
        _execute(plan, mode, jobs, executor, on_result)
    if plan.cache is not None and mode is Mode.CHECK:
        plan.cache.save()
    return Run(sorted(results, key=lambda result: result.path), len(targets))


def _cache() -> Cache:
    from torchlint.cache.store import Cache

    return Cache()


def check_bytes(data: bytes, target: Target, mode: Mode = Mode.CHECK) -> FileResult:
    """Check bytes that are on no disk (standard input, an editor's buffer) as the target's file."""
    plan = _Plan()
    index = plan.add_settings(target.settings)
    if b"torch" not in data:
        return FileResult(target.shown)
    task = plan.task(target, index, len(data), on_disk=False)
    check_selectors(target.settings)
    checker = Checker(plan.settings, mode)
    with memory.collection_paused():
        return memory.with_deep_stack(lambda: work.guarded(checker, task, data))


def report_of(results: Iterable[FileResult], problems: Iterable[Diagnostic], files: int, display: Display) -> Report:
    """Everything that was found, in the order of reports."""
    results = list(results)
    diagnostics = [*problems, *(diagnostic for result in results for diagnostic in result.diagnostics)]
    return Report(
        findings=tuple(sorted_findings([finding for result in results for finding in result.findings])),
        diagnostics=tuple(sorted(diagnostics, key=_diagnostic_order)),
        lines={place: text for result in results for place, text in result.lines},
        applied=_by_file(applied for result in results for applied in result.applied),
        files=files,
        display=display,
    )


def _by_file(applied: Iterable[Applied]) -> tuple[Applied, ...]:
    """A file's fixes together: those of another file's problems with those of its own."""
    sums: dict[tuple[str, str, str], Applied] = {}
    for one in sorted(applied, key=lambda one: one.path):
        known = sums.get((one.path, one.code, one.rule))
        if known is not None:
            one = replace(one, count=known.count + one.count, counted_elsewhere=known.counted_elsewhere
                          + one.counted_elsewhere)
        sums[one.path, one.code, one.rule] = one
    return tuple(sums.values())


def check_settings(settings: Settings) -> None:
    """ConfigError where the settings name what does not exist; no rule is loaded where they name none."""
    if needs_rules(settings):
        selection_for(settings)


def selection_for(settings: Settings) -> Selection:
    """The rules that the settings choose, every selector checked."""
    check_selectors(settings)
    return selection_of(settings)


def _execute(
    plan: _Plan, mode: Mode, jobs: int | None, executor: Executor | None, on_result: Callable[[FileResult], None]
) -> None:
    setup = Setup(plan.settings, mode, plan.cache.searches() if plan.cache is not None else {})
    if executor is not None:
        from torchlint import executors

        executors.run_on(executor, plan.tasks, setup, on_result)
        return
    size = sum(task.size for task in plan.tasks)
    quick = work.starts_quickly()
    alone = len(plan.tasks) == 1 and size <= _ALONE_AT_MOST
    if alone or size <= (_HERE_AT_MOST if quick else _SPAWN_SECONDS_WORTH):
        work.run_here(plan.tasks, setup, on_result)
    else:
        from torchlint import workers  # multiprocessing is not imported for a single file

        workers.run_apart(plan.tasks, setup, jobs or work.usable_cpus(), on_result)


def preload() -> None:
    """Import what every worker needs, once, so that forks share it."""
    import torchlint.semantics.model  # noqa: F401


def _unreadable(shown: str, error: OSError) -> FileResult:
    return FileResult(shown, diagnostics=(Diagnostic("unreadable", shown, error.strerror or str(error)),))


def _diagnostic_order(diagnostic: Diagnostic) -> tuple[str, int, int, int, str, str]:
    at = diagnostic.position
    where = (at.cell or 0, at.line, at.column) if at is not None else (0, 0, 0)
    return (diagnostic.path, *where, diagnostic.kind, diagnostic.message)
