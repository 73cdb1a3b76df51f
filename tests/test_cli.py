"""The command line as users, scripts and editors see it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pytest

from tests import throwaway
from torchlint import __version__
from torchlint.cli import run

ROOT = Path(__file__).parents[1]
Send = Callable[[bytes], None]


@dataclass(frozen=True)
class Said:
    """What a command line wrote, and its exit code."""

    code: int
    out: str
    err: str


Torchlint = Callable[..., Said]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    with throwaway.installed():
        yield


@pytest.fixture
def torchlint(capfd: pytest.CaptureFixture[str]) -> Torchlint:
    def call(*arguments: str) -> Said:
        code = run(list(arguments))
        captured = capfd.readouterr()
        return Said(code, captured.out, captured.err)

    return call


@pytest.fixture
def send(monkeypatch: pytest.MonkeyPatch) -> Iterator[Send]:
    opened: list[TextIO] = []

    def send(data: bytes) -> None:
        read, write = os.pipe()
        os.write(write, data)
        os.close(write)
        opened.append(os.fdopen(read, encoding="utf-8"))
        monkeypatch.setattr("sys.stdin", opened[-1])

    yield send
    for stream in opened:
        stream.close()


def plant(**files: str) -> None:
    for name, text in files.items():
        Path(name.replace("__", "/") + ".py").write_text(f"import torch\n{text}", encoding="utf-8")


class TestExitCodes:
    def test_nothing_found(self, torchlint: Torchlint) -> None:
        plant(a="good\n")
        said = torchlint("check")
        assert (said.code, said.out, said.err) == (0, "No problems in 1 file.\n", "")

    def test_something_found(self, torchlint: Torchlint) -> None:
        plant(a="bad\n")
        assert torchlint("check").code == 1
        assert torchlint("check", "--exit-zero").code == 0

    @pytest.mark.parametrize(
        "arguments",
        [
            ["check", "--no-such-option"],
            ["check", "--select", "nothing"],
            ["check", "--jobs", "0"],
            ["check", "--config", "missing.toml"],
            ["check", "--config", "a.toml", "--isolated"],
            ["check", "--output-format", "xml"],
            ["check", "--target-torch", "two"],
            ["check", "--add-ignore", "--fix"],
            ["check", "-", "a.py"],
            ["check", "--output-file", "no/such/folder/report"],
            ["no-such-command"],
            ["rule"],
            ["rule", "nothing"],
        ],
    )
    def test_usage_errors(self, torchlint: Torchlint, arguments: list[str]) -> None:
        said = torchlint(*arguments)
        assert said.code == 2
        assert said.err
        assert "Traceback" not in said.err

    def test_a_configuration_error_names_key_and_file(self, torchlint: Torchlint) -> None:
        Path("torchlint.toml").write_text("selct = []", encoding="utf-8")
        said = torchlint("check")
        assert said.code == 2
        assert "torchlint.toml: unknown key 'selct'" in said.err

    def test_what_could_not_be_done_wins_and_the_rest_is_reported(self, torchlint: Torchlint) -> None:
        plant(a="bad\n", c="CRASH\nbad\n")
        Path("b.py").write_bytes(b"import torch\nbad \xff\n")
        said = torchlint("check", ".", "missing", "--output-format", "json", "--exit-zero")
        assert said.code == 2
        assert [found["path"] for found in json.loads(said.out)] == ["a.py", "c.py"]
        assert said.err.splitlines()[0].startswith("torchlint: b.py:2:5: unreadable: ")
        assert "c.py:2:1: rule-crash: TL905 crashing-rule crashed: ZeroDivisionError" in said.err
        assert "torchlint: missing: unreadable: no such file or directory" in said.err

    def test_no_files_is_a_warning(self, torchlint: Torchlint) -> None:
        said = torchlint("check")
        assert said.code == 0
        assert "warning: no Python files or notebooks under ." in said.err


class TestReports:
    def test_json_is_always_whole(self, torchlint: Torchlint) -> None:
        plant(a="good\n")
        assert json.loads(torchlint("check", "--output-format", "json").out) == []
        plant(a="x = bad\n")
        (found,) = json.loads(torchlint("check", "--output-format", "json").out)
        assert found == {
            "code": "TL901",
            "rule": "first-rule",
            "message": "'bad' is bad.",
            "help": "Write something else.",
            "severity": "error",
            "path": "a.py",
            "line": 2,
            "column": 5,
            "end_line": 2,
            "end_column": 8,
            "cell": None,
            "fix": {
                "applicability": "safe",
                "message": "Write good",
                "edits": [{"path": "a.py", "cell": None, "start": [2, 5], "end": [2, 8], "content": "good"}],
            },
            "url": None,
        }

    def test_the_default_is_full_with_a_summary(self, torchlint: Torchlint) -> None:
        plant(a="bad\nrisky\n")
        said = torchlint("check")
        assert "error[TL901 first-rule]: 'bad' is bad." in said.out
        assert "^^^" in said.out
        assert "`torchlint fix` can fix 1, `--unsafe-fixes` 1 more." in said.out
        assert "\x1b" not in said.out

    def test_colour_on_demand(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(a="bad\n")
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert "\x1b[" in torchlint("check").out
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b[" not in torchlint("check").out

    def test_every_format_to_a_file(self, torchlint: Torchlint) -> None:
        plant(a="bad\n")
        from torchlint.reporting import FORMATS

        for name in FORMATS:
            said = torchlint("check", "--output-format", name, "--output-file", f"report.{name}")
            assert (said.code, said.out) == (1, "")
            assert "TL901" in Path(f"report.{name}").read_text(encoding="utf-8")

    def test_the_format_of_the_configuration(self, torchlint: Torchlint) -> None:
        plant(a="bad\n")
        Path("torchlint.toml").write_text('output-format = "concise"', encoding="utf-8")
        assert torchlint("check").out.startswith("a.py:2:1: ")
        assert torchlint("check", "--output-format", "json").out.startswith("[")

    def test_statistics(self, torchlint: Torchlint) -> None:
        plant(a="bad\nbad\nrisky\n")
        said = torchlint("check", "--statistics")
        assert said.code == 1
        assert [line.split()[:2] for line in said.out.splitlines()] == [["2", "TL901"], ["1", "TL902"]]
        assert json.loads(torchlint("check", "--statistics", "--output-format", "json").out)[0]["count"] == 2

    @pytest.mark.skipif(sys.platform == "win32", reason="names are Unicode there")
    def test_names_that_are_not_unicode(self, torchlint: Torchlint) -> None:
        try:
            Path(os.fsdecode(b"caf\xe9.py")).write_text("import torch\nbad\n", encoding="utf-8")
        except OSError:
            pytest.skip("the file system takes no such name")
        for name in ("full", "concise", "json"):
            assert torchlint("check", "--output-format", name).code == 1


class TestSelection:
    def test_slugs_codes_and_families_are_accepted_alike(self, torchlint: Torchlint) -> None:
        plant(a="bad\nrisky\nplain\nearly\n")

        def codes(*arguments: str) -> list[str]:
            return [f["code"] for f in json.loads(torchlint("check", "--output-format", "json", *arguments).out)]

        assert codes() == ["TL901", "TL902", "TL903"]
        assert codes("--select", "first-rule,TL903") == ["TL901", "TL903"]
        assert codes("--select", "first-rule", "--select", "TL903") == ["TL901", "TL903"]
        assert codes("--ignore", "throwaway") == []
        assert codes("--extend-select", "fourth-rule") == ["TL901", "TL902", "TL903", "TL904"]
        assert codes("--preview") == ["TL901", "TL902", "TL903", "TL904"]
        Path("torchlint.toml").write_text("preview = true", encoding="utf-8")
        assert codes("--no-preview") == ["TL901", "TL902", "TL903"]
        assert codes("--isolated") == ["TL901", "TL902", "TL903"]

    def test_excludes(self, torchlint: Torchlint) -> None:
        Path("old").mkdir()
        plant(old__a="bad\n")
        assert torchlint("check").code == 1
        assert torchlint("check", "--extend-exclude", "old").code == 0
        assert torchlint("check", "--extend-exclude", "old", "old/a.py").code == 1
        assert torchlint("check", "--extend-exclude", "old", "--force-exclude", "old/a.py").code == 0


class TestStandardInput:
    def test_it_is_checked(self, torchlint: Torchlint, send: Send) -> None:
        send(b"import torch\nbad\n")
        said = torchlint("check", "-", "--output-format", "concise")
        assert (said.code, said.out.split(": ")[0]) == (1, "<stdin>:2:1")

    def test_its_name_chooses_the_settings(self, torchlint: Torchlint, send: Send) -> None:
        Path("torchlint.toml").write_text('per-file-ignores = { "b.py" = ["all"] }', encoding="utf-8")
        send(b"import torch\nbad\n")
        said = torchlint("check", "-", "--stdin-filename", "a.py", "--output-format", "json")
        assert json.loads(said.out)[0]["path"] == "a.py"
        send(b"import torch\nbad\n")
        assert torchlint("check", "-", "--stdin-filename", "b.py").code == 0

    def test_an_excluded_name(self, torchlint: Torchlint, send: Send) -> None:
        send(b"import torch\nbad\n")
        said = torchlint("check", "-", "--stdin-filename", "venv/a.py", "--force-exclude", "--output-format", "json")
        assert (said.code, said.out) == (0, "[]\n")

    def test_a_syntax_of_bytes_that_are_no_text(self, torchlint: Torchlint, send: Send) -> None:
        send(b"import torch\nbad \xff\n")
        assert torchlint("check", "-").code == 2


class TestAddIgnore:
    def test_todays_findings_are_silenced(self, torchlint: Torchlint) -> None:
        plant(a="bad\nplain\n", b="good\n")
        said = torchlint("check", "--add-ignore")
        assert said.code == 0
        assert "Silenced 2 problems in 1 file.\nNo problems left in 2 files.\n" in said.out
        text = "import torch\nbad  # torchlint: ignore[first-rule]\nplain  # torchlint: ignore[third-rule]\n"
        assert Path("a.py").read_text(encoding="utf-8") == text
        assert torchlint("check").code == 0


def text(name: str = "a") -> str:
    """What is in a file behind its import."""
    return Path(f"{name}.py").read_bytes().decode().removeprefix("import torch\n")


class TestFix:
    def test_safe_fixes_are_applied_and_the_rest_is_reported(self, torchlint: Torchlint) -> None:
        plant(a="bad\nrisky\nplain\n", b="bad\n", c="good\n")
        said = torchlint("fix")
        assert said.code == 1
        assert (text("a"), text("b"), text("c")) == ("good\nrisky\nplain\n", "good\n", "good\n")
        assert "Fixed 2 problems in 2 files." in said.out
        assert "`torchlint fix --unsafe-fixes` can fix 1 more." in said.out
        assert torchlint("fix", "--unsafe-fixes", "--ignore", "third-rule").code == 0
        assert text("a") == "good\ndaring\nplain\n"

    def test_check_with_fix_is_the_same(self, torchlint: Torchlint) -> None:
        plant(a="bad\n")
        assert torchlint("check", "--fix").code == 0
        assert text() == "good\n"

    def test_check_alone_changes_nothing(self, torchlint: Torchlint) -> None:
        plant(a="bad\n")
        torchlint("check", "--unsafe-fixes")
        assert text() == "bad\n"

    def test_exit_codes(self, torchlint: Torchlint) -> None:
        plant(a="bad\n")
        assert torchlint("fix", "--exit-non-zero-on-fix").code == 1
        assert torchlint("fix", "--exit-non-zero-on-fix").code == 0
        plant(a="bad\nplain\n")
        assert torchlint("fix", "--exit-zero").code == 0
        plant(a="bad\nCRASH\n")
        assert torchlint("fix").code == 2
        assert text() == "good\nCRASH\n", "a crash of one rule does not keep the others from fixing"

    def test_show_fixes(self, torchlint: Torchlint) -> None:
        plant(a="bad\nbad\n")
        assert "a.py:\n  2 x TL901 first-rule\n" in torchlint("fix", "--show-fixes").out

    @pytest.mark.parametrize("command", [["check", "--diff"], ["fix", "--diff"], ["check", "--fix", "--diff"]])
    def test_diff_shows_and_changes_nothing(self, torchlint: Torchlint, command: list[str]) -> None:
        plant(a="bad\nrisky\n")
        said = torchlint(*command)
        assert said.code == 1
        assert "-bad\n+good\n" in said.out
        assert "daring" not in said.out
        assert said.out.startswith("--- a.py\n+++ a.py\n")
        assert "Would fix 1 problem in 1 file." in said.err
        assert text() == "bad\nrisky\n"
        assert "+daring\n" in torchlint(*command, "--unsafe-fixes").out

    def test_a_patch_can_be_applied(self, torchlint: Torchlint) -> None:
        plant(a="bad\nx = 1\nrisky", b="bad\r\n")
        patch = torchlint("check", "--diff", "--unsafe-fixes").out
        done = subprocess.run(["git", "apply", "-"], input=patch.encode(), capture_output=True, check=False)
        if done.returncode:
            done = subprocess.run(["git", "apply", "-p0", "-"], input=patch.encode(), capture_output=True, check=True)
        assert (text("a"), text("b")) == ("good\nx = 1\ndaring", "good\r\n")

    def test_the_configuration_decides_which_fixes(self, torchlint: Torchlint) -> None:
        plant(a="bad\nrisky\n")
        config = 'unfixable = ["first-rule"]\nextend-safe-fixes = ["second-rule"]'
        Path("torchlint.toml").write_text(config, encoding="utf-8")
        assert torchlint("fix").code == 1
        assert text() == "bad\ndaring\n"
        Path("torchlint.toml").write_text("unsafe-fixes = true", encoding="utf-8")
        plant(a="risky\n")
        assert torchlint("fix").code == 0
        assert text() == "daring\n"
        plant(a="risky\n")
        assert torchlint("fix", "--no-unsafe-fixes").code == 1

    def test_silenced_lines_are_left_alone(self, torchlint: Torchlint) -> None:
        plant(a="bad  # noqa: TL901\nbad  # torchlint: ignore\n", b="# torchlint: skip-file\nbad\n")
        assert torchlint("fix").code == 0
        assert text() == "bad  # noqa: TL901\nbad  # torchlint: ignore\n"
        assert text("b") == "# torchlint: skip-file\nbad\n"

    def test_unused_ignores_are_removed(self, torchlint: Torchlint) -> None:
        plant(a="good  # torchlint: ignore[first-rule]\n")
        assert torchlint("fix").code == 0
        assert text() == "good\n"

    @pytest.mark.parametrize("layout", ["x = bad\r\n", "x = bad", "\tx = bad\n\x0c\n", "x = (bad,\n  'é')\n"])
    def test_layout_survives(self, torchlint: Torchlint, layout: str) -> None:
        data = b"\xef\xbb\xbfimport torch\n" + layout.encode()
        Path("a.py").write_bytes(data)
        torchlint("fix", "--select", "first-rule")
        expected = data if layout.startswith("\t") else data.replace(b"bad", b"good")
        assert Path("a.py").read_bytes() == expected

    def test_standard_input(self, torchlint: Torchlint, send: Send) -> None:
        send(b"import torch\r\nbad\r\nplain\r\n")
        said = torchlint("fix", "-", "--output-format", "concise")
        assert (said.code, said.out) == (1, "import torch\r\ngood\r\nplain\r\n")
        assert "<stdin>:3:1" in said.err
        send(b"x = 1")
        assert torchlint("fix", "-").out == "x = 1"
        send(b"import torch\nbad\n")
        assert torchlint("check", "--diff", "-").out.endswith("-bad\n+good\n")

    def test_a_read_only_file(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(a="bad\n", b="bad\n")
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "a.py")
        said = torchlint("fix", "--output-format", "concise")
        assert said.code == 2
        assert "a.py: fix-failed: " in said.err
        assert "read-only" in said.err
        assert said.out.startswith("a.py:2:1: "), "what was not fixed is reported"
        assert (text("a"), text("b")) == ("bad\n", "good\n")

    def test_a_full_disk(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(a="bad\n")

        def full(descriptor: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        said = torchlint("fix")
        assert (said.code, text()) == (2, "bad\n")
        assert "No space left on device" in said.err
        assert [path.name for path in Path().iterdir()] == ["a.py"], "nothing is left behind"

    def test_interrupted_while_writing(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(a="bad\n", b="bad\n")
        calls: list[int] = []
        fsync = os.fsync

        def interrupt(descriptor: int) -> None:
            calls.append(descriptor)
            if len(calls) == 3:  # the second file
                raise KeyboardInterrupt
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", interrupt)
        assert torchlint("fix").code == 130
        assert (text("a"), text("b")) == ("good\n", "bad\n")
        assert sorted(path.name for path in Path().iterdir()) == ["a.py", "b.py"]

    def test_a_file_that_changes_meanwhile_is_fixed_as_it_is_now(
        self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plant(a="bad\n")
        from torchlint import fixing, saving

        write = fixing.write_atomically
        calls: list[Path] = []

        def edited_before(path: Path, data: bytes, expected: bytes) -> None:
            calls.append(path)
            if len(calls) == 1:
                plant(a="bad\nbad  # edited\n")
            write(path, data, expected)

        monkeypatch.setattr(saving, "write_atomically", edited_before)
        assert torchlint("fix").code == 0
        assert text() == "good\ngood  # edited\n"

    def test_a_file_that_never_rests(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
        plant(a="bad\n")
        from torchlint import saving
        from torchlint.fixing import FileChanged

        def refuse(path: Path, data: bytes, expected: bytes) -> None:
            raise FileChanged

        monkeypatch.setattr(saving, "write_atomically", refuse)
        said = torchlint("fix")
        assert (said.code, text()) == (2, "bad\n")
        assert "keeps changing" in said.err


class TestInform:
    def test_rule(self, torchlint: Torchlint) -> None:
        said = torchlint("rule", "first-rule")
        assert said.code == 0
        assert "first-rule (TL901)" in said.out
        assert torchlint("rule", "tl901").out == said.out
        everything = json.loads(torchlint("rule", "--all", "--output-format", "json").out)
        assert [rule["code"] for rule in everything][-1] == "TL905"
        assert torchlint("rule", "throwaway", "--output-format", "markdown").out.count("\n# ") == 4
        assert "did you mean 'first-rule'" in torchlint("rule", "first-rul").err

    def test_rule_in_colour(self, torchlint: Torchlint, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert "\x1b[" in torchlint("rule", "first-rule").out

    def test_config(self, torchlint: Torchlint) -> None:
        assert "no configuration file: the defaults" in torchlint("config").out
        Path("torchlint.toml").write_text('ignore = ["first-rule"]\ntarget-torch = "2.1"', encoding="utf-8")
        said = torchlint("config")
        assert 'ignore = ["first-rule"]' in said.out
        assert 'target-torch = "2.1"' in said.out
        values = json.loads(torchlint("config", "--output-format", "json").out)
        assert values["file"] == str(Path("torchlint.toml").absolute())
        assert "first-rule" not in values["rules-that-run"]
        assert json.loads(torchlint("config", "--isolated", "--output-format", "json").out)["file"] is None
        Path("torchlint.toml").write_text("ignore = 3", encoding="utf-8")
        assert torchlint("config").code == 2

    def test_config_says_which_torch_is_the_target(self, torchlint: Torchlint) -> None:
        Path("pyproject.toml").write_text("[project]\nname = 'x'", encoding="utf-8")
        Path("src").mkdir()
        assert "as the newest that it knows" in torchlint("config", "src").out
        Path("requirements.txt").write_text("torch>=1.8,<2\n", encoding="utf-8")
        here = Path.cwd()
        assert f"# target-torch: 1.8, from the requirements in {here}\n" in torchlint("config", "src").out
        said = json.loads(torchlint("config", "src", "--output-format", "json").out)
        assert (said["target-torch"], said["target-torch-here"]["version"]) == (None, "1.8")
        Path("torchlint.toml").write_text('target-torch = "2.1"', encoding="utf-8")
        said = json.loads(torchlint("config", "src", "--output-format", "json").out)
        assert said["target-torch-here"] == {"version": "2.1", "from": str(here / "torchlint.toml")}

    def test_version(self, torchlint: Torchlint) -> None:
        assert torchlint("version").out == f"torchlint {__version__}\n"
        assert json.loads(torchlint("version", "--output-format", "json").out) == {"version": __version__}
        assert __version__ in torchlint("--version").out

    def test_help(self, torchlint: Torchlint) -> None:
        assert torchlint("--help").code == 0
        shown = torchlint("check", "-h")
        assert (shown.code, "--exit-non-zero-on-fix" in shown.out) == (0, True)


def command(*arguments: str, module: str = "tests.throwaway", **variables: str) -> subprocess.Popen[bytes]:
    """A real process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-m", module, *arguments], env=environment, **pipes)  # type: ignore[call-overload,no-any-return]


class TestProcess:
    def test_python_m_torchlint(self) -> None:
        done = command("version", module="torchlint")
        out, err = done.communicate()
        assert (done.returncode, out.split(), err) == (0, [b"torchlint", __version__.encode()], b"")

    def test_a_path_that_does_not_exist(self) -> None:
        done = command("check", "missing", module="torchlint")
        _, err = done.communicate()
        assert (done.returncode, b"no such file or directory" in err) == (2, True)

    @pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
    @pytest.mark.parametrize("files", [1, 40])
    def test_interrupted(self, files: int) -> None:
        for number in range(files):
            plant(**{f"f{number}": "bad HANG" + " " * 3000 + "\n"})
        with command("check", SAY_READY="1") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err.strip()) == (130, b"", b"torchlint: interrupted")

    @pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
    def test_a_reader_that_leaves(self) -> None:
        plant(**{f"f{number}": "bad\n" * 500 for number in range(20)})
        with command("check", "--output-format", "concise") as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(10)
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(timeout=20) in (1, 2)

    @pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
    def test_whatever_the_terminals_encoding(self, encoding: str) -> None:
        plant(a="x = '日本語 é', bad\n")
        process = command("check", PYTHONIOENCODING=encoding, PYTHONUTF8="0")
        out, err = process.communicate(timeout=20)
        assert (process.returncode, err) == (1, b"")
        assert b"TL901" in out

    def test_completion(self) -> None:
        process = command(_TORCHLINT_COMPLETE="bash_source", module="torchlint")
        out, _ = process.communicate(timeout=20)
        assert b"complete" in out

    def test_torch_and_the_heavy_are_not_imported_for_files_without_torch(self) -> None:
        Path("a.py").write_text("x = 1\n", encoding="utf-8")
        code = (
            "import sys\nfrom torchlint.cli import run\nassert run(['check', 'a.py']) == 0\n"
            "heavy = {'torch', 'libcst', 'rich', 'pathspec', 'packaging', 'multiprocessing', 'numpy'}\n"
            "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
        assert done.stderr.strip() == b"[]"
