"""A project's files as they lie on disk, and the facts about them that answers rest on.

Whatever the interpreter learns of a project beyond the text that it checks is the answer to one of a
few small questions, and is noted with who asked: then a later run can ask the same again, and need
not interpret anything where the answers have not changed. That something is *not* there is an
answer too.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import re
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

Fact = tuple[str, ...]
"""A question: its kind, and what it is about.

- ``content``, a path: the digest of what lies there
- ``entry``, a folder and a name: whether it lies in that folder
- ``modules``, a folder: whether Python files lie in it
- ``stem``, a word: the project's files of that module name
- ``search``, a word, a pattern and a number: the first files of the project that hold a match of the
  pattern, which is a call or a definition of the word; at most that many, and one more
"""

Answer = str | bool | list[str] | None
"""None: there were several answers, because somebody changed the files meanwhile."""

Notes = dict[str, dict[Fact, Answer]]
"""The facts that each asker rests on: a module, by its path, or the check of a file."""

Searches = dict[Fact, list[str]]
"""What searches find."""

ABSENT = ""
"""The digest of what is not there, or cannot be read."""

FOLDER = "folder"
"""What stands for a digest where a folder lies."""

_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", "build", "dist", "venv"})
_MOST_BYTES = 64_000_000
"""Of files that are kept to be searched for each word. In a larger project all calls are looked up in an index."""

_CALL = re.compile(rb"\w+(?=\s*\()")


class Files:
    """The files below a root, each looked at once. What each asker came to rest on is noted, to be taken."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._noted: Notes = {}
        self._taken: Notes = {}
        self._listings: dict[Path, frozenset[str]] = {}
        self._bytes: dict[str, bytes] = {}
        self._kept = 0
        self._found: Searches = {}

    # ---------------------------------------------------------------- questions

    def has_entry(self, folder: Path, name: str, asker: str) -> bool:
        """Whether a folder holds something of that name."""
        found = name in self.listing(folder)
        self.note(asker, ("entry", str(folder), name), found)
        return found

    def has_modules(self, folder: Path, asker: str) -> bool:
        """Whether a folder holds Python files."""
        found = any(name.endswith(".py") for name in self.listing(folder))
        self.note(asker, ("modules", str(folder)), found)
        return found

    def of_stem(self, stem: str, asker: str) -> list[Path]:
        """The project's files that a module of that name may lie in."""
        found = self._by_stem.get(stem, [])
        self.note(asker, ("stem", stem), [str(path) for path in found])
        return found

    def calling(self, word: str, pattern: re.Pattern[bytes], most: int, asker: str) -> list[Path]:
        """The first files of the project in which the pattern matches, at most ``most`` and one more.

        A match must hold a call or a definition of the word: ``word(``.
        """
        fact = "search", word, pattern.pattern.decode(), str(most)
        if fact not in self._found:
            found = (name for name in self._with_calls_of(word) if holds(self._read(name), word, pattern))
            self._found[fact] = list(itertools.islice(found, most + 1))
        self.note(asker, fact, self._found[fact])
        return [Path(name) for name in self._found[fact]]

    def know(self, searches: Searches) -> None:
        """Take over what searches find, from one who knows the files as they are."""
        self._found.update(searches)

    def _with_calls_of(self, word: str) -> Iterable[str]:
        """The files that may call something of that name, and some more, in order."""
        if not self._is_large or not word.isascii():
            return self.names
        return (self.names[number] for number in self._calls.get(word.encode(), ()))

    @functools.cached_property
    def _is_large(self) -> bool:
        """Whether not all of the files can be kept."""
        for name in self.names:
            self._read(name)
            if self._kept + _MOST_BYTES // 16 > _MOST_BYTES:
                self.forget_bytes()
                return True
        return False

    @functools.cached_property
    def _calls(self) -> dict[bytes, array[int]]:
        """For each word that is called or defined, the numbers of the files that do so."""
        found: dict[bytes, array[int]] = {}
        for number, name in enumerate(self.names):
            for word in {*_CALL.findall(_bytes_of(name))}:
                known = found.get(word)
                if known is None:
                    known = found[word] = array("I")
                known.append(number)
        return found

    def note(self, asker: str, fact: Fact, answer: Answer) -> None:
        """Remember that what an asker comes to rests on this answer."""
        taken = self._taken.get(asker)
        if taken is None or fact not in taken or taken[fact] != answer:
            add_note(self._noted, asker, fact, answer)

    def take_notes(self) -> Notes:
        """What was noted since this was asked last."""
        notes, self._noted = self._noted, {}
        for asker, facts in notes.items():
            self._taken.setdefault(asker, {}).update(facts)
        return notes

    # --------------------------------------------------------------------- disk

    def listing(self, folder: Path) -> frozenset[str]:
        """The names in a folder; none where it cannot be read."""
        found = self._listings.get(folder)
        if found is None:
            try:
                found = frozenset(os.listdir(folder))  # noqa: PTH208  # names are wanted, no paths
            except OSError:
                found = frozenset()
            self._listings[folder] = found
        return found

    def read(self, path: Path) -> bytes:
        """A file's bytes, kept as far as there is room; none where it cannot be read."""
        return self._read(str(path))

    def _read(self, name: str) -> bytes:
        found = self._bytes.get(name)
        if found is None:
            found = _bytes_of(name)
            if self._kept + len(found) <= _MOST_BYTES:
                self._bytes[name] = found
                self._kept += len(found)
        return found

    def digest(self, path: Path) -> str:
        """What tells the contents of a path apart."""
        try:
            return digest_of(path.read_bytes())
        except OSError:
            return FOLDER if path.is_dir() else ABSENT

    def forget_bytes(self) -> None:
        """Let go of what was read, to free memory."""
        self._bytes.clear()
        self._kept = 0

    @functools.cached_property
    def names(self) -> list[str]:
        """The path of every Python file below the root, those of a folder together."""
        return sorted(self._walk(), key=order)

    def _walk(self) -> Iterator[str]:
        for here, folders, names in os.walk(self.root):
            folders[:] = [f for f in folders if not f.startswith(".") and f not in _SKIPPED]
            for name in names:
                if name.endswith(".py"):
                    yield f"{here}{os.sep}{name}"

    @functools.cached_property
    def _by_stem(self) -> dict[str, list[Path]]:
        index: dict[str, list[Path]] = {}
        for name in self.names:
            *_, above, last = order(name)
            index.setdefault(above if last == "__init__.py" else last.removesuffix(".py"), []).append(Path(name))
        return index


def _bytes_of(name: str) -> bytes:
    try:
        with open(name, "rb") as file:  # noqa: PTH123  # of thousands: a Path for each takes longer than the rest
            return file.read()
    except OSError:
        return b""


def order(path: str) -> list[str]:
    """What paths are sorted by."""
    return path.split(os.sep)  # noqa: PTH206  # a Path takes ten times as long


def holds(data: bytes, word: str, pattern: re.Pattern[bytes]) -> bool:
    """Whether the pattern matches in these bytes; where the word is missing it cannot."""
    return word.encode() in data and pattern.search(data) is not None


def add_note(notes: Notes, asker: str, fact: Fact, answer: Answer) -> None:
    """Add a fact; one with another answer than before has none that holds."""
    facts = notes.get(asker)
    if facts is None:
        facts = notes[asker] = {}
    facts[fact] = answer if facts.setdefault(fact, answer) == answer else None


def check_of(path: Path) -> str:
    """Who asks what the check of a file asks: not the module, which others import."""
    return f"check {path}"


def content_of(path: Path) -> Fact:
    """The question what a file holds."""
    return "content", str(path)


def digest_of(data: bytes) -> str:
    """What tells contents apart."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()
