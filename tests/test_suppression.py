"""Comments that silence findings, the ones that are not needed, and the ones that are written."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests import throwaway
from torchlint.checking import Checker, Mode, Task
from torchlint.config import Settings
from torchlint.findings import Applicability, Finding
from torchlint.suppression import Suppressions, mentions_own_suppression, mentions_suppression
from torchlint.syntax.source import Source, apply_edits


@pytest.fixture(autouse=True)
def _throwaway_rules() -> object:
    with throwaway.installed():
        yield


def text_of(code: str) -> str:
    return "import torch\n" + dedent(code).lstrip("\n")


def check(code: str, **settings: object) -> list[Finding]:
    checker = Checker([Settings(root=Path(), **settings)])  # type: ignore[arg-type]
    result = checker.check_bytes(text_of(code).encode(), Task(Path("a.py"), "a.py", 0, Path(), None))
    assert not result.diagnostics
    return list(result.findings)


def rules(code: str, **settings: object) -> list[str]:
    return [finding.rule for finding in check(code, **settings)]


def without_unused(code: str, **settings: object) -> str:
    """The text with every comment removed that is reported as unused."""
    fixes = [f.fix for f in check(code, **settings) if f.rule == "unused-ignore"]
    text = text_of(code)
    return apply_edits(text, [edit for fix in fixes if fix is not None for edit in fix.edits])[len("import torch\n") :]


@pytest.mark.parametrize(
    "comment",
    [
        "# torchlint: ignore",
        "# torchlint: ignore[first-rule]",
        "# torchlint: ignore[TL901]",
        "# torchlint: ignore[tl901]",
        "#torchlint:ignore[ third-rule , first-rule ]",
        "# torchlint: ignore[first-rule] since it is meant",
        "# torchlint: ignore[TL90]",
        "# torchlint: ignore[throwaway]",
        "# torchlint: ignore[all]",
        "# type: ignore  # torchlint: ignore[first-rule]",
        "# noqa",
        "# NOQA",
        "# noqa: TL901",
        "# noqa:TL901",
        "# noqa: E501,TL901",
        "# noqa: E501 TL901",
        "# fmt: skip # noqa: tl901",
    ],
)
def test_a_comment_silences(comment: str) -> None:
    assert "first-rule" not in rules(f"bad()  {comment}")


@pytest.mark.parametrize(
    "comment",
    [
        "# torchlint: ignore[third-rule]",
        "# torchlint: ignored",
        "# torchlint: ignore-errors",
        "# noqa: E501",
        "# noqa: first-rule",
        "# noqa-me",
        "# type: ignore",
        "# torchlint ignore",
    ],
)
def test_other_comments_do_not(comment: str) -> None:
    assert "first-rule" in rules(f"bad()  {comment}")


def test_a_string_is_no_comment() -> None:
    assert rules('bad("# torchlint: ignore")') == ["first-rule"]
    assert rules('bad(\n"""\n# torchlint: ignore\n"""\n)') == ["first-rule"]


@pytest.mark.parametrize("line", [1, 2, 3, 5])
def test_the_lines_of_a_statement_and_of_a_span_count(line: int) -> None:
    # First and last line of the statement, and the line of the finding itself.
    code = ["call(", "    bad,", "    plain(", "        1),", ")"]
    code[line - 1] += "  # torchlint: ignore[first-rule]"
    assert ("first-rule" in rules("\n".join(code))) is (line == 3)


def test_a_comment_on_another_statement_does_not_count() -> None:
    assert rules("if x:  # torchlint: ignore[first-rule]\n    bad()") == ["unused-ignore", "first-rule"]
    assert rules("good()  # noqa\nbad()\ngood()  # noqa") == ["first-rule"]
    assert rules("# torchlint: ignore[first-rule]\nbad()") == ["unused-ignore", "first-rule"]


def test_the_end_of_a_statement_with_a_string_of_several_lines() -> None:
    code = 'call(bad, """\n    text\n    more""")  # torchlint: ignore[first-rule]'
    assert rules(code) == []


def test_a_header_of_several_lines() -> None:
    assert rules("for x in call(\n    bad,\n):  # torchlint: ignore[first-rule]\n    pass") == []


def test_a_file_is_skipped() -> None:
    assert rules("bad()\n# torchlint: skip-file\nbad()") == []
    assert rules("bad()  # torchlint: skip-file") == ["first-rule"], "only a comment of its own"
    assert rules("'''\n# torchlint: skip-file\n'''\nbad()") == ["first-rule"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("good()  # torchlint: ignore\n", "good()\n"),
        ("good()  # torchlint: ignore[first-rule]\n", "good()\n"),
        ("good()  # torchlint: ignore[first-rule] as agreed\n", "good()\n"),
        ("good()  # torchlint: ignore[first-rule]", "good()"),
        ("bad()  # torchlint: ignore[third-rule, first-rule]\n", "bad()  # torchlint: ignore[first-rule]\n"),
        ("bad()  # torchlint: ignore[first-rule,TL903] why\n", "bad()  # torchlint: ignore[first-rule] why\n"),
        ("good()  # torchlint: ignore[first-rule]  # type: ignore\n", "good()  # type: ignore\n"),
        ("good()  # type: ignore  # torchlint: ignore[first-rule]\n", "good()  # type: ignore\n"),
        ("good()  # noqa: E501, TL901\n", "good()  # noqa: E501\n"),
        ("good()  # noqa: TL901, E501 the URL\n", "good()  # noqa: E501 the URL\n"),
        ("good()  # noqa: TL901\n", "good()\n"),
        ("a()\n    # torchlint: ignore[first-rule]\nb()\n", "a()\nb()\n"),
        ("good()  # torchlint: ignore[nothing]\n", "good()\n"),
        ("bad()  # torchlint: ignore[nothing, first-rule]\n", "bad()  # torchlint: ignore[first-rule]\n"),
        ("good()\t# torchlint: ignore[first-rule]\r\nx()\r\n", "good()\r\nx()\r\n"),
    ],
)
def test_what_is_not_needed_is_removed(before: str, after: str) -> None:
    assert without_unused(before) == after
    assert without_unused(after) == after


@pytest.mark.parametrize(
    "code",
    [
        "good()  # noqa",
        "good()  # noqa: E501, F401",
        "good()  # noqa: TL999",
        "bad()  # torchlint: ignore",
        "bad()  # noqa: TL901, E501",
        "good()  # torchlint: ignore[fourth-rule]",
        "good()  # torchlint: ignore[first-rule, unused-ignore]  # torchlint: ignore[unused-ignore]",
        "# torchlint: skip-file",
    ],
)
def test_what_is_needed_or_belongs_to_others_stays(code: str) -> None:
    assert "unused-ignore" not in rules(code)


def test_only_rules_that_ran_are_judged() -> None:
    code = "good()  # torchlint: ignore[first-rule]\nx()  # torchlint: ignore"
    assert rules(code) == ["unused-ignore", "unused-ignore"]
    assert rules(code, select=("unused-ignore", "TL902")) == []
    assert rules(code, select=("unused-ignore", "TL901")) == ["unused-ignore"]
    assert rules(code, ignore=("unused-ignore",)) == []
    assert rules(code, per_file_ignores={"a.py": ("unused-ignore",)}) == []


def test_a_rule_that_crashed_is_not_judged() -> None:
    checker = Checker([Settings(root=Path())])
    data = b"import torch\nCRASH  # torchlint: ignore[crashing-rule]\n"
    result = checker.check_bytes(data, Task(Path("a.py"), "a.py", 0, Path(), None))
    assert (list(result.findings), [d.kind for d in result.diagnostics]) == ([], ["rule-crash"])


def test_the_message_names_what_is_wrong() -> None:
    (unknown,) = check("x()  # torchlint: ignore[nothing]")
    assert unknown.message == "torchlint has no rule 'nothing'."
    (unused,) = check("bad()  # torchlint: ignore[first-rule, TL903]")
    assert unused.message == "Nothing here needs the ignore of 'TL903'."
    assert (unused.span.start.line, unused.span.start.column, unused.span.end.column) == (2, 8, 46)


def test_a_misspelt_name_is_not_removed() -> None:
    _, unused = check("bad()  # torchlint: ignore[frist-rule]")
    assert unused.message == "torchlint has no rule 'frist-rule' (did you mean 'first-rule'?)."
    assert unused.help == "correct the name, or remove it: as it stands it silences nothing."
    assert unused.fix is not None
    assert (unused.fix.message, unused.fix.applicability) == ("Write 'first-rule'", Applicability.UNSAFE)
    assert without_unused("bad()  # torchlint: ignore[frist-rule]") == "bad()  # torchlint: ignore[first-rule]"
    both = "bad(plain)  # torchlint: ignore[TL902, frist-rule, TL903]"
    assert without_unused(both) == "bad(plain)  # torchlint: ignore[first-rule, TL903]"
    for code in ("good()  # torchlint: ignore[frist-rule]", "good()  # torchlint: ignore[TL902, frist-rule]"):
        (unused,) = check(code)
        assert unused.fix is None, "whether it is wanted is for a person to say"
    (unused,) = check("good()  # torchlint: ignore[TL902]")
    assert unused.help == "remove it: it would hide the next mistake here."


def add_ignores(code: str, name: str = "a.py") -> str:
    checker = Checker([Settings(root=Path())], Mode.ADD_IGNORE)
    data = text_of(code).encode()
    result = checker.check_bytes(data, Task(Path(name), name, 0, Path(), None))
    assert not result.diagnostics
    assert not [f for f in result.findings if f.rule != "unused-ignore"]
    after = result.rewrites[0].after if result.rewrites else data
    return after.decode()[len("import torch\n") :]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("bad()\n", "bad()  # torchlint: ignore[first-rule]\n"),
        ("bad()", "bad()  # torchlint: ignore[first-rule]"),
        ("bad(plain, bad)\n", "bad(plain, bad)  # torchlint: ignore[first-rule, third-rule]\n"),
        ("bad()   # why\n", "bad()   # why  # torchlint: ignore[first-rule]\n"),
        (
            "bad(plain)  # torchlint: ignore[first-rule] x\n",
            "bad(plain)  # torchlint: ignore[first-rule, third-rule] x\n",
        ),
        ("bad()\t\r\nx()\r\n", "bad()  # torchlint: ignore[first-rule]\r\nx()\r\n"),
        ('bad("""\nx\n""")\n', 'bad("""\nx\n""")  # torchlint: ignore[first-rule]\n'),
        ("x = bad + \\\n    1\n", "x = bad + \\\n    1  # torchlint: ignore[first-rule]\n"),
        (
            "if bad:\n    plain()\n",
            "if bad:  # torchlint: ignore[first-rule]\n    plain()  # torchlint: ignore[third-rule]\n",
        ),
        ("good()\n", "good()\n"),
        (
            "f(\n    bad,\n    plain,  # why\n)\n",
            "f(\n    bad,  # torchlint: ignore[first-rule]\n    plain,  # why  # torchlint: ignore[third-rule]\n)\n",
        ),
        ('x = call(bad, """\n""",\n1)\n', 'x = call(bad, """\n""",\n1)  # torchlint: ignore[first-rule]\n'),
        ('x = call(bad, f"""{\n1}\n""",\n1)\n', 'x = call(bad, f"""{\n1}\n""",\n1)  # torchlint: ignore[first-rule]\n'),
        ('x = call("""\n""", bad,\n1)\n', 'x = call("""\n""", bad,  # torchlint: ignore[first-rule]\n1)\n'),
        ("x = call(bad, \\\n1)\n", "x = call(bad, \\\n1)  # torchlint: ignore[first-rule]\n"),
        ("x = call(bad,  # a \\\n1)\n", "x = call(bad,  # a \\  # torchlint: ignore[first-rule]\n1)\n"),
    ],
)
def test_ignores_are_written_where_they_hold(before: str, after: str) -> None:
    assert add_ignores(before) == after
    assert add_ignores(after) == after


def test_the_cheap_searches() -> None:
    assert not mentions_suppression("x = 1  # nothing\n")
    assert mentions_suppression("x  # NoQA")
    assert not mentions_own_suppression("x  # noqa: E501\n")
    assert mentions_own_suppression("x  # noqa: E501, TL101\n")


def test_a_text_that_this_python_cannot_tokenize_is_read_line_by_line() -> None:
    source = Source("a.py", "x = (1  # torchlint: ignore[first-rule]\nbad()  # noqa: TL901\n")
    suppressions = Suppressions(source)
    assert suppressions.kept([throwaway.finding(source, "bad()")]) == []


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="newer Pythons know it")
def test_a_nested_f_string_of_a_newer_python() -> None:
    assert rules('x = f"{a["b"]}" + bad  # torchlint: ignore[first-rule]') == []
