"""The two trees that are compared: a copy of the program as it is, and one with the fixes applied."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torchlint import engine
from torchlint.checking import Mode, Rewrite
from torchlint.config import Configuration
from torchlint.discovery import discover
from torchlint.findings import Finding, Span
from torchlint.fixing import SAFE, SAFE_AND_UNSAFE, unified_diff
from torchlint.harness.copying import Copied, copy_tree
from torchlint.harness.recordings import HarnessError
from torchlint.saving import save
from torchlint.syntax.source import source_from_bytes


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder that a program runs in: ``folder`` is its working directory, in ``root``.

    ``original`` is the tree that ``root`` is a copy of, if any, ``names`` are the paths that lead to it,
    and ``environments`` the folders in it that programs and libraries are used from where they are.
    """

    root: Path
    folder: Path
    original: Path | None = None
    names: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()

    def moved(self, text: str) -> str:
        """An argument or a variable's value with all that names the original tree naming this one.

        What is in an environment keeps its name.
        """
        if not self.names:
            return text
        names = "|".join(map(re.escape, sorted(self.names, key=len, reverse=True)))
        kept = "|".join(map(re.escape, self.environments))
        kept = rf"(?!/(?:{kept})(?:/|$|[^\w.-]))" if kept else ""
        # The name begins a path (or follows a short option, as in -o/path) and ends where a folder's name ends.
        return re.sub(rf"(?:(?<![\w.~-])|(?<=(?<!\S)-\w))(?:{names}){kept}(?![\w.-])", lambda _: str(self.root), text)

    @contextlib.contextmanager
    def fresh(self) -> Iterator[Tree]:
        """A copy for one run: what that leaves behind, such as a checkpoint to resume from, is no other run's."""
        root = self.root.with_name(f"{self.root.name}-run")
        try:
            copy_tree(self.root, root)
            yield replace(self, root=root, folder=root / self.folder.relative_to(self.root))
        finally:
            shutil.rmtree(root, ignore_errors=True)


def copy(original: Path, working: Path, to: Path) -> tuple[Tree, Copied]:
    """A copy of a tree for a program that runs in its ``working`` folder. OSError where it cannot be read."""
    real, to = original.resolve(), to.resolve()
    copied = copy_tree(real, to)
    below = working.resolve().relative_to(real)
    names = {str(real), str(original.absolute()), *_shell_name(working, below)}
    return Tree(to, to / below, real, tuple(sorted(names)), tuple(copied.environments)), copied


def _shell_name(working: Path, below: Path) -> Iterator[str]:
    """What the shell calls the tree: the path that the user came by, links and all."""
    shell = Path(os.environ.get("PWD", ""))
    if shell.is_absolute() and shell.exists() and shell.samefile(working):
        root = Path(*shell.parts[: len(shell.parts) - len(below.parts)])
        if root.samefile(working.resolve().parents[len(below.parts) - 1] if below.parts else working):
            yield str(root)


@dataclass(frozen=True, slots=True)
class Fixes:
    """What was changed in a tree: a patch for each file, and where each fix lies in the tree as it was.

    ``places`` are files below the root, lines (of the whole statement) and rules; ``broken`` says of
    files what kept them from being checked or fixed, and ``unsafe`` how many fixes were left out as unsafe.
    """

    patches: Mapping[str, str]
    places: tuple[Place, ...]
    broken: Mapping[str, str] = field(default_factory=dict)
    unsafe: int = 0

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

    The project's own configuration holds. ConfigError where it, or a rule's name, is wrong, HarnessError
    where there is nothing to look at.
    """
    overrides: dict[str, Any] = {"unsafe_fixes": unsafe}
    if rules:
        overrides["select"] = tuple(rules)
    configuration = Configuration(overrides)
    engine.check_settings(configuration.for_folder(tree.root))
    targets = [t for t in discover([str(tree.root)], configuration).targets if _is_own(tree, t.path)]
    if not targets:
        raise HarnessError(f"there are no Python files or notebooks to fix under {tree.original or tree.root}")
    before = engine.run(targets)
    left_out = [f for result in before.results for f in result.findings if _is_applied(f, True)
                and not _is_applied(f, unsafe)]
    places = tuple(place for result in before.results for f in result.findings if _is_applied(f, unsafe)
                   for place in _places(tree, f))
    results = engine.run(targets, mode := Mode.FIX_UNSAFE if unsafe else Mode.FIX).results
    outside = [r for r in results if not all(_is_own(tree, rewrite.path) for rewrite in r.rewrites)]
    results = save([r for r in results if r not in outside], targets, mode)
    patches = dict(_patch(tree, rewrite) for result in results for rewrite in result.rewrites)
    broken = {_below(tree, Path(d.path)): d.message for result in results for d in result.diagnostics}
    broken.update({_below(tree, Path(r.path)): "a fix changes a file outside of the tree too" for r in outside})
    return Fixes(patches, places, broken, len(left_out))


def _is_own(tree: Tree, path: Path) -> bool:
    """Whether a file lies in the tree itself, and not behind a link that leads out of it."""
    return Path(os.path.realpath(path)).is_relative_to(tree.root.resolve())


def _is_applied(finding: Finding, unsafe: bool) -> bool:
    return finding.fix is not None and finding.fix.applicability in (SAFE_AND_UNSAFE if unsafe else SAFE)


def _places(tree: Tree, finding: Finding) -> Iterator[Place]:
    path = Path(finding.path).absolute()
    if path.suffix == ".py" and path.is_relative_to(tree.root):
        lines = _statement(path.read_text(encoding="utf-8", errors="replace"), finding.span)
        yield Place(path.relative_to(tree.root).as_posix(), tuple(lines), finding.rule)


def _statement(text: str, span: Span) -> range:
    """The lines of the smallest statement around a span's first line; of one with a body, those before the body."""
    line, found = span.start.line, range(span.start.line, span.end.line + 1)
    smallest = None
    try:
        module = ast.parse(text)
    except SyntaxError:  # a file for a newer Python than this one
        return found
    for node in ast.walk(module):
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
