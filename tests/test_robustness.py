"""Files that no input may be: they cost themselves, are reported for what they are, and nothing else is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAD = "import torch\nfrom torch import nn\n\nmodel = nn.DataParallel(nn.Linear(2, 2))\n"

NESTED_IFS = "".join("    " * depth + "if a:\n" for depth in range(90)) + "    " * 90 + "pass\n"

FOUND: dict[str, str | bytes] = {
    "brackets_at_the_limit": "y = " + "[" * 190 + "]" * 190 + "\n",
    "carriage_returns": HEAD.replace("\n", "\r"),
    "decorators": "@a\n" * 3000 + "def f(): pass\n",
    "form_feed": "\f\ny = 1\n",
    "functions_that_call_each_other": "".join(f"def f{n}(x): return f{n + 1}(x) + f{n + 2}(x)\n" for n in range(500)),
    "ifs_in_ifs": NESTED_IFS,
    "inherits_from_itself": "class A(A): pass\nclass B(C): pass\nclass C(B): pass\nA().forward(B())\n",
    "long_line": "y = '" + "a" * 1_000_000 + "'\n",
    "long_list": "y = [" + "1, " * 20_000 + "]\n",
    "loops_in_loops": "".join("    " * n + f"for i{n} in range(9):\n" for n in range(18)) + "    " * 18 + "f(1)\n",
    "many_branches": "def f():\n" + "".join(f"    if a{n}:\n        x = {n}\n" for n in range(1000)),
    "many_lines": "y = torch.zeros(3)\n" * 8_000,
    "no_final_newline": "y = 1",
    "recursion": "def f(x): return g(f(g(x)))\ndef g(x): return f(g(f(x)))\nf(1)\n",
    "semicolons": "a=1;" * 5_000 + "\n",
    "stars": "y = f(" + "*a, " * 3000 + ")\n",
}

FAILED: dict[str, tuple[str, str | bytes]] = {
    "attributes": ("parser-limit", "y = a" + ".b" * 8000 + "\n"),
    "bad_bytes": ("unreadable", b"y = '\xff\xfe'\n"),
    "brackets": ("parser-limit", "y = " + "(" * 5000 + ")" * 5000 + "\n"),
    "calls": ("parser-limit", "y = a" + "()" * 8000 + "\n"),
    "elifs": ("parser-limit", "if a: pass\n" + "elif b: pass\n" * 5000),
    "half_a_string": ("syntax-error", "y = '''abc\n"),
    "lambdas": ("parser-limit", "y = " + "lambda: " * 8000 + "1\n"),
    "minuses": ("parser-limit", "y = " + "-" * 8000 + "1\n"),
    "null_byte": ("syntax-error", "y = '\0'\n"),
    "python_2": ("syntax-error", "print 'x'\n"),
    "strings": ("parser-limit", "y = " + "'a' " * 5000 + "\n"),
    "sum": ("parser-limit", "y = " + " + ".join("a" * 8000) + "\n"),
    "ternaries": ("parser-limit", "y = " + "1 if a else " * 8000 + "1\n"),
}


def write(folder: Path, name: str, text: str | bytes) -> None:
    (folder / f"{name}.py").write_bytes(HEAD.encode() + (text if isinstance(text, bytes) else text.encode()))


def command(folder: Path, *arguments: str, module: str = "torchlint") -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def check(folder: Path, *paths: str) -> tuple[int, dict[str, set[str]], dict[str, str]]:
    """Exit code, the rules found in each file, and the first diagnostic of each file."""
    with command(folder, "check", "--isolated", "--output-format", "json", *paths) as process:
        out, err = process.communicate(timeout=300)
    assert b"Traceback" not in err
    found: dict[str, set[str]] = {}
    for finding in json.loads(out):
        found.setdefault(finding["path"].removesuffix(".py"), set()).add(finding["rule"])
    failed: dict[str, str] = {}
    for line in err.decode().splitlines():
        place, kind, *_ = line.removeprefix("torchlint: ").split(": ")
        failed.setdefault(place.partition(".py")[0], kind)
    return process.returncode, found, failed


def test_all_of_them_in_one_run(tmp_path: Path) -> None:
    for name, text in FOUND.items():
        write(tmp_path, name, text)
    for name, (_, text) in FAILED.items():
        write(tmp_path, name, text)
    code, found, failed = check(tmp_path)
    assert code == 2
    assert failed == {name: kind for name, (kind, _) in FAILED.items()}
    assert {name for name, rules in found.items() if "data-parallel" in rules} == set(FOUND)


@pytest.mark.parametrize("name", ["brackets", "sum", "strings"])
def test_alone_in_the_process(tmp_path: Path, name: str) -> None:
    kind, text = FAILED[name]
    write(tmp_path, name, text)
    assert check(tmp_path, f"{name}.py") == (2, {}, {name: kind})


def test_a_file_that_is_no_utf_8_nor_names_torch_is_nobodys_business(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"\xff(((")
    assert check(tmp_path) == (0, {}, {})


@pytest.mark.parametrize("data", [b"torch", b"[]", b"{}", b'{"cells": 3, "torch": 1}', b'{"cells": [{"torch": []}]}'])
def test_notebooks_that_are_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.ipynb").write_bytes(data)
    with command(tmp_path, "check", "--isolated", "--preview") as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode in (0, 2)
    assert b"Traceback" not in err
    assert b"crash" not in err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.py")
    assert check(tmp_path)[0] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize("after", [0.0, 0.2, 0.5, 1.0])
def test_interrupted_while_fixing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: float) -> None:
    monkeypatch.setenv("SAY_READY", "1")
    before, fixed = b"import torch\nbad SLOW\n" + b"#" * 500, b"import torch\ngood SLOW\n" + b"#" * 500
    for number in range(12):
        (tmp_path / f"{number}.py").write_bytes(before)
    with command(tmp_path, "fix", "--isolated", "-j", "8", module="tests.throwaway") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode in (130, 0)  # or done already
    assert b"Traceback" not in err
    assert {path.name for path in tmp_path.iterdir()} == {f"{number}.py" for number in range(12)}
    assert {path.read_bytes() for path in tmp_path.iterdir()} <= {before, fixed}


def test_two_fixes_at_once(tmp_path: Path) -> None:
    for number in range(60):
        (tmp_path / f"{number}.py").write_bytes(b"import torch\nbad\n" * 20)
    running = [command(tmp_path, "fix", "--isolated", module="tests.throwaway") for _ in range(3)]
    for process in running:
        with process:
            _, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, b"")
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"import torch\ngood\n" * 20}
    assert len(list(tmp_path.iterdir())) == 60
