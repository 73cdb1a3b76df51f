"""Colours, on a real pseudo-terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")

ROOT = Path(__file__).parents[1]
CODE = """
import os, sys
from dataclasses import replace
from tests.reports import report
from torchlint.reporting import display, renderer
found = report("conv = nn.Conv2d(3, 16, 3)\\n#      ^^^^^^^^^^^^^^^^^^^\\n")
renderer("full")(replace(found, display=display(sys.stdout, os.environ)), sys.stdout.write)
"""


def environment(**variables: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
    return {**kept, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **variables}


def on_a_terminal(*command: str, **variables: str) -> str:
    """What a command (by default the code) writes when its standard output is a terminal."""
    command = command or ("-c", CODE)
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=theirs, env=environment(**variables)) as child:
        os.close(theirs)
        written = b""
        while piece := read(ours):
            written += piece
        assert child.wait() in (0, 1)
    os.close(ours)
    return written.decode().replace("\r\n", "\n")


def read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux says EIO once the other end is closed
        return b""


def in_a_pipe(**variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, env=environment(**variables), check=True
    )
    return done.stdout.decode()


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_a_terminal_gets_colours_and_the_same_words() -> None:
    text = on_a_terminal()
    assert "\x1b[1;33mwarning" in text
    assert without_colours(text) == in_a_pipe()


def test_a_pipe_gets_plain_text() -> None:
    assert "\x1b" not in in_a_pipe()


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}])
def test_a_terminal_may_refuse_colours(variables: dict[str, str]) -> None:
    assert "\x1b" not in on_a_terminal(**variables)


def test_an_empty_variable_is_not_set() -> None:
    assert "\x1b" in on_a_terminal(NO_COLOR="")
    assert "\x1b" not in in_a_pipe(FORCE_COLOR="")


def test_colours_can_be_forced_into_a_pipe() -> None:
    assert "\x1b[1;33mwarning" in in_a_pipe(FORCE_COLOR="1")


CHECK = ("-m", "torchlint", "check", "--isolated", "fixtures/training/train.py")


def test_the_command_is_coloured_on_a_terminal() -> None:
    assert "\x1b[1;33mwarning" in on_a_terminal(*CHECK)
    assert "\x1b[" in on_a_terminal("-m", "torchlint", "rule", "data-parallel")
    assert "\x1b" not in on_a_terminal(*CHECK, NO_COLOR="1")


def test_short_lines_are_coloured_on_a_terminal() -> None:
    text = on_a_terminal(*CHECK, "--output-format", "concise")
    assert "\x1b[1mfixtures/training/train.py:32:17\x1b[0m: \x1b[1;33mTL301 data-parallel\x1b[0m: `Data" in text
    assert on_a_terminal(*CHECK, "--output-format", "concise", NO_COLOR="1") == without_colours(text)


def test_a_diff_is_coloured_on_a_terminal_only() -> None:
    text = on_a_terminal(*CHECK, "--diff")
    assert "\x1b[1m--- fixtures/training/train.py\x1b[0m\n\x1b[1m+++ fixtures/training/train.py\x1b[0m\n" in text
    assert "\n\x1b[31m-    class_weights" in text
    assert "\n\x1b[32m+    class_weights" in text
    plain = on_a_terminal(*CHECK, "--diff", NO_COLOR="1")
    assert plain == without_colours(text)
    done = subprocess.run([sys.executable, *CHECK, "--diff"], cwd=ROOT, capture_output=True, check=False,
                          env=environment(FORCE_COLOR="1"))
    assert done.stdout.decode() == plain


def test_a_report_in_a_file_is_plain_even_if_a_terminal_watches(tmp_path: Path) -> None:
    on_a_terminal(*CHECK, "--output-file", str(tmp_path / "report.txt"))
    text = (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert "data-parallel" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("name", ["json", "sarif", "junit"])
def test_formats_for_programs_are_plain_on_a_terminal(name: str) -> None:
    assert "\x1b" not in on_a_terminal(*CHECK, "--output-format", name)
