"""New bytes for a file: its fixes applied, or its findings silenced by comments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torchlint.checking import Checker, FileResult, Mode, Rewrite, Task, report_lines
from torchlint.config import DEFAULT_EXCLUDE
from torchlint.findings import Diagnostic, Finding, sorted_findings
from torchlint.fixing import SAFE, SAFE_AND_UNSAFE, fix_source
from torchlint.reporting.report import Applied
from torchlint.suppression import Suppressions
from torchlint.syntax.source import EditRefused, Source, SourceError, source_from_bytes


def rewritten(checker: Checker, data: bytes, source: Source, task: Task, mode: Mode) -> FileResult:
    """The result of a file with what the mode asks for applied; nothing is written here."""
    if mode is Mode.ADD_IGNORE:
        return _silenced(checker, data, source, task)
    return _fixed(checker, data, source, task, unsafe=mode is Mode.FIX_UNSAFE)


def _silenced(checker: Checker, data: bytes, source: Source, task: Task) -> FileResult:
    findings, diagnostics = checker.found(source, task)
    findings = [finding for finding in findings if finding.rule != "unused-ignore"]
    if not findings:
        return FileResult(task.shown, diagnostics=tuple(diagnostics))
    try:
        after = source.edited(Suppressions(source).additions(findings))
    except EditRefused as refused:
        failed = Diagnostic("fix-failed", task.shown, f"cannot be silenced with a comment: {refused}")
        return FileResult(task.shown, tuple(findings), (*diagnostics, failed), report_lines(source, findings))
    left, _ = checker.found(after, task)
    left = [finding for finding in left if finding.rule != "unused-ignore"]
    rewrite = Rewrite(task.path, task.shown, data, after.data)
    applied = _counted(findings, left, task.shown)
    return FileResult(task.shown, tuple(left), tuple(diagnostics), report_lines(after, left), applied, (rewrite,))


def _fixed(checker: Checker, data: bytes, source: Source, task: Task, *, unsafe: bool) -> FileResult:
    session = _Session(checker, source, task)
    fixed = fix_source(source, session.check, SAFE_AND_UNSAFE if unsafe else SAFE, session.read)
    rewrites = []
    if fixed.source.text != source.text:
        rewrites.append(Rewrite(task.path, task.shown, data, fixed.source.data))
    for shown, other in fixed.others.items():
        rewrites.append(Rewrite(_path(shown), shown, session.bytes_read[shown], other.data))
    return FileResult(
        task.shown,
        fixed.findings,
        fixed.diagnostics,
        report_lines(fixed.source, fixed.findings),
        _counted(list(fixed.applied), [], task.shown),
        tuple(rewrites),
    )


class _Session:
    """The fixing of one file: how its changed texts are checked, and which other files it may edit."""

    def __init__(self, checker: Checker, source: Source, task: Task) -> None:
        self._checker = checker
        self._original = source
        self._task = task
        self.bytes_read: dict[str, bytes] = {}

    def check(self, source: Source, others: Mapping[str, Source]) -> tuple[list[Finding], list[Diagnostic]]:
        """The findings in a changed text, seen by a project that knows the other changed files."""
        if source is self._original and not others:
            return self._checker.found(source, self._task)
        changed = {_path(shown): other for shown, other in others.items()}
        return self._checker.found(source, self._task, self._checker.changed_project(self._task, changed))

    def read(self, shown: str) -> Source | None:
        """Another file of the project for a fix to edit; None where it is somebody else's, or cannot be read."""
        path = _path(shown)
        if not self._task.on_disk or not path.is_relative_to(self._task.root):
            return None
        if not _EXCLUDED.isdisjoint(path.relative_to(self._task.root).parts):
            return None
        try:
            data = path.read_bytes()
            source = source_from_bytes(data, shown)
        except (OSError, SourceError):
            return None
        self.bytes_read[shown] = data
        return source


_EXCLUDED = frozenset(DEFAULT_EXCLUDE)


def _path(shown: str) -> Path:
    return Path.cwd() / shown


def _counted(before: list[Finding], after: list[Finding], path: str) -> tuple[Applied, ...]:
    counts: dict[tuple[str, str], int] = {}
    for finding in sorted_findings(before):
        counts[finding.code, finding.rule] = counts.get((finding.code, finding.rule), 0) + 1
    for finding in after:
        counts[finding.code, finding.rule] = counts.get((finding.code, finding.rule), 0) - 1
    return tuple(Applied(path, code, rule, count) for (code, rule), count in counts.items() if count > 0)
