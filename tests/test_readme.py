"""What the documentation shows is what really happens, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.consoles import PAGES, ROOT, current
from torchlint.config import KEYS
from torchlint.reporting import FORMATS
from torchlint.rules import all_rules
from torchlint.rules.docs import fixability


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sessions_are_as_shown(page: Path) -> None:
    """`python -m tests.consoles --write` writes them anew."""
    text = page.read_text(encoding="utf-8")
    assert current(text) == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!http)([^)#\s]+)", page.read_text(encoding="utf-8").replace("\n", " "))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_lists_every_rule() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = {rule.slug for rule in all_rules() if rule.family != "suppression" and not rule.preview}
    assert set(re.findall(r"\| \[([a-z-]+)\]\(docs/rules/", text)) == shown


def test_the_readme_says_which_fixes_are_safe() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"\| \[([a-z-]+)\]\(docs/rules/.*\| ([a-z ]+) \|\n", text))
    assert said == {rule.slug: fixability(rule) for rule in all_rules() if rule.slug in said}
    assert said


def test_there_is_no_rule_in_preview() -> None:
    """The README says that all rules are on by default: change it with this test."""
    assert [rule.slug for rule in all_rules() if rule.preview] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\n", " ")
    for target, anchor in re.findall(r"\]\((?!http)([^)#\s]+)#([^)\s]+)\)", text):
        headings = re.findall(r"^#+ (.*)$", (page.parent / target).read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert [key for key in KEYS if f"`{key}" not in text] == []


def test_every_format_is_documented() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in FORMATS if f"`{name}`" not in text and f"--output-format {name}" not in text] == []
