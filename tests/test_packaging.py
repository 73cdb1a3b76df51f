"""What is declared is what is used."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from torchlint import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def imported(folder: Path) -> set[str]:
    """The top-level names of everything that the files of a folder import."""
    names = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    own = {path.stem for path in (ROOT / "torchlint" / "harness" / "inject").glob("*.py")}  # a folder on a child's path
    return names - set(sys.stdlib_module_names) - {"torchlint", "tomllib"} - own


def test_the_dependencies_are_what_is_imported() -> None:
    declared = {Requirement(text).name for text in PROJECT["dependencies"]}
    extras = PROJECT["optional-dependencies"]
    optional = {Requirement(text).name for extra in ("harness", "dask", "watch") for text in extras[extra]}
    used = imported(ROOT / "torchlint") | imported(ROOT / "fixtures" / "loops")
    assert used == declared | optional


def test_every_dependency_has_a_tested_version() -> None:
    lines = (ROOT / "tests" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {Requirement(line).name.replace("_", "-").lower() for line in lines if not line.startswith("#")}
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *(text for extra in extras.values() for text in extra)]
    assert {Requirement(text).name for text in wanted} <= pinned


def test_the_changelog_knows_the_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{__version__}]" in text or "## [Unreleased]" in text


@pytest.mark.parametrize("arguments", [["version"], ["check", "fixtures/training/model.py"], ["rule", "--all"]])
def test_no_command_imports_what_it_does_not_need(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom torchlint.cli import run\n"
        f"assert run({arguments!r}) in (0, 1)\n"
        "unwanted = {'torch', 'numpy', 'rich', 'libcst.matchers'} & set(sys.modules)\n"
        "assert not unwanted, unwanted\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_python_versions_are_said_alike_everywhere() -> None:
    classified = {text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)}
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert set(re.findall(r'"(3\.\d+)"', workflow)) == classified
    assert PROJECT["requires-python"] == f">={min(classified, key=lambda text: int(text[2:]))}"
