"""Keeps a program in the copy of its tree: it imports from there, and what it writes stays there.

Runs in the user's process, whatever Python that is: the standard library only.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any

_SQLITE = ("", "-wal", "-shm", "-journal")

_CHANGES = frozenset({"os.truncate", "os.chmod", "os.chown", "os.utime", "shutil.rmtree"})
"""Events whose first argument is changed where it is, whatever a link on the way to it leads to."""

_MAKES = {"os.mkdir": (0,), "os.remove": (0,), "os.rmdir": (0,), "os.rename": (0, 1), "os.link": (1,),
          "os.symlink": (1,)}
"""Events that change only the folder around the arguments of these numbers."""


def keep_in(root: str, names: Sequence[str]) -> None:
    """Let this process import from the copy what it would import from the original, and write there.

    ``root`` is the copy's real path, ``names`` are the paths that lead to the original.
    """
    counterparts = _Counterparts(root + os.sep, tuple(name + os.sep for name in names))
    counterparts.put_in_place()
    sys.meta_path.insert(0, counterparts)
    sys.addaudithook(functools.partial(_audit, root))


class _Counterparts(importlib.abc.MetaPathFinder):
    """Replaces folders of the original tree by the copy's, in place, wherever Python looks for modules.

    A finder, since programs and packages add to ``sys.path`` as they go. It finds nothing itself.
    """

    def __init__(self, inside: str, originals: tuple[str, ...]) -> None:
        self._inside = inside
        self._originals = originals

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        self.put_in_place()
        return None

    def put_in_place(self) -> None:
        """Replace what is there now."""
        self._move(sys.path)
        for finder in sys.meta_path:
            # setuptools keeps the folders of an editable install beside its finder, scikit-build-core in it.
            module = sys.modules.get(getattr(finder, "__module__", ""))
            for kept in (getattr(module, "MAPPING", None), getattr(module, "NAMESPACES", None),
                         getattr(finder, "known_source_files", None)):
                if isinstance(kept, dict):
                    self._move_values(kept)

    def _move_values(self, mapping: dict[Any, Any]) -> None:
        for name, value in mapping.items():
            if isinstance(value, str):
                mapping[name] = self._counterpart(value)
            elif isinstance(value, list):
                self._move(value)

    def _move(self, paths: list[Any]) -> None:
        for number, path in enumerate(paths):
            if isinstance(path, str):
                paths[number] = self._counterpart(path)

    def _counterpart(self, path: str) -> str:
        """The same place in the copy, if it has that itself: what is linked, an environment above all, stays."""
        original = next((name for name in self._originals if f"{path}{os.sep}".startswith(name)), None)
        if original is None:
            return path
        moved = os.path.normpath(self._inside + path[len(original):])
        is_own = os.path.exists(moved) and f"{os.path.realpath(moved)}{os.sep}".startswith(self._inside)
        return moved if is_own else path


def _audit(root: str, event: str, args: Any) -> None:
    """Before Python writes where a link leads out of the copy, give the copy a file or folder of its own."""
    if event == "open":
        mode, flags = args[1], args[2] or 0
        writes = any(c in mode for c in "wax+") if isinstance(mode, str) else flags & (os.O_WRONLY | os.O_RDWR)
        if writes:
            own(root, args[0], keeps="w" not in mode if isinstance(mode, str) else not flags & os.O_TRUNC)
    elif event == "sqlite3.connect":
        for suffix in _SQLITE:
            own(root, _database(args[0]) + suffix)
    elif event in _CHANGES:
        own(root, args[0])
    elif event in _MAKES:
        for number in _MAKES[event]:
            own_folder(root, args[number])


def _database(name: Any) -> str:
    """The file of a database, which may be named by a URI (file:data.db?mode=rw)."""
    path = os.fsdecode(name) if isinstance(name, (str, bytes, os.PathLike)) else ""
    return path[len("file:"):].partition("?")[0] if path.startswith("file:") else path


def own(root: str, path: Any, *, keeps: bool = True) -> None:
    """Make a path in the copy the copy's own: a file that is linked becomes a file, empty unless it is to be kept."""
    own_folder(root, path)
    with contextlib.suppress(OSError, TypeError):  # a file descriptor, a device: nothing of ours
        link = os.path.abspath(os.fsdecode(path))
        if os.path.islink(link) and link.startswith(root + os.sep):
            _own_link(root, link, keeps)


def own_folder(root: str, path: Any) -> None:
    """Turn every linked folder on the way to a path in the copy into a folder of links."""
    with contextlib.suppress(OSError, TypeError):
        absolute = os.path.abspath(os.fsdecode(path))
        here = root
        if absolute.startswith(root + os.sep):
            for part in absolute[len(root) + 1:].split(os.sep)[:-1]:
                here = os.path.join(here, part)
                if os.path.islink(here):
                    _own_link(root, here, keeps=True)


def _own_link(root: str, link: str, keeps: bool) -> None:
    inner = os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))
    content = os.path.realpath(link)
    if inner.startswith(root + os.sep):
        if os.path.exists(content):  # else it leads to itself, or to what is yet to be made
            own(root, inner, keeps=keeps)
        return
    new = f"{link}.{os.getpid()}.torchlint"
    if os.path.isdir(content):
        os.mkdir(new)
        for name in os.listdir(content):
            os.symlink(os.path.join(content, name), os.path.join(new, name))
        os.unlink(link)
        os.rename(new, link)
    elif keeps and os.path.exists(content):
        shutil.copyfile(content, new)
        shutil.copymode(content, new)
        os.replace(new, link)
    else:
        os.unlink(link)
