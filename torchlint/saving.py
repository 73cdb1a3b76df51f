"""Puts what a run rewrote on disk, never over somebody else's change.

The files of one result are written all or not at all. Where one cannot be written, those before it
are put back, unless that fails too: then the report names them.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Sequence

from torchlint import engine
from torchlint.checking import FileResult, Mode, Rewrite
from torchlint.discovery import Target
from torchlint.findings import Diagnostic
from torchlint.fixing import FileChanged, unified_diff, write_atomically
from torchlint.syntax.source import source_from_bytes

_ROUNDS = 3
"""How often a file is fixed anew because it changed meanwhile (a fix in another file, an editor)."""

_AS_IT_WAS = "the file is as it was"

_PAUSE = 0.1
"""Seconds in which whoever else writes the file may end."""


def save(results: Sequence[FileResult], targets: Sequence[Target], mode: Mode) -> list[FileResult]:
    """Write the rewrites of the results; what is returned says what came of each file in the end.

    A file that changed since it was read is fixed anew from what it holds now. Where writing
    fails, the findings are reported with a ``fix-failed``: the files are as they were, but for
    those that it names, which could not be put back.
    """
    by_shown = {target.shown: target for target in targets}
    saved = {result.path: result for result in results}
    waiting = [result for result in results if result.rewrites]
    for _ in range(_ROUNDS):
        changed = []
        for result in waiting:
            error = _written(result.rewrites)
            if isinstance(error, FileChanged):
                changed.append(by_shown[result.path])
            elif isinstance(error, _HalfWritten):
                saved[result.path] = _unfixed(by_shown[result.path], str(error))
            elif error is not None:
                saved[result.path] = _unfixed(by_shown[result.path], f"{error}; {_AS_IT_WAS}")
        if not changed:
            return sorted(saved.values(), key=lambda result: result.path)
        time.sleep(_PAUSE)
        again = engine.run(changed, mode).results
        saved.update({target.shown: FileResult(target.shown) for target in changed})
        saved.update({result.path: result for result in again})
        waiting = [result for result in again if result.rewrites]
    for result in waiting:
        saved[result.path] = _unfixed(by_shown[result.path], f"it keeps changing while it is fixed; {_AS_IT_WAS}")
    return sorted(saved.values(), key=lambda result: result.path)


def diff(rewrites: Iterable[Rewrite]) -> str:
    """What the rewrites would change, as a patch."""
    pieces = []
    for rewrite in rewrites:
        before, after = (source_from_bytes(data, rewrite.shown) for data in (rewrite.before, rewrite.after))
        pieces.append(unified_diff(before, after))
    return "".join(pieces)


def _written(rewrites: Sequence[Rewrite]) -> Exception | None:
    """Write all files; what went wrong, or None."""
    try:
        _write(rewrites)
    except (FileChanged, OSError, _HalfWritten) as error:
        return error
    return None


class _HalfWritten(Exception):
    """Some files could not be written, and others, written before, not be put back."""


def _write(rewrites: Sequence[Rewrite]) -> None:
    done: list[Rewrite] = []
    try:
        for rewrite in rewrites:
            write_atomically(rewrite.path, rewrite.after, rewrite.before)
            done.append(rewrite)
    except BaseException as error:
        kept = [f"{rewrite.shown} ({problem})" for rewrite in done if (problem := _put_back(rewrite)) is not None]
        if kept and isinstance(error, (FileChanged, OSError)):
            message = f"{error}; it stays half done, as this could not be put back: {', '.join(kept)}"
            raise _HalfWritten(message) from error
        raise


def _put_back(rewrite: Rewrite) -> Exception | None:
    """Give a file back what it held; what went wrong, or None."""
    try:
        write_atomically(rewrite.path, rewrite.before, rewrite.after)
    except (FileChanged, OSError) as error:
        return error
    return None


def _unfixed(target: Target, message: str) -> FileResult:
    failed = Diagnostic("fix-failed", target.shown, message)
    found = engine.run([target]).results
    result = found[0] if found else FileResult(target.shown)
    return dataclasses.replace(result, diagnostics=(*result.diagnostics, failed))
