"""The last lines of the formats made for people: what was fixed, what is left, what could be fixed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from torchlint.findings import Applicability, Severity
from torchlint.reporting.report import Report
from torchlint.reporting.text import listed, plural, visible


def lines(report: Report) -> Iterator[str]:
    """The summary, a sentence a line."""
    if report.display.show_fixes:
        yield from _applied(report)
    if report.applied:
        files = len({applied.path for applied in report.applied})
        yield f"{report.display.done} {plural(report.fixed, 'problem')} in {plural(files, 'file')}."
    yield _found(report)
    yield from _fixable(report)


def _applied(report: Report) -> Iterator[str]:
    path = None
    for applied in report.applied:
        if applied.path != path:
            path = applied.path
            yield f"{visible(path)}:"
        yield f"  {applied.count} x {applied.code} {applied.rule}"


def _found(report: Report) -> str:
    failed = len({d.path for d in report.diagnostics})
    unseen = f"; {plural(failed, 'file')} could not be fully checked" if failed else ""
    if not report.findings:
        left = " left" if report.applied else ""
        return f"No problems{left} in {plural(report.files, 'file')}{unseen}."
    severities = Counter(finding.severity for finding in report.findings)
    kinds = listed(plural(severities[s], s.value) if severities[s] else "" for s in Severity)
    files = plural(len({finding.path for finding in report.findings}), "file")
    verb = "Left" if report.applied else "Found"
    return f"{verb}: {plural(len(report.findings), 'problem')} in {files} ({kinds}){unseen}."


def _fixable(report: Report) -> Iterator[str]:
    counts = Counter(f.fix.applicability for f in report.findings if f.fix is not None)
    safe, unsafe = counts[Applicability.SAFE], counts[Applicability.UNSAFE]
    if report.display.unsafe_fixes:
        safe, unsafe = safe + unsafe, 0
    flag = " --unsafe-fixes" if report.display.unsafe_fixes else ""
    if safe:
        more = f", `--unsafe-fixes` {unsafe} more" if unsafe else ""
        yield f"`torchlint fix{flag}` can fix {safe}{more}."
    elif unsafe:
        more = " more" if report.applied else ""
        yield f"`torchlint fix --unsafe-fixes` can fix {unsafe}{more}."
