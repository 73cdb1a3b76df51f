"""torchlint's speed beside that of its peers, as whole commands on public packages at pinned versions.

    python -m tests.benchmarks.speed                      # all packages, five rounds: about half an hour on two cores
    python -m tests.benchmarks.speed --package timm --rounds 3 --without torchfix

Fetches the packages, TorchFix, semgrep and its PyTorch rules into ``--work`` (environments of their own),
runs everything in turn, round after round, so that what slows the machine slows all, and writes the medians
to ``docs/performance.md``. Needs network the first time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.packages import PINNED, fetched
from torchlint.work import usable_cpus

PEERS = {"torchfix": "torchfix==0.7.0", "semgrep": "semgrep==1.185.0"}
SEMGREP_RULES = "https://github.com/trailofbits/semgrep-rules"
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"


@dataclass
class Command:
    """What is timed: ``prepare`` runs before every round and ``restore`` after it, untimed."""

    name: str
    line: list[str]
    prepare: Callable[[], object] = lambda: None
    restore: Callable[[], object] = lambda: None
    environment: dict[str, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    def run(self) -> None:
        self.prepare()
        began = time.perf_counter()
        process = subprocess.Popen(self.line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**os.environ, **self.environment})
        _, _, usage = os.wait4(process.pid, 0)
        self.restore()
        self.seconds.append(time.perf_counter() - began)
        self.cpu.append(usage.ru_utime + usage.ru_stime)
        self.memory.append(usage.ru_maxrss * 1024)  # of the largest process of the command

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=ROOT / ".benchmarks", help="where things are fetched to")
    parser.add_argument("--package", action="append", choices=PINNED, help="this one only (may be repeated)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without", action="append", default=[], choices=["torchfix", "semgrep", "ruff"])
    parser.add_argument("--semgrep-rules", type=Path, help="a checkout of trailofbits/semgrep-rules")
    parser.add_argument("--output", type=Path, default=PAGE)
    arguments = parser.parse_args()
    work = arguments.work.absolute()
    peers = {name: _environment(work / name, wanted) for name, wanted in PEERS.items() if name not in arguments.without}
    rules = _semgrep_rules(arguments.semgrep_rules, work) if "semgrep" in peers else None
    tables = []
    for name, folder in fetched(work / "packages", arguments.package or list(PINNED)[:5]).items():
        commands = _commands(folder, work / "cache", peers, rules, ruff="ruff" not in arguments.without)
        for number in range(arguments.rounds):
            for command in commands:
                sys.stderr.write(f"{name}, round {number + 1}: {command.name}\n")
                command.run()
        tables.append(_table(name, folder, commands))
        arguments.output.write_text(_page(tables, arguments.rounds), encoding="utf-8")
    return 0


def _environment(folder: Path, wanted: str) -> Path:
    """The scripts of an environment that holds a peer."""
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    if not scripts.is_dir():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(scripts / "python"), "-m", "pip", "install", "--quiet", wanted], check=True)
    return scripts


def _semgrep_rules(given: Path | None, work: Path) -> list[str]:
    """Arguments that name its rules about PyTorch."""
    folder = given or work / "semgrep-rules"
    if not folder.is_dir():
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", SEMGREP_RULES, str(folder)], check=True)
    files = sorted(path for path in (folder / "python").glob("*.yaml") if "torch" in path.name)
    return [part for path in files for part in ("--config", str(path))]


def _commands(
    folder: Path, cache: Path, peers: dict[str, Path], rules: list[str] | None, *, ruff: bool
) -> list[Command]:
    check = [sys.executable, "-m", "torchlint", "check", "--isolated", "--exit-zero", "--output-format", "concise"]
    kept = [*check, "--cache-dir", str(cache)]
    changed = max(folder.rglob("*.py"), key=lambda path: (b"BatchNorm" in path.read_bytes(), path.stat().st_size))
    text = changed.read_text(encoding="utf-8")

    def restore() -> None:
        changed.write_text(text, encoding="utf-8")

    def prime() -> None:
        subprocess.run([*kept, str(folder)], cwd=ROOT, capture_output=True, check=False)

    def prime_and_change() -> None:
        prime()
        changed.write_text(f"{text}\n# {time.time()}\n", encoding="utf-8")

    jobs = str(usable_cpus())
    commands = [
        Command("torchlint, cold", [*check, "--no-cache", str(folder)]),
        Command("torchlint, warm", [*kept, str(folder)], prime),
        Command("torchlint, its largest file changed", [*kept, str(folder)], prime_and_change, restore),
        Command("libcst's parse of the files that need it",
                [sys.executable, "-m", "tests.benchmarks.floor", str(folder), jobs]),
    ]
    if rules is not None:
        commands.append(Command("semgrep, its PyTorch rules", [
            str(peers["semgrep"] / "semgrep"), "scan", "--metrics", "off", "--disable-version-check", "--quiet",
            "--jobs", jobs, *rules, str(folder)], environment={"PATH": f"{peers['semgrep']}:{os.environ['PATH']}"}))
    if "torchfix" in peers:
        commands.append(Command("TorchFix", [str(peers["torchfix"] / "torchfix"), "--select", "ALL", str(folder)]))
    if ruff and (found := shutil.which("ruff", path=str(Path(sys.executable).parent))):
        commands.append(Command("ruff, all rules, no cache", [found, "check", "--isolated", "--no-cache", "--quiet",
                                                              "--select", "ALL", str(folder)]))
    return commands


def _table(name: str, folder: Path, commands: list[Command]) -> str:
    files = list(folder.rglob("*.py"))
    size = sum(path.stat().st_size for path in files) / 1e6
    cold = commands[0].median
    rows = [f"## {name} {PINNED[name]}: {len(files)} files, {size:.1f} MB", "",
            "| | wall | of torchlint, cold | CPU | memory |", "|---|---:|---:|---:|---:|"]
    rows += [f"| {one.name} | {one.median:.2f} s | {one.median / cold:.2f} | {statistics.median(one.cpu):.2f} s "
             f"| {statistics.median(one.memory) / 2**20:.0f} MiB |" for one in commands]
    stages = subprocess.run([sys.executable, "-m", "tests.benchmarks.stages", str(folder)], cwd=ROOT, text=True,
                            capture_output=True, check=True).stdout
    spent: dict[str, float] = json.loads(stages)
    whole = sum(spent.values())
    shares = ", ".join(f"{stage} {seconds / whole:.0%}" for stage, seconds in spent.items())
    return "\n".join([*rows, "", f"Of a cold run in one process ({whole:.1f} s): {shares}."])


_HEAD = """\
# Performance

Whole commands, start-up included, on public packages at pinned versions: medians of {rounds} rounds in which all
commands take their turn ({machine}). `python -m tests.benchmarks.speed` measures them anew and writes this page.

*Cold* uses no cache, *warm* finds everything in it. *libcst's parse* is what no tool that reads files with libcst goes
below: the parse of those files alone in which a rule may report, on as many processes. Memory is that of the largest
process. TorchFix and semgrep look for other things (one of torchlint's topics, and a few patterns): their figures say
how long a user waits, not what is found."""


def _page(tables: list[str], rounds: int) -> str:
    return "\n\n".join([_HEAD.format(rounds=rounds, machine=machine()), *tables]) + "\n"


def machine() -> str:
    """What everything is measured on."""
    python = f"Python {platform.python_version()}"
    return ", ".join([_processor(), f"{usable_cpus()} CPUs", platform.system(), python])


def _processor() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line for line in lines if line.startswith("model name")).partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
