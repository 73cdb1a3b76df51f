"""Measure every rule on this machine, and keep the report: evidence for the rules' pages.

    python -m tests.tools.evidence --device cuda OUTPUT.json      # an H200-class card: under eight minutes
    python -m tests.tools.evidence --device cpu docs/evidence/cpu.json --minutes 60

A loop that fails is told of on stderr, and in the report; the exit code is 1 then. No loop is begun that the time left
might not be enough for, and the report says which were not.

Sizes are taken from the largest that fits downwards on a GPU, where small loops only show how
launches are overlapped, and from small upwards on a CPU. What is measured is written after every
loop, so that a run that is cut short keeps what it has. Then ``python -m torchlint.rules.docs
docs/rules`` brings the pages up to date.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from torchlint.cli.measuring import BLOCK, TURNS, measurement
from torchlint.harness import loops, machines
from torchlint.harness.measuring import Effort
from torchlint.harness.recordings import HarnessError
from torchlint.harness.reports import json
from torchlint.harness.verdicts import Comparison


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda", "mps"], default="auto")
    parser.add_argument("--minutes", type=float, default=7.5, help="no loop is begun after these")
    arguments = parser.parse_args()
    device = machines.device(arguments.device)
    on_cpu = device.kind == "cpu"
    effort = Effort(steps=40, warm_up=10, repeats=5 if on_cpu else 3, most_repeats=9 if on_cpu else 3,
                    threads=max(1, machines.cpus() // 2) if on_cpu else None, timeout=150.0 if on_cpu else 60.0,
                    block=BLOCK if on_cpu else None, turns=TURNS)
    end = time.monotonic() + 60 * arguments.minutes
    results: list[Comparison] = []
    left_out: list[str] = []
    longest = 0.0

    def keep() -> None:
        told = measurement(device, machines.commit(loops.folder()), effort, results, left_out)
        arguments.output.write_text(json.render(told), encoding="utf-8")

    for size in ("small", "medium") if on_cpu else ("large", "medium"):
        for loop in loops.loops():
            began = time.monotonic()
            what = f"{loop.name}, {size}"
            if began + longest > end:
                left_out.append(f"{what}: no time was left")
                continue
            try:
                found = list(loops.measured(loop, [size], device, effort, lambda what: None))
            except HarnessError as error:
                found = []
                left_out.append(f"{what} failed: {error}".partition(":\n")[0])
                sys.stderr.write(f"{what}: {error}\n")
            results += [one for one in found if one.time_ratio is not None or (one.name, one.reason) not in {
                (known.name, known.reason) for known in results}]
            longest = max(longest, time.monotonic() - began)
            sys.stderr.write("".join(f"{what}: {one.verdict.value}\n" for one in found))
            keep()
    keep()
    return 1 if any("failed" in line for line in left_out) else 0


if __name__ == "__main__":
    sys.exit(main())
