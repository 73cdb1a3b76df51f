"""New bytes for a file: its fixes applied, or its findings silenced by comments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torchlint.checking import Checker, FileResult, Mode, Rewrite, Task, report_lines
from torchlint.config import DEFAULT_EXCLUDE, ConfigError
from torchlint.discovery import is_excluded
from torchlint.findings import Applicability, Diagnostic, Edit, Finding, sorted_findings
from torchlint.fixing import SAFE, SAFE_AND_UNSAFE, fix_source
from torchlint.reporting.report import Applied
from torchlint.suppression import Suppressions, mentions_suppression
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
        rewrites.append(Rewrite(task.working_folder / shown, shown, session.bytes_read[shown], other.data))
    return FileResult(
        task.shown,
        fixed.findings,
        fixed.diagnostics,
        report_lines(fixed.source, fixed.findings),
        _written_to(fixed.applied),
        tuple(rewrites),
    )


def allowed(checker: Checker, finding: Finding, task: Task) -> Finding:
    """A finding whose fix edits other files, as far as the user lets these be changed.

    The settings of such a file count as if the finding lay there: what excludes the file, or keeps
    the rule or its fixes from it, leaves the fix to be shown only. So does a comment in the file.
    """
    assert finding.fix is not None
    limits = [_limit(checker, finding, edit, task) for edit in finding.fix.edits if edit.span.path != finding.path]
    strictest = max([finding.fix.applicability, *limits], key=_STRICTNESS.index)
    return replace(finding, fix=replace(finding.fix, applicability=strictest))


_STRICTNESS = (Applicability.SAFE, Applicability.UNSAFE, Applicability.DISPLAY)


def _limit(checker: Checker, finding: Finding, edit: Edit, task: Task) -> Applicability:
    """As what a fix of the finding may make an edit in another file."""
    path = task.working_folder / edit.span.path
    try:
        settings = checker.settings_of(path, task)
        selection = checker.selection_for(settings, path)
        source = source_from_bytes(path.read_bytes(), edit.span.path)
    except (ConfigError, OSError, SourceError):
        return Applicability.DISPLAY
    if not _is_of_project(path, task) or is_excluded(path, settings):
        return Applicability.DISPLAY
    there = replace(finding, span=edit.span)
    if finding.rule not in {rule.slug for rule in selection.rules} or _is_silenced(there, source):
        return Applicability.DISPLAY
    fix = selection.with_applicability(there).fix
    return fix.applicability if fix is not None else Applicability.DISPLAY


def _is_of_project(path: Path, task: Task) -> bool:
    """Whether a file belongs to the task's project, and to no environment or build inside of it."""
    return path.is_relative_to(task.root) and _EXCLUDED.isdisjoint(path.relative_to(task.root).parts)


def _is_silenced(finding: Finding, source: Source) -> bool:
    if not mentions_suppression(source.text):
        return False
    comments = Suppressions(source)
    return comments.skips_file or not comments.kept([finding])


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
        changed = {self._task.working_folder / shown: other for shown, other in others.items()}
        return self._checker.found(source, self._task, self._checker.changed_project(self._task, changed))

    def read(self, shown: str) -> Source | None:
        """Another file of the project for a fix to edit; None where it is somebody else's, or cannot be read."""
        path = self._task.working_folder / shown
        if not self._task.on_disk or not _is_of_project(path, self._task):
            return None
        try:
            data = path.read_bytes()
            source = source_from_bytes(data, shown)
        except (OSError, SourceError):
            return None
        self.bytes_read[shown] = data
        return source


_EXCLUDED = frozenset(DEFAULT_EXCLUDE)


def _written_to(findings: Sequence[Finding]) -> tuple[Applied, ...]:
    """How many problems the fixes of each file solved; one that took several files counts in the first."""
    counts: dict[tuple[str, str, str], list[int]] = {}
    for finding in sorted_findings(findings):
        edited = {edit.span.path for edit in finding.fix.edits} if finding.fix is not None else set()
        for index, path in enumerate(sorted(edited, key=lambda path: (path != finding.path, path))):
            both = counts.setdefault((path, finding.code, finding.rule), [0, 0])
            both[0] += 1
            both[1] += index > 0
    return tuple(Applied(*where, count, elsewhere) for where, (count, elsewhere) in counts.items())


def _counted(before: list[Finding], after: list[Finding], path: str) -> tuple[Applied, ...]:
    counts: dict[tuple[str, str], int] = {}
    for finding in sorted_findings(before):
        counts[finding.code, finding.rule] = counts.get((finding.code, finding.rule), 0) + 1
    for finding in after:
        counts[finding.code, finding.rule] = counts.get((finding.code, finding.rule), 0) - 1
    return tuple(Applied(path, code, rule, count) for (code, rule), count in counts.items() if count > 0)
