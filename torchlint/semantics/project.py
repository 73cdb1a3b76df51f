"""The project's files: which module a name means, parsed when somebody asks for it, and once only."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torchlint.findings import shown_path
from torchlint.semantics import knowledge
from torchlint.semantics.names import forget as forget_names
from torchlint.syntax.limits import ParserLimit, check_limits
from torchlint.syntax.linked import LinkedTree
from torchlint.syntax.outlined import OutlinedTree
from torchlint.syntax.source import Source, SourceError, read_source
from torchlint.syntax.tree import Tree, parse

AnyTree = Tree | LinkedTree

_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", "build", "dist", "venv"})
_MOST_KEPT = 8_000_000  # bytes of source whose outlines are kept
_LARGEST_LINKED = 400_000  # bytes; a larger file is generated, not written


class Project:
    """A folder of Python files that import each other. Trees are shared by all runs over the project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._outlines: dict[Path, LinkedTree | None] = {}
        self._checked: tuple[Path, AnyTree] | None = None  # the file that is checked, as it is looked at now
        self._bytes: dict[Path, bytes] = {}
        self._kept = 0  # characters of the trees that are kept
        self.shared: Any = None  # the SharedBodies of all runs, made by the first
        self.last_machine: Any = None  # whose changes to shared objects are still to be undone
        self._listings: dict[Path, frozenset[str]] = {}
        self._found: dict[tuple[str, Path, int], Path | None] = {}

    # -------------------------------------------------------------------- files

    def tree(self, path: Path) -> AnyTree | None:
        """A file that is linked to: an outline, or the tree of the one that is checked; None if unreadable."""
        if self._checked is not None and self._checked[0] == path:
            return self._checked[1]
        return self.outline(path)

    def outline(self, path: Path) -> LinkedTree | None:
        """A file's outline, whatever is checked: it can be kept when something else is; None if unreadable."""
        if path not in self._outlines:
            self._outlines[path] = None
            try:
                size = path.stat().st_size
                if size <= _LARGEST_LINKED:
                    self._outlines[path] = _outline(read_source(path, shown_path(path, Path.cwd())))
                    self._kept += size
            except (OSError, SourceError):
                pass
        return self._outlines[path]

    def adopt(self, path: Path, source: Source, *, whole: bool) -> Tree:
        """The tree of the source that is checked from now on, whatever is on disk (an editor's text, stdin).

        An outline, or the ``whole`` tree; then, or where there is no outline, this raises what ``parse`` raises.
        """
        linked = None if whole else self._linked(path, source)
        tree = OutlinedTree(linked) if linked is not None else parse(source)
        self._checked = path, tree
        forget_names()
        return tree

    def _linked(self, path: Path, source: Source) -> LinkedTree | None:
        linked = self._outlines.get(path)
        if linked is not None and (linked.source.path, linked.source.text) == (source.path, source.text):
            return linked
        return _outline(source)

    def changed(self, sources: Mapping[Path, Source]) -> Project:
        """A project with other text in some files: what was parsed is known to it, what was run is not."""
        project = Project(self.root)
        project._outlines.update(self._outlines)
        for path, source in sources.items():
            project._outlines[path] = _outline(source)
        return project

    def text(self, path: Path) -> bytes:
        """A file's bytes, kept to search for names in; empty where it is no Python file or cannot be read."""
        if path not in self._bytes:
            try:
                self._bytes[path] = path.read_bytes() if path.suffix == ".py" else b""
            except OSError:
                self._bytes[path] = b""
        return self._bytes[path]

    def make_room(self) -> None:
        """Let go of everything when much is kept: what is asked for again is read again."""
        if self._kept > _MOST_KEPT:
            self._outlines.clear()
            self._bytes.clear()
            self._kept = 0
            self.shared = self.last_machine = None
            forget_names()

    def mentions(self, path: Path, name: str) -> bool:
        """Whether a file's bytes hold the name."""
        return name.encode() in self.text(path)

    def listing(self, folder: Path) -> frozenset[str]:
        found = self._listings.get(folder)
        if found is None:
            try:
                found = frozenset(os.listdir(folder))  # noqa: PTH208  # names are wanted, no paths
            except OSError:
                found = frozenset()
            self._listings[folder] = found
        return found

    @functools.cached_property
    def files(self) -> list[Path]:
        """Every Python file below the root."""
        return sorted(self._walk(self.root))

    def _walk(self, folder: Path) -> Iterator[Path]:
        for here, folders, names in os.walk(folder):
            folders[:] = [f for f in folders if not f.startswith(".") and f not in _SKIPPED]
            for name in names:
                if name.endswith(".py"):
                    yield Path(here, name)

    @functools.cached_property
    def _by_stem(self) -> dict[str, list[Path]]:
        index: dict[str, list[Path]] = {}
        for path in self.files:
            stem = path.parent.name if path.name == "__init__.py" else path.stem
            index.setdefault(stem, []).append(path)
        return index

    # ------------------------------------------------------------------ imports

    def find(self, name: str, importer: Path, level: int = 0) -> Path | None:
        """The file (or package folder) that an import means; None where it lies outside of the project."""
        key = name, importer.parent, level
        if key not in self._found:
            self._found[key] = self._find(name, importer, level)
        return self._found[key]

    def _find(self, name: str, importer: Path, level: int) -> Path | None:
        parts = name.split(".") if name else []
        if level:
            base = importer.parent
            for _ in range(level - 1):
                base = base.parent
            return self.below(base, parts) if parts else self._package(base)
        top = parts[0]
        for base in [importer.parent, *importer.parent.parents]:
            found = self.below(base, parts) if self._holds(base, top) else None
            if found is not None and found != importer:
                return found
            if base == self.root or self.root not in base.parents:
                break
        if top in sys.stdlib_module_names or knowledge.exists(top):
            return None
        for folder in ("src", "lib"):
            if folder in self.listing(self.root):
                found = self.below(self.root / folder, parts)
                if found is not None:
                    return found
        return self._by_suffix(parts)

    def _by_suffix(self, parts: list[str]) -> Path | None:
        """Scripts that edit ``sys.path``: the only file whose path ends so."""
        tail = "/" + "/".join(parts)
        found = [p for p in self._by_stem.get(parts[-1], ())
                 if (p.parent if p.name == "__init__.py" else p.with_suffix("")).as_posix().endswith(tail)]
        return found[0] if len(found) == 1 else None

    def _holds(self, folder: Path, name: str) -> bool:
        listing = self.listing(folder)
        return f"{name}.py" in listing or name in listing

    def below(self, base: Path, parts: list[str]) -> Path | None:
        for part in parts[:-1]:
            base = base / part
        last = parts[-1]
        listing = self.listing(base)
        if last in listing:
            package = self._package(base / last)
            if package is not None and (package.name == "__init__.py" or f"{last}.py" not in listing):
                return package
        return base / f"{last}.py" if f"{last}.py" in listing else None

    def _package(self, folder: Path) -> Path | None:
        listing = self.listing(folder)
        if "__init__.py" in listing:
            return folder / "__init__.py"
        return folder if any(n.endswith(".py") for n in listing) else None


def _outline(source: Source) -> LinkedTree | None:
    try:
        check_limits(source)  # what is beyond the parser is also too deep to be followed
        return LinkedTree(source)
    except (ParserLimit, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
