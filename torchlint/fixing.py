"""Applies fixes in rounds until nothing changes, proves each round, and writes files without ever losing bytes."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchlint.findings import Applicability, Diagnostic, Edit, Finding, Severity
from torchlint.syntax.source import EditRefused, Source, SourceError
from torchlint.syntax.tree import ParserLimit, parse

SAFE = frozenset({Applicability.SAFE})
SAFE_AND_UNSAFE = frozenset({Applicability.SAFE, Applicability.UNSAFE})

_ROUNDS = 10
"""More rounds than fixes nest in each other mean that two rules undo each other's work."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")

_RANK = {Severity.HINT: 0, Severity.WARNING: 1, Severity.ERROR: 2}

Check = Callable[[Source, Mapping[str, Source]], tuple[list[Finding], list[Diagnostic]]]
"""Finds what is wrong with a source, given the other files, by path, that fixes have changed."""

Read = Callable[[str], Source | None]
"""Reads another file that a fix wants to edit; None where it must not be changed."""


class FileChanged(Exception):
    """The file no longer holds what was read, or another process is writing it; it was left alone."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """What came of fixing a source.

    ``source`` and ``others`` (changed files besides it, by path) are the new texts, ``findings``
    and ``diagnostics`` what is left to report on them, ``applied`` the findings that are gone.
    """

    source: Source
    findings: tuple[Finding, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    applied: tuple[Finding, ...] = ()
    others: Mapping[str, Source] = field(default_factory=dict)


def fix_source(source: Source, check: Check, allowed: frozenset[Applicability], read: Read | None = None) -> Fixed:
    """Apply the allowed fixes until none is left.

    A round applies fixes that stay clear of each other. It counts only if the files still parse,
    its findings are gone, and nothing of the same or a higher severity is new that this run does
    not fix as well; else the round is halved until the fix at fault stands alone, which is then
    left out and reported as ``fix-failed``. Where the rounds do not end, the source is given back
    as it was.
    """
    findings, diagnostics = check(source, {})
    start = state = Fixed(source, tuple(findings), tuple(diagnostics))
    failed: list[Finding] = []
    seen = {source.text}
    rounds = 0
    while rounds < _ROUNDS:
        state, whole = _round(state, check, allowed, read, failed)
        if whole is None:
            return state
        if state.source.text in seen and not state.others:
            break
        seen.add(state.source.text)
        rounds += whole
    loop = Diagnostic("fix-failed", source.path, f"its fixes do not come to an end in {_ROUNDS} rounds")
    return replace(start, diagnostics=(*start.diagnostics, loop))


def _round(
    state: Fixed, check: Check, allowed: frozenset[Applicability], read: Read | None, failed: list[Finding]
) -> tuple[Fixed, bool | None]:
    """The state after one good round, and whether all its fixes were in it; the same state and None at the end.

    Adds the fixes at fault to ``failed``, whose spans move along with the edits.
    """
    limit = None
    while True:
        waiting = [finding for finding in _without(state.findings, failed) if _may_fix(finding, allowed)]
        batch = _apart(waiting)[:limit]
        if not batch:
            return state, None
        outcome = _attempt(state, batch, check, allowed, read)
        if isinstance(outcome, Fixed):
            failed[:] = [_moved(finding, _edits_of(batch)) for finding in failed]
            return outcome, limit is None
        if len(batch) == 1:
            failed.append(batch[0])
            message = f"the fix of {batch[0].rule} was left out: {outcome}"
            diagnostic = Diagnostic("fix-failed", state.source.path, message, batch[0].span.start)
            state = replace(state, diagnostics=(*state.diagnostics, diagnostic))
            limit = None
        else:
            limit = len(batch) // 2


def _may_fix(finding: Finding, allowed: frozenset[Applicability]) -> bool:
    return finding.fix is not None and finding.fix.applicability in allowed and bool(finding.fix.edits)


def _edits(finding: Finding) -> tuple[Edit, ...]:
    return () if finding.fix is None else finding.fix.edits


def _is_import(edit: Edit) -> bool:
    """Whether an edit adds an import line: it may stand beside others at the same place, and once is enough."""
    is_insertion = edit.span.begin == edit.span.finish
    return is_insertion and edit.content.strip().startswith(("import ", "from "))


def _hulls(finding: Finding) -> dict[str, tuple[int, int]]:
    """The stretch of each file that a fix needs for itself; imports it adds do not count."""
    hulls: dict[str, tuple[int, int]] = {}
    for edit in _edits(finding):
        if not _is_import(edit):
            begin, finish = hulls.get(edit.span.path, (edit.span.begin, edit.span.finish))
            hulls[edit.span.path] = min(begin, edit.span.begin), max(finish, edit.span.finish)
    return hulls


def _apart(findings: Sequence[Finding]) -> list[Finding]:
    """Of these findings those whose fixes neither touch nor enclose that of an earlier one."""
    taken: dict[str, list[tuple[int, int]]] = {}
    chosen = []
    for finding in sorted(findings, key=lambda finding: (sorted(_hulls(finding).values()), finding.sort_key)):
        hulls = _hulls(finding)
        if all(finish < other[0] or other[1] < begin
               for path, (begin, finish) in hulls.items() for other in taken.get(path, ())):
            chosen.append(finding)
            for path, hull in hulls.items():
                taken.setdefault(path, []).append(hull)
    return chosen


def _attempt(
    state: Fixed, batch: Sequence[Finding], check: Check, allowed: frozenset[Applicability], read: Read | None
) -> Fixed | str:
    """The state with the batch applied, or what speaks against it."""
    edits: dict[str, list[Edit]] = {state.source.path: []}
    for edit in _edits_of(batch):
        edits.setdefault(edit.span.path, []).append(edit)
    sources: dict[str, Source] = {}
    for path, own in edits.items():
        before = _source(state, path, read)
        if before is None:
            return f"{path} cannot be changed"
        try:
            sources[path] = before.edited(own)
            parse(sources[path])
        except EditRefused as refused:
            return str(refused)
        except SourceError as error:
            return f"{path} would not parse ({error.message})"
        except ParserLimit as limit:
            if not _is_beyond_the_parser(before):
                return f"{path} would not parse ({limit.message})"
    source = sources.pop(state.source.path)
    others = {**state.others, **sources}
    findings, diagnostics = check(source, others)
    kept = [diagnostic for diagnostic in state.diagnostics if diagnostic.kind == "fix-failed"]
    objection = _new_diagnostic(state, diagnostics) or _objection(state, batch, findings, allowed)
    if objection:
        return objection
    return Fixed(source, tuple(findings), (*diagnostics, *kept), (*state.applied, *batch), others)


def _is_beyond_the_parser(source: Source) -> bool:
    try:
        parse(source)
    except ParserLimit:
        return True
    return False


def _edits_of(batch: Sequence[Finding]) -> list[Edit]:
    """All edits of a batch; an import that several fixes add comes once."""
    edits = [edit for finding in batch for edit in _edits(finding)]
    imports = {edit for edit in edits if _is_import(edit)}
    return [edit for edit in edits if edit not in imports] + sorted(imports, key=lambda edit: edit.content)


def _source(state: Fixed, path: str, read: Read | None) -> Source | None:
    if path == state.source.path:
        return state.source
    if path in state.others:
        return state.others[path]
    return read(path) if read is not None else None


def _new_diagnostic(state: Fixed, diagnostics: Sequence[Diagnostic]) -> str | None:
    known = {(diagnostic.kind, diagnostic.message) for diagnostic in state.diagnostics}
    for diagnostic in diagnostics:
        if (diagnostic.kind, diagnostic.message) not in known:
            return f"it brings {diagnostic.kind}: {diagnostic.message}"
    return None


def _objection(
    state: Fixed, batch: Sequence[Finding], after: Sequence[Finding], allowed: frozenset[Applicability]
) -> str | None:
    """Whether a finding of the batch is still there, or a new one has come that this run does not fix."""
    edits = _edits_of(batch)
    remaining = [_moved(finding, edits) for finding in state.findings if finding not in batch]
    fixed = [_moved(finding, edits) for finding in batch]
    lowest = min(_RANK[finding.severity] for finding in batch)
    for finding in _without(after, remaining):
        if any(finding.code == other.code and _overlap(finding, other) for other in fixed):
            return f"{finding.rule} still finds the same mistake"
        if _RANK[finding.severity] >= lowest and not _may_fix(finding, allowed):
            return f"{finding.rule} finds a new mistake in line {finding.span.start.line}"
    return None


def _without(findings: Sequence[Finding], known: Sequence[Finding]) -> list[Finding]:
    """The findings that are none of the known ones: not at the same place, nor the same one, resized by an edit."""
    left = list(known)
    unmatched = []
    for finding in findings:
        same = [other for other in left if other.code == finding.code and _place(other) == _place(finding)]
        if same:
            left.remove(same[0])
        else:
            unmatched.append(finding)
    new = []
    for finding in unmatched:
        same = [other for other in left if other.code == finding.code and _overlap(other, finding)]
        if same:
            left.remove(same[0])
        else:
            new.append(finding)
    return new


def _place(finding: Finding) -> tuple[int, int]:
    return finding.span.begin, finding.span.finish


def _overlap(one: Finding, other: Finding) -> bool:
    return one.span.begin <= other.span.finish and other.span.begin <= one.span.finish


def _moved(finding: Finding, edits: Sequence[Edit]) -> Finding:
    """The finding with its span's offsets where the edits move them (line and column are not kept up)."""
    near = [edit for edit in edits if edit.span.path == finding.path]
    begin = finding.span.begin + sum(_shift(edit, finding.span.begin, edit.span.begin) for edit in near)
    finish = finding.span.finish + sum(
        _shift(edit, finding.span.finish, edit.span.begin + len(edit.content)) for edit in near)
    return replace(finding, span=replace(finding.span, begin=begin, finish=max(begin, finish)))


def _shift(edit: Edit, offset: int, inside: int) -> int:
    """How far an edit moves an offset; one within the replaced characters goes to ``inside``."""
    begin, finish = edit.span.begin, edit.span.finish
    if offset >= finish:
        return len(edit.content) - (finish - begin)
    return inside - offset if offset > begin else 0


def unified_diff(before: Source, after: Source) -> str:
    """What changed, as a patch; each cell of a notebook on its own."""
    pieces: list[str] = []
    for (name, old), (_, new) in zip(before.parts, after.parts, strict=True):
        lines = difflib.unified_diff(_LINE.findall(old), _LINE.findall(new), name, name)
        pieces.extend(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return "".join(pieces)


def write_atomically(path: Path, data: bytes, expected: bytes) -> None:
    """Replace a file's content in one step: whoever reads or interrupts sees the old file or the new one.

    Follows symlinks to the real file and keeps its mode. Raises FileChanged where it no longer
    holds ``expected``, OSError where it cannot be written; the file is then as it was.
    """
    real = path.resolve(strict=True)
    if not os.access(real, os.W_OK):  # replacing would succeed all the same
        raise PermissionError(13, "the file is read-only", str(path))
    with _locked(real):
        if real.read_bytes() != expected:
            raise FileChanged(f"{path} changed after it was read")
        _replace(real, data)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps other torchlint processes from writing the file; only advice where the system has no such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FileChanged(f"{path} is being written by another process") from None
        except OSError:
            pass  # a file system without locks
        yield


def _replace(path: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".torchlint-", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _copy_owner_and_mode(path, temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _copy_owner_and_mode(path: Path, temporary: Path) -> None:
    status = path.stat()
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):  # only root may give files away
            os.chown(temporary, status.st_uid, status.st_gid)
    temporary.chmod(status.st_mode & 0o7777)


def _sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where folders can be opened at all."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
