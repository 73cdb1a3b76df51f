"""Fixes that edit other files than the one they are found in: which may be edited, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchlint import saving
from torchlint.checking import FileResult, Mode, Rewrite
from torchlint.cli import run
from torchlint.config import Configuration
from torchlint.discovery import discover
from torchlint.fixing import FileChanged, write_atomically

TRAIN = """\
import torch
from torchvision.datasets import ImageFolder

from options import parse

args = parse()
loader = torch.utils.data.DataLoader(ImageFolder("photos"), num_workers=args.workers)
"""
OPTIONS = """\
import argparse

def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", default=0, type=int)
    return parser.parse_args()
"""
RULE = "dataloader-no-workers"
FIX = ("fix", "--unsafe-fixes", "--select", RULE)


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAIN, encoding="utf-8")
    Path("options.py").write_text(OPTIONS, encoding="utf-8")
    Path("pyproject.toml").write_text("[project]\nname = 'x'\n", encoding="utf-8")


def is_fixed() -> bool:
    assert Path("train.py").read_text(encoding="utf-8") == TRAIN
    return "default=4" in Path("options.py").read_text(encoding="utf-8")


def test_the_other_file_is_edited_and_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*FIX, "--show-fixes"]) == 0
    assert is_fixed()
    said = capfd.readouterr().out
    assert said.startswith(f"options.py:\n  1 x TL108 {RULE}\nFixed 1 problem in 1 file.\n"), said


def test_a_fix_of_several_files_names_all_and_counts_once() -> None:
    from torchlint.engine import report_of
    from torchlint.reporting.report import Applied, Display

    own = FileResult("a.py", applied=(Applied("a.py", "TL1", "x", 2), Applied("b.py", "TL1", "x", 1, 1)))
    other = FileResult("b.py", applied=(Applied("b.py", "TL1", "x", 3),))
    report = report_of([own, other], [], 2, Display())
    assert report.fixed == 5
    assert report.applied == (Applied("a.py", "TL1", "x", 2), Applied("b.py", "TL1", "x", 4, 1))


@pytest.mark.parametrize(
    "settings",
    [
        'exclude = ["options.py"]',
        'extend-exclude = ["opt*"]',
        'include = ["train.py"]',
        f'per-file-ignores = {{"options.py" = ["{RULE}"]}}',
        'per-file-ignores = {"options.py" = ["TL1"]}',
    ],
)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_settings_keep_a_file_as_it_is(settings: str, jobs: str, capfd: pytest.CaptureFixture[str]) -> None:
    Path("torchlint.toml").write_text(settings + "\n", encoding="utf-8")
    assert run([*FIX, "--jobs", jobs]) == 1
    assert not is_fixed()
    assert "fix-failed" not in capfd.readouterr().err


def test_options_of_the_command_line_keep_a_file_as_it_is() -> None:
    assert run([*FIX, "--extend-exclude", "options.py"]) == 1
    assert not is_fixed()


def test_a_gitignore_keeps_a_file_as_it_is() -> None:
    Path(".git").mkdir()
    Path(".gitignore").write_text("options.py\n", encoding="utf-8")
    assert run([*FIX]) == 1
    assert not is_fixed()


@pytest.mark.parametrize("settings", [f'unfixable = ["{RULE}"]', f'ignore = ["{RULE}"]', 'select = ["TL101"]'])
def test_the_settings_of_another_folder_count_there(settings: str) -> None:
    Path("lib").mkdir()
    Path("options.py").rename("lib/options.py")
    Path("lib/__init__.py").touch()
    Path("train.py").write_text(TRAIN.replace("from options", "from lib.options"), encoding="utf-8")
    Path("lib/torchlint.toml").write_text(settings + "\n", encoding="utf-8")
    assert run(["fix", "--unsafe-fixes", "train.py"]) == 1
    assert "default=0" in Path("lib/options.py").read_text(encoding="utf-8")
    Path("lib/torchlint.toml").unlink()
    assert run(["fix", "--unsafe-fixes", "train.py"]) == 0
    assert "default=4" in Path("lib/options.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "silenced",
    ["# torchlint: skip-file\n" + OPTIONS, OPTIONS.replace("type=int)", f"type=int)  # torchlint: ignore[{RULE}]")],
)
def test_a_comment_keeps_a_file_as_it_is(silenced: str) -> None:
    Path("options.py").write_text(silenced, encoding="utf-8")
    assert run([*FIX]) == 1
    assert Path("options.py").read_text(encoding="utf-8") == silenced


# Writing several files.


def results() -> list[FileResult]:
    rewrites = tuple(
        Rewrite(Path(name), name, Path(name).read_bytes(), b"new\n") for name in ("options.py", "train.py")
    )
    return [FileResult("train.py", rewrites=rewrites)]


def saved(monkeypatch: pytest.MonkeyPatch, failing: dict[int, Exception]) -> tuple[list[str], int]:
    """What is said when these calls fail, and how many there were."""
    calls = 0

    def write(path: Path, data: bytes, expected: bytes) -> None:
        nonlocal calls
        calls += 1
        if calls in failing:
            raise failing[calls]
        write_atomically(path, data, expected)

    monkeypatch.setattr(saving, "write_atomically", write)
    monkeypatch.setattr(saving, "_PAUSE", 0)
    found = discover(["train.py"], Configuration(isolated=True))
    done = saving.save(results(), found.targets, Mode.FIX)
    return [diagnostic.message for result in done for diagnostic in result.diagnostics], calls


def test_files_are_put_back_where_a_later_one_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    said, _ = saved(monkeypatch, {2: PermissionError(13, "read-only", "train.py")})
    assert Path("options.py").read_text(encoding="utf-8") == OPTIONS
    assert len(said) == 1
    assert "read-only" in said[0]
    assert "the file is as it was" in said[0]


@pytest.mark.parametrize("first", [PermissionError(13, "read-only"), FileChanged("train.py changed")])
@pytest.mark.parametrize("then", [FileChanged("it is locked"), OSError(28, "No space left")])
def test_what_cannot_be_put_back_is_named(monkeypatch: pytest.MonkeyPatch, first: Exception, then: Exception) -> None:
    said, calls = saved(monkeypatch, {2: first, 3: then})
    assert Path("options.py").read_bytes() == b"new\n"
    assert Path("train.py").read_text(encoding="utf-8") == TRAIN
    assert (len(said), calls) == (1, 3), "nothing is tried again as if nothing had been written"
    assert all(str(part) in said[0] for part in (first, "options.py", then))
    assert "as it was" not in said[0]


def test_the_original_error_is_kept_when_others_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.py", "b.py", "c.py"):
        Path(name).write_bytes(b"old\n")
    calls: list[str] = []

    def write(path: Path, data: bytes, expected: bytes) -> None:
        calls.append(path.name)
        if path.name == "c.py":
            raise PermissionError(13, "read-only")
        if path.name == "a.py" and calls.count("a.py") == 2:
            raise FileChanged("a.py changed")
        write_atomically(path, data, expected)

    monkeypatch.setattr(saving, "write_atomically", write)
    error = saving._written([Rewrite(Path(n), n, b"old\n", b"new\n") for n in ("a.py", "b.py", "c.py")])
    assert "read-only" in str(error)
    assert "a.py (a.py changed)" in str(error)
    assert [Path(n).read_bytes() for n in ("a.py", "b.py", "c.py")] == [b"new\n", b"old\n", b"old\n"]
    assert not list(Path().glob(".torchlint-*"))
