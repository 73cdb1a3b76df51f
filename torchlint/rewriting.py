"""New bytes for a file: its fixes applied, or its findings silenced by comments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.checking import Checker, FileResult, Mode, Rewrite, Task, report_lines
from torchlint.findings import Diagnostic, sorted_findings
from torchlint.reporting.report import Applied
from torchlint.suppression import Suppressions
from torchlint.syntax.source import EditRefused, Source

if TYPE_CHECKING:
    from torchlint.findings import Finding


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
    raise NotImplementedError


def _counted(before: list[Finding], after: list[Finding], path: str) -> tuple[Applied, ...]:
    counts: dict[tuple[str, str], int] = {}
    for finding in sorted_findings(before):
        counts[finding.code, finding.rule] = counts.get((finding.code, finding.rule), 0) + 1
    for finding in after:
        counts[finding.code, finding.rule] = counts.get((finding.code, finding.rule), 0) - 1
    return tuple(Applied(path, code, rule, count) for (code, rule), count in counts.items() if count > 0)
