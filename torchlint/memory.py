"""How much memory this process holds, and ways to give some back."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

Result = TypeVar("Result")

MEGABYTE = 1 << 20

# libcst needs a few Python frames for each level of nesting, and on Python 3.10 a frame takes C stack as well.
_RECURSION_LIMIT = 20_000
_STACK_SIZES = (512 * MEGABYTE, 128 * MEGABYTE, 32 * MEGABYTE)


def resident() -> int | None:
    """The bytes of memory that this process holds now; None where the system does not say cheaply."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  # called after every file: pathlib is too slow
            return int(file.read().split()[1]) * _page_size()
    except (OSError, ValueError, IndexError):
        return None


def trim() -> None:
    """Give back what the allocator holds but nobody uses.

    libcst's native parser needs up to 340 bytes for each byte of source while it runs. It frees
    most of that, but glibc keeps it until told otherwise (143 MB became 19 MB on a file of 0.4 MB).
    """
    if sys.platform.startswith("linux"):
        import ctypes

        with contextlib.suppress(OSError, AttributeError):  # another C library: nothing to trim
            ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Garbage collection off: a parse makes a million objects that are all alive."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def with_deep_stack(work: Callable[[], Result]) -> Result:
    """The result of ``work``, run in a thread whose stack bears deeply nested code."""
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # handed to the caller, nothing is lost
            failure.append(error)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    try:
        _start(run).join()
    finally:
        sys.setrecursionlimit(limit)
    if failure:
        raise failure[0]
    return outcome[0]


def _start(run: Callable[[], None]) -> threading.Thread:
    """A started thread with the largest stack that the system grants."""
    before = threading.stack_size()
    try:
        for size in _STACK_SIZES:
            with contextlib.suppress(RuntimeError, ValueError, MemoryError):
                threading.stack_size(size)
                return _started(run)
    finally:
        threading.stack_size(before)
    return _started(run)


def _started(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, name="torchlint", daemon=True)
    thread.start()
    return thread


def _page_size() -> int:
    import resource

    return resource.getpagesize()
