"""Runs a rule on an example's project, in this process, through the same door as the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchlint.checking import Checker, Mode, Task
from torchlint.config import Settings
from torchlint.findings import Diagnostic, Finding, sorted_findings
from torchlint.rules.rule import Rule


@dataclass(frozen=True)
class Outcome:
    """What a run over a project said, and the bytes of its files afterwards."""

    findings: list[Finding]
    diagnostics: list[Diagnostic]
    files: dict[str, bytes]


class StrictChecker(Checker):
    """A Checker that hides no defect behind a second look."""

    def outline_failed(self, error: Exception) -> None:
        raise AssertionError("the outline of a source failed") from error


class WholeTreeChecker(Checker):
    """A Checker that looks at every file's whole tree from the start."""

    looks = (True,)


@dataclass(frozen=True)
class Project:
    """Files in a folder, checked with one rule alone."""

    folder: Path
    rule: Rule
    options: dict[str, Any]
    checker: type[Checker] = StrictChecker

    def run(self, files: dict[str, bytes], mode: Mode = Mode.CHECK) -> Outcome:
        """Write the files, check them all, and apply what the mode asks for."""
        for path, data in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes(data)
        settings = Settings(root=self.folder, select=(self.rule.slug,), rules={self.rule.slug: self.options})
        checker = self.checker([settings], mode)
        findings: list[Finding] = []
        diagnostics: list[Diagnostic] = []
        for path in files:
            result = checker.check_file(Task(self.folder / path, path, 0, self.folder, None))
            findings += result.findings
            diagnostics += result.diagnostics
            for rewrite in result.rewrites:
                rewrite.path.write_bytes(rewrite.after)
        return Outcome(
            sorted_findings(findings), diagnostics, {path: (self.folder / path).read_bytes() for path in files}
        )


@contextmanager
def recorded(rule: Rule) -> Iterator[list[str]]:
    """The paths of the sources that the rule's question is put to meanwhile."""
    asked: list[str] = []
    question = rule._question
    assert question is not None, f"{rule!r} has no question"

    def recording(model: Any, options: dict[str, Any]) -> Iterator[Finding]:
        asked.append(model.tree.source.path)
        yield from question(model, options)

    rule._question = recording
    try:
        yield asked
    finally:
        rule._question = question


def encoded(files: dict[str, str]) -> dict[str, bytes]:
    """The files as they would be on disk."""
    return {path: text.encode() for path, text in files.items()}
