"""Comments that silence findings: ``# torchlint: ignore``, ``# torchlint: skip-file`` and ``# noqa``.

A comment silences the findings of a statement from the statement's first or last line, and from
the line on which the finding's own span starts or ends.
"""

from __future__ import annotations

import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchlint.findings import Applicability, Edit, Finding, Fix
from torchlint.rules.registry import nearest_name, rule_by_name, rules_named

if TYPE_CHECKING:
    from torchlint.rules.rule import Rule
    from torchlint.selection import Selection
    from torchlint.syntax.source import Source

_MENTION = re.compile(r"#[ \t]*(?:torchlint:|noqa)", re.IGNORECASE)
_OWN_MENTION = re.compile(r"#[ \t]*(?:torchlint:|noqa:[^#\n]*\bTL\d)", re.IGNORECASE)

_DIRECTIVE = re.compile(
    r"\#[ \t]*torchlint:[ \t]*(?P<kind>ignore|skip-file)(?![\w-])(?:[ \t]*\[(?P<names>[^\]\#]*)\])?"
    r"|\#[ \t]*noqa(?::[ \t]*(?P<codes>[A-Z]+[0-9]+(?:(?:[ \t]*,[ \t]*|[ \t]+)[A-Z]+[0-9]+)*)|(?![\w:-]))",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\s,]+")


def mentions_suppression(text: str) -> bool:
    """Whether a comment of ours, or ``# noqa``, may be there: a cheap search, before any tokenizing."""
    return _MENTION.search(text) is not None


def mentions_own_suppression(text: str) -> bool:
    """Whether a comment that can be reported as unused may be there."""
    return _OWN_MENTION.search(text) is not None


@dataclass(slots=True)
class _Directive:
    """One comment that silences; ``names`` is None for a bare one, else each name with its offset."""

    begin: int
    finish: int
    line: int
    noqa: bool
    names: list[tuple[str, int]] | None
    used: set[str] = field(default_factory=set)

    def silences(self, finding: Finding) -> bool:
        if self.names is None:
            return finding.rule != "unused-ignore"
        return any(self._is(name, finding) for name, _ in self.names)

    def note(self, finding: Finding) -> None:
        self.used.add("")
        self.used.update(name for name, _ in self.names or () if self._is(name, finding))

    def _is(self, name: str, finding: Finding) -> bool:
        if self.noqa:
            return name.upper() == finding.code
        return any(rule.slug == finding.rule for rule in rules_named(name))


class Suppressions:
    """The silencing comments of one source, and which of them were needed."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._logical: list[tuple[int, int]] = []
        self._within_strings: set[int] = set()
        self._commented: set[int] = set()
        self._seen: list[Finding] = []
        self._comment_lines: dict[int, list[_Directive]] = {}
        self.skips_file = False
        for offset, comment, alone in self._comments():
            self._read(offset, comment, alone)

    def _comments(self) -> Iterator[tuple[int, str, bool]]:
        starts, text = self._source.line_starts, self._source.text
        found: list[tuple[int, str, bool]] = []
        first: int | None = None
        strings: list[int] = []  # the lines on which those begin that are still open
        try:
            for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
                if token.type in _STRING_STARTS:
                    strings.append(token.start[0])
                elif token.type in _STRING_ENDS or token.type == tokenize.STRING:
                    begin = token.start[0] if token.type == tokenize.STRING else strings.pop()
                    self._within_strings.update(range(begin, token.end[0]))
                if token.type == tokenize.COMMENT:
                    row, column = token.start
                    alone = not token.line[:column].strip()
                    self._commented.add(row)
                    found.append((starts[row - 1] + column, token.string, alone))
                elif token.type == tokenize.NEWLINE:
                    self._logical.append((first or token.start[0], token.start[0]))
                    first = None
                elif first is None and token.type not in _LAYOUT:
                    first = token.start[0]
        except (tokenize.TokenError, SyntaxError):
            # This Python cannot tokenize what libcst can parse: every line stands for itself.
            return iter(_comments_by_line(text))
        return iter(found)

    def _read(self, offset: int, comment: str, alone: bool) -> None:
        for match in _DIRECTIVE.finditer(comment):
            if (match["kind"] or "").lower() == "skip-file":
                self.skips_file = self.skips_file or alone
                continue
            group = "codes" if match["codes"] else "names"
            listed = match[group]
            names = None
            if listed is not None:
                base = offset + match.start(group)
                names = [(name[0], base + name.start()) for name in _NAME.finditer(listed)]
            begin = offset + match.start()
            line = self._source.line_number(begin)
            directive = _Directive(begin, offset + match.end(), line, match["kind"] is None, names)
            self._comment_lines.setdefault(line, []).append(directive)

    def kept(self, findings: Iterable[Finding]) -> list[Finding]:
        """The findings that no comment silences; the comments that silence one are noted as used."""
        findings = list(findings)
        self._seen += findings
        return [finding for finding in findings if not self._silenced(finding)]

    def _silenced(self, finding: Finding) -> bool:
        directives = [
            d for line in self._lines(finding) for d in self._comment_lines.get(line, ()) if d.silences(finding)
        ]
        for directive in directives:
            directive.note(finding)
        return bool(directives)

    def _lines(self, finding: Finding) -> set[int]:
        first = self._source.line_number(finding.span.begin)
        last = self._source.line_number(max(finding.span.begin, finding.span.finish - 1))
        return {first, last, *self._logical_line(first), *self._logical_line(last)}

    def _logical_line(self, line: int) -> tuple[int, int]:
        """The first and last line of the statement (or the header of a compound one) that holds a line."""
        index = bisect_right(self._logical, (line, len(self._source.line_starts))) - 1
        for begin, end in self._logical[max(index, 0) : index + 2]:
            if begin <= line <= end:
                return begin, end
        return line, line

    def unused(self, selection: Selection) -> list[Finding]:
        """A finding of ``unused-ignore`` for each comment that silenced nothing, as far as this run can tell.

        Names of rules that did not run are left alone, and so is everything that belongs to
        another tool: bare ``# noqa`` and the codes of others.
        """
        rule = rule_by_name("unused-ignore")
        if rule is None or rule not in selection.rules:
            return []
        ran = {r.slug for r in selection.rules}
        findings = []
        for directive in (d for line in self._comment_lines.values() for d in line):
            wrong = self._wrong(directive, ran, selection.complete)
            if wrong is not None:
                findings.append(self._finding(rule, directive, wrong))
        return self.kept(findings)

    def _finding(self, rule: Rule, directive: _Directive, wrong: _Wrong) -> Finding:
        span = self._source.span(directive.begin, directive.finish)
        fix = self._fix(directive, wrong)
        return Finding(rule.code, rule.slug, rule.severity, span, wrong.message, wrong.advice, fix)

    def _fix(self, directive: _Directive, wrong: _Wrong) -> Fix | None:
        """Removes what is not needed. A misspelt name is never removed, but corrected where it then holds."""
        meant = {name: near for name in wrong.unknown if (near := nearest_name(name)) is not None}
        if not meant:
            return Fix("Remove what is not needed", Applicability.SAFE, (self._removal(directive, wrong.names),))
        if not all(self._would_silence(directive, near) for near in meant.values()):
            return None
        edit = self._renaming(directive, wrong.names, meant)
        return Fix(f"Write {_quoted(meant.values())}", Applicability.UNSAFE, (edit,))

    def _would_silence(self, directive: _Directive, name: str) -> bool:
        """Whether a finding of this name lies where the comment counts."""
        slugs = {rule.slug for rule in rules_named(name)}
        return any(finding.rule in slugs and directive.line in self._lines(finding) for finding in self._seen)

    def _wrong(self, directive: _Directive, ran: set[str], complete: bool) -> _Wrong | None:
        if directive.names is None:
            return None if directive.noqa or directive.used or not complete else _Wrong()
        unused, unknown = set(), set()
        for name, _ in directive.names:
            rules = rules_named(name) if not directive.noqa else _exactly(name)
            if name in directive.used or "unused-ignore" in {r.slug for r in rules}:
                continue
            if not rules and not directive.noqa:
                unknown.add(name)
            elif rules and all(r.slug in ran for r in rules):
                unused.add(name)
        return _Wrong(frozenset(unused), frozenset(unknown)) if unused or unknown else None

    def _removal(self, directive: _Directive, unused: frozenset[str]) -> Edit:
        if directive.names is not None and any(name not in unused for name, _ in directive.names):
            return self._renaming(directive, unused, {})
        return Edit(self._source.span(*self._extent(directive)), "")

    def _renaming(self, directive: _Directive, wrong: frozenset[str], meant: Mapping[str, str]) -> Edit:
        """The names less those that are wrong, or in their place what is meant."""
        assert directive.names
        first, last = directive.names[0][1], directive.names[-1]
        kept = [meant.get(name, name) for name, _ in directive.names if name in meant or name not in wrong]
        return Edit(self._source.span(first, last[1] + len(last[0])), ", ".join(dict.fromkeys(kept)))

    def _extent(self, directive: _Directive) -> tuple[int, int]:
        """The directive with its explanation, up to the next ``#``; with the whole line where it stands alone."""
        text = self._source.text
        begin, finish = directive.begin, directive.finish
        while finish < len(text) and text[finish] not in "\r\n#":
            finish += 1
        if finish < len(text) and text[finish] == "#":
            return begin, finish
        start = self._source.line_starts[directive.line - 1]
        blank = text[start:begin]
        if blank.strip():
            return start + len(blank.rstrip()), finish
        if directive.line < len(self._source.line_starts):
            return start, self._source.line_starts[directive.line]
        return start, finish

    def additions(self, findings: Sequence[Finding]) -> list[Edit]:
        """The edits that silence these findings, by slug.

        The comment stands on the line where the finding begins, so that of a statement over several lines
        it silences no more than that; on the statement's last line where none can stand there.
        """
        wanted: dict[int, list[str]] = {}
        for finding in findings:
            first = self._source.line_number(finding.span.begin)
            line = first if self._can_end_in_a_comment(first) else self._logical_line(first)[1]
            slugs = wanted.setdefault(line, [])
            if finding.rule not in slugs:
                slugs.append(finding.rule)
        return [self._addition(line, slugs) for line, slugs in sorted(wanted.items())]

    def _can_end_in_a_comment(self, line: int) -> bool:
        if line in self._commented:
            return True
        start, end = self._extent_of(line)
        return line not in self._within_strings and not self._source.text[start:end].endswith("\\")

    def _extent_of(self, line: int) -> tuple[int, int]:
        """Where a line begins and ends, without what ends it."""
        text, start = self._source.text, self._source.line_starts[line - 1]
        end = start
        while end < len(text) and text[end] not in "\r\n":
            end += 1
        return start, end

    def _addition(self, line: int, slugs: list[str]) -> Edit:
        for directive in self._comment_lines.get(line, ()):
            if directive.names and not directive.noqa:
                name, at = directive.names[-1]
                end = at + len(name)
                return Edit(self._source.span(end, end), "".join(f", {slug}" for slug in slugs))
        start, end = self._extent_of(line)
        code = self._source.text[start:end].rstrip()
        return Edit(self._source.span(start + len(code), end), f"  # torchlint: ignore[{', '.join(slugs)}]")


@dataclass(frozen=True, slots=True)
class _Wrong:
    """The names of a comment that silence nothing, and those that are no rule's; neither where it has no names."""

    unused: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        return self.unused | self.unknown

    @property
    def message(self) -> str:
        if self.unknown:
            return f"torchlint has no rule {', '.join(map(_with_near_name, sorted(self.unknown)))}."
        return f"Nothing here needs the ignore of {_quoted(self.unused)}." if self.unused \
            else "This comment silences nothing."

    @property
    def advice(self) -> str:
        if self.unknown:
            return "correct the name, or remove it: as it stands it silences nothing."
        return "remove it: it would hide the next mistake here."


_STRING_STARTS = frozenset(getattr(tokenize, name, -1) for name in ("FSTRING_START", "TSTRING_START")) - {-1}
_STRING_ENDS = frozenset(getattr(tokenize, name, -1) for name in ("FSTRING_END", "TSTRING_END")) - {-1}
_LAYOUT = frozenset({tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER})


def _comments_by_line(text: str) -> Iterator[tuple[int, str, bool]]:
    for match in re.finditer(r"(?m)^([^#\r\n]*)(#[^\r\n]*)", text):
        yield match.start(2), match[2], not match[1].strip()


def _exactly(code: str) -> tuple[Rule, ...]:
    rule = rule_by_name(code)
    return (rule,) if rule is not None and rule.code == code.upper() else ()


def _with_near_name(name: str) -> str:
    near = nearest_name(name)
    return f"'{name}'" if near is None else f"'{name}' (did you mean '{near}'?)"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))
