"""The fix engine, driven by small made-up rules: rounds, proofs, and files that never lose a byte."""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchlint.findings import Applicability, Diagnostic, Edit, Finding, Fix, Severity
from torchlint.fixing import (
    SAFE,
    SAFE_AND_UNSAFE,
    FileChanged,
    Fixed,
    fix_source,
    unified_diff,
    write_atomically,
)
from torchlint.syntax.editing import insert_before, wrap_in_with
from torchlint.syntax.notebook import notebook_from_bytes
from torchlint.syntax.source import Source
from torchlint.syntax.tree import parse

Found = tuple[list[Finding], list[Diagnostic]]


class Rules:
    """Made-up rules: each finds a pattern and replaces it by what its template says."""

    def __init__(self, *rules: tuple[str, str | None], severity: Severity = Severity.WARNING,
                 applicability: Applicability = Applicability.SAFE) -> None:
        self.rules = rules
        self.severity = severity
        self.applicability = applicability
        self.seen: list[str] = []

    def check(self, source: Source, others: Mapping[str, Source]) -> Found:
        self.seen.append(source.text)
        found = []
        for number, (pattern, template) in enumerate(self.rules):
            for match in re.finditer(pattern, source.text):
                fix = None
                if template is not None:
                    edit = Edit(source.span(*match.span()), match.expand(template))
                    fix = Fix("", self.applicability, (edit,))
                span = source.span(*match.span())
                found.append(Finding(f"T{number}", f"rule-{number}", self.severity, span, "", fix=fix))
        return found, []

    def fix(self, text: str, allowed: frozenset[Applicability] = SAFE) -> Fixed:
        return fix_source(Source("a.py", text), self.check, allowed)


def test_all_fixes_of_a_file_in_one_round() -> None:
    rules = Rules((r"bad", "good"))
    fixed = rules.fix("bad(1)\nbad(2)\nother(3)\n")
    assert fixed.source.text == "good(1)\ngood(2)\nother(3)\n"
    assert (len(fixed.applied), fixed.findings, fixed.diagnostics) == (2, (), ())
    assert len(rules.seen) == 2


def test_nothing_to_do_is_checked_once() -> None:
    rules = Rules((r"bad", None))
    fixed = rules.fix("bad\n")
    assert (fixed.source.text, len(fixed.findings), fixed.applied) == ("bad\n", 1, ())
    assert len(rules.seen) == 1


@pytest.mark.parametrize(
    ("applicability", "safe", "unsafe"),
    [
        (Applicability.SAFE, "good", "good"),
        (Applicability.UNSAFE, "bad", "good"),
        (Applicability.DISPLAY, "bad", "bad"),
    ],
)
def test_only_what_is_allowed(applicability: Applicability, safe: str, unsafe: str) -> None:
    rules = Rules((r"bad", "good"), applicability=applicability)
    assert rules.fix("bad").source.text == safe
    assert rules.fix("bad", SAFE_AND_UNSAFE).source.text == unsafe


def test_fixes_that_overlap_wait_for_the_next_round() -> None:
    rules = Rules((r"out\((.*)\)", r"OUT(\1)"), (r"inn", "INN"))
    fixed = rules.fix("out(inn, inn)\n")
    assert fixed.source.text == "OUT(INN, INN)\n"
    assert [text.strip() for text in rules.seen] == ["out(inn, inn)", "OUT(inn, inn)", "OUT(INN, INN)"]


def test_a_fix_that_breaks_the_file_is_left_out_alone() -> None:
    rules = Rules((r"bad", "good"), (r"worse", "("))
    fixed = rules.fix("bad(1)\nworse(2)\nbad(3)\nbad(4)\n")
    assert fixed.source.text == "good(1)\nworse(2)\ngood(3)\ngood(4)\n"
    assert [(diagnostic.kind, diagnostic.path) for diagnostic in fixed.diagnostics] == [("fix-failed", "a.py")]
    assert "would not parse" in fixed.diagnostics[0].message
    assert [finding.rule for finding in fixed.findings] == ["rule-1"]
    assert len(fixed.applied) == 3


def test_a_file_beyond_the_parser_is_fixed_all_the_same() -> None:
    """libcst does not know every Python that CPython does, whose parser says where a file is wrong."""
    rules = Rules((r"bad", "good"), (r"worse", "("))
    fixed = rules.fix("(x): int = bad\nworse(2)\n")
    assert fixed.source.text == "(x): int = good\nworse(2)\n"
    assert [diagnostic.kind for diagnostic in fixed.diagnostics] == ["fix-failed"]


def test_many_faulty_fixes_do_not_keep_the_good_ones_back() -> None:
    text = "".join(f"bad({n})\nworse({n})\n" for n in range(30))
    fixed = Rules((r"bad", "good"), (r"worse", "(")).fix(text)
    assert fixed.source.text == text.replace("bad", "good")
    assert len(fixed.diagnostics) == 30


def test_a_fix_that_does_not_help_is_left_out() -> None:
    fixed = Rules((r"ba+d", "baad")).fix("x = bad\n")
    assert fixed.source.text == "x = bad\n"
    assert "still finds the same mistake" in fixed.diagnostics[0].message


@pytest.mark.parametrize(
    ("other", "kept"), [(Severity.ERROR, False), (Severity.WARNING, False), (Severity.HINT, True)]
)
def test_a_fix_may_bring_lesser_mistakes_only(other: Severity, kept: bool) -> None:
    rules, others = Rules((r"bad", "new")), Rules((r"new", None), severity=other)

    def check(source: Source, changed: Mapping[str, Source]) -> Found:
        renamed = [Finding("X", "x", found.severity, found.span, "") for found in others.check(source, changed)[0]]
        return rules.check(source, changed)[0] + renamed, []

    fixed = fix_source(Source("a.py", "new\nbad\n"), check, SAFE)
    assert fixed.source.text == ("new\nnew\n" if kept else "new\nbad\n")
    assert bool(fixed.diagnostics) is not kept


def test_a_fix_may_bring_a_mistake_that_the_run_fixes_too() -> None:
    fixed = Rules((r"one", "two"), (r"two", "three")).fix("one; two\n")
    assert (fixed.source.text, fixed.diagnostics) == ("three; three\n", ())


@pytest.mark.parametrize("template", ["one + one", "two"])
def test_rounds_that_do_not_end_change_nothing(template: str) -> None:
    text = "x = one\n"
    fixed = Rules((r"one", template), (r"two", "one")).fix(text)
    assert fixed.source.text == text
    assert fixed.diagnostics
    assert fixed.applied == ()


def test_a_new_diagnostic_speaks_against_a_fix() -> None:
    rules = Rules((r"bad", "good"))

    def check(source: Source, others: Mapping[str, Source]) -> Found:
        crash = [Diagnostic("rule-crash", source.path, "it crashed")] if "good" in source.text else []
        old = Diagnostic("rule-crash", source.path, "as before")
        return rules.check(source, others)[0], [old, *crash]

    fixed = fix_source(Source("a.py", "bad\n"), check, SAFE)
    assert fixed.source.text == "bad\n"
    assert [diagnostic.kind for diagnostic in fixed.diagnostics] == ["rule-crash", "fix-failed"]


def test_what_the_encoding_cannot_write_is_left_out() -> None:
    fixed = fix_source(Source("a.py", "bad\n", encoding="latin-1"), Rules((r"bad", "g€")).check, SAFE)
    assert (fixed.source.text, len(fixed.diagnostics)) == ("bad\n", 1)


def importing(source: Source, others: Mapping[str, Source]) -> Found:
    """Finds ``old``, and replaces it by something that needs an import."""
    found = []
    for match in re.finditer(r"old(\d)", source.text):
        span = source.span(*match.span())
        edits = (Edit(source.span(0, 0), f"import m{match[1]}\n"), Edit(span, f"m{match[1]}.new"))
        found.append(Finding("I", "i", Severity.WARNING, span, "", fix=Fix("", Applicability.SAFE, edits)))
    return found, []


def test_an_import_that_many_fixes_need_comes_once() -> None:
    fixed = fix_source(Source("a.py", "old2(old1, old1)\nold2\n"), importing, SAFE)
    assert fixed.source.text == "import m1\nimport m2\nm2.new(m1.new, m1.new)\nm2.new\n"
    assert len(fixed.applied) == 4


def wrapping(source: Source, others: Mapping[str, Source]) -> Found:
    """Wants each ``a…`` line under ``with a`` and each ``b…`` line, and all of them, under ``with b``."""
    tree = parse(source)
    body = tree.module.body
    if source.text.count("with") == 2:
        return [], []
    found = []
    for name, statements in (("a", body[:2]), ("b", body[1:])):
        edits = wrap_in_with(tree, statements, f"with {name}:")
        if edits and f"with {name}" not in source.text:
            fix = Fix("", Applicability.SAFE, tuple(edits))
            found.append(Finding(name, name, Severity.WARNING, edits[0].span, "", fix=fix))
    return found, []


def test_equal_insertions_of_two_fixes_are_not_merged() -> None:
    fixed = fix_source(Source("a.py", "x\ny\nz\n"), wrapping, SAFE)
    assert fixed.source.text == "with a:\n    x\n    y\nwith b:\n    z\n"


def test_insertions_at_one_place_wait_for_each_other() -> None:
    def check(source: Source, others: Mapping[str, Source]) -> Found:
        tree = parse(source)
        found = []
        for name in ("one", "two"):
            if name not in source.text:
                edits = insert_before(tree, tree.module.body[-1], [name])
                fix = Fix("", Applicability.SAFE, tuple(edits))
                found.append(Finding(name, name, Severity.WARNING, edits[0].span, "", fix=fix))
        return found, []

    assert fix_source(Source("a.py", "x\n"), check, SAFE).source.text == "one\ntwo\nx\n"


def across(source: Source, others: Mapping[str, Source]) -> Found:
    """Finds ``bad`` unless the other file was changed, and wants to change both."""
    if "b.py" in others or "bad" not in source.text:
        return [], []
    other = Source("b.py", "def bad(): pass\n")
    begin = source.text.index("bad")
    span = source.span(begin, begin + 3)
    edits = (Edit(span, "good"), Edit(other.span(4, 7), "good"))
    return [Finding("A", "a", Severity.WARNING, span, "", fix=Fix("", Applicability.SAFE, edits))], []


@pytest.mark.parametrize(
    ("read", "here", "there"),
    [
        (lambda path: Source(path, "def bad(): pass\n"), "good\n", {"b.py": "def good(): pass\n"}),
        (lambda path: Source(path, "def bad("), "bad\n", {}),
        (lambda path: None, "bad\n", {}),
        (None, "bad\n", {}),
    ],
)
def test_fixes_in_several_files_are_all_or_nothing(
    read: Callable[[str], Source | None] | None, here: str, there: dict[str, str]
) -> None:
    fixed = fix_source(Source("a.py", "bad\n"), across, SAFE, read)
    assert fixed.source.text == here
    assert {path: source.text for path, source in fixed.others.items()} == there
    assert bool(fixed.diagnostics) is (not there)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["bad", "worse(bad)", "x", "one", "two(one)", "(bad, one)"]), max_size=8))
def test_fixing_is_idempotent_and_leaves_the_rest_alone(words: list[str]) -> None:
    rules = Rules((r"bad", "good"), (r"worse\((\w+)\)", r"\1"), (r"one", "two"))
    text = "\n".join(words)
    fixed = rules.fix(text)
    expected = re.sub(r"worse\((\w+)\)", r"\1", text).replace("bad", "good").replace("one", "two")
    assert (fixed.source.text, fixed.findings, fixed.diagnostics) == (expected, (), ())
    assert rules.fix(fixed.source.text).source.text == expected


def test_unified_diff() -> None:
    before = Source("pkg/a.py", "a\nb\x0c\u2028\r\nc")
    assert unified_diff(before, before) == ""
    assert unified_diff(before, Source("pkg/a.py", "a\nB\nc")) == (
        "--- pkg/a.py\n+++ pkg/a.py\n@@ -1,3 +1,3 @@\n a\n-b\x0c\u2028\r\n+B\n c\n\\ No newline at end of file\n"
    )


def test_unified_diff_of_a_notebook_shows_what_the_user_wrote() -> None:
    data = b'{"cells": [{"cell_type": "markdown"}, {"cell_type": "code", "source": "%x\\nbad"}]}'
    before = notebook_from_bytes(data, "n.ipynb")
    begin = before.text.index("bad")
    after = before.edited([Edit(before.span(begin, begin + 3), "good")])
    assert unified_diff(before, after) == (
        "--- n.ipynb:cell 2\n+++ n.ipynb:cell 2\n@@ -1,2 +1,2 @@\n %x\n"
        "-bad\n\\ No newline at end of file\n+good\n\\ No newline at end of file\n"
    )


# Writing.


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_bytes(b"old\r\n")
    return path


def only(path: Path) -> list[str]:
    return [entry.name for entry in path.parent.iterdir()]


def test_writing(file: Path) -> None:
    write_atomically(file, b"new\n", b"old\r\n")
    assert (file.read_bytes(), only(file)) == (b"new\n", ["a.py"])


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
@pytest.mark.parametrize("mode", [0o600, 0o755, 0o664])
def test_the_mode_is_kept(file: Path, mode: int) -> None:
    file.chmod(mode)
    write_atomically(file, b"new\n", b"old\r\n")
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_a_symlink_stays_one(file: Path) -> None:
    link = file.with_name("link.py")
    try:
        link.symlink_to(file.name)
    except OSError:
        pytest.skip("no symlinks here")
    write_atomically(link, b"new\n", b"old\r\n")
    assert link.is_symlink()
    assert file.read_bytes() == b"new\n"


def test_a_file_that_changed_is_left_alone(file: Path) -> None:
    with pytest.raises(FileChanged):
        write_atomically(file, b"new\n", b"older\n")
    assert (file.read_bytes(), only(file)) == (b"old\r\n", ["a.py"])


def test_a_file_that_vanished(file: Path) -> None:
    file.unlink()
    with pytest.raises(FileNotFoundError):
        write_atomically(file, b"new\n", b"old\r\n")
    assert list(file.parent.iterdir()) == []


def test_a_read_only_file_is_left_alone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everything
    with pytest.raises(PermissionError):
        write_atomically(file, b"new\n", b"old\r\n")
    assert file.read_bytes() == b"old\r\n"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_or_an_interrupt_loses_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, step: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os if step == "fsync" else Path, step, fail)
    with pytest.raises(type(error)):
        write_atomically(file, b"new\n", b"old\r\n")
    monkeypatch.undo()
    assert (file.read_bytes(), only(file)) == (b"old\r\n", ["a.py"])


WRITER = """
import sys
from pathlib import Path
from torchlint.fixing import FileChanged, write_atomically
path, mark = Path(sys.argv[1]), sys.argv[2].encode()
done = 0
for _ in range(60):
    before = path.read_bytes()
    try:
        write_atomically(path, before + mark, before)
        done += 1
    except FileChanged:
        pass
print(done)
"""


def test_processes_that_write_at_once_lose_nothing(file: Path) -> None:
    pytest.importorskip("fcntl")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(file), mark], stdout=subprocess.PIPE, text=True)
        for mark in "xyz"
    ]
    done = [int(writer.communicate()[0]) for writer in writers]
    assert [file.read_bytes().count(mark.encode()) for mark in "xyz"] == done
    assert file.read_bytes().startswith(b"old\r\n")
    assert only(file) == ["a.py"]


def test_readers_see_the_old_file_or_the_new_one(file: Path) -> None:
    texts = [b"a" * 200_000, b"b" * 200_000]
    file.write_bytes(texts[0])
    seen: set[bytes] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen.add(file.read_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for turn in range(30):
        write_atomically(file, texts[(turn + 1) % 2], texts[turn % 2])
    done.set()
    watcher.join()
    assert seen <= set(texts)
