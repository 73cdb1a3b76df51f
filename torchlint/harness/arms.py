"""The two trees that are compared: a copy of the program as it is, and one with the fixes applied."""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchlint import engine
from torchlint.checking import Mode, Rewrite
from torchlint.config import Configuration
from torchlint.discovery import discover
from torchlint.findings import Finding
from torchlint.fixing import SAFE, SAFE_AND_UNSAFE, unified_diff
from torchlint.saving import save
from torchlint.syntax.source import source_from_bytes

_LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox"})
_LARGEST_COPIED = 16 << 20
"""Bytes. A larger file is data or a checkpoint: the copy links to it, and a program that writes it gets its own."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder that a program runs in: ``folder`` is its working directory, in ``root``.

    ``original`` is the tree that ``root`` is a copy of, if any.
    """

    root: Path
    folder: Path
    original: Path | None = None

    def moved(self, argument: str) -> str:
        """An argument or path that names something in the original tree, as the same in this one."""
        if self.original is None or not Path(argument).is_absolute():
            return argument
        path = Path(os.path.normpath(argument))
        return str(self.root / path.relative_to(self.original)) if path.is_relative_to(self.original) else argument

    def located(self, command: Sequence[str]) -> list[str]:
        """A command for this tree. Its program stays where it is: an environment's Python finds its packages so."""
        program, *arguments = command
        return [program, *map(self.moved, arguments)]


def copy(original: Path, working: Path, to: Path) -> Tree:
    """A copy of a tree for a program that runs in its ``working`` folder. OSError where it cannot be read."""
    original, working = original.resolve(), working.resolve()
    _copy_folder(original, to)
    return Tree(to.resolve(), to.resolve() / working.relative_to(original), original)


def _copy_folder(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with os.scandir(source) as entries:
        for entry in entries:
            here, there = Path(entry.path), target / entry.name
            if entry.name in _LEFT_OUT:
                continue
            if entry.is_symlink() or (here / "pyvenv.cfg").exists() or entry.name == "node_modules":
                there.symlink_to(here.resolve())
            elif entry.is_dir():
                _copy_folder(here, there)
            elif entry.is_file():
                if entry.stat().st_size > _LARGEST_COPIED:
                    there.symlink_to(here)
                else:
                    shutil.copy2(here, there)


@dataclass(frozen=True, slots=True)
class Fixes:
    """What was changed in a tree: a patch for each file, and where each fix lies in the tree as it was.

    ``places`` are files below the root, lines (of the whole statement) and rules; ``broken`` says of
    files what kept them from being checked or fixed.
    """

    patches: Mapping[str, str]
    places: tuple[Place, ...]
    broken: Mapping[str, str] = field(default_factory=dict)

    @property
    def diff(self) -> str:
        """All patches, one behind the other."""
        return "".join(self.patches.values())

    def within(self, files: Collection[str]) -> Fixes:
        """Those of some files only."""
        return Fixes({file: patch for file, patch in self.patches.items() if file in files},
                     tuple(place for place in self.places if place.file in files),
                     {file: message for file, message in self.broken.items() if file in files})

    @property
    def complaints(self) -> list[str]:
        """What kept files from being fixed, in words."""
        return [f"{file} could not be checked or fixed: {message}" for file, message in self.broken.items()]

    def lines(self) -> dict[str, list[int]]:
        """For each file the lines of its fixes."""
        found: dict[str, list[int]] = {}
        for place in self.places:
            found.setdefault(place.file, []).extend(place.lines)
        return found


@dataclass(frozen=True, slots=True)
class Place:
    """A finding that has a fix: its file below the root, the lines of its statement, its rule."""

    file: str
    lines: tuple[int, ...]
    rule: str

    def __str__(self) -> str:
        return f"{self.file}:{self.lines[0]} {self.rule}"


def fix(tree: Tree, rules: Sequence[str], *, unsafe: bool) -> Fixes:
    """Apply torchlint's fixes of these rules (all that are on, where there is none) to the files of a tree.

    The project's own configuration holds. ConfigError where it, or a rule's name, is wrong.
    """
    overrides: dict[str, Any] = {"unsafe_fixes": unsafe}
    if rules:
        overrides["select"] = tuple(rules)
    configuration = Configuration(overrides)
    engine.check_settings(configuration.for_folder(tree.root))
    targets = discover([str(tree.root)], configuration).targets
    before = engine.run(targets)
    places = tuple(place for result in before.results for f in result.findings if _is_applied(f, unsafe)
                   for place in _places(tree, f))
    results = save(engine.run(targets, mode := Mode.FIX_UNSAFE if unsafe else Mode.FIX).results, targets, mode)
    patches = dict(_patch(tree, rewrite) for result in results for rewrite in result.rewrites)
    broken = {_below(tree, Path(d.path)): d.message for result in results for d in result.diagnostics}
    return Fixes(patches, places, broken)


def _is_applied(finding: Finding, unsafe: bool) -> bool:
    return finding.fix is not None and finding.fix.applicability in (SAFE_AND_UNSAFE if unsafe else SAFE)


def _places(tree: Tree, finding: Finding) -> Iterator[Place]:
    path = Path(finding.path).absolute()
    if path.suffix == ".py" and path.is_relative_to(tree.root):
        lines = _statement(path.read_text(encoding="utf-8", errors="replace"), finding.span.start.line)
        yield Place(path.relative_to(tree.root).as_posix(), tuple(lines), finding.rule)


def _statement(text: str, line: int) -> range:
    """The lines of the smallest statement around a line; of one with a body, those before the body."""
    found = range(line, line + 1)
    smallest = None
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and node.end_lineno is not None and node.lineno <= line <= node.end_lineno:
            if smallest is None or node.end_lineno - node.lineno <= smallest:
                smallest = node.end_lineno - node.lineno
                body = getattr(node, "body", None)
                end = body[0].lineno - 1 if body and body[0].lineno > line else node.end_lineno
                found = range(node.lineno, max(end, line) + 1)
    return found


def _below(tree: Tree, path: Path) -> str:
    path = path.resolve()
    return path.relative_to(tree.root).as_posix() if path.is_relative_to(tree.root) else str(path)


def _patch(tree: Tree, rewrite: Rewrite) -> tuple[str, str]:
    shown = _below(tree, rewrite.path)
    return shown, unified_diff(source_from_bytes(rewrite.before, shown), source_from_bytes(rewrite.after, shown))
