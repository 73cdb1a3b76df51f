"""Results that were kept: never another than a run without them would come to."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests import projects
from torchlint import discovery, engine
from torchlint.cache import store
from torchlint.cache.folder import FOLDER_NAME
from torchlint.checking import Checker, FileResult, Mode, Task
from torchlint.config import Configuration

SEQUENCES = int(os.environ.get("TORCHLINT_EDIT_SEQUENCES", "40"))
"""Random sequences of edits: a few here, a thousand where there is time."""

EDITS = 6


def run(folder: Path, *, cached: bool, paths: list[str] | None = None, **overrides: Any) -> list[FileResult]:
    found = discovery.discover(paths or [str(folder)], Configuration(overrides, isolated=True))
    return engine.run(found.targets, cached=cached).results


def outcomes(results: list[FileResult]) -> dict[str, object]:
    """What a report is made of; files without anything are left out."""
    told = ((r.path, (r.findings, r.diagnostics, dict(r.lines))) for r in results)
    return {path: outcome for path, outcome in told if any(outcome)}


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_warm_is_cold(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random(seed)
    monkeypatch.chdir(tmp_path)
    is_coarse = seed % 2 == 0  # files that were just written are read again; else their times must tell
    if not is_coarse:
        monkeypatch.setattr(store, "_SETTLED", 0.0)
    projects.make(tmp_path, generator)
    story: list[str] = []
    for _ in range(EDITS):
        story += [projects.edit(tmp_path, generator) for _ in range(generator.choice([0, 1, 1, 1, 2, 4]))]
        if not is_coarse:
            time.sleep(0.02)  # the clock of the file system
        options: dict[str, Any] = generator.choice([{}, {}, {}, {"ignore": ("TL101",)}])
        cold = outcomes(run(tmp_path, cached=False, **options))
        some = [str(path) for path in sorted(tmp_path.rglob("*.py")) if generator.random() < 0.3]
        if some and generator.random() < 0.4:  # as pre-commit does
            story.append("some files")
            warm = outcomes(run(tmp_path, cached=True, paths=some, **options))
            names = {Path(path).relative_to(tmp_path).as_posix() for path in some}
            assert warm == {path: outcome for path, outcome in cold.items() if path in names}, story
        story.append("run")
        assert outcomes(run(tmp_path, cached=True, **options)) == cold, story


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that was checked once, so that its results are kept."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(store, "_SETTLED", -1e9)  # however new its files are
    projects.write(tmp_path / "pyproject.toml", "[project]\nname = 'project'\n")
    for name, contents in projects.CONTENTS.items():
        projects.write(tmp_path / name, contents[0])
    assert outcomes(run(tmp_path, cached=True))
    return tmp_path


def kept(folder: Path) -> Path:
    return next((folder / FOLDER_NAME).rglob("*.json"))


def checked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that a run checks anew."""
    names: list[str] = []
    original = Checker.check_file

    def check_file(self: Checker, task: Task) -> FileResult:
        names.append(task.shown)
        return original(self, task)

    with monkeypatch.context() as patch:
        patch.setattr(Checker, "check_file", check_file)
        cold = outcomes(run(folder, cached=False))
        names.clear()
        assert outcomes(run(folder, cached=True)) == cold
    return sorted(names)


def test_only_what_rests_on_a_change_is_checked_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked(project, monkeypatch) == []
    projects.write(project / "models/layers.py", projects.CONTENTS["models/layers.py"][1])
    assert checked(project, monkeypatch) == ["models/net.py"]  # no rule can report in the layers themselves
    assert checked(project, monkeypatch) == []


def test_what_was_not_there_counts_too(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that now hides another, and a folder that becomes a package."""
    projects.write(project / "data/engine.py", "import torch\n")
    assert checked(project, monkeypatch) == []  # `data` imports no `engine`
    projects.write(project / "tools/engine.py", "def validate(model, loader):\n    return 0\n")
    assert "tools/run.py" in checked(project, monkeypatch)
    projects.write(project / "use.py", "import torch\nimport nets\nnets.net.make(torch.utils.data.DataLoader([]))\n")
    (project / "nets").mkdir()
    assert "use.py" in checked(project, monkeypatch)
    projects.write(project / "nets/net.py", "def make(loader):\n    return loader\n")
    assert "use.py" in checked(project, monkeypatch)


def test_new_callers_are_seen(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    projects.write(project / "late.py", "import torch\nfrom engine import validate\nvalidate(1, 2)\n")
    assert "engine.py" in checked(project, monkeypatch)


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "other json", "binary", "folder"])
def test_a_broken_store_is_no_store(damage: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = kept(project)
    data = file.read_bytes()
    if damage == "folder":
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes({
            "empty": b"", "cut": data[:len(data) // 2], "flipped": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
            "other json": store._head(b'{"files": [1]}').encode() + b'\n{"files": [1]}', "binary": bytes(range(256)),
        }[damage])
    assert len(checked(project, monkeypatch)) > 3
    assert checked(project, monkeypatch) == [] or damage == "folder"


def test_a_file_that_was_just_written_is_read_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its times may be those of the text before: file systems have coarse clocks."""
    monkeypatch.setattr(store, "_SETTLED", 2.0)
    path = project / "models/layers.py"
    before = path.stat()
    shutil.rmtree(project / FOLDER_NAME)
    coarse = int(before.st_mtime)
    monkeypatch.setattr(store, "_stat", lambda path: [1, coarse * 10**9, coarse * 10**9, 4])
    checked(project, monkeypatch)
    path.write_text(path.read_text().replace("BatchNorm2d(b)", "Conv2d(b, b, 3)"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "models/net.py" in checked(project, monkeypatch)


def test_results_of_other_settings_are_others(project: Path) -> None:
    everything, fewer = outcomes(run(project, cached=True)), outcomes(run(project, cached=True, ignore=("TL108",)))
    assert everything != fewer
    assert outcomes(run(project, cached=True)) == everything


def test_what_a_fix_may_do_elsewhere_is_not_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fix lies in a file with settings of its own, which may change."""
    projects.write(project / "options.py", """
        import argparse
        def parse():
            parser = argparse.ArgumentParser()
            parser.add_argument("--workers", default=0, type=int)
            return parser.parse_args()
        """)
    projects.write(project / "load.py", """
        import torch
        from torchvision.datasets import ImageFolder
        from options import parse
        loader = torch.utils.data.DataLoader(ImageFolder("photos"), num_workers=parse().workers)
        """)
    checked(project, monkeypatch)
    assert checked(project, monkeypatch) == ["load.py"]


def test_fixing_looks_at_files_with_findings_only(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = discovery.discover([str(project)], Configuration(isolated=True))
    cold = engine.run(found.targets, Mode.FIX_UNSAFE).rewrites
    warm = engine.run(found.targets, Mode.FIX_UNSAFE, cached=True).rewrites
    assert cold
    assert warm == cold


COMMAND = [sys.executable, "-m", "torchlint", "check", "--isolated", "--exit-zero", "--output-format", "concise"]


def command(folder: Path, *options: str) -> str:
    done = subprocess.run([*COMMAND, *options, "."], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 2), done.stderr  # 2: one of the files is broken
    return done.stdout


def test_runs_that_are_killed_leave_a_cache_that_holds(tmp_path: Path) -> None:
    generator = random.Random(7)
    projects.make(tmp_path, generator)
    for _ in range(12):
        projects.edit(tmp_path, generator)
        run = subprocess.Popen([*COMMAND, "."], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(generator.uniform(0.05, 0.4))
        run.kill()
        run.wait()
        assert command(tmp_path) == command(tmp_path, "--no-cache")


def test_runs_at_once_share_a_cache(project: Path) -> None:
    expected = command(project, "--no-cache")
    runs = [subprocess.Popen([*COMMAND, "."], cwd=project, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [run.communicate()[0] for run in runs] == [expected] * 4
    assert command(project) == expected


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="needs a user whom permissions bind")
def test_a_folder_that_cannot_be_written(project: Path) -> None:
    expected = command(project)
    shutil.rmtree(project / FOLDER_NAME)
    project.chmod(0o500)
    try:
        assert command(project) == expected
        assert not (project / FOLDER_NAME).exists()
    finally:
        project.chmod(0o700)


def test_a_cache_that_cannot_be_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk: nothing is said, nothing is left behind."""
    before = {path: path.read_bytes() for path in (project / FOLDER_NAME).rglob("*") if path.is_file()}
    projects.write(project / "engine.py", projects.CONTENTS["engine.py"][1])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert outcomes(run(project, cached=True)) == outcomes(run(project, cached=False))
    assert {path: path.read_bytes() for path in (project / FOLDER_NAME).rglob("*") if path.is_file()} == before


def test_clean_removes_caches_and_nothing_else(project: Path) -> None:
    foreign = project / "data" / FOLDER_NAME / "precious"
    projects.write(foreign, "no cache of ours\n")
    assert (project / FOLDER_NAME / ".gitignore").read_text().endswith("*\n")
    done = subprocess.run([sys.executable, "-m", "torchlint", "clean"], cwd=project, capture_output=True, text=True,
                          check=True)
    assert done.stderr == "Removed .torchlint_cache\n"
    assert not (project / FOLDER_NAME).exists()
    assert foreign.exists()


def test_no_cache_leaves_nothing(tmp_path: Path) -> None:
    projects.make(tmp_path, random.Random(1))
    command(tmp_path, "--no-cache")
    assert not (tmp_path / FOLDER_NAME).exists()
    elsewhere = tmp_path / "kept elsewhere"
    command(tmp_path, "--cache-dir", str(elsewhere))
    assert (elsewhere / "CACHEDIR.TAG").exists()
    assert not (tmp_path / FOLDER_NAME).exists()
