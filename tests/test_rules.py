"""Every rule's examples as tests, and what holds of all rules."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import Project, StrictChecker, WholeTreeChecker, encoded, recorded
from torchlint.checking import Mode, screened
from torchlint.findings import Applicability, Finding
from torchlint.rules import Rule, all_rules
from torchlint.rules.docs import REQUIRED, as_text, drift, sections
from torchlint.rules.example import MAIN, Example, Mark

ROOT = Path(__file__).parents[1]

RULES = [pytest.param(rule, id=rule.slug) for rule in all_rules()]

Case = tuple[Rule, Example]


def cases(*, bad: bool) -> list[object]:
    """The examples of one kind."""
    return [
        pytest.param((rule, example), id=f"{rule.slug}-{number}")
        for rule in all_rules()
        for number, example in enumerate(rule.examples, 1)
        if example.bad is bad
    ]


BAD, OK = cases(bad=True), cases(bad=False)

LAYOUTS: dict[str, Callable[[str], bytes]] = {
    "crlf": lambda text: text.replace("\n", "\r\n").encode(),
    "bom": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "no-final-newline": lambda text: text.removesuffix("\n").encode(),
    "latin-1": lambda text: f"# -*- coding: latin-1 -*- é\n{text}".encode("latin-1"),
}


def project(case: Case, folder: Path) -> Project:
    rule, example = case
    return Project(folder, rule, dict(example.options))


def place(finding: Finding, mark: Mark | None) -> Mark:
    start, end = finding.span.start, finding.span.end
    whole = mark is None or mark.end is not None
    return Mark(finding.path, (start.line, start.column), (end.line, end.column) if whole else None)


@pytest.mark.parametrize("case", BAD)
def test_bad_examples_are_reported_at_their_carets(case: Case, tmp_path: Path) -> None:
    _, example = case
    outcome = project(case, tmp_path).run(encoded(example.sources))
    assert outcome.diagnostics == []
    marks: list[Mark | None] = [*example.marks, *[None] * len(outcome.findings)]
    found = [place(finding, mark) for finding, mark in zip(outcome.findings, marks)]
    assert found == list(example.marks)


@pytest.mark.parametrize("case", BAD)
def test_findings_read_well(case: Case, tmp_path: Path) -> None:
    _, example = case
    for finding in project(case, tmp_path).run(encoded(example.sources)).findings:
        for sentence in (finding.message, finding.help or "None is needed."):
            assert re.fullmatch(r"\S[^\n]*\S\.", sentence), "a sentence on one line, with its full stop"
            assert len(sentence) <= 200
        if finding.fix is not None:
            assert re.fullmatch(r"[^\n]*[^\n.]", finding.fix.message), "what is done, without a full stop"


@pytest.mark.parametrize("case", BAD)
def test_bad_examples_are_fixed_as_shown(case: Case, tmp_path: Path) -> None:
    _, example = case
    ours = project(case, tmp_path)
    fixed = ours.run(encoded(example.sources), Mode.FIX_UNSAFE)
    assert fixed.diagnostics == []
    expected = example.source if example.fixed is None else example.fixed
    assert fixed.files[MAIN].decode() == expected
    if example.fixed is not None:
        assert ours.run(fixed.files).findings == [], "the fixed text is still reported"
        assert ours.run(fixed.files, Mode.FIX_UNSAFE).files == fixed.files, "a second run changes the text again"
    ast.parse(expected)


@pytest.mark.parametrize("case", BAD)
def test_fixes_are_as_applicable_as_declared(case: Case, tmp_path: Path) -> None:
    _, example = case
    ours = project(case, tmp_path)
    findings = ours.run(encoded(example.sources)).findings
    fixes = [finding.fix for finding in findings if finding.fix is not None]
    if example.applicability is None:
        shown = [fix for fix in fixes if fix.applicability is not Applicability.DISPLAY]
        assert not shown, "the example has a fix: declare its applicability and the fixed text"
        return
    assert fixes, "the example has no fix"
    assert fixes[0].applicability is example.applicability
    plain = ours.run(encoded(example.sources), Mode.FIX).files[MAIN].decode()
    if {fix.applicability for fix in fixes} == {Applicability.SAFE}:
        assert plain == example.fixed, "plain `torchlint fix` does less than `--unsafe-fixes`"
    if Applicability.SAFE not in {fix.applicability for fix in fixes}:
        assert plain == example.source, "plain `torchlint fix` applies what is not safe"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", [case for case in BAD if case.values[0][1].fixed is not None])  # type: ignore[attr-defined]
def test_fixes_keep_the_files_layout(case: Case, layout: str, tmp_path: Path) -> None:
    _, example = case
    laid = LAYOUTS[layout]
    outcome = project(case, tmp_path).run({p: laid(text) for p, text in example.sources.items()}, Mode.FIX_UNSAFE)
    assert outcome.diagnostics == []
    assert outcome.files[MAIN] == laid(example.fixed or "")


@pytest.mark.parametrize("case", OK)
def test_ok_examples_are_silent_and_reach_the_question(case: Case, tmp_path: Path) -> None:
    rule, example = case
    ast.parse(example.source)
    assert screened([rule], example.source.encode()), "the example names no trigger: it is never looked at"
    if rule.family == "suppression":  # the engine answers these itself, after the others
        assert project(case, tmp_path).run(encoded(example.sources)).findings == []
        return
    for checker in (StrictChecker, WholeTreeChecker):
        with recorded(rule) as asked:
            outcome = Project(tmp_path, rule, dict(example.options), checker).run(encoded(example.sources))
        assert MAIN in asked
        assert outcome.diagnostics == []
        assert outcome.findings == []


def test_codes_and_slugs_are_unique() -> None:
    rules = all_rules()
    assert len({rule.code for rule in rules}) == len(rules)
    assert len({rule.slug for rule in rules}) == len(rules)


def test_a_codes_first_digit_is_its_familys() -> None:
    families = {(rule.code[2], rule.family) for rule in all_rules()}
    assert len({digit for digit, _ in families}) == len(families)
    assert len({family for _, family in families}) == len(families)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_named_as_agreed(rule: Rule) -> None:
    assert re.fullmatch(r"TL[0-9]{3}", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", rule.slug)
    path = ROOT / "torchlint" / "rules" / rule.family.replace("-", "_") / f"{rule.slug.replace('-', '_')}.py"
    assert path.is_file(), "the file's name is the slug"
    # A slug names the mistake, so that "allow <slug>" reads as what an ignore does.
    assert rule.slug.partition("-")[0] not in {"use", "avoid", "prefer", "require", "dont", "must", "check", "set"}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_documented(rule: Rule) -> None:
    assert rule.summary.endswith(".")
    assert len(rule.summary) <= 110
    found = sections(rule)
    assert [title for title in REQUIRED if not found.get(title)] == []
    assert [title for title in found if title in REQUIRED] == list(REQUIRED), "the sections are in another order"
    assert "http" in found["References"] or "www" in found["References"] or rule.family == "suppression"
    shown = [example for example in rule.examples if example.show]
    assert any(example.bad for example in shown)
    assert any(not example.bad for example in shown)
    assert as_text(rule).startswith(f"{rule.slug} ({rule.code})\n")


@pytest.mark.parametrize("rule", RULES)
def test_options_are_documented(rule: Rule) -> None:
    for option in rule.options:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", option.name)
        assert option.help.endswith(".")
        assert option.default is None or isinstance(option.default, option.kind)


@pytest.mark.parametrize("case", [*BAD, *OK])
def test_examples_are_well_formed(case: Case) -> None:
    _, example = case
    for text in (*example.sources.values(), example.fixed or ""):
        ast.parse(text)
        assert "^" * 3 not in text, "a mark line was not recognised"
    assert bool(example.marks) is example.bad
    assert (example.fixed is not None) is (example.applicability in (Applicability.SAFE, Applicability.UNSAFE))
    assert example.bad or example.why


def test_the_pages_are_up_to_date() -> None:
    """`python -m torchlint.rules.docs docs/rules` writes them."""
    assert drift(ROOT / "docs" / "rules", all_rules()) == []
