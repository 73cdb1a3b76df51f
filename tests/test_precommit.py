"""The hooks in a real git repository, run by the real pre-commit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pre_commit", reason="pre-commit is not installed")
if shutil.which("git") is None:
    pytest.skip("git is not installed", allow_module_level=True)

ROOT = Path(__file__).parents[1]

MISTAKE = "import torch\nfrom torch import nn\n\nmodel = nn.DataParallel(nn.Linear(2, 2))\n"
LEFTOVER = "import torch\n\nx = torch.zeros(2)  # torchlint: ignore[no-such-rule]\n"
RIGHT = "import torch\n\nx = torch.zeros(2)\n"


def hooks() -> list[dict[str, Any]]:
    """The hooks that this repository offers."""
    import yaml  # type: ignore[import-untyped]  # pre-commit needs it as well

    read: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    return read


class Repository:
    """A git repository of somebody who uses the hooks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        hidden = ("GIT_", "PRE_COMMIT", "NO_COLOR", "FORCE_COLOR")
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
        self.environment |= {
            "PRE_COMMIT_HOME": str(folder.parent / "cache"),
            "PYTHONPATH": str(ROOT),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self.git("init", "-q")

    def git(self, *arguments: str) -> str:
        names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")
        done = subprocess.run(
            ["git", *names, *arguments], cwd=self.folder, env=self.environment, capture_output=True, check=True
        )
        return done.stdout.decode()

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.folder / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.git("add", "-A")

    def configure(self, repository: dict[str, Any]) -> None:
        # JSON is YAML.
        (self.folder / ".pre-commit-config.yaml").write_text(json.dumps({"repos": [repository]}), encoding="utf-8")
        self.git("add", "-A")

    def run(self, hook: str) -> tuple[int, str]:
        """Exit code and output of a hook over what is staged."""
        command = [sys.executable, "-m", "pre_commit", "run", hook, "--verbose", "--color=never"]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, check=False)
        return done.returncode, (done.stdout + done.stderr).decode()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with our hooks, which run from this checkout instead of an environment of their own."""
    made = Repository(tmp_path / "project")
    local = []
    for hook in hooks():
        entry = hook["entry"].replace("torchlint", f'"{sys.executable}" -m torchlint', 1)
        kept = {key: value for key, value in hook.items() if key != "minimum_pre_commit_version"}
        local.append({**kept, "entry": entry, "language": "system"})
    made.configure({"repo": "local", "hooks": local})
    return made


def test_a_mistake_stops_the_commit(repository: Repository) -> None:
    repository.write(a=RIGHT, b=MISTAKE)
    code, output = repository.run("torchlint")
    assert code == 1, output
    assert "data-parallel" in output
    assert "b.py" in output
    assert "a.py" not in output
    repository.write(b=RIGHT)
    assert repository.run("torchlint")[0] == 0


def test_excluded_files_are_left_alone_though_named(repository: Repository) -> None:
    (repository.folder / "torchlint.toml").write_text('extend-exclude = ["old"]', encoding="utf-8")
    repository.write(old__b=MISTAKE, venv__c=MISTAKE)
    code, output = repository.run("torchlint")
    assert code == 0, output


def test_the_fix_hook_fixes_and_fails_as_pre_commit_expects(repository: Repository) -> None:
    repository.write(a=LEFTOVER)
    code, output = repository.run("torchlint-fix")
    assert code == 1, output
    assert "files were modified by this hook" in output
    assert (repository.folder / "a.py").read_text(encoding="utf-8") == RIGHT
    repository.git("add", "-A")
    assert repository.run("torchlint-fix")[0] == 0


def test_a_commit_runs_it(repository: Repository) -> None:
    command = [sys.executable, "-m", "pre_commit", "install"]
    subprocess.run(command, cwd=repository.folder, env=repository.environment, capture_output=True, check=True)
    repository.write(a=MISTAKE)
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("commit", "-m", "A mistake")
    repository.write(a=RIGHT)
    repository.git("commit", "-m", "No mistake")
    assert "No mistake" in repository.git("log", "--oneline")


def test_the_hook_is_installed_from_a_repository(tmp_path: Path) -> None:
    """As users have it: pre-commit clones the repository and installs it into an environment of its own."""
    index = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(tmp_path), "click>=8.1"]
    if subprocess.run(index, capture_output=True, check=False).returncode:
        pytest.skip("no package index can be reached, so pre-commit cannot install anything")
    published = Repository(tmp_path / "torchlint")
    for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, published.folder / name)
    for folder in ("torchlint", "fixtures/loops", "docs/evidence"):
        shutil.copytree(ROOT / folder, published.folder / folder, ignore=shutil.ignore_patterns("__pycache__"))
    published.git("add", "-A")
    published.git("commit", "-q", "-m", "Publish")
    user = Repository(tmp_path / "project")
    del user.environment["PYTHONPATH"]
    chosen = [{"id": hook["id"]} for hook in hooks()]
    revision = published.git("rev-parse", "HEAD").strip()
    user.configure({"repo": published.folder.as_uri(), "rev": revision, "hooks": chosen})
    user.write(a=MISTAKE)
    code, output = user.run("torchlint")
    assert code == 1, output
    assert "data-parallel" in output
