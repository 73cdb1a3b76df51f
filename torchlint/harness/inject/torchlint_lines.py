"""Notes which lines a program runs."""

from __future__ import annotations

import os
import sys
import threading
import types
from typing import Any


def trace(plan: dict[str, Any]) -> None:
    """Note which of the planned lines are run, in this process and in those that it forks."""
    root = os.path.realpath(plan["root"])
    wanted = {f"{root}{os.sep}{file}": (file, set(lines)) for file, lines in plan["lines"].items()}
    out = os.open(os.path.join(plan["folder"], "lines"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)  # noqa: PTH118
    seen: set[tuple[str, int]] = set()
    real: dict[str, Any] = {}

    def local(frame: Any, event: str, arg: Any) -> Any:
        if event == "line":
            name, lines = real[frame.f_code.co_filename]
            line = frame.f_lineno
            if line in lines and (name, line) not in seen and not _is_put_off(frame.f_code, line):
                seen.add((name, line))
                os.write(out, f"{line} {name}\n".encode())
        return local

    def every(frame: Any, event: str, arg: Any) -> Any:
        file = frame.f_code.co_filename
        if file not in real:
            real[file] = wanted.get(os.path.realpath(file))
        return local if real[file] is not None else None

    sys.settrace(every)
    threading.settrace(every)
    running = sys._getframe()
    while running is not None:  # the program is running already: it is importing torch
        running.f_trace = every(running, "call", None)
        running = running.f_back  # type: ignore[assignment]


def _is_put_off(code: types.CodeType, line: int) -> bool:
    """Whether a line holds a lambda or a generator: it counts when that is run, not when it is made."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name in ("<lambda>", "<genexpr>"))
    return any(c.co_firstlineno <= line <= max(at or 0 for _, _, at in c.co_lines()) for c in inner)
