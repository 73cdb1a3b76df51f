"""Every output format: its shape, its escapes, and what it must not lose."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reports import MESSAGE, report
from torchlint.findings import Applicability, Diagnostic, Position
from torchlint.reporting import FORMATS, Applied, Display, Report, renderer
from torchlint.reporting.diagnostics import render as render_diagnostics
from torchlint.reporting.statistics import render as render_statistics
from torchlint.reporting.statistics import render_json as render_statistics_json

CONV = "conv = nn.Conv2d(3, 16, 3)\n#      ^^^^^^^^^^^^^^^^^^^\n"
TWO = CONV + "x = torch.tensor(\n#   ^...\n    images)\n#      ...^\n"

DIAGNOSTICS = (
    Diagnostic("syntax-error", "broken.py", "invalid syntax", Position(3, 7)),
    Diagnostic("unreadable", "gone.py", "No such file or directory"),
    Diagnostic("syntax-error", "book.ipynb", "invalid syntax", Position(1, 2, 4)),
)

NASTY = 'a: b, c%\r\n<&"\'>]]> \x00\x1b[31m \udc80 \ufffe 漢 \u202e | ::error::'


def rendered(name: str, given_report: Report) -> str:
    pieces: list[str] = []
    renderer(name)(given_report, pieces.append)
    return "".join(pieces)


def with_diagnostics(given_report: Report) -> Report:
    return dataclasses.replace(given_report, diagnostics=DIAGNOSTICS)


def test_full() -> None:
    assert rendered("full", report(CONV, fix=Applicability.UNSAFE)) == (
        f"""warning[TL101 conv-bias-before-batchnorm]: {MESSAGE}
 --> train.py:1:8
  |
1 | conv = nn.Conv2d(3, 16, 3)
  |        ^^^^^^^^^^^^^^^^^^^
  |
  = help: Pass bias=False.
  = fix: Drop the bias (unsafe: `torchlint fix --unsafe-fixes` applies it)

Found: 1 problem in 1 file (1 warning).
`torchlint fix --unsafe-fixes` can fix 1.
"""
    )


def test_full_shows_what_a_fix_for_display_would_change() -> None:
    text = rendered("full", report(CONV, fix=Applicability.DISPLAY, replacement="nn.Conv2d(\n    3, 16, 3)"))
    assert "  | - conv = nn.Conv2d(3, 16, 3)\n  | + conv = nn.Conv2d(\n  | +     3, 16, 3)\n" in text
    assert "can fix" not in text


def test_full_names_a_notebooks_cell() -> None:
    assert " --> book.ipynb:cell 3:1:8\n" in rendered("full", report(CONV, path="book.ipynb", cell=3))


def test_full_without_the_lines_still_tells_everything() -> None:
    text = rendered("full", dataclasses.replace(report(CONV), lines={}))
    assert f"{MESSAGE}\n --> train.py:1:8\n  = help: Pass bias=False.\n" in text


def test_concise() -> None:
    assert rendered("concise", report(TWO, fix=Applicability.SAFE)).splitlines() == [
        f"train.py:1:8: TL101 conv-bias-before-batchnorm: {MESSAGE} [fixable]",
        f"train.py:2:5: TL101 conv-bias-before-batchnorm: {MESSAGE} [fixable]",
        "Found: 2 problems in 1 file (1 error, 1 warning).",
        "`torchlint fix` can fix 2.",
    ]


@pytest.mark.parametrize("name", ["full", "concise"])
def test_the_summary_of_a_clean_run(name: str) -> None:
    assert rendered(name, Report(files=3)) == "No problems in 3 files.\n"
    failed = rendered(name, Report(files=3, diagnostics=DIAGNOSTICS))
    assert failed == "No problems in 3 files; 3 files could not be fully checked.\n"


def test_the_summary_of_a_fix() -> None:
    applied = (Applied("a.py", "TL101", "conv-bias-before-batchnorm", 2), Applied("b.py", "TL102", "x", 1))
    done = Report(files=2, applied=applied, display=Display(show_fixes=True))
    assert rendered("concise", done).splitlines() == [
        "a.py:",
        "  2 x TL101 conv-bias-before-batchnorm",
        "b.py:",
        "  1 x TL102 x",
        "Fixed 3 problems in 2 files.",
        "No problems left in 2 files.",
    ]


def test_json_is_the_contract() -> None:
    assert json.loads(rendered("json", report(CONV, fix=Applicability.SAFE))) == [
        {
            "code": "TL101",
            "rule": "conv-bias-before-batchnorm",
            "message": MESSAGE,
            "help": "Pass bias=False.",
            "severity": "warning",
            "path": "train.py",
            "line": 1,
            "column": 8,
            "end_line": 1,
            "end_column": 27,
            "cell": None,
            "fix": {
                "applicability": "safe",
                "message": "Drop the bias",
                "edits": [{"path": "train.py", "cell": None, "start": [1, 8], "end": [1, 27], "content": "None"}],
            },
            "url": None,
        }
    ]
    (in_cell,) = json.loads(rendered("json", report(CONV, cell=3)))
    assert (in_cell["cell"], in_cell["fix"]) == (3, None)


def test_jsonlines_are_the_objects_of_json() -> None:
    found = report(TWO, fix=Applicability.UNSAFE)
    lines = rendered("jsonlines", found).splitlines()
    assert [json.loads(line) for line in lines] == json.loads(rendered("json", found))


def test_github() -> None:
    found = dataclasses.replace(report(TWO), diagnostics=DIAGNOSTICS)
    title = "title=torchlint (TL101 conv-bias-before-batchnorm),file=train.py"
    assert rendered("github", found).splitlines() == [
        f"::warning {title},line=1,endLine=1,col=8,endColumn=27::train.py:1:8: {MESSAGE}%0APass bias=False.",
        f"::error {title},line=2,endLine=3::train.py:2:5: {MESSAGE}%0APass bias=False.",
        "::error title=torchlint (syntax-error),file=broken.py,line=3::broken.py:3:7: invalid syntax",
        "::error title=torchlint (unreadable),file=gone.py::gone.py: No such file or directory",
        "::error title=torchlint (syntax-error),file=book.ipynb::book.ipynb:cell 4:1:2: invalid syntax",
    ]


def test_github_escapes() -> None:
    text = rendered("github", report(CONV, path="a,b:c%.py", message="100%\r\n::error::x"))
    assert text.count("\n") == 1
    assert "file=a%2Cb%3Ac%25.py," in text
    assert "100%25%0A::error::x" in text


def sarif_run(found: Report) -> dict[str, Any]:
    log = json.loads(rendered("sarif", found))
    schema = json.loads((Path(__file__).parent / "data" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
    jsonschema.validate(log, schema)
    run: dict[str, Any] = log["runs"][0]
    return run


def test_sarif_is_valid_and_says_everything() -> None:
    run = sarif_run(dataclasses.replace(report(TWO, fix=Applicability.SAFE), diagnostics=DIAGNOSTICS))
    assert [result["level"] for result in run["results"]] == ["warning", "error"]
    region = run["results"][0]["locations"][0]["physicalLocation"]["region"]
    snippet = {"text": "conv = nn.Conv2d(3, 16, 3)"}
    assert region == {"startLine": 1, "startColumn": 8, "endLine": 1, "endColumn": 27, "snippet": snippet}
    assert run["results"][0]["fixes"][0]["properties"] == {"applicability": "safe"}
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert len(invocation["toolExecutionNotifications"]) == 3


def test_sarif_describes_the_rules_that_were_found() -> None:
    found = report(CONV)
    known = dataclasses.replace(found.findings[0], code="TL001", rule="unused-ignore")
    run = sarif_run(dataclasses.replace(found, findings=(known, found.findings[0])))
    conv, unused = run["tool"]["driver"]["rules"]
    assert (conv["id"], unused["id"]) == ("TL101", "TL001")
    assert unused["help"]["markdown"].startswith("# unused-ignore (TL001)\n")
    assert [result["ruleIndex"] for result in run["results"]] == [1, 0]


def test_sarif_of_other_runs_is_valid() -> None:
    assert sarif_run(Report())["results"] == []
    (result,) = sarif_run(report(CONV, path="a b%/漢.ipynb", cell=2, fix=Applicability.SAFE))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20b%25/%E6%BC%A2.ipynb"
    assert "fixes" not in result
    (shown,) = sarif_run(report(CONV, fix=Applicability.DISPLAY))["results"]
    assert "fixes" not in shown


def test_gitlab() -> None:
    (issue,) = json.loads(rendered("gitlab", report(CONV)))
    assert len(issue.pop("fingerprint")) == 64
    assert issue == {
        "description": f"TL101 conv-bias-before-batchnorm: {MESSAGE}",
        "check_name": "conv-bias-before-batchnorm",
        "severity": "major",
        "location": {"path": "train.py", "lines": {"begin": 1, "end": 1}},
    }


def fingerprints(code: str, **more: Any) -> list[str]:
    return [issue["fingerprint"] for issue in json.loads(rendered("gitlab", report(code, **more)))]


def test_fingerprints_move_with_their_line_and_are_all_different() -> None:
    assert fingerprints("import torch\n\n" + CONV) == fingerprints(CONV)
    indented = "if True:\n    conv = nn.Conv2d(3, 16, 3)\n#          ^^^^^^^^^^^^^^^^^^^\n"
    assert fingerprints(indented) == fingerprints(CONV)
    assert len(set(fingerprints(CONV * 3))) == 3
    assert fingerprints(CONV, path="other.py") != fingerprints(CONV)
    assert fingerprints(CONV, message="said otherwise") == fingerprints(CONV)


def test_junit() -> None:
    root = ElementTree.fromstring(rendered("junit", dataclasses.replace(report(TWO), diagnostics=DIAGNOSTICS)))
    assert root.attrib == {"name": "torchlint", "tests": "5", "failures": "2", "errors": "3"}
    suites = [(s.get("name"), s.get("tests"), s.get("failures"), s.get("errors")) for s in root]
    assert suites == [
        ("book.ipynb", "1", "0", "1"),
        ("broken.py", "1", "0", "1"),
        ("gone.py", "1", "0", "1"),
        ("train.py", "2", "2", "0"),
    ]
    failure = root.find("testsuite[@name='train.py']/testcase/failure")
    assert failure is not None
    assert failure.text == f"train.py:1:8: {MESSAGE}\nPass bias=False."


def test_junit_of_a_clean_run_has_a_passing_case() -> None:
    root = ElementTree.fromstring(rendered("junit", Report(files=1)))
    assert root.attrib == {"name": "torchlint", "tests": "1", "failures": "0", "errors": "0"}


@pytest.mark.parametrize("name", FORMATS)
def test_nasty_text_breaks_no_format(name: str) -> None:
    found = report(CONV, path=NASTY, message=NASTY, fix=Applicability.UNSAFE)
    text = rendered(name, dataclasses.replace(found, diagnostics=DIAGNOSTICS))
    text.encode("utf-8")
    assert "\x1b" not in text
    assert "\x00" not in text
    check_whole(name, text, 1)


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_breaks_no_format(path: str, message: str) -> None:
    found = report(CONV, path=path, message=message)
    for name in FORMATS:
        text = rendered(name, found)
        text.encode("utf-8")
        check_whole(name, text, 1)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("code", ["", CONV, TWO])
def test_every_format_stays_whole_with_diagnostics(name: str, code: str) -> None:
    found = report(code)
    check_whole(name, rendered(name, dataclasses.replace(found, diagnostics=DIAGNOSTICS)), len(found.findings))


def check_whole(name: str, text: str, count: int) -> None:
    """The text parses as what it says it is, and holds that many findings."""
    if name in ("json", "gitlab"):
        assert len(json.loads(text)) == count
    elif name == "jsonlines":
        assert len([json.loads(line) for line in text.splitlines()]) == count
    elif name == "sarif":
        assert len(json.loads(text)["runs"][0]["results"]) == count
    elif name == "junit":
        assert ElementTree.fromstring(text).get("failures") == str(count)
    elif name == "github":
        assert len([line for line in text.split("\n") if " title=torchlint (TL101 " in line]) == count
    else:
        assert text.endswith("\n")


@pytest.mark.parametrize("name", FORMATS)
def test_a_report_does_not_change_from_run_to_run(name: str) -> None:
    found = report(TWO, fix=Applicability.SAFE)
    assert rendered(name, found) == rendered(name, found)


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(KeyError):
        renderer("yaml")


@pytest.mark.parametrize("name", FORMATS)
def test_plain_text_does_not_import_rich(name: str) -> None:
    code = (
        "import sys\nfrom tests.reports import report\nfrom torchlint.reporting import renderer\n"
        f"renderer({name!r})(report({CONV!r}), sys.stdout.write)\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] in ('rich', 'torch')]\n"
    )
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_diagnostics_are_lines() -> None:
    pieces: list[str] = []
    render_diagnostics((*DIAGNOSTICS, Diagnostic("rule-crash", "a.py", "KeyError: 1\n\tat x\x1b")), pieces.append)
    assert "".join(pieces).splitlines() == [
        "torchlint: broken.py:3:7: syntax-error: invalid syntax",
        "torchlint: gone.py: unreadable: No such file or directory",
        "torchlint: book.ipynb:cell 4:1:2: syntax-error: invalid syntax",
        "torchlint: a.py: rule-crash: KeyError: 1",
        "    ␉at x␛",
    ]


def test_statistics() -> None:
    pieces: list[str] = []
    found = report(CONV * 11, fix=Applicability.UNSAFE)
    other = dataclasses.replace(found.findings[0], code="TL102", rule="data-parallel", fix=None)
    both = dataclasses.replace(found, findings=(*found.findings, other))
    render_statistics(both, pieces.append)
    assert "".join(pieces).splitlines() == [
        "11  TL101  conv-bias-before-batchnorm  11 unsafe fix",
        " 1  TL102  data-parallel",
    ]
    pieces.clear()
    render_statistics_json(both, pieces.append)
    assert json.loads("".join(pieces))[1] == {
        "code": "TL102", "rule": "data-parallel", "count": 1, "safe_fixes": 0, "unsafe_fixes": 0,
    }  # fmt: skip
