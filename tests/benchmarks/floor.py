"""The cost that no libcst tool goes below: libcst parses the files of a folder that need it, on as many processes.

    python -m tests.benchmarks.floor FOLDER JOBS
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from multiprocessing import get_context
from pathlib import Path

import libcst

from torchlint.checking import screened
from torchlint.config import Configuration
from torchlint.discovery import discover
from torchlint.rules import all_rules


def main() -> None:
    folder, jobs = Path(sys.argv[1]), int(sys.argv[2])
    rules = [rule for rule in all_rules() if rule.family != "suppression"]
    sources = [data for target in discover([str(folder)], Configuration(isolated=True)).targets
               if screened(rules, data := target.path.read_bytes())]
    parts: list[list[bytes]] = [[] for _ in range(jobs)]
    for data in sorted(sources, key=len, reverse=True):
        min(parts, key=lambda part: sum(map(len, part))).append(data)
    gc.disable()
    context = get_context("fork")
    processes = [context.Process(target=_parse, args=(part,)) for part in parts]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def _parse(sources: list[bytes]) -> None:
    for data in sources:
        with contextlib.suppress(Exception):  # what does not parse costs torchlint as much
            libcst.parse_module(data)
    os._exit(0)


if __name__ == "__main__":
    main()
