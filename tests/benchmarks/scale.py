"""How the time of a run grows with the code, here and on a Dask cluster of two workers.

    python -m tests.benchmarks.scale               # 100 to 100,000 files; writes docs/scale.md
    python -m tests.benchmarks.scale --files 1000 --files 10000 --output /tmp/scale.md
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks import monorepo
from tests.benchmarks.speed import PAGE, machine

SIZES = (100, 1_000, 10_000, 100_000)

_HEAD = """\
# Scale

Figures are of a made-up monorepo (`tests/benchmarks/monorepo.py`: one package in six trains models, its files
import each other across the tree), on {machine}; `python -m tests.benchmarks.scale` measures them anew and writes
this page.

{table}

*Cold* uses no cache, *warm* finds everything in it; *one changed* is a run after a change of one model's file.
Memory is that of the largest process. On the cluster (two local workers) the findings were the same as here, of
every size.

## One machine

A run first reads every file once, to search it for words: that is most of the time of a large tree with little
training code, and happens in one process. What may hold a mistake is then checked on as many processes as there are
processors (`--jobs`), the heaviest folders first. Searches for callers go through the files themselves in a tree of
up to 64 MB, and through an index of all calls in a larger one. Each process stays below 400 MB: one that grows is
replaced. A second run looks at the times of files, and reads only what changed.

## When to split

- In CI, check what a change touches: `torchlint check $(git diff --name-only --diff-filter=d origin/main --
  '*.py')`. Findings that rest on other files are the same as in a whole run. Keep `.torchlint_cache` between jobs.
- Several repositories are several projects: check each from its own root, in its own job. Nothing is linked across
  them.
- One tree that takes too long on one machine goes to a cluster.

## A Dask cluster

```sh
pip install 'torchlint[dask]'
torchlint check --executor dask:tcp://scheduler:8786 /shared/monorepo
```

The machine that runs the command finds and screens the files, and keeps the cache; the workers check. They must see
the same files under the same paths, and have the same torchlint, which is checked first. What a worker loses is
checked where the command runs. From Python, `torchlint.check(paths, executor=client.get_executor())` takes any
executor of `concurrent.futures`. A worker checks one batch at a time, so give it one thread and as many processes
as it has processors: `dask worker --nworkers auto --nthreads 1`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, action="append", help="a size (may be repeated)")
    parser.add_argument("--output", type=Path, default=PAGE.with_name("scale.md"))
    arguments = parser.parse_args()
    rows = ["| files | train | cold | files a second | warm | one changed | cold, on the cluster | memory |",
            "|---:|---:|---:|---:|---:|---:|---:|---:|"]
    with tempfile.TemporaryDirectory() as work, _cluster() as address:
        for files in arguments.files or SIZES:
            rows.append(_row(Path(work, str(files)), files, address))
            sys.stderr.write(rows[-1] + "\n")
            page = _HEAD.replace("{machine}", machine()).replace("{table}", "\n".join(rows))
            arguments.output.write_text(page, encoding="utf-8")
    return 0


@contextmanager
def _cluster() -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as running:  # type: ignore[no-untyped-call]
        yield str(running.scheduler_address)


def _row(folder: Path, files: int, address: str) -> str:
    monorepo.make(folder, files)
    cold, found, memory = _run(folder, "--no-cache")
    there, same, _ = _run(folder, "--no-cache", "--executor", f"dask:{address}")
    if same != found:
        raise SystemExit(f"the cluster finds something else in {files} files")
    _run(folder)
    warm, same, _ = _run(folder)
    if same != found:
        raise SystemExit(f"the cache says something else of {files} files")
    net = next(folder.rglob("net.py"))
    net.write_text(net.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    changed, _, _ = _run(folder)
    trains = sum(1 for _ in folder.rglob("net.py")) * 4
    shutil.rmtree(folder)
    return (f"| {files:,} | {trains:,} | {cold:.2f} s | {files / cold:,.0f} | {warm:.2f} s | {changed:.2f} s "
            f"| {there:.2f} s | {memory / 2**20:.0f} MiB |")


def _run(folder: Path, *options: str) -> tuple[float, list[object], int]:
    """Seconds, findings, and bytes of the largest process."""
    report = folder.with_suffix(".json")
    command = [sys.executable, "-m", "torchlint", "check", "--isolated", "--exit-zero", "--output-format", "json",
               "--output-file", str(report), *options, "."]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return seconds, json.loads(report.read_text(encoding="utf-8")), usage.ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
