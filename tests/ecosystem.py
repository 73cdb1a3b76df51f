"""What torchlint finds in public packages, against what it found when somebody last read it.

    python -m tests.ecosystem              # shows what is new and what is gone; exit code 1 where something is
    python -m tests.ecosystem --update     # after reading it: the new summary is kept

A summary holds places and rules, no code: ``tests/data/ecosystem.json``.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from pathlib import Path

import torchlint
from tests.benchmarks.packages import PINNED, fetched

SUMMARY = Path(__file__).parent / "data" / "ecosystem.json"
WORK = Path(__file__).parents[1] / ".benchmarks" / "packages"

Summary = dict[str, list[str]]
"""For each package with its version, the places in the order of reports."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="keep what is found now")
    parser.add_argument("--work", type=Path, default=WORK, help="where the packages are fetched to")
    arguments = parser.parse_args()
    before: Summary = json.loads(SUMMARY.read_text(encoding="utf-8")) if SUMMARY.exists() else {}
    after = {f"{name} {PINNED[name]}": places(folder) for name, folder in fetched(arguments.work.absolute()).items()}
    changes = list(differences(before, after))
    sys.stdout.writelines(f"{line}\n" for line in changes)
    if arguments.update:
        SUMMARY.write_text(json.dumps(after, indent=1) + "\n", encoding="utf-8")
    return 1 if changes and not arguments.update else 0


def places(folder: Path) -> list[str]:
    """Every finding as place and rule; what could not be looked at as such."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        report = torchlint.check(isolated=True)
    finally:
        os.chdir(here)
    found = [f"{finding.path}:{finding.span.start.line}:{finding.span.start.column} {finding.rule}"
             for finding in report.findings]
    return found + [f"{diagnostic.path} {diagnostic.kind}" for diagnostic in report.diagnostics]


def differences(before: Summary, after: Summary) -> list[str]:
    """What was found and is not any more (``-``), and what is found now (``+``), by package."""
    lines: list[str] = []
    for package in sorted({*before, *after}):
        old, new = before.get(package, []), after.get(package, [])
        changed = [line for line in difflib.ndiff(old, new) if line.startswith(("- ", "+ "))]
        if changed:
            lines += [f"{package}: {len(old)} before, {len(new)} now", *changed]
    return lines


if __name__ == "__main__":
    sys.exit(main())
