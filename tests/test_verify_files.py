"""``torchlint verify`` leaves the user's files, processes and accounts alone: real trees and processes, real torch."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from torchlint.harness import machines
from torchlint.harness.arms import Tree, copy, fix
from torchlint.harness.copying import changed, state
from torchlint.harness.measuring import Effort
from torchlint.harness.programs import Program, verified
from torchlint.harness.recordings import HarnessError

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")

MODEL = """
import numpy as np
import torch


def batch():
    x = np.ones((4, 8), dtype=np.float32)
    return torch.tensor(x)


def train(steps=1000):
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        loss = model(batch()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
CALL = """
if __name__ == "__main__":
    train()
"""
FIXED = "torch.as_tensor(x)"


def script(first: str = "", last: str = CALL) -> str:
    """A script that trains, with lines before all else."""
    return f"{first}\n{MODEL}{last}"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torchlint", "verify", "--unsafe-fixes", "--steps", "5", "--repeat", "1",
               "--output-format", "json", "--rule", "torch-tensor-from-numpy", "--"]
    return subprocess.Popen([*command, *arguments], cwd=folder, env={**os.environ, "PWD": str(folder), **environment},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def verify(folder: Path, *arguments: str, **environment: str) -> tuple[dict[str, Any], str]:
    """The result (empty where there is none), and what was said on stderr."""
    process = start(folder, *(arguments or (sys.executable, "train.py")), **environment)
    said, errors = process.communicate(timeout=300)
    return json.loads(said)["results"][0] if said.startswith("{") else {}, errors


def measured(result: dict[str, Any], errors: str) -> str:
    """The diff of a result that was measured."""
    assert result.get("repeats"), (result, errors)
    return str(result["diff"])


# What is copied, what is linked

def test_links_are_copied_or_lead_to_the_copy(tree: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "data").mkdir(parents=True)
    (elsewhere / "shared.py").write_text(MODEL)
    (elsewhere / "data" / "loading.py").write_text(MODEL)
    (tree / "runs" / "1").mkdir(parents=True)
    (tree / "train.py").write_text(script())
    (tree / "same.py").symlink_to("train.py")
    (tree / "latest").symlink_to(tree / "runs" / "1")
    (tree / "shared.py").symlink_to(elsewhere / "shared.py")
    (tree / "data").symlink_to("../elsewhere/data")
    (tree / "through.py").symlink_to("data/loading.py")
    before = state(tree), state(elsewhere)
    there, _ = copy(tree, tree, tmp_path / "copy")
    root = there.root
    assert (root / "same.py").readlink() == Path("train.py")
    assert (root / "latest").readlink() == Path("runs/1")
    assert not (root / "shared.py").is_symlink()
    assert not (root / "through.py").is_symlink()
    assert (root / "data").resolve() == elsewhere / "data"
    fixes = fix(there, ["torch-tensor-from-numpy"], unsafe=True)
    assert set(fixes.patches) == {"train.py", "shared.py", "through.py"}
    assert FIXED in (root / "same.py").read_text()
    assert (state(tree), state(elsewhere)) == before


def test_fixes_never_leave_the_tree(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(MODEL)
    (tree / "inside.py").symlink_to("../outside.py")
    (tree / "train.py").write_text(MODEL)
    assert set(fix(Tree(tree, tree), [], unsafe=True).patches) == {"train.py"}
    assert (tmp_path / "outside.py").read_text() == MODEL


def test_only_source_and_short_texts_are_copied(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {
        "train.py": b"x = 1\n" * 100_000, "config.yaml": b"lr: 0.1\n", "image.jpg": b"\xff\xd8\0" * 100,
        "corpus.txt": b"word " * 100_000, "env/conda-meta/history": b"", "env/lib.so": b"\0",
        ".venv/pyvenv.cfg": b"", ".git/annex/photo.jpg": b"\xff\xd8\0", "tmp/rubbish.txt": b"",
    }
    for name, content in contents.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)
    (tree / "photo.jpg").symlink_to(".git/annex/photo.jpg")
    (tree / "a").symlink_to("b")
    (tree / "b").symlink_to("a")
    (tree / "gone").symlink_to("/no/such/file")
    monkeypatch.setattr("tempfile.tempdir", str(tree / "tmp"))
    there, copied = copy(tree, tree, tree / "tmp" / "copy")
    kinds = {f.relative_to(there.root).as_posix(): "link" if f.is_symlink() else "copy" if f.is_file() else "folder"
             for f in there.root.iterdir()}
    assert kinds == {
        "train.py": "copy", "config.yaml": "copy", "image.jpg": "link", "corpus.txt": "link", "env": "link",
        ".venv": "link", "tmp": "folder", "photo.jpg": "link", "a": "link", "b": "link", "gone": "link",
    }  # fmt: skip
    assert (there.root / "photo.jpg").read_bytes() == contents[".git/annex/photo.jpg"]
    assert copied.size == 600_000 + len("lr: 0.1\n")
    assert set(copied.environments) == {"env", ".venv"}
    monkeypatch.setattr("tempfile.tempdir", str(tree))
    assert not (copy(tree, tree, tree / "other" / "copy")[0].root / "other").exists()


def test_arguments_and_variables_are_moved(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / ".venv").mkdir()
    (tree / ".venv" / "pyvenv.cfg").write_text("")
    (tree / "job").mkdir()
    (tree / "data").symlink_to(tmp_path)
    (tmp_path / "way").symlink_to(tree)
    monkeypatch.setenv("PWD", str(tmp_path / "way" / "job"))
    there, _ = copy(tree, tree / "job", tmp_path / "copy")
    old, new = str(tree), str(there.root)
    for text in ("{}", "{}/data/x", "--out={}/out.txt", "-o{}/out", "a:{}/lib:{}", '{{"dir": "{}/x"}}', "file://{}/a"):
        assert there.moved(text.format(old, old)) == text.format(new, new)
    for text in ("{}.bak/x", "{}-2", "x{}/y", "{}/.venv/bin/python"):
        assert there.moved(text.format(old)) == text.format(old)
    assert there.moved(f"{tmp_path}/way/train.py") == f"{new}/train.py"
    assert there.folder == there.root / "job"


def test_a_large_copy_is_told_of(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "train.py").write_text("x = 1\n")
    (tree / "data.bin").write_bytes(b"\0")
    monkeypatch.setattr("torchlint.harness.programs._MANY", 0)
    said: list[str] = []
    with pytest.raises(HarnessError, match="nothing to fix"):
        list(verified(Program(("python", "train.py"), tree, tree), [], Effort(5, 1, 1, 1), print, said.append,
                      unsafe=True, each=False))
    assert said == [f"each copy of {tree} takes 0 MB and 1 links"]


def test_a_folder_without_python_is_said(tree: Path) -> None:
    for file in tree.rglob("*.py"):
        file.unlink()
    with pytest.raises(HarnessError, match=f"no Python files or notebooks to fix under {re.escape(str(tree))}$"):
        list(verified(Program(("python", "train.py"), tree, tree), [], Effort(5, 1, 1, 1), print, print,
                      unsafe=True, each=False))


def test_what_is_left_out_as_unsafe_is_counted(tree: Path) -> None:
    (tree / "train.py").write_text(script())
    with pytest.raises(HarnessError, match="nothing to fix safely; 1 fix with --unsafe-fixes"):
        list(verified(Program(("python", "train.py"), tree, tree), [], Effort(5, 1, 1, 1), print, print,
                      unsafe=False, each=False))


def test_what_changed_is_seen(tree: Path) -> None:
    for name in ("kept", "grown", "removed"):
        (tree / name).write_text(name)
    before = state(tree)
    (tree / "grown").write_text("grown more")
    (tree / "removed").unlink()
    (tree / "made").write_text("")
    assert changed(before, state(tree)) == ["grown", "made", "removed"]


def test_a_file_for_a_newer_python_has_its_place(tree: Path) -> None:
    (tree / "train.py").write_text(script("type Batch = dict[str, int]"))
    (place,) = fix(Tree(tree, tree), ["torch-tensor-from-numpy"], unsafe=True).places
    assert str(place) == "train.py:9 torch-tensor-from-numpy"


# What a program writes

WRITES = """
import os, sqlite3, sys
for place in ("latest/log.txt", os.environ["PWD"] + "/pwd.txt", os.environ["OUT"] + "/variable.txt",
              sys.argv[1].partition("=")[2], "outer/appended.txt", "outer/new/made.txt", "large.bin"):
    os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
    with open(place, "a") as file:
        file.write("written by a run")
for place in ("data.db", "file:uri.db?mode=rw"):
    database = sqlite3.connect(place, uri=place.startswith("file"))
    database.execute("update t set v = v + 1")
    database.commit()
    database.close()
os.truncate("cut.bin", 1)
os.remove("outer/removed.txt")
assert open("outer/appended.txt").read() == "as it waswritten by a run", "what was there is gone"
import torch
torch.save({}, "latest/model.pt")
torch.save({}, "outer/model.pt")
"""


@needs_torch
def test_what_a_program_writes_stays_in_the_copy(tree: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    (tree / "runs" / "1").mkdir(parents=True)
    (tree / "latest").symlink_to("runs/1")
    (tree / "outer").symlink_to(outer)
    for file in (outer / "appended.txt", outer / "removed.txt", outer / "model.pt", tree / "runs" / "1" / "model.pt"):
        file.write_text("as it was")
    for name in ("large.bin", "cut.bin"):
        (tree / name).write_bytes(b"\0" * 1000)
    for name in ("data.db", "uri.db"):
        with sqlite3.connect(tree / name) as database:
            database.execute("create table t (v)")
        database.close()
    (tree / "train.py").write_text(script(WRITES))
    before = state(tree), state(outer)
    result, errors = verify(tree, sys.executable, "train.py", f"--out={tree}/out.txt", OUT=str(tree))
    assert FIXED in measured(result, errors)
    assert (state(tree), state(outer)) == before
    assert "CHANGED" not in errors


@needs_torch
def test_a_writer_that_nothing_sees_is_told_of(tree: Path) -> None:
    (tree / "data.bin").write_bytes(b"\0" * 100)
    (tree / "train.py").write_text(script("import os\nos.system('echo more >> data.bin')"))
    result, errors = verify(tree)
    assert measured(result, errors)
    assert "THE ORIGINAL TREE HAS CHANGED" in errors
    assert "data.bin" in errors


@needs_torch
def test_every_run_begins_with_the_tree_as_it_is(tree: Path) -> None:
    (tree / "train.py").write_text(script("import os\nos.mkdir('results')\nopen('results/last.pt', 'x').close()"))
    assert measured(*verify(tree))


# What a program imports

@needs_torch
def test_no_module_of_the_root_shadows_another(tree: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    (tree / "queue.py").write_text("raise ImportError('the queue of the repository')\n")
    (tree / "scripts").mkdir()
    (tree / "scripts" / "train.py").write_text(script("import queue\nqueue.Queue"))
    assert "scripts/train.py" in measured(*verify(tree / "scripts"))


SETUPTOOLS = '''
import importlib.util, sys
from pathlib import Path
MAPPING = {{"pkg": {pkg!r}}}

class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in MAPPING:
            return importlib.util.spec_from_file_location(name, Path(MAPPING[name], "__init__.py"))

def install():
    sys.meta_path.append(Finder)
'''
"""What setuptools installs for an editable package whose folder cannot be on the path, in short."""
LATE = "import site; site.addsitedir({site!r}); import pkg.core; pkg.core.train()"


@needs_torch
@pytest.mark.parametrize("way", ["path", "finder", "late"])
def test_an_editable_install_is_imported_from_the_copy(way: str, tree: Path, tmp_path: Path) -> None:
    package = tree / "python" / "pkg"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "core.py").write_text(MODEL)
    (tree / "train.py").write_text("import pkg.core\npkg.core.train()\n")
    venv.create(tmp_path / "env", symlinks=True)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    torch_is_in = importlib.util.find_spec("torch")
    assert torch_is_in is not None
    assert torch_is_in.origin is not None
    (site / "others.pth").write_text(f"{Path(torch_is_in.origin).parents[1]}\n")
    python = str(tmp_path / "env" / "bin" / "python")
    if way == "path":
        (site / "pkg.pth").write_text(f"{tree / 'python'}\n")
    elif way == "finder":
        (site / "pkg_finder.py").write_text(SETUPTOOLS.format(pkg=str(package)))
        (site / "pkg.pth").write_text("import pkg_finder; pkg_finder.install()\n")
    else:
        (tmp_path / "late").mkdir()
        (tmp_path / "late" / "pkg.pth").write_text(f"{tree / 'python'}\n")
    arguments = ("-c", LATE.format(site=str(tmp_path / "late"))) if way == "late" else ("train.py",)
    result, errors = verify(tree, python, *arguments)
    assert "python/pkg/core.py" in measured(result, errors)
    assert result["notes"] == [] or "original" not in str(result["notes"])


@needs_torch
def test_what_is_loaded_from_the_original_is_said(tree: Path) -> None:
    (tree / "core.py").write_text(MODEL)
    (tree / "train.py").write_text(
        "import sys\nfrom importlib import util as importing\n"
        f"spec = importing.spec_from_file_location('core', {str(tree / 'core.py')!r})\n"
        "core = importing.module_from_spec(spec)\nsys.modules['core'] = core\nspec.loader.exec_module(core)\n"
        "core.train()\n")
    result, errors = verify(tree)
    assert result, errors
    assert result["repeats"] == 0
    assert "from the original tree, not from the copy (an editable install?): core.py:8" in str(result["notes"])


# How a program ends, and what is left of it

@needs_torch
def test_a_crash_of_the_fixed_copy_only_is_not_the_programs(tree: Path) -> None:
    (tree / "train.py").write_text(script("import os\nif 'after' in os.getcwd():\n    raise RuntimeError('only here')"))
    result, errors = verify(tree)
    assert result, errors
    assert result["verdict"] == "different result"
    assert result["reason"].startswith("with the fixes applied, the program failed before its first optimizer step")
    assert "without the fixes it does not" in result["notes"]
    assert "only here" in str(result["notes"])


def sleepers(word: str) -> list[int]:
    found = subprocess.run(["pgrep", "-f", f"^sleep {word}"], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


@pytest.fixture
def duration() -> Iterator[str]:
    """A time to sleep that tells a test's own sleeping processes from all others."""
    wanted = f"{600 + os.getpid() % 1000}.{time.monotonic_ns() % 1_000_000}"
    yield wanted
    for process in sleepers(wanted):
        os.kill(process, signal.SIGKILL)


@needs_torch
@pytest.mark.parametrize("leaves", ["", "start_new_session=True"])
def test_no_child_outlives_a_run(leaves: str, tree: Path, duration: str) -> None:
    if leaves and sys.platform != "linux":
        pytest.skip("only /proc tells whose child a process was")
    (tree / "train.py").write_text(script(f"import subprocess\nsubprocess.Popen(['sleep', '{duration}'], {leaves})"))
    assert measured(*verify(tree))
    assert sleepers(duration) == []


@needs_torch
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(number: signal.Signals, tree: Path, tmp_path: Path, duration: str) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tree / "train.py").write_text(script(f"import subprocess\nsubprocess.run(['sleep', '{duration}'])"))
    process = start(tree, sys.executable, "train.py", TMPDIR=str(temporary))
    deadline = time.monotonic() + 120
    while not sleepers(duration) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert sleepers(duration) == []
    assert list(temporary.iterdir()) == []


# What a program finds around it

TELLS = """
import os, sys
names = ("WANDB_MODE", "CLEARML_OFFLINE_MODE", "HF_HUB_OFFLINE", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PWD")
with open(sys.argv[1], "a") as file:
    print({name: os.environ.get(name) for name in names}, file=file)
"""


@needs_torch
@pytest.mark.parametrize("threads", [None, "1"])
def test_trackers_are_off_and_threads_pinned(threads: str | None, tree: Path, tmp_path: Path,
                                             monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    (tree / "train.py").write_text(script(TELLS))
    given = {"OMP_NUM_THREADS": threads, "WANDB_MODE": "offline"} if threads else {}
    assert measured(*verify(tree, sys.executable, "train.py", str(tmp_path / "told"), **given))
    first, *runs = map(eval, (tmp_path / "told").read_text().splitlines())
    assert first["OMP_NUM_THREADS"] == threads, "how many it takes is not known yet"
    assert len({run["OMP_NUM_THREADS"] for run in runs}) == len({run["MKL_NUM_THREADS"] for run in runs}) == 1
    assert runs[0]["OMP_NUM_THREADS"] is not None
    assert {run["WANDB_MODE"] for run in runs} == {"offline" if threads else "disabled"}
    assert {run["HF_HUB_OFFLINE"] for run in runs} == {None}
    assert {run["CLEARML_OFFLINE_MODE"] for run in runs} == {"1"}
    assert not any(run["PWD"] == str(tree) for run in runs)


def test_a_torch_that_cannot_be_imported_is_shown_as_it_says(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'ImportError: libcudnn.so' >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(HarnessError, match=r"cannot be imported by .*:\nImportError: libcudnn.so$"):
        machines.device("cpu", str(python))
