"""From paths to files: what is found, what is skipped, and under which name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from torchlint.config import Configuration
from torchlint.discovery import Discovery, discover, stdin_target
from torchlint.findings import shown_path


def plant(root: Path, *files: str, text: str = "import torch\n") -> None:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text, encoding="utf-8")


def look(root: Path, *paths: str, **overrides: object) -> Discovery:
    return discover(paths or (".",), Configuration(overrides, working_folder=root), root)


def found(root: Path, *paths: str, **overrides: object) -> list[str]:
    return [target.shown for target in look(root, *paths, **overrides).targets]


def test_python_files_and_notebooks_are_found_in_the_order_of_their_names(tmp_path: Path) -> None:
    plant(tmp_path, "b.py", "a/z.py", "a/b.ipynb", "a.pyw", "c.pyi", "d.txt", "setup.cfg", "noext")
    assert found(tmp_path) == ["a.pyw", "a/b.ipynb", "a/z.py", "b.py"]
    assert found(tmp_path, "b.py", "a") == found(tmp_path, "a", "b.py") == ["a/b.ipynb", "a/z.py", "b.py"]


def test_nothing_is_found_twice(tmp_path: Path) -> None:
    plant(tmp_path, "a/b.py")
    assert found(tmp_path, ".", "a", "a/b.py", "./a/../a/b.py", str(tmp_path / "a")) == ["a/b.py"]


def test_the_default_folders_are_skipped_at_any_depth(tmp_path: Path) -> None:
    plant(
        tmp_path, "a.py", ".venv/lib/a.py", "x/node_modules/a.py", "x/build/a.py", "site-packages/t/a.py", "buildx/a.py"
    )
    assert found(tmp_path) == ["a.py", "buildx/a.py"]


def test_a_project_below_a_folder_with_a_skipped_name_is_checked(tmp_path: Path) -> None:
    plant(tmp_path / "build" / "project", "a.py")
    assert found(tmp_path / "build" / "project") == ["a.py"]
    assert found(tmp_path, "build") == ["build/project/a.py"]


def test_exclude_replaces_and_extend_exclude_adds(tmp_path: Path) -> None:
    plant(tmp_path, "a.py", "venv/a.py", "old/a.py", "src/gen_x.py", "src/keep.py")
    assert found(tmp_path, exclude=("old",)) == ["a.py", "src/gen_x.py", "src/keep.py", "venv/a.py"]
    assert found(tmp_path, extend_exclude=("old", "src/gen_*")) == ["a.py", "src/keep.py"]
    assert found(tmp_path, extend_exclude=("/src",)) == ["a.py", "old/a.py"]


def test_include_patterns(tmp_path: Path) -> None:
    plant(tmp_path, "a.py", "b.ipynb", "scripts/train")
    assert found(tmp_path, include=("*.py", "scripts/*")) == ["a.py", "scripts/train"]


def test_a_named_file_is_checked_whatever_excludes_it(tmp_path: Path) -> None:
    plant(tmp_path, ".venv/a.py", "train", "old/b.py")
    assert found(tmp_path, ".venv/a.py", "train") == [".venv/a.py", "train"]
    assert found(tmp_path, ".venv/a.py", "old/b.py", force_exclude=True) == ["old/b.py"]
    assert found(tmp_path, "old/b.py", "old", force_exclude=True, extend_exclude=("old",)) == []


def test_gitignore_holds_inside_a_work_tree_only(tmp_path: Path) -> None:
    plant(tmp_path, "a.py", "out/a.py", ".gitignore", text="out/\n")
    assert found(tmp_path) == ["a.py", "out/a.py"]
    (tmp_path / ".git").mkdir()
    assert found(tmp_path) == ["a.py"]
    assert found(tmp_path, respect_gitignore=False) == ["a.py", "out/a.py"]
    assert found(tmp_path, "out/a.py") == ["out/a.py"]
    assert found(tmp_path, "out/a.py", force_exclude=True) == []


def test_nested_gitignores_and_negations(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    plant(tmp_path, "a.py", "gen_a.py", "x/gen_b.py", "x/gen_c.py", "x/y/gen_d.py", "x/only/e.py", "only/e.py")
    plant(tmp_path, ".gitignore", text="# generated\ngen_*.py\n")
    plant(tmp_path, "x/.gitignore", text="!gen_b.py\n/only/\n")
    assert found(tmp_path) == ["a.py", "only/e.py", "x/gen_b.py"]
    assert found(tmp_path, "x") == ["x/gen_b.py"], "the files above the argument hold too"
    assert found(tmp_path / "x" / "y") == []


def test_an_ignored_folder_is_checked_when_named(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    plant(tmp_path, ".gitignore", text="/versions/*\n")
    plant(tmp_path, "versions/3/lib/.gitignore", text="gen.py\n")
    plant(tmp_path, "versions/3/.gitignore", text="b.py\n")
    plant(tmp_path, "versions/3/lib/a.py", "versions/3/lib/gen.py", "versions/3/b.py")
    assert found(tmp_path) == []
    assert found(tmp_path, "versions/3") == ["versions/3/lib/a.py"]
    assert found(tmp_path, "versions") == []


def test_a_repository_inside_another_has_its_own_rules(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    plant(tmp_path, ".gitignore", text="gen.py\n")
    (tmp_path / "inner" / ".git").mkdir(parents=True)
    plant(tmp_path, "gen.py", "inner/gen.py")
    assert found(tmp_path) == ["inner/gen.py"]


def test_info_exclude_and_work_trees_whose_git_is_a_file(tmp_path: Path) -> None:
    plant(tmp_path, ".git/info/exclude", text="mine.py\n")
    plant(tmp_path, "mine.py", "a.py")
    assert found(tmp_path) == ["a.py"]
    plant(tmp_path / "linked", ".git", text="gitdir: elsewhere\n")
    plant(tmp_path / "linked", ".gitignore", text="b.py\n")
    plant(tmp_path / "linked", "b.py", "c.py")
    assert found(tmp_path / "linked") == ["c.py"]


def test_each_folder_has_its_own_settings(tmp_path: Path) -> None:
    plant(tmp_path, "torchlint.toml", text='extend-exclude = ["a"]')
    plant(tmp_path, "inner/torchlint.toml", text="")
    plant(tmp_path, "a/x.py", "inner/a/x.py", "b.py")
    targets = look(tmp_path).targets
    assert [(t.shown, t.settings.root) for t in targets] == [
        ("b.py", tmp_path),
        ("inner/a/x.py", tmp_path / "inner"),
    ]


def test_a_missing_path_is_a_problem_and_the_others_are_found(tmp_path: Path) -> None:
    plant(tmp_path, "a.py")
    looked = look(tmp_path, "nothing.py", "a.py", "no/folder")
    assert [t.shown for t in looked.targets] == ["a.py"]
    assert [(p.kind, p.path, p.message) for p in looked.problems] == [
        ("unreadable", "no/folder", "no such file or directory"),
        ("unreadable", "nothing.py", "no such file or directory"),
    ]


def test_paths_that_the_system_refuses_are_problems(tmp_path: Path) -> None:
    looked = look(tmp_path, "x" * 5000, "a\0b")
    assert len(looked.problems) == 2


@pytest.mark.skipif(not hasattr(os, "symlink") or sys.platform == "win32", reason="links need rights there")
class TestLinks:
    def test_a_loop_ends(self, tmp_path: Path) -> None:
        plant(tmp_path, "a/b.py")
        (tmp_path / "a" / "again").symlink_to(tmp_path, target_is_directory=True)
        (tmp_path / "self").symlink_to(tmp_path / "self")
        assert found(tmp_path) == ["a/b.py"]
        assert [p.path for p in look(tmp_path, "self").problems] == ["self"]

    def test_a_link_to_a_file_that_is_checked_anyway_is_left_out(self, tmp_path: Path) -> None:
        plant(tmp_path, "z.py")
        (tmp_path / "a.py").symlink_to(tmp_path / "z.py")
        assert found(tmp_path) == ["z.py"]
        assert found(tmp_path, "a.py") == ["a.py"]

    def test_links_to_a_file_elsewhere_count_once(self, tmp_path: Path) -> None:
        plant(tmp_path, "elsewhere/real.py")
        (tmp_path / "here").mkdir()
        for name in ("b.py", "a.py"):
            (tmp_path / "here" / name).symlink_to(tmp_path / "elsewhere" / "real.py")
        (tmp_path / "here" / "broken.py").symlink_to(tmp_path / "nothing.py")
        assert found(tmp_path / "here") == ["a.py"]

    def test_a_linked_folder_is_walked_when_named(self, tmp_path: Path) -> None:
        plant(tmp_path, "elsewhere/real.py")
        (tmp_path / "here").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
        assert found(tmp_path, "here") == ["here/real.py"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser can read everything")
def test_an_unreadable_folder_is_a_problem(tmp_path: Path) -> None:
    plant(tmp_path, "a.py", "closed/b.py")
    (tmp_path / "closed").chmod(0)
    try:
        looked = look(tmp_path)
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert [t.shown for t in looked.targets] == ["a.py"]
    assert [p.path for p in looked.problems] == ["closed"]


def test_a_folder_that_the_system_does_not_list_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, "a.py", "closed/b.py", "gone/c.py")
    scandir = os.scandir

    def refuse(folder: Path) -> object:
        if Path(folder).name == "closed":
            raise PermissionError(13, "Permission denied")
        if Path(folder).name == "gone":
            raise FileNotFoundError(2, "No such file or directory")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    looked = look(tmp_path)
    assert [t.shown for t in looked.targets] == ["a.py"]
    assert [(p.path, p.message) for p in looked.problems] == [("closed", "Permission denied")]


def test_names_that_are_not_unicode(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.py")
    try:
        plant(tmp_path, name)
    except (OSError, UnicodeEncodeError):
        pytest.skip("the file system takes no such name")
    assert found(tmp_path) == [name]


@pytest.mark.parametrize(
    ("marker", "root"),
    [
        (".git/HEAD", "repo"),
        ("pyproject.toml", "repo"),
        ("setup.py", "repo"),
        (None, "repo/pkg"),
    ],
)
def test_the_projects_root(tmp_path: Path, marker: str | None, root: str) -> None:
    plant(tmp_path, "repo/pkg/sub/a.py")
    if marker is not None:
        plant(tmp_path, f"repo/{marker}", text="")
    target = look(tmp_path, "repo/pkg").targets[0]
    assert target.root == tmp_path / root


def test_a_work_tree_is_one_project_whatever_is_inside(tmp_path: Path) -> None:
    plant(tmp_path, ".git/HEAD", text="")
    plant(tmp_path, "ops/setup.py", "ops/a.py")
    assert {t.root for t in look(tmp_path).targets} == {tmp_path}


def test_without_any_marker_a_package_belongs_to_the_folder_above_it(tmp_path: Path) -> None:
    plant(tmp_path, "pkg/__init__.py", "pkg/sub/__init__.py", "pkg/sub/a.py")
    assert look(tmp_path, "pkg/sub/a.py").targets[0].root == tmp_path


def test_shown_paths(tmp_path: Path) -> None:
    assert shown_path(tmp_path / "a" / "b.py", tmp_path) == "a/b.py"
    assert shown_path(tmp_path / "b.py", tmp_path / "a") == (tmp_path / "b.py").as_posix()


def test_standard_input_takes_the_settings_of_the_name_given_for_it(tmp_path: Path) -> None:
    plant(tmp_path, "inner/torchlint.toml", text='extend-exclude = ["gen.py"]')
    configuration = Configuration(working_folder=tmp_path)
    target = stdin_target("inner/gen.py", configuration, tmp_path)
    assert target is not None
    assert (target.shown, target.settings.root) == ("inner/gen.py", tmp_path / "inner")
    forced = Configuration({"force_exclude": True}, working_folder=tmp_path)
    assert stdin_target("inner/gen.py", forced, tmp_path) is None
    unnamed = stdin_target(None, forced, tmp_path)
    assert unnamed is not None
    assert unnamed.shown == "<stdin>"
