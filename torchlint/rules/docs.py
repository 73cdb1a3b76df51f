"""A rule's documentation, made of its docstring, its examples and its options.

``python -m torchlint.rules.docs FOLDER`` writes a page for each rule and an index;
with ``--check`` it writes nothing and exits 1 where a page is not up to date.
"""

from __future__ import annotations

import io
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchlint.findings import Applicability
from torchlint.rules import evidence
from torchlint.rules.example import MAIN, Example
from torchlint.rules.registry import all_rules
from torchlint.rules.rule import Option, Rule

REQUIRED = ("What it does", "Why is this bad", "Fix safety", "Evidence", "References")
"""The sections that every rule's docstring has."""

_HEADING = re.compile(r"(?P<title>[A-Z][a-z]+(?: [a-z]+){0,3})\??:(?:\s+(?P<text>\S.*))?")

_NOTE = "<!-- Written by `python -m torchlint.rules.docs`: edit the rule's file instead. -->\n"


def sections(rule: Rule) -> dict[str, str]:
    """The sections of the rule's docstring, with the evidence that is kept: heading to Markdown text, in order.

    A heading stands at the start of a line, after a blank line, and ends in a colon; text may follow on
    its line where it is one of ``REQUIRED`` (any other is a sentence that has a colon).
    """
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    blank = True
    for line in rule.docs.splitlines()[1:]:
        heading = _HEADING.fullmatch(line) if blank else None
        if heading is not None and (heading["title"] in REQUIRED or not heading["text"]):
            lines = found.setdefault(heading["title"], [])
            lines.append(heading["text"] or "")
        else:
            lines.append(line)
        blank = not line.strip()
    written = {title: _paragraphs(text) for title, text in found.items()}
    measured = evidence.told(rule)
    if measured:
        said = written.get("Evidence", "")
        written["Evidence"] = measured if said.startswith("No measurement yet") else f"{said}\n\n{measured}".strip()
    return written


def _paragraphs(lines: list[str]) -> str:
    """A section's text; where all of it is indented below its heading, the indentation goes."""
    first, rest = lines[0], textwrap.dedent("\n".join(lines[1:]))
    return f"{first}\n{rest}".strip()


def fixability(rule: Rule) -> str:
    """In words, the applicability of the rule's fixes: what its examples show."""
    shown = {e.applicability for e in rule.examples if e.bad and e.applicability is not None}
    words = {
        Applicability.SAFE: "safe",
        Applicability.UNSAFE: "unsafe",
        Applicability.DISPLAY: "shown only",
    }
    kinds = [word for applicability, word in words.items() if applicability in shown]
    if kinds:
        return " or ".join(kinds)
    return "sometimes" if any(e.fixed is not None for e in rule.examples) else "none"


@dataclass(frozen=True, slots=True)
class _Block:
    """A piece of a page: ``kind`` is title, heading, text, or the language of a code block."""

    kind: str
    text: str

    def markdown(self) -> str:
        if self.kind in ("title", "heading"):
            return f"{'#' if self.kind == 'title' else '##'} {self.text}"
        return self.text if self.kind == "text" else f"```{self.kind}\n{self.text.rstrip()}\n```"

    def plain(self) -> str:
        if self.kind in ("title", "heading"):
            return f"{self.text}\n{('=' if self.kind == 'title' else '-') * len(self.text)}"
        return self.text if self.kind == "text" else textwrap.indent(self.text.rstrip(), "    ")


def as_markdown(rule: Rule) -> str:
    """The rule's page."""
    return "\n\n".join(block.markdown() for block in _blocks(rule)) + "\n"


def as_text(rule: Rule) -> str:
    """The rule's documentation as plain text."""
    return "\n\n".join(block.plain() for block in _blocks(rule)) + "\n"


def as_painted(rule: Rule, width: int) -> str:
    """The rule's documentation for a terminal with colours, through rich."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=io.StringIO(), force_terminal=True, width=width, legacy_windows=False)
    with console.capture() as capture:
        console.print(Markdown(as_markdown(rule)))
    return capture.get()


def as_object(rule: Rule) -> dict[str, Any]:
    """The rule for programs: what ``torchlint rule --output-format json`` prints of it."""
    return {
        "code": rule.code,
        "rule": rule.slug,
        "family": rule.family,
        "summary": rule.summary,
        "severity": rule.severity.value,
        "fix": fixability(rule),
        "preview": rule.preview,
        "since": rule.since,
        "sections": sections(rule),
        "options": [
            {"name": o.name, "default": o.default, "type": o.kind.__name__, "least": o.least, "help": o.help}
            for o in rule.options
        ],
        "examples": [_example(example) for example in rule.examples if example.show],
    }


def _example(example: Example) -> dict[str, Any]:
    kind = "bad" if example.bad else "ok"
    return {"kind": kind, "code": example.code, "why": example.why, "fixed": example.fixed, "files": example.files}


def as_json(rules: Iterable[Rule]) -> str:
    """The rules as a JSON array."""
    return json.dumps([as_object(rule) for rule in rules], indent=2) + "\n"


def _blocks(rule: Rule) -> Iterator[_Block]:
    """A page in order: what and why, examples, what is left alone, options, then the other sections."""
    found = sections(rule)
    yield _Block("title", f"{rule.slug} ({rule.code})")
    yield _Block("text", rule.summary)
    default = "in preview: off by default" if rule.preview else "on by default"
    facts = (rule.severity.value, rule.family, f"fix: {fixability(rule)}", default, f"since {rule.since}")
    yield _Block("text", " · ".join(facts))
    for title in ("What it does", "Why is this bad"):
        if title in found:
            yield _Block("heading", title)
            yield _Block("text", found.pop(title))
    yield from _bad(rule)
    yield from _ok(rule)
    yield from _options(rule.slug, rule.options)
    for title, text in found.items():
        yield _Block("heading", title)
        yield _Block("text", text)


def _bad(rule: Rule) -> Iterator[_Block]:
    shown = [example for example in rule.examples if example.bad and example.show]
    for number, example in enumerate(shown, 1):
        yield _Block("heading", "Example" if len(shown) == 1 else f"Example {number}")
        yield from _files(example, example.code)
        if example.fixed is not None:
            yield _Block("text", "Use instead:")
            yield _Block("python", example.fixed)


def _ok(rule: Rule) -> Iterator[_Block]:
    shown = [example for example in rule.examples if not example.bad and example.show]
    if shown:
        yield _Block("heading", "What is not reported")
    for example in shown:
        yield _Block("text", f"{example.why[:1].upper()}{example.why[1:].rstrip('.')}:")
        yield from _files(example, example.code)


def _files(example: Example, code: str) -> Iterator[_Block]:
    if not example.files:
        yield _Block("python", code)
        return
    for path, text in {**example.files, MAIN: code}.items():
        yield _Block("python", f"# {path}\n{text}")


def _options(slug: str, options: Sequence[Option]) -> Iterator[_Block]:
    if not options:
        return
    yield _Block("heading", "Options")
    for option in options:
        least = f", {option.least} or more" if option.least is not None else ""
        default = f"{option.kind.__name__}{least}, default `{_toml(option.default)}`"
        yield _Block("text", f"`{option.name}` ({default}): {option.help}")
    settings = "\n".join(f"{option.name} = {_toml(option.default)}" for option in options if option.default is not None)
    if settings:
        yield _Block("toml", f"[tool.torchlint.rules.{slug}]\n{settings}")


def _toml(value: object) -> str:
    return "none" if value is None else json.dumps(value)


def index(rules: Sequence[Rule]) -> str:
    """The page that lists the rules, a table for each family."""
    names = "Slugs, codes and families are accepted alike wherever a rule is named."
    lines = ["# Rules", "", f"{len(rules)} rules. {names}"]
    for family in sorted({rule.family for rule in rules}):
        lines += ["", f"## {family}", "", "| rule | code | what it finds | severity | fix | |", f"|{'---|' * 6}"]
        for rule in rules:
            if rule.family == family:
                cells = (
                    f"[{rule.slug}]({rule.slug}.md)", rule.code, rule.summary.replace("|", "\\|"),
                    rule.severity.value, fixability(rule), "preview" if rule.preview else "",
                )  # fmt: skip
                lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def pages(rules: Sequence[Rule]) -> dict[str, str]:
    """File name to text of the whole folder."""
    written = {f"{rule.slug}.md": as_markdown(rule) for rule in rules} | {"index.md": index(rules)}
    return {name: _NOTE + text for name, text in written.items()}


def drift(folder: Path, rules: Sequence[Rule]) -> list[str]:
    """The files of the folder that are missing, differ from what would be written, or have no rule any more."""
    wanted = pages(rules)
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    ours = {name for name, text in there.items() if text.startswith(_NOTE)}
    return sorted(name for name in {*wanted, *ours} if wanted.get(name) != there.get(name))


def write_pages(folder: Path, rules: Sequence[Rule]) -> list[str]:
    """Bring the folder up to date; gives the names of what changed."""
    folder.mkdir(parents=True, exist_ok=True)
    changed, wanted = drift(folder, rules), pages(rules)
    for name in changed:
        if name in wanted:
            (folder / name).write_text(wanted[name], encoding="utf-8", newline="\n")
        else:
            (folder / name).unlink()
    return changed


def main(arguments: Sequence[str]) -> int:
    """The command ``python -m torchlint.rules.docs FOLDER [--check]``."""
    folders = [argument for argument in arguments if argument != "--check"]
    if len(folders) != 1:
        sys.stderr.write("usage: python -m torchlint.rules.docs FOLDER [--check]\n")
        return 2
    folder, checks = Path(folders[0]), "--check" in arguments
    changed = (drift if checks else write_pages)(folder, all_rules())
    for name in changed:
        sys.stdout.write(f"{folder / name}: {'not up to date' if checks else 'written'}\n")
    return 1 if checks and changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
