"""The project's files: which module a name means, parsed when somebody asks for it, and once only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchlint.files import ABSENT, FOLDER, Files, check_of, content_of, digest_of
from torchlint.findings import shown_path
from torchlint.semantics import knowledge
from torchlint.semantics.names import forget as forget_names
from torchlint.syntax.limits import ParserLimit, check_limits
from torchlint.syntax.linked import LinkedTree
from torchlint.syntax.outlined import OutlinedTree
from torchlint.syntax.source import Source, SourceError, source_from_bytes
from torchlint.syntax.tree import Tree, parse

AnyTree = Tree | LinkedTree

_MOST_KEPT = 8_000_000  # bytes of source whose outlines are kept
_LARGEST_LINKED = 400_000  # bytes; a larger file is generated, not written


class Project:
    """A folder of Python files that import each other. Trees are shared by all runs over the project."""

    def __init__(self, root: Path, working_folder: Path) -> None:
        self.root = root
        self._working_folder = working_folder  # what names in reports are relative to
        self.files = Files(root)
        self._outlines: dict[Path, LinkedTree | None] = {}
        self._checked: tuple[Path, AnyTree] | None = None  # the file that is checked, as it is looked at now
        self._digests: dict[Path, str] = {}
        self._kept = 0  # characters of the trees that are kept
        self.shared: Any = None  # the SharedBodies of all runs, made by the first
        self.last_machine: Any = None  # whose changes to shared objects are still to be undone
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
            data = self.files.read(path)
            digest = self._digests[path] = digest_of(data) if data else self.files.digest(path)
            if digest not in (ABSENT, FOLDER) and len(data) <= _LARGEST_LINKED:
                with contextlib.suppress(SourceError):
                    self._outlines[path] = _outline(source_from_bytes(data, shown_path(path, self._working_folder)))
                    self._kept += len(data)
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
        project = Project(self.root, self._working_folder)
        project._outlines.update(self._outlines)
        for path, source in sources.items():
            project._outlines[path] = _outline(source)
        return project

    def digest(self, path: Path) -> str:
        """What tells the contents of a file that is linked to apart."""
        if self._checked is not None and self._checked[0] == path:
            return digest_of(self._checked[1].source.data)
        if path not in self._digests:
            self._digests[path] = self.files.digest(path)
        return self._digests[path]

    @property
    def asker(self) -> str:
        """Who asks what no module asks: the check of a file."""
        return check_of(self._checked[0]) if self._checked is not None else ""

    def rests_on(self, path: Path, asker: str) -> None:
        """Note that what an asker comes to rests on the contents of a file."""
        self.files.note(asker, content_of(path), self.digest(path))

    def make_room(self) -> None:
        """Let go of everything when much is kept: what is asked for again is read again."""
        if self._kept > _MOST_KEPT:
            self._outlines.clear()
            self.files.forget_bytes()
            self._kept = 0
            self.shared = self.last_machine = None
            forget_names()

    # ------------------------------------------------------------------ imports

    def find(self, name: str, importer: Path, level: int = 0) -> Path | None:
        """The file (or package folder) that an import means; None where it lies outside of the project."""
        key = name, importer, level
        if key not in self._found:
            self._found[key] = self._find(name, importer, level)
        return self._found[key]

    def _find(self, name: str, importer: Path, level: int) -> Path | None:
        asker = str(importer)
        parts = name.split(".") if name else []
        if level:
            base = importer.parent
            for _ in range(level - 1):
                base = base.parent
            return self.below(base, parts, asker) if parts else self._package(base, asker)
        top = parts[0]
        for base in [importer.parent, *importer.parent.parents]:
            found = self.below(base, parts, asker) if self._holds(base, top, asker) else None
            if found is not None and found != importer:
                return found
            if base == self.root or self.root not in base.parents:
                break
        if top in sys.stdlib_module_names or knowledge.exists(top):
            return None
        for folder in ("src", "lib"):
            if self.files.has_entry(self.root, folder, asker):
                found = self.below(self.root / folder, parts, asker)
                if found is not None:
                    return found
        return self._by_suffix(parts, asker)

    def _by_suffix(self, parts: list[str], asker: str) -> Path | None:
        """Scripts that edit ``sys.path``: the only file whose path ends so."""
        tail = "/" + "/".join(parts)
        found = [p for p in self.files.of_stem(parts[-1], asker)
                 if (p.parent if p.name == "__init__.py" else p.with_suffix("")).as_posix().endswith(tail)]
        return found[0] if len(found) == 1 else None

    def _holds(self, folder: Path, name: str, asker: str) -> bool:
        return self.files.has_entry(folder, f"{name}.py", asker) or self.files.has_entry(folder, name, asker)

    def below(self, base: Path, parts: list[str], asker: str) -> Path | None:
        """The file or package folder of a module's dotted name below a folder."""
        for part in parts[:-1]:
            base = base / part
        last = parts[-1]
        has_file = self.files.has_entry(base, f"{last}.py", asker)
        if self.files.has_entry(base, last, asker):
            package = self._package(base / last, asker)
            if package is not None and (package.name == "__init__.py" or not has_file):
                return package
        return base / f"{last}.py" if has_file else None

    def _package(self, folder: Path, asker: str) -> Path | None:
        if self.files.has_entry(folder, "__init__.py", asker):
            return folder / "__init__.py"
        return folder if self.files.has_modules(folder, asker) else None


def _outline(source: Source) -> LinkedTree | None:
    try:
        check_limits(source)  # what is beyond the parser is also too deep to be followed
        return LinkedTree(source)
    except (ParserLimit, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
