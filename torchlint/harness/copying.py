"""Copies a user's tree: what may be fixed or is small is copied, everything else is linked, nothing is followed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox"})
_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
"""What a folder has in it that is an environment: its programs and libraries stay where they were installed."""

_FIXED = (".py", ".pyw", ".pyi", ".ipynb")
_LARGEST_TEXT = 1 << 18
"""Bytes. Configurations are smaller; a larger text is data, and linked as images are."""


@dataclass(slots=True)
class Copied:
    """What came of a copy: bytes that were copied, files that were linked, and environments (below the root)."""

    size: int = 0
    linked: int = 0
    environments: list[str] = field(default_factory=list)


def copy_tree(source: Path, target: Path) -> Copied:
    """Copy the folder ``source`` (resolved) to ``target``, which may lie below it. OSError where it cannot be read.

    A link that stays within the tree becomes the same link within the copy. The temporary folder is left empty.
    """
    copied = Copied()
    _copy(source, target, source, copied)
    return copied


def _copy(here: Path, there: Path, root: Path, copied: Copied) -> None:
    there.mkdir(parents=True, exist_ok=True)
    for entry in _listed(here):
        path, new = Path(entry.path), there / entry.name
        if entry.is_symlink() and (inner := _inner_link(path, root)) is not None:
            new.symlink_to(inner)
        elif _is_folder(entry):
            _folder(path, new, root, copied)
        elif _is_copied(path):
            shutil.copy2(path, new)
            copied.size += new.stat().st_size
        elif entry.is_symlink() or entry.is_file():  # not a socket or a pipe
            new.symlink_to(_one_step(path))
            copied.linked += 1


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return [entry for entry in entries if entry.name not in _LEFT_OUT]


def _folder(path: Path, new: Path, root: Path, copied: Copied) -> None:
    if path == _temporary():
        new.mkdir()
    elif new.is_relative_to(path):
        pass  # the copy is made in here
    elif _is_environment(path):
        new.symlink_to(_one_step(path))
        copied.environments.append(path.relative_to(root).as_posix())
    elif path.is_symlink() or not os.access(path, os.R_OK | os.X_OK):
        new.symlink_to(_one_step(path))
    else:
        _copy(path, new, root, copied)


def _inner_link(link: Path, root: Path) -> str | None:
    """A link's target, as seen from the link, if it is in the tree and will be in the copy."""
    target = _one_step(link)
    if not target.is_relative_to(root) or _LEFT_OUT.intersection(target.relative_to(root).parts):
        return None
    if not Path(os.path.realpath(link)).is_relative_to(root) and _is_copied(link):
        return None  # source that is reached through a link to a folder elsewhere: a fix must not be written there
    return os.path.relpath(target, link.parent)


def _one_step(path: Path) -> Path:
    """Where a link leads, if only to another link: an environment's Python is one, and not the Python behind it."""
    return Path(os.path.normpath(path.parent / path.readlink())) if path.is_symlink() else path


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _is_environment(folder: Path) -> bool:
    return folder.name == "node_modules" or any((folder / mark).exists() for mark in _ENVIRONMENTS)


def _temporary() -> Path:
    return Path(tempfile.gettempdir()).resolve()


def _is_copied(path: Path) -> bool:
    """Whether a file is source, or a text short enough to be a configuration."""
    try:
        if not path.is_file():
            return False
        if path.suffix in _FIXED:
            return True
        if path.stat().st_size > _LARGEST_TEXT:
            return False
        with path.open("rb") as file:
            return b"\0" not in file.read(1024)
    except OSError:  # not ours to read, or a link that leads to itself
        return False


State = dict[str, tuple[int, int]]


def state(root: Path) -> State:
    """Time of change (nanoseconds) and size (bytes) of every file of a tree that is copied or linked by itself."""
    return dict(_states(root.resolve(), root.resolve()))


def _states(folder: Path, root: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    for entry in _listed(folder):
        path = Path(entry.path)
        if not _is_folder(entry):
            with contextlib.suppress(OSError):  # just removed, or a link to nothing
                found = path.stat()
                yield path.relative_to(root).as_posix(), (found.st_mtime_ns, found.st_size)
        elif not entry.is_symlink() and not _is_environment(path) and path != _temporary():
            with contextlib.suppress(OSError):  # not ours to read
                yield from _states(path, root)


def changed(before: State, after: State) -> list[str]:
    """The files that were changed, made or removed from one state to the next."""
    return sorted(file for file in before.keys() | after.keys() if before.get(file) != after.get(file))
