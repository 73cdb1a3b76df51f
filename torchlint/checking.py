"""Checks one source at a time: screen, read, model, ask the rules, silence. One Checker a process."""

from __future__ import annotations

import enum
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torchlint import suppression
from torchlint.config import Configuration, Settings, TorchVersion
from torchlint.discovery import compile_patterns, match_patterns
from torchlint.files import Notes, Searches, check_of, content_of, digest_of
from torchlint.findings import Diagnostic, Finding, Position, Span, sorted_findings
from torchlint.reporting.report import Applied, Place, excerpt
from torchlint.rules.rule import Rule
from torchlint.selection import Selection, selection_of
from torchlint.syntax.source import Source, SourceError, source_from_bytes

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.project import Project

MAX_CHARACTERS = 3_000_000
"""A longer text is data, not code: libcst would need a gigabyte for it."""


class Mode(enum.Enum):
    """What a run does with what it finds."""

    CHECK = "check"
    FIX = "fix"
    FIX_UNSAFE = "fix-unsafe"
    ADD_IGNORE = "add-ignore"


@dataclass(frozen=True, slots=True)
class Task:
    """One file to check. ``settings`` is an index, so that a task is cheap to send to a worker.

    Where it is not ``on_disk`` (standard input, an editor's buffer) fixes may edit no other file.
    ``configuration`` finds the settings of those; without one they have the task's own. Names in
    reports are relative to the ``working_folder``, whatever that of the process is.
    """

    path: Path
    shown: str
    settings: int
    root: Path
    target_torch: TorchVersion | None
    size: int = 0
    on_disk: bool = True
    configuration: Configuration | None = None
    working_folder: Path = field(default_factory=Path.cwd)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """New bytes for a file that held ``before`` when it was checked."""

    path: Path
    shown: str
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class FileResult:
    """What came of one file; ``notes`` are what this and other results rest on, as far as it was not told before."""

    path: str
    findings: tuple[Finding, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    lines: tuple[tuple[Place, str], ...] = ()
    applied: tuple[Applied, ...] = ()
    rewrites: tuple[Rewrite, ...] = ()
    notes: Notes = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Setup:
    """How the files of a run are checked, wherever that is done.

    ``searches`` are results of searches of the projects' files that are known already, by root.
    """

    settings: Sequence[Settings]
    mode: Mode = Mode.CHECK
    searches: Mapping[Path, Searches] = field(default_factory=dict)

    def checker(self) -> Checker:
        return Checker(self.settings, self.mode, self.searches)


class Checker:
    """Checks the files of a run, keeping between them what the projects' files had in common."""

    def __init__(
        self, settings: Sequence[Settings], mode: Mode = Mode.CHECK,
        searches: Mapping[Path, Searches] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self._settings = settings
        self._mode = mode
        self._searches = searches
        self._selections: dict[tuple[int, frozenset[str]], Selection] = {}
        self._projects: dict[Path, Project] = {}

    def forget_projects(self) -> None:
        """Drop what was kept between files, to free memory."""
        self._projects.clear()

    def check_file(self, task: Task) -> FileResult:
        """Check a file on disk. Never raises for what the file holds."""
        try:
            data = task.path.read_bytes()
        except OSError as error:
            return _failed(Diagnostic("unreadable", task.shown, error.strerror or str(error)))
        result = self.check_bytes(data, task)
        files = self._project(task).files
        files.note(check_of(task.path), content_of(task.path), digest_of(data))
        return replace(result, notes=files.take_notes())

    def check_bytes(self, data: bytes, task: Task) -> FileResult:
        """Check these bytes as the file of the task."""
        if not screened(self._selection(task).rules, data):
            return FileResult(task.shown)
        try:
            source = source_from_bytes(data, task.shown)
        except SourceError as error:
            return _failed(Diagnostic(error.kind, task.shown, error.message, error.position))
        if self._mode is Mode.CHECK:
            findings, diagnostics = self.found(source, task)
            return FileResult(task.shown, tuple(findings), tuple(diagnostics), report_lines(source, findings))
        from torchlint import rewriting

        return rewriting.rewritten(self, data, source, task, self._mode)

    def found(
        self, source: Source, task: Task, project: Project | None = None
    ) -> tuple[list[Finding], list[Diagnostic]]:
        """The findings in a source that are not silenced, in order, and what went wrong.

        ``project`` stands in for the files on disk, where some of them are to be taken as changed.
        """
        own = suppression.Suppressions(source) if suppression.mentions_own_suppression(source.text) else None
        if own is not None and own.skips_file:
            return [], []
        selection = self._selection(task)
        findings, diagnostics = self._asked(source, task, selection, project)
        if findings and suppression.mentions_suppression(source.text):
            findings = (own or suppression.Suppressions(source)).kept(findings)
        if own is not None and not diagnostics:  # what crashed might have been silenced
            findings += own.unused(selection)
        wanted = [self._allowed_elsewhere(selection.with_applicability(finding), task) for finding in findings]
        return sorted_findings(wanted), diagnostics

    def _allowed_elsewhere(self, finding: Finding, task: Task) -> Finding:
        """The finding, its fix only shown where it would edit a file that the user wants left alone."""
        if finding.fix is None or all(edit.span.path == finding.path for edit in finding.fix.edits):
            return finding
        from torchlint import rewriting

        return rewriting.allowed(self, finding, task)

    def _asked(
        self, source: Source, task: Task, selection: Selection, project: Project | None
    ) -> tuple[list[Finding], list[Diagnostic]]:
        rules = [
            rule
            for rule in screened(selection.rules, source.text.encode("utf-8", "replace"))
            if rule.family != "suppression"
        ]
        if not rules:
            return [], []
        if len(source.text) > MAX_CHARACTERS:
            return [], [Diagnostic("parser-limit", source.path, f"longer than {MAX_CHARACTERS:,} characters")]
        for whole in self.looks:
            look = self._look(source, task, selection, rules, project, whole=whole)
            if look is not None:
                findings, diagnostics = look
                # What lies in another file is reported when that file is checked.
                return [finding for finding in dict.fromkeys(findings) if finding.path == source.path], diagnostics
        raise AssertionError("the last look is at the whole tree")

    looks: tuple[bool, ...] = (False, True)
    """Whether a source is looked at as a whole tree, one look after the other until one can tell.

    Its outline takes CPython's parser a tenth of libcst's time, and most sources have nothing to be
    reported; where something is, libcst parses the source and completes the outline.
    """

    def _look(
        self, source: Source, task: Task, selection: Selection, rules: Sequence[Rule], project: Project | None, *,
        whole: bool
    ) -> tuple[list[Finding], list[Diagnostic]] | None:
        """What the rules say of a source; None where its outline is not enough, or not good enough."""
        model = self._model(source, task, rules, project, whole=whole)
        if model is None or isinstance(model, Diagnostic):
            return None if model is None else ([], [model])
        findings: list[Finding] = []
        diagnostics: list[Diagnostic] = []
        for rule in rules:
            found, failure = _ask(rule, model, selection.options.get(rule.slug, {}))
            if failure is not None and not whole:
                self._give_up(failure)
                return None
            findings += found
            diagnostics += [_failure(rule, failure, source.path)] if failure is not None else []
        return findings, diagnostics

    def _model(
        self, source: Source, task: Task, rules: Sequence[Rule], project: Project | None, *, whole: bool
    ) -> Model | Diagnostic | None:
        """The model of a source, or why there is none: the one place that calls into the interpreter."""
        from torchlint.semantics.model import build_model
        from torchlint.syntax.limits import ParserLimit
        from torchlint.syntax.linked import WholeTreeNeeded

        names = frozenset[str]().union(*(rule.names for rule in rules)) if all(rule.names for rule in rules) else None
        try:
            return build_model(
                project or self._project(task), source, task.path, task.target_torch, names, whole=whole)
        except SourceError as error:
            return Diagnostic(error.kind, source.path, error.message, error.position)
        except ParserLimit as limit:
            return Diagnostic("parser-limit", source.path, limit.message, limit.position)
        except Exception as error:
            if not isinstance(error, WholeTreeNeeded):
                self.forget_projects()  # it was left half done
            if whole:
                return _half_done(error, source.path)
            self._give_up(error)
            return None

    def _give_up(self, error: Exception) -> None:
        """Leave an outline for the whole tree, because of this."""
        from torchlint.syntax.limits import ParserLimit
        from torchlint.syntax.linked import WholeTreeNeeded

        if not isinstance(error, (WholeTreeNeeded, ParserLimit, RecursionError, MemoryError)):
            self.outline_failed(error)

    def outline_failed(self, error: Exception) -> None:
        """Called where an outline fails by a defect of torchlint's. The whole tree may do: a user need not know."""

    def _project(self, task: Task) -> Project:
        from torchlint.semantics.project import Project

        if task.root not in self._projects:
            project = self._projects[task.root] = Project(task.root, task.working_folder)
            project.files.know(self._searches.get(task.root, {}))
        return self._projects[task.root]

    def changed_project(self, task: Task, changed: Mapping[Path, Source]) -> Project:
        """The task's project with some files changed."""
        return self._project(task).changed(changed)

    def _selection(self, task: Task) -> Selection:
        return self.selection_for(self._settings[task.settings], task.path)

    def settings_of(self, path: Path, task: Task) -> Settings:
        """The settings of another file than the task's; ConfigError where their file is wrong."""
        return self._settings[task.settings] if task.configuration is None \
            else task.configuration.for_folder(path.parent)

    def selection_for(self, settings: Settings, path: Path) -> Selection:
        """The rules that settings choose for a file."""
        matched = frozenset(
            pattern for pattern in settings.per_file_ignores if _pattern_matches(pattern, path, settings)
        )
        key = (id(settings), matched)
        if key not in self._selections:
            ignored = [name for pattern in matched for name in settings.per_file_ignores[pattern]]
            self._selections[key] = selection_of(settings).without(ignored)
        return self._selections[key]


def screened(rules: Iterable[Rule], data: bytes) -> list[Rule]:
    """The rules that may report in a file of these bytes: a bytes search, before anything is parsed."""
    seen: dict[bytes, bool] = {}
    return [rule for rule in rules if _is_triggered(rule, data, seen)] if b"torch" in data else []


def _is_triggered(rule: Rule, data: bytes, seen: dict[bytes, bool]) -> bool:
    return not rule.triggers or any(_holds(trigger, data, seen) for trigger in rule.triggers)


def _holds(trigger: bytes | tuple[bytes, ...], data: bytes, seen: dict[bytes, bool]) -> bool:
    if isinstance(trigger, tuple):
        return all(_holds(part, data, seen) for part in trigger)
    known = seen.get(trigger)
    if known is None:
        known = seen[trigger] = trigger in data
    return known


def _ask(rule: Rule, model: Model, options: Mapping[str, Any]) -> tuple[list[Finding], Exception | None]:
    """Put the rule's question; again, where it turned out to need more than an outline. Also why that failed, if so."""
    from torchlint.syntax.linked import WholeTreeNeeded

    found: list[Finding] = []
    try:
        try:
            found.extend(rule.ask(model, dict(options)))
        except WholeTreeNeeded:
            found.clear()
            model.tree.complete()
            found.extend(rule.ask(model, dict(options)))
    except Exception as error:  # a defect of the rule's: the other findings stay
        return found, error
    return found, None


def _failure(rule: Rule, error: Exception, path: str) -> Diagnostic:
    from torchlint.syntax.limits import ParserLimit

    if isinstance(error, RecursionError):
        return Diagnostic("parser-limit", path, f"nested too deeply for {rule.slug}")
    if isinstance(error, ParserLimit):
        return Diagnostic("parser-limit", path, error.message, error.position)
    return _crash(f"{rule.code} {rule.slug}", error, path)


def _half_done(error: Exception, path: str) -> Diagnostic:
    """Why the interpreter did not come to an end."""
    if isinstance(error, RecursionError):
        return Diagnostic("parser-limit", path, "nested too deeply to be followed")
    if isinstance(error, MemoryError):
        return Diagnostic("parser-limit", path, "not enough memory")
    return _crash("the interpreter", error, path)  # a defect of torchlint's: this file's findings are lost


def _crash(who: str, error: Exception, path: str) -> Diagnostic:
    message = f"{who} crashed: {type(error).__name__}: {error}{origin_of(error)}"
    return Diagnostic("rule-crash", path, message, _position_of_crash(error))


def origin_of(error: BaseException) -> str:
    """File and line of torchlint's where an error was raised, in parentheses."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({_own_path(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""


def _own_path(filename: str) -> str:
    parts = Path(filename).parts
    return "/".join(parts[parts.index("torchlint") :]) if "torchlint" in parts else Path(filename).name


def _position_of_crash(error: Exception) -> Position | None:
    """The place in the user's file that was looked at: the innermost thing on the stack that has a span."""
    found: Position | None = None
    frame = error.__traceback__
    while frame is not None:
        for value in frame.tb_frame.f_locals.values():
            found = _position_of(value) or found
        frame = frame.tb_next
    return found


def _position_of(value: object) -> Position | None:
    if not type(value).__module__.startswith("torchlint"):
        return None
    try:
        span = value if isinstance(value, Span) else getattr(value, "span", None)
        return span.start if isinstance(span, Span) else None
    except Exception:  # it may be the very thing that crashed: then the place stays unknown
        return None


def _pattern_matches(pattern: str, path: Path, settings: Settings) -> bool:
    negated = pattern.startswith("!")
    return match_patterns(compile_patterns([pattern.removeprefix("!")]), path, settings.root) is not negated


def report_lines(source: Source, findings: Sequence[Finding]) -> tuple[tuple[Place, str], ...]:
    """The lines of a source that code frames of these findings show."""

    def line_of(number: int, cell: int | None) -> str | None:
        try:
            return source.line(number, cell)
        except IndexError:
            return None

    return tuple(excerpt(findings, line_of).items())


def _failed(diagnostic: Diagnostic) -> FileResult:
    return FileResult(diagnostic.path, diagnostics=(diagnostic,))
