"""Files checked on processes of others: pools, a real Dask cluster, and such that break."""

from __future__ import annotations

import multiprocessing
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import torchlint
from tests import projects
from torchlint.reporting import Report


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for number in range(6):
        projects.make(tmp_path / f"project{number}", random.Random(number))
    return tmp_path


def told(report: Report) -> tuple[object, ...]:
    return report.findings, report.diagnostics, dict(report.lines), report.files


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_pools_find_the_same(kind: str, project: Path) -> None:
    expected = torchlint.check([project], isolated=True)
    assert len(expected.findings) > 5
    pool: Executor = ThreadPoolExecutor(3) if kind == "threads" else ProcessPoolExecutor(
        2, multiprocessing.get_context("spawn"))
    with pool as executor:
        assert told(torchlint.check([project], isolated=True, executor=executor)) == told(expected)
        (project / "project0" / "engine.py").write_text("import torch\n")  # the workers must not remember it
        changed = torchlint.check([project], isolated=True)
        assert told(torchlint.check([project], isolated=True, executor=executor)) == told(changed)


class Broken(Executor):
    """Loses most of what it is given: some at once, some later."""

    def __init__(self) -> None:
        self.given = 0

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        self.given += 1
        if self.given % 3 == 0:
            raise RuntimeError("no more")
        future: Future[Any] = Future()
        if self.given % 3 == 1:
            future.set_exception(RuntimeError("a worker died"))
        else:
            future.set_result(function(*arguments, **named))
        return future


def test_what_an_executor_loses_is_checked_here(project: Path) -> None:
    expected = torchlint.check([project], isolated=True)
    broken = Broken()
    assert told(torchlint.check([project], isolated=True, executor=broken)) == told(expected)
    assert broken.given > 3


def test_from_python_settings_are_those_of_the_configuration(project: Path) -> None:
    chosen = torchlint.check([project], isolated=True, select=["dataloader-no-workers"])
    assert {finding.rule for finding in chosen.findings} == {"dataloader-no-workers"}
    with pytest.raises(torchlint.config.ConfigError, match="names no rule"):
        torchlint.check([project], isolated=True, select=["no-such-rule"])


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a Dask cluster of two worker processes, whose working folder is another than the tests'."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as running:
        yield str(running.scheduler_address)


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torchlint", "check", "--isolated", "--no-cache", *options, "."]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_dask_cluster_finds_the_same(cluster: str, project: Path) -> None:
    expected = run(project, "--output-format", "json")
    found = run(project, "--output-format", "json", "--executor", f"dask:{cluster}")
    assert (found.returncode, found.stdout, found.stderr) == (expected.returncode, expected.stdout, expected.stderr)
    fixed = run(project, "--diff", "--unsafe-fixes", "--executor", f"dask:{cluster}")
    assert fixed.stdout == run(project, "--diff", "--unsafe-fixes").stdout


@pytest.mark.parametrize(("name", "said"), [
    ("dask", "there is no executor 'dask': give dask:ADDRESS"),
    ("ray:localhost", "there is no executor 'ray:localhost'"),
    ("dask:tcp://127.0.0.1:9", "no Dask scheduler answers at tcp://127.0.0.1:9"),
])  # fmt: skip
def test_executors_that_are_none(name: str, said: str, project: Path) -> None:
    done = run(project, "--executor", name)
    assert done.returncode == 2
    assert said in done.stderr
