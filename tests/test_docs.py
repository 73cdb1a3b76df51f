"""The stacks of a page are documented twice.

What it does:
Reports a page that is documented twice.

Why is this bad:
One of them is wrong sooner or later. Note: a colon makes no heading.

Unsafe: this line is a sentence, not a heading.

Limits:
- one
  - two

Fix safety: safe, it only drops a page.

Evidence:
None.

References:
- https://example.org
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from torchlint.findings import Applicability
from torchlint.rules import docs
from torchlint.rules.example import Example, Mark
from torchlint.rules.rule import Option, Rule

rule = Rule("TL999", since="0.1", triggers=(b"torch",), options=(Option("depth", 3, int, "How deep to look."),))
rule.bad("x = f(1)\n#   ^^^^", fixed="x = 1", applicability=Applicability.SAFE)
rule.bad("y = g(1)\n#   ^^^^", files={"other.py": "def g(x): ..."}, show=False)
rule.ok("x = 1", why="nothing is called")


def test_sections() -> None:
    found = docs.sections(rule)
    assert list(found) == ["What it does", "Why is this bad", "Limits", "Fix safety", "Evidence", "References"]
    assert found["Why is this bad"].endswith("\n\nUnsafe: this line is a sentence, not a heading.")
    assert found["Limits"] == "- one\n  - two"
    assert found["Fix safety"] == "safe, it only drops a page."


def test_the_page() -> None:
    page = docs.as_markdown(rule)
    title = "# test-docs (TL999)\n\nThe stacks of a page are documented twice.\n\n"
    assert page.startswith(f"{title}warning · tests · fix: safe")
    assert "## Example\n\n```python\nx = f(1)\n#   ^^^^\n```\n\nUse instead:\n\n```python\nx = 1\n```\n" in page
    assert "## What is not reported\n\nNothing is called:\n\n```python\nx = 1\n```\n" in page
    assert "`depth` (int, default `3`): How deep to look." in page
    assert "```toml\n[tool.torchlint.rules.test-docs]\ndepth = 3\n```" in page
    assert "g(1)" not in page


def test_the_text_has_no_markdown_of_ours() -> None:
    text = docs.as_text(rule)
    assert "#" not in text.replace("#   ^^^^", "")
    assert "```" not in text
    assert "Fix safety\n----------\n\nsafe, it only drops a page.\n" in text
    assert "\n    x = f(1)\n" in text


def test_the_painted_text_fits_its_width() -> None:
    text = docs.as_painted(rule, 60)
    assert "\x1b[" in text
    assert max(len(line) for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()) <= 60


def test_json() -> None:
    (described,) = json.loads(docs.as_json([rule]))
    assert (described["code"], described["rule"], described["fix"]) == ("TL999", "test-docs", "safe")
    assert described["options"] == [{"name": "depth", "default": 3, "type": "int", "least": None,
                                     "help": "How deep to look."}]


def test_pages_are_written_checked_and_cleared(tmp_path: Path) -> None:
    (tmp_path / "own.md").write_text("# Ours\n")
    assert docs.write_pages(tmp_path, [rule]) == ["index.md", "test-docs.md"]
    assert docs.drift(tmp_path, [rule]) == []
    (tmp_path / "test-docs.md").write_text("edited")
    assert docs.drift(tmp_path, [rule]) == ["test-docs.md"]
    docs.write_pages(tmp_path, [rule])
    assert docs.write_pages(tmp_path, []) == ["index.md", "test-docs.md"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.md", "own.md"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert docs.main([str(tmp_path), "--check"]) == 1
    assert "index.md: not up to date" in capsys.readouterr().out
    assert docs.main([str(tmp_path)]) == 0
    assert docs.main([str(tmp_path), "--check"]) == 0
    assert docs.main([]) == 2


def test_marks() -> None:
    example = Example(
        "for batch in loader:\n"
        "#^...\n"
        "    predict(batch)\n"
        "#             ...^\n"
        "x = f(a); y = f(b)\n"
        "#   ^^^^      ^^^^\n"
        "while True:\n"
        "#^...\n"
        "    # a ^ in a comment is no mark\n"
        "    pass\n",
        bad=True,
        files={"other.py": "z = f(1)\n#^^^^^^^\n"},
    )
    assert example.source.count("#") == 1
    assert example.sources["other.py"] == "z = f(1)\n"
    assert example.marks == (
        Mark("example.py", (1, 1), (2, 19)),
        Mark("example.py", (3, 5), (3, 9)),
        Mark("example.py", (3, 15), (3, 19)),
        Mark("example.py", (4, 1), None),
        Mark("other.py", (1, 1), (1, 9)),
    )


def test_a_mark_that_closes_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="closes nothing"):
        _ = Example("x = 1\n# ...^\n", bad=True).marks
