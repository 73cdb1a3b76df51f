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

WRAPPED = (
    "class W(nn.Module):\n    def __init__(self, a):\n        super().__init__()\n        self.a = self.b = a\n"
    "        self.me = self\n    def forward(self, x):\n        print(x.sum().item())\n"
    "        return self.a(x) + self.b(self.a(x))\n"
    "m = nn.Linear(1, 1)\n"
)
IN_ITSELF = (
    "a = []\na.append(a)\na.extend([a, a])\na += a\na[0] = a\nb = {'a': a}\nb['b'] = b\na.insert(10 ** 30, b)\n"
    "print(a)\nnn.Sequential(*a)\nf(a, b)\ntorch.tensor(a)\nfor x in a:\n    for y in x: a.append(y)\n"
)
LOOP_OF_CHOICES = (
    "def f(x):\n    layers = []\n    for i in x:\n"
    + "".join(
        f"        if i == {n}: layers = [nn.Linear({n}, 1), *layers]\n        else: layers += [layers, *layers]\n"
        for n in range(60)
    )
    + "    return nn.Sequential(*layers)\n"
)

# What doubles at every line, or calls at every level: without a bound each runs for ages, or fills the memory.
DOUBLING: dict[str, str] = {
    "annotations": "def f(x: \"" + "(" * 20_000 + "\", y: \"" + "+".join("a" * 9_000) + "\", z: '\\ud800'): x.cuda()\n",
    "arguments": "def f(*a): return f(*a, *a)\na = [torch.zeros(1)] * 9\n" + "a = [*a, *a]\n" * 40 + "f(*a, *a)\n",
    "calls": "".join(f"def f{n}(x): return " + " + ".join([f"f{n + 1}(x)"] * 20) + "\n" for n in range(12)) + "f0(1)\n",
    "choices": LOOP_OF_CHOICES,
    "class_hierarchy": "class A0(nn.Module): pass\n" + "".join(f"class A{n}(A{n - 1}): pass\n" for n in range(1, 2000)),
    "comprehensions": "a = ['a', 'b', 'c', 'd', 'e', 'f']\nx = "
    + "[" * 10
    + "nn.Linear(1, 1)"
    + "".join(f" for i{n} in a]" for n in range(10))
    + "\n",
    "defaults": "def f0(): pass\n"
    + "".join(f"def f{n}(x=f{n - 1}()): return [x" + f", f{n - 1}()" * 20 + "]\n" for n in range(1, 12)),
    "graphs": "y = 0\nm = nn.Linear(1, 1)\n" + "y = m(y) + y\n" * 2_000 + "y.backward()\n",
    "in_itself": IN_ITSELF,
    "lists": "a = [nn.Linear(1, 1)]\n" + "a = a + a\n" * 40 + "a += a\n" * 40 + "nn.Sequential(*a)\n",
    "modules": WRAPPED + "m = W(m)\n" * 60 + "m(torch.zeros(1))\nm.cuda().eval()\n",
    "names": "class A(nn.Module):\n    def __init__(self, a):\n        setattr(self, " + "+ '_' + ".join("a" * 25)
    + ", nn.ReLU())\n    def forward(self, x): return self." + "_".join("x" * 40) + "(x)\n",
    "nested_lists": "a = [nn.Linear(1, 1)]\n" + "a = [a, (a, a), {'a': a}]\n" * 40 + "print(a)\nf(a)\n",
    "nonsense": "[1][:: 0]\n[].pop(10 ** 30)\nsum()\n1 // 0\n'%d' % 10 ** 5000\nf'{10 ** 5000}'\n"
    "x = " + "9" * 5000 + "\n",
    "numbers": "a = 10\n" + "a = a * a\n" * 60,
    "pairs": "a = [1, nn.ReLU()]\n" + "a = list(zip(a, a)) + list(enumerate(a))\n" * 40 + "f(a)\n",
    "words": "a = 'abc'\nb = 'abc'\n" + "a = a + a\nb = f'{b}{b}'\n" * 60,
}

FOUND: dict[str, str | bytes] = {
    "brackets_at_the_limit": "y = " + "[" * 190 + "]" * 190 + "\n",
    "blank_lines": "y = 1\n" + "\n" * 200_000 + "z = 2\n",
    "many_findings": "y = torch.zeros(3).cuda()\n" * 3_000,
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


@pytest.mark.parametrize("name", DOUBLING)
def test_what_doubles(tmp_path: Path, name: str) -> None:
    resource = pytest.importorskip("resource")
    write(tmp_path, name, DOUBLING[name])
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    code, found, failed = check(tmp_path, f"{name}.py")
    assert (code, failed) == (1, {})
    assert "data-parallel" in found[name]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 10  # a second, on a machine left alone


def test_imports_of_what_cannot_be_parsed(tmp_path: Path) -> None:
    names = [*FAILED, "itself", "no_such_codec"]
    for name, (_, text) in FAILED.items():
        write(tmp_path, name, text)
    write(tmp_path, "itself", "import itself\nfrom itself import *\nfrom main import *\nfrom itself import y\n")
    (tmp_path / "no_such_codec.py").write_bytes(b"# coding: nonsense\ny = 1\n")
    imports = "".join(f"from {name} import *\nfrom {name} import y as {name}\n{name}(y)\n" for name in names)
    write(tmp_path, "main", imports)
    assert check(tmp_path, "main.py") == (1, {"main": {"data-parallel"}}, {})


def test_one_of_several_modules(tmp_path: Path) -> None:
    write(tmp_path, "one", "class A: pass\n")
    write(tmp_path, "two", "class B: pass\n")
    write(tmp_path, "net", HEAD + "import one, two\nfor module in (one, two):\n    tensor = getattr(module, name)()\n"
                                  "getattr(one if name else two, name)()\n")
    assert check(tmp_path, "net.py") == (1, {"net": {"data-parallel"}}, {})


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


def test_a_class_that_only_another_file_constructs(tmp_path: Path) -> None:
    write(tmp_path, "evaluation", "def evaluate(Model):\n    model = Model()\n    model.eval()\n    return model\n")
    write(tmp_path, "train", "import torch\nfrom torch import nn\n\nclass Agent(nn.Module):\n    def __init__(self):\n"
          "        super().__init__()\n        self.net = nn.Sequential(nn.Linear(4, 64), nn.Linear(64, 2))\n\n"
          "    def act(self, x):\n        return self.net(x).argmax(1)\n\n\ndef main():\n"
          "    from evaluation import evaluate\n    evaluate(Agent)\n    print(nn.DataParallel(Agent()))\n")
    assert check(tmp_path, "train.py") == (1, {"train": {"data-parallel"}}, {})
