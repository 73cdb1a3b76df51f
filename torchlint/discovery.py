"""From the paths on the command line to the files to check."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from torchlint.config import DEFAULT_INCLUDE, Configuration, Settings
from torchlint.findings import Diagnostic, shown_path

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_ROOT_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", "torchlint.toml", ".torchlint.toml")
_WORK_TREES = (".git", ".hg")


@dataclass(frozen=True, slots=True)
class Target:
    """A file to check: where it lies, how reports name it, its settings and its project's root.

    ``configuration`` is what found the settings, and finds those of other files.
    """

    path: Path
    shown: str
    settings: Settings
    root: Path
    configuration: Configuration | None = None


@dataclass
class Discovery:
    """The files, in the order of their names, and what could not be looked at."""

    targets: list[Target] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)


def discover(paths: Iterable[str], configuration: Configuration, working_folder: Path | None = None) -> Discovery:
    """Every file to check below the given files and folders.

    A file named by hand is checked whatever it is called and whatever excludes it, unless
    ``force-exclude`` is on. Folders are walked without following links to other folders. ConfigError
    where a configuration on the way is wrong.
    """
    return _Finder(configuration, working_folder if working_folder is not None else Path.cwd()).run(paths)


def stdin_target(shown: str | None, configuration: Configuration, working_folder: Path | None = None) -> Target | None:
    """What stands for standard input; None where ``force-exclude`` excludes the name given for it."""
    folder = working_folder if working_folder is not None else Path.cwd()
    path = _absolute(shown if shown is not None else "<stdin>", folder)
    finder = _Finder(configuration, folder)
    settings = configuration.for_folder(path.parent)
    if shown is not None and settings.force_exclude and finder.is_excluded(path, settings):
        return None
    name = shown_path(path, folder) if shown is not None else "<stdin>"
    return Target(path, name, settings, finder.project_root(path.parent, path.parent), configuration)


def project_root(folder: Path) -> Path:
    """The folder whose files belong together with those of an absolute folder that is named by hand."""
    return _Finder(Configuration(), Path.cwd()).project_root(folder, folder)


def is_excluded(path: Path, settings: Settings) -> bool:
    """Whether a file is left alone unless it is named by hand: its settings exclude it, or a gitignore does."""
    return _Finder(Configuration(), Path.cwd()).leaves_alone(path, settings)


class _Finder:
    def __init__(self, configuration: Configuration, working_folder: Path) -> None:
        self._configuration = configuration
        self._working_folder = working_folder
        self._found: dict[Path, Target] = {}
        self._problems: list[Diagnostic] = []
        self._ignores = _GitIgnores()
        self._patterns: dict[tuple[str, ...], _Patterns] = {}
        self._roots: dict[Path, Path | None] = {}

    def run(self, paths: Iterable[str]) -> Discovery:
        absolute = {_absolute(path, self._working_folder): path for path in paths}
        # Shortest first: a file below two arguments belongs to the outer one, whatever their order.
        for path in sorted(absolute, key=lambda path: (len(path.parts), path)):
            self._argument(path, absolute[path])
        targets = sorted(self._without_doubles(), key=lambda target: target.shown)
        return Discovery(targets, sorted(set(self._problems), key=lambda problem: problem.path))

    def _argument(self, path: Path, written: str) -> None:
        try:
            is_folder = path.is_dir()
            exists = is_folder or path.exists()
        except OSError as error:
            self._problem(path, error.strerror or str(error))
            return
        if not exists:
            self._problem(path, "no such file or directory")
            return
        settings = self._configuration.for_folder(path if is_folder else path.parent)
        if settings.force_exclude and self.is_excluded(path, settings):
            return
        if is_folder:
            self._walk(path)
        else:
            self._add(path, settings, self.project_root(path.parent, path.parent))

    def _walk(self, top: Path) -> None:
        self._ignores.enter_from_above(top)
        if any(self._ignores.ignored(folder, True) for folder in (top, *top.parents)):
            self._ignores.begin_at(top)  # named by hand: what ignores it does not count below it
        pending = [top]
        while pending:
            folder = pending.pop()
            settings = self._configuration.for_folder(folder)
            try:
                with os.scandir(folder) as entries:
                    listed = sorted(entries, key=lambda entry: entry.name)
            except FileNotFoundError:
                continue  # removed while walking
            except OSError as error:
                self._problem(folder, error.strerror or str(error))
                continue
            self._ignores.enter(folder, {entry.name for entry in listed})
            root = self.project_root(folder, top)
            for entry in listed:
                self._entry(entry, settings, root, pending)

    def _entry(self, entry: os.DirEntry[str], settings: Settings, root: Path, pending: list[Path]) -> None:
        try:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and not entry.is_file():
                return  # a link to a folder, a broken link, a socket
        except OSError:
            return
        if not is_folder and not self._is_included(entry, settings):
            return
        path = Path(entry.path)
        if self._pattern_excluded(path, settings, is_folder):
            return
        if settings.respect_gitignore and self._ignores.ignored(path, is_folder):
            return
        if is_folder:
            pending.append(path)
        else:
            self._add(path, settings, root)

    def _is_included(self, file: os.DirEntry[str] | Path, settings: Settings) -> bool:
        if settings.include == DEFAULT_INCLUDE:
            return file.name.endswith((".py", ".pyw", ".ipynb"))
        return self._patterns_of(settings.include).match(Path(file), settings.root, is_folder=False)

    def _pattern_excluded(self, path: Path, settings: Settings, is_folder: bool) -> bool:
        return self._patterns_of(settings.excluded_patterns()).match(path, settings.root, is_folder=is_folder)

    def is_excluded(self, path: Path, settings: Settings) -> bool:
        """Whether a pattern or gitignore excludes the path or a folder above it (``force-exclude``)."""
        below = [path, *path.parents]
        if path.is_relative_to(settings.root):
            below = [part for part in below if part != settings.root and part.is_relative_to(settings.root)]
        if any(self._pattern_excluded(part, settings, part != path) for part in below):
            return True
        if not settings.respect_gitignore:
            return False
        self._ignores.enter_from_above(path.parent)
        self._ignores.enter(path.parent, None)
        return self._ignores.ignored(path, path.is_dir()) or any(
            self._ignores.ignored(part, True) for part in path.parents
        )

    def leaves_alone(self, path: Path, settings: Settings) -> bool:
        """Whether a walk from the settings' folder would not come to a file, or not take it."""
        return not self._is_included(path, settings) or self.is_excluded(path, settings)

    def _patterns_of(self, patterns: tuple[str, ...]) -> _Patterns:
        known = self._patterns.get(patterns)
        if known is None:
            known = self._patterns[patterns] = _Patterns(patterns)
        return known

    def _add(self, path: Path, settings: Settings, root: Path) -> None:
        if path not in self._found:
            shown = shown_path(path, self._working_folder)
            self._found[path] = Target(path, shown, settings, root, self._configuration)

    def _problem(self, path: Path, message: str) -> None:
        self._problems.append(Diagnostic("unreadable", shown_path(path, self._working_folder), message))

    def _without_doubles(self) -> Iterator[Target]:
        """Links to files that are checked under another name are left out: nothing is reported twice."""
        seen = {path for path in self._found if not path.is_symlink()}
        for path in sorted(self._found, key=str):
            if path in seen:
                yield self._found[path]
            elif (real := Path(os.path.realpath(path))) not in seen:
                seen.add(real)
                yield self._found[path]

    def project_root(self, folder: Path, top: Path) -> Path:
        """The folder whose files belong together: the work tree, else the nearest project file's, else the argument."""
        marked = self._marked_root(folder)
        if marked is not None:
            return marked
        while (top / "__init__.py").exists() and top.parent != top:
            top = top.parent
        return top

    def _marked_root(self, folder: Path) -> Path | None:
        if folder not in self._roots:
            above = self._marked_root(folder.parent) if folder.parent != folder else None
            self._roots[folder] = self._pick_root(folder, above)
        return self._roots[folder]

    @staticmethod
    def _pick_root(folder: Path, above: Path | None) -> Path | None:
        if any((folder / name).exists() for name in _WORK_TREES):
            return folder
        if above is not None and any((above / name).exists() for name in _WORK_TREES):
            return above
        return folder if any((folder / name).exists() for name in _ROOT_MARKERS) else above


class _Patterns:
    """Exclude or include patterns in gitignore's language; plain names are matched without pathspec."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._names = frozenset(pattern for pattern in patterns if not set(pattern) & set("/*?[!\\#"))
        self._others = tuple(pattern for pattern in patterns if pattern not in self._names)
        self._spec: GitIgnoreSpec | None = None

    def match(self, path: Path, root: Path, *, is_folder: bool) -> bool:
        if path.name in self._names:
            return True
        return bool(self._others) and match_patterns(self._compiled(), path, root, is_folder=is_folder)

    def _compiled(self) -> GitIgnoreSpec:
        if self._spec is None:
            self._spec = compile_patterns(self._others)
        return self._spec


def compile_patterns(patterns: Iterable[str]) -> GitIgnoreSpec:
    """Patterns in gitignore's language, ready to match."""
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(patterns)


def match_patterns(spec: GitIgnoreSpec, path: Path, root: Path, *, is_folder: bool = False) -> bool:
    """Whether the patterns, relative to ``root``, match; outside ``root`` only the name can."""
    relative = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    return spec.match_file(relative + "/" if is_folder else relative)


class _GitIgnores:
    """The ``.gitignore`` files that hold at a place, nearest last; none outside a git work tree."""

    def __init__(self) -> None:
        self._specs: dict[Path, GitIgnoreSpec | None] = {}
        self._tree: dict[Path, Path | None] = {}
        self._beginnings: set[Path] = set()

    def enter_from_above(self, top: Path) -> None:
        """Read what the folders above ``top`` say, up to the work tree's root."""
        for folder in reversed(top.parents):
            self.enter(folder, None)

    def begin_at(self, folder: Path) -> None:
        """Let nothing count that is written above this folder."""
        self._beginnings.add(folder)

    def enter(self, folder: Path, names: set[str] | None) -> None:
        """Note a folder; ``names`` are those of its entries where they are known already."""
        if folder in self._tree:
            return
        if folder in self._beginnings or _has(folder, ".git", names):
            self._tree[folder] = folder
        else:
            self._tree[folder] = self._tree.get(folder.parent)
        if self._tree[folder] is None:
            return
        lines = _lines(folder / ".gitignore") if _has(folder, ".gitignore", names) else []
        if self._tree[folder] == folder:
            lines = _lines(folder / ".git" / "info" / "exclude") + lines
        if any(line.strip() and not line.startswith("#") for line in lines):
            self._specs[folder] = compile_patterns(lines)

    def ignored(self, path: Path, is_folder: bool) -> bool:
        """Whether the nearest file with an opinion says to ignore the path."""
        root = self._tree.get(path.parent)
        if root is None or not self._specs:
            return False
        for folder in path.parents:
            spec = self._specs.get(folder)
            if spec is not None:
                relative = path.relative_to(folder).as_posix()
                verdict = spec.check_file(relative + "/" if is_folder else relative).include
                if verdict is not None:
                    return verdict
            if folder == root:
                break
        return False


def _has(folder: Path, name: str, names: set[str] | None) -> bool:
    try:
        return name in names if names is not None else (folder / name).exists()
    except OSError:
        return False


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


def _absolute(path: str, working_folder: Path) -> Path:
    """The path without ``.`` and ``..``; links stay, since users know files by the names they gave."""
    return Path(os.path.normpath(working_folder / path))
