"""Results of earlier runs, taken again where nothing that they rest on has changed.

A store holds, for one project, the results of its files, the facts that these rest on (see
:mod:`torchlint.files`) with their answers, and what told the files apart when they were last read.
A run asks all the facts again. Who rests on an answer that has changed, itself or through the files
that it read, is forgotten, and its files are checked anew.

A file whose size, times and inode are as they were is not read again; one that was changed shortly
before it was read is, for the clock of a file system may be too coarse to tell. Stores are replaced
as a whole: a run that is killed, or another at the same time, leaves a store that holds, if not the
newest. One that cannot be read is no store, and one that cannot be written is not missed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import re
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchlint import __version__
from torchlint.cache.folder import prepare, replace
from torchlint.cache.results import decoded, encoded, is_lasting
from torchlint.checking import FileResult, Task
from torchlint.config import Settings, TorchVersion
from torchlint.discovery import Target
from torchlint.files import (
    ABSENT,
    FOLDER,
    Answer,
    Fact,
    Files,
    Notes,
    Searches,
    add_note,
    check_of,
    digest_of,
    holds,
    order,
)

_MOST_KEYS = 4  # configurations whose results are kept
_SETTLED = 2.0
"""Seconds after which another change of a file would show in its times, on any file system."""

Stat = list[int]
"""Size, times of change in nanoseconds, and inode: what is the same where a file is."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A file as it was read once: whether it names torch at all, so that it can have findings."""

    stat: Stat
    digest: str
    names_torch: bool


class Cache:
    """The stores that a run uses, one for each project and place that settings name."""

    def __init__(self) -> None:
        self._stores: dict[tuple[Path, Path], Store] = {}
        self._by_settings: dict[tuple[int, Path], Store] = {}
        self._keys: dict[tuple[int, TorchVersion | None], str] = {}
        self._began = time.time()

    def of(self, target: Target) -> Store:
        """The store for a file that is to be checked."""
        return self._store(target.settings, target.root)

    def keep(self, task: Task, settings: Settings, result: FileResult) -> None:
        """Keep what came of a task."""
        self._store(settings, task.root).keep(task.path, self.key(settings, task.target_torch), result)

    def _store(self, settings: Settings, root: Path) -> Store:
        known = self._by_settings.get((id(settings), root))
        if known is None:
            known = self._by_settings[id(settings), root] = self._opened(settings, root)
        return known

    def _opened(self, settings: Settings, root: Path) -> Store:
        place = settings.cache_folder, root
        if place not in self._stores:
            name = hashlib.blake2b(os.fsencode(root), digest_size=8).hexdigest()
            self._stores[place] = Store(settings.cache_folder / __version__ / f"{name}.json", root, self._began)
        return self._stores[place]

    def key(self, settings: Settings, target_torch: TorchVersion | None) -> str:
        """What tells apart the runs that may come to different results of the same files."""
        index = id(settings), target_torch
        if index not in self._keys:
            values = json.dumps([_plain(settings), target_torch, str(Path.cwd())], sort_keys=True, default=str)
            self._keys[index] = digest_of(values.encode("utf-8", "surrogatepass"))
        return self._keys[index]

    def searches(self) -> dict[Path, Searches]:
        """What is known of searches, by the root of the project."""
        return {root: store.searches() for (_, root), store in self._stores.items()}

    def save(self) -> None:
        """Write the stores in which something is new."""
        for store in self._stores.values():
            store.save()


def _plain(settings: Settings) -> dict[str, Any]:
    """What of the settings a result may depend on."""
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    for name in ("file", "output_format", "unsafe_fixes", "cache_dir", "given"):
        del values[name]
    values["per_file_ignores"], values["rules"] = dict(settings.per_file_ignores), {
        slug: dict(options) for slug, options in settings.rules.items()}
    return values


class Store:
    """What is known of one project. ``began`` is when the run did, in seconds since the epoch."""

    def __init__(self, path: Path, root: Path, began: float) -> None:
        self._path = path
        self._files = Files(root)
        self._began = began
        self._seen: dict[str, _Seen] = {}
        self._now: dict[str, _Seen | None] = {}  # as they are in this run; None: no file
        self._notes: Notes = {}
        self._results: dict[str, dict[str, Any]] = {}  # by key, then by path
        self._used: list[str] = []  # keys, those of this run last
        self._searches: Searches = {}
        self._changed = False
        self._searched = False
        self._load()

    # ------------------------------------------------------------------- asking

    def names_torch(self, path: Path) -> bool:
        """Whether a file names torch. Raises OSError where it cannot be read."""
        seen = self._look(str(path))
        if seen is None:
            path.read_bytes()  # says why
            return True  # it can be read now
        return seen.names_torch

    def result(self, path: Path, shown: str, key: str) -> FileResult | None:
        """What an earlier run came to; None where there was none, or where it need not hold any more."""
        self._use(key)
        found = self._results[key].get(str(path))
        return None if found is None else decoded(shown, found)

    def keep(self, path: Path, key: str, result: FileResult) -> None:
        """Keep a result; one that may come out otherwise, or that tells of files with other settings, is not."""
        for asker, facts in result.notes.items():
            for fact, answer in facts.items():
                add_note(self._notes, asker, fact, answer)
                self._searched |= fact[0] == "search"
        self._use(key)
        if is_lasting(result):
            self._results[key][str(path)] = encoded(result)
        self._changed = True

    def keep_nothing_found(self, path: Path, shown: str, key: str) -> None:
        """Keep that no rule can report in a file that was read."""
        seen = self._look(str(path))
        if seen is not None:
            notes: Notes = {check_of(path): {("content", str(path)): seen.digest}}
            self.keep(path, key, FileResult(shown, notes=notes))

    def searches(self) -> Searches:
        """The searches that still find what they found, also those of files that are checked anew."""
        return self._searches

    def _use(self, key: str) -> None:
        if key not in self._results:
            self._results[key] = {}
        if self._used[-1:] != [key]:
            self._used = [*(other for other in self._used if other != key), key]

    # -------------------------------------------------------------------- files

    def _look(self, path: str) -> _Seen | None:
        """A file as it is; read only where its times or size say that it may be another."""
        if path not in self._now:
            self._now[path] = self._looked_at(path, self._seen.get(path))
        return self._now[path]

    def _looked_at(self, path: str, before: _Seen | None) -> _Seen | None:
        try:
            stat = _stat(path)
            if before is not None and before.stat == stat:
                return before
            with open(path, "rb") as file:  # noqa: PTH123  # of thousands: a Path for each takes longer than the rest
                data = file.read()
        except OSError:
            return None
        self._changed = True
        return _Seen(stat, digest_of(data), b"torch" in data)

    def _digest(self, path: str) -> str:
        seen = self._look(path)
        if seen is not None:
            return seen.digest
        return FOLDER if os.path.isdir(path) else ABSENT  # noqa: PTH112

    def _is_settled(self, stat: Stat) -> bool:
        return max(stat[1], stat[2]) / 1e9 < self._began - _SETTLED

    # -------------------------------------------------------------------- facts

    def _forget_what_changed(self) -> None:
        answers: dict[Fact, Answer] = {}
        for facts in self._notes.values():
            for fact, answer in facts.items():
                add = answers.setdefault(fact, answer)
                if add != answer:
                    answers[fact] = None
        wrong = {fact for fact, answer in answers.items() if answer is None or not self._holds(fact, answer)}
        self._searches = {fact: answer for fact, answer in answers.items()
                          if fact[0] == "search" and fact not in wrong and isinstance(answer, list)}
        stale = {asker for asker, facts in self._notes.items() if not wrong.isdisjoint(facts)}
        if not stale:
            return
        self._changed = True
        lost = self._resting_on(stale)
        for results in self._results.values():
            for path in [path for path in results if check_of(Path(path)) in lost]:
                del results[path]
        for asker in [asker for asker in self._notes if asker in stale or (asker in lost and _is_check(asker))]:
            del self._notes[asker]

    def _resting_on(self, stale: Iterable[str]) -> set[str]:
        """These askers, and all who read a file that one of them is."""
        readers: dict[str, list[str]] = {}
        for asker, facts in self._notes.items():
            for fact in facts:
                if fact[0] == "content":
                    readers.setdefault(fact[1], []).append(asker)
        lost = set(stale)
        waiting = deque(lost)
        while waiting:
            for reader in readers.get(waiting.popleft(), ()):
                if reader not in lost:
                    lost.add(reader)
                    waiting.append(reader)
        return lost

    def _holds(self, fact: Fact, answer: Answer) -> bool:
        kind, *about = fact
        if kind == "content":
            return self._digest(about[0]) == answer
        if kind == "search":
            return self._finds(about[0], re.compile(about[1].encode()), int(about[2]), answer)
        if kind == "entry":
            return self._files.has_entry(Path(about[0]), about[1], "") is answer
        if kind == "modules":
            return self._files.has_modules(Path(about[0]), "") is answer
        return [str(path) for path in self._files.of_stem(about[0], "")] == answer

    def _finds(self, word: str, pattern: re.Pattern[bytes], most: int, answer: Answer) -> bool:
        """Whether a search finds what it found: only files that have changed since are searched."""
        found = answer if isinstance(answer, list) else []
        if not self._names.issuperset(found):
            return False
        last = found[-1] if len(found) > most else None  # the search ended there
        were = set(found)
        for path in self._changed_files:
            if (last is None or order(path) <= order(last)) \
                    and holds(self._files.read(Path(path)), word, pattern) is not (path in were):
                return False
        return True

    @functools.cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self._files.names)

    @functools.cached_property
    def _changed_files(self) -> list[str]:
        """The project's files that are new, or not as they were read last."""
        before = self._seen
        return [path for path in self._files.names
                if (seen := before.get(path)) is None or self._digest(path) != seen.digest]

    # --------------------------------------------------------------------- disk

    def _load(self) -> None:
        try:
            head, _, body = self._path.read_bytes().partition(b"\n")
            if head.decode() != _head(body):
                return
            held = json.loads(body)
            self._seen = {path: _Seen(*seen) for path, seen in held["files"].items()}
            facts = [(tuple(fact), answer) for fact, answer in held["facts"]]
            self._notes = {asker: dict(facts[number] for number in numbers) for asker, numbers in held["notes"].items()}
            self._results = held["results"]
            self._used = list(held["results"])
        except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            self._seen, self._notes, self._results, self._used = {}, {}, {}, []
            return
        self._forget_what_changed()

    def save(self) -> None:
        """Write the store, if there is something new; where that cannot be done, nothing is lost but time."""
        if not self._changed:
            return
        self._look_at_all_searched()
        self._used = self._used[-_MOST_KEYS:]
        results = {key: self._results[key] for key in self._used}
        body = json.dumps({"files": self._files_to_keep(), **self._facts_to_keep(), "results": results},
                          ensure_ascii=True, separators=(",", ":")).encode()
        with contextlib.suppress(OSError):
            prepare(self._path.parent.parent)
            self._path.parent.mkdir(exist_ok=True)
            replace(self._path, f"{_head(body)}\n".encode() + body)

    def _look_at_all_searched(self) -> None:
        """Know every file of the project, so that the next run has to search none that is the same."""
        if any(fact[0] == "search" for facts in self._notes.values() for fact in facts):
            for path in self._files.names:
                self._look(path)

    def _files_to_keep(self) -> dict[str, Any]:
        """The files that no search saw otherwise than they were read: those that stayed as they are."""
        now = {**{path: seen for path, seen in self._seen.items() if path not in self._now}, **self._now}
        kept = {}
        for path, seen in now.items():
            if seen is None or not self._is_settled(seen.stat) or (self._searched and not _is_still(path, seen)):
                continue
            kept[path] = [seen.stat, seen.digest, seen.names_torch]
        return kept

    def _facts_to_keep(self) -> dict[str, Any]:
        numbers: dict[tuple[Fact, str], int] = {}
        facts: list[Any] = []
        notes: dict[str, list[int]] = {}
        for asker, noted in self._notes.items():
            for fact, answer in noted.items():
                known = fact, repr(answer)
                if known not in numbers:
                    numbers[known] = len(facts)
                    facts.append([fact, answer])
                notes.setdefault(asker, []).append(numbers[known])
        return {"facts": facts, "notes": notes}


def _is_check(asker: str) -> bool:
    return asker.startswith("check ")


def _is_still(path: str, seen: _Seen) -> bool:
    try:
        return _stat(path) == seen.stat
    except OSError:
        return False


def _stat(path: str) -> Stat:
    found = os.stat(path)  # noqa: PTH116
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _head(body: bytes) -> str:
    """The first line of a store: what made it, and a checksum."""
    return f"torchlint {_maker()} {digest_of(body)}"


@functools.cache
def _maker() -> str:
    """What results depend on beside the files: torchlint itself (a checkout changes), its parsers, and Python."""
    own = Path(__file__).parents[1]
    places = [*own.rglob("*.py"), *own.rglob("*.json*")]
    times = [(str(path.relative_to(own)), path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(places)]
    parsers = [path.stat().st_mtime_ns for name in ("libcst",) for path in _package(name)]
    return digest_of(json.dumps([__version__, sys.version, times, parsers]).encode())


def _package(name: str) -> Iterator[Path]:
    from importlib.util import find_spec

    spec = find_spec(name)
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin)
