"""The rules' tests themselves: a wrong example must fail them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests import test_rules
from torchlint.findings import Applicability
from torchlint.rules import Rule, all_rules
from torchlint.rules.example import Example

CASES = {
    rule.slug: (rule, next((example for example in rule.examples if example.bad and example.fixed is not None), None))
    for rule in all_rules()
}
FIXED = [pytest.param(rule, example, id=slug) for slug, (rule, example) in CASES.items() if example is not None]


@pytest.mark.parametrize(("rule", "example"), FIXED)
def test_wrong_examples_fail(rule: Rule, example: Example, tmp_path: Path) -> None:
    folders = (tmp_path / str(number) for number in range(10))

    def fails(test: str, **changes: object) -> bool:
        changed = dataclasses.replace(example, **changes)  # type: ignore[arg-type]
        folder = next(folders)
        folder.mkdir()
        try:
            getattr(test_rules, test)((rule, changed), folder)
        except AssertionError:
            return True
        return False

    at_carets = "test_bad_examples_are_reported_at_their_carets"
    assert not fails(at_carets)
    assert fails(at_carets, code=shifted(example.code))
    assert fails(at_carets, code=example.source)
    assert fails("test_bad_examples_are_fixed_as_shown", fixed=f"{example.fixed}\n")
    assert fails("test_bad_examples_are_fixed_as_shown", fixed=None)
    other = Applicability.SAFE if example.applicability is Applicability.UNSAFE else Applicability.UNSAFE
    assert fails("test_fixes_are_as_applicable_as_declared", applicability=other)
    assert fails("test_fixes_are_as_applicable_as_declared", applicability=None)
    silent = "test_ok_examples_are_silent_and_reach_the_question"
    assert fails(silent)
    assert fails(silent, code="import torch\n")


def shifted(code: str) -> str:
    """The code with its marks moved to the right."""
    return "".join(line.replace("^", " ^", 1) if "#" in line else line for line in code.splitlines(keepends=True))
