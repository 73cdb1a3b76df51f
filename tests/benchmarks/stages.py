"""Where the time of a cold run goes: one process checks everything, and each stage's own time is summed.

    python -m tests.benchmarks.stages FOLDER      # one JSON object: seconds by stage
"""

from __future__ import annotations

import functools
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import libcst

from torchlint import discovery, engine, work
from torchlint.checking import Checker, Setup
from torchlint.config import Configuration
from torchlint.semantics import model
from torchlint.semantics.linker import Linker
from torchlint.semantics.project import Project
from torchlint.syntax.outlined import OutlinedTree

STAGES: dict[str, list[tuple[Any, str]]] = {
    "find files": [(discovery, "discover")],
    "read and screen": [(engine._Plan, "consider")],
    "outline (CPython's parser)": [(Project, "outline"), (Project, "_linked")],
    "run imported modules": [(Linker, "load")],
    "run the files' own code": [(model, "_run")],
    "ask the rules": [(Checker, "_look")],
    "give memory back": [(work.Housekeeper, "over_budget")],
    "parse with libcst": [(libcst, "parse_module"), (OutlinedTree, "complete")],
}


class Clock:
    """The time that each stage takes itself, what it calls in others aside."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = dict.fromkeys(STAGES, 0.0)
        self._stack: list[str] = []
        self._last = time.perf_counter()

    def turn(self) -> None:
        now = time.perf_counter()
        if self._stack:
            self.spent[self._stack[-1]] += now - self._last
        self._last = now

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            self.turn()
            self._stack.append(stage)
            try:
                return function(*arguments, **named)
            finally:
                self.turn()
                self._stack.pop()

        return call


def main() -> None:
    clock = Clock()
    for stage, places in STAGES.items():
        for owner, name in places:
            setattr(owner, name, clock.timed(stage, getattr(owner, name)))
    gc.disable()
    began = time.perf_counter()
    found = discovery.discover([str(Path(sys.argv[1]))], Configuration(isolated=True))
    plan = engine._Plan()
    for target in found.targets:
        plan.consider(target)
    engine.preload()
    work.run_here(plan.tasks, Setup(plan.settings), lambda result: None)
    whole = time.perf_counter() - began
    spent = {stage: round(seconds, 3) for stage, seconds in clock.spent.items()}
    sys.stdout.write(json.dumps({**spent, "the rest": round(whole - sum(clock.spent.values()), 3)}) + "\n")


if __name__ == "__main__":
    main()
