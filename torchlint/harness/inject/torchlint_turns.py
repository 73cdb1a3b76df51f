"""Holds a program still while another that is measured beside it makes its steps."""

from __future__ import annotations

import mmap
import time

_NUMBER = 8  # bytes
_WAIT = 0.001  # seconds


class Turns:
    """Two numbers in a file: how often the program may go on, written by who measures, and how often it has stopped."""

    def __init__(self, path: str, patience: float) -> None:
        with open(path, "r+b") as file:  # noqa: PTH123
            self._shared = mmap.mmap(file.fileno(), 2 * _NUMBER)
        self._patience = patience  # seconds after which nobody is there to answer
        self._stopped = 0

    def wait(self) -> None:
        """Stop, until told to go on."""
        self._stopped += 1
        self._shared[_NUMBER:] = self._stopped.to_bytes(_NUMBER, "little")
        end = time.monotonic() + self._patience
        while int.from_bytes(self._shared[:_NUMBER], "little") < self._stopped and time.monotonic() < end:
            time.sleep(_WAIT)
