"""``check --watch`` in a process of its own: it answers every change, and ends well."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import projects

pytest.importorskip("watchfiles")

PATIENCE = 20


class Watching:
    """A running ``check --watch``: what it has said since it was asked last, up to the end of a check."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "torchlint", "check", "--watch", "--output-format", "concise", *options]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def said(self) -> str:
        lines: list[str] = []
        while not lines or "waiting for changes" not in lines[-1]:
            lines.append(self._lines.get(timeout=PATIENCE))
        return "".join(lines)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    projects.write(tmp_path / "pyproject.toml", "[project]\nname = 'project'\n")
    for name, contents in projects.CONTENTS.items():
        projects.write(tmp_path / name, contents[0])
    return tmp_path


@pytest.fixture
def watching(project: Path) -> Iterator[Watching]:
    running = Watching(project)
    with running.process:
        yield running
        running.process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C cannot be sent to one process there")
def test_every_change_is_answered(project: Path, watching: Watching) -> None:
    assert "engine.py:5:10: TL203" not in watching.said()
    projects.write(project / "engine.py", projects.CONTENTS["engine.py"][0].replace("model.eval()", "model.eval();\n"))
    first = watching.said()
    (project / "torchlint.toml").write_text('ignore = ["all"]')
    assert "engine.py" not in watching.said()
    (project / "report.txt").write_text("nothing that matters")
    (project / "torchlint.toml").write_text('ignroe = ["all"]')
    assert "unknown key 'ignroe'" in watching.said()
    (project / "torchlint.toml").unlink()
    assert watching.said().split("\n")[:-2] == first.split("\n")[:-2]
    (project / "engine.py").unlink()
    assert "engine.py" not in watching.said()
    watching.process.send_signal(signal.SIGINT)
    assert watching.process.wait(PATIENCE) == 0


@pytest.mark.parametrize("option", ["--fix", "--diff", "--add-ignore", "-"])
def test_it_only_reports(option: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "torchlint", "check", "--watch", option], cwd=tmp_path, text=True,
                          capture_output=True, check=False)
    assert done.returncode == 2
    assert "--watch reports only" in done.stderr
