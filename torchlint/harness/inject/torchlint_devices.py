"""Time and memory on the devices of a model, which need not be the current ones.

Nothing here waits but ``seconds`` and ``wait_for``.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any


def devices_of(optimizer: Any) -> list[Any]:
    """The devices of an optimizer's parameters in their order; those of accelerators only, where there are any."""
    devices = list(dict.fromkeys(p.device for group in optimizer.param_groups for p in group["params"]))
    return [device for device in devices if device.type != "cpu"] or devices


def name_of(torch: Any, device: Any) -> str:
    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else str(device.type)


def mark(torch: Any, device: Any) -> Any:
    """The end of what the device was given so far: an event, or on the CPU the time."""
    if device.type == "cuda":
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(device))
        return event
    if device.type == "mps":
        event = torch.mps.Event(enable_timing=True)
        event.record()
        return event
    return time.perf_counter()


def seconds(torch: Any, device: Any, spans: Sequence[tuple[Any, Any]]) -> list[float]:
    """Between the marks of each pair, once the device has come to the last."""
    if device.type not in ("cuda", "mps"):
        return [end - begin for begin, end in spans]
    wait_for(torch, device)
    return [begin.elapsed_time(end) / 1000 for begin, end in spans]


def wait_for(torch: Any, device: Any) -> None:
    """Wait until a device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def forget_peak(torch: Any, devices: Sequence[Any]) -> bool:
    """Begin the peak of memory anew: that of CUDA's allocator, or the resident memory's. False where that cannot be."""
    if devices[0].type == "cuda":
        for device in devices:
            torch.cuda.reset_peak_memory_stats(device)
        return True
    with contextlib.suppress(OSError):
        with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123  # Linux has it
            file.write("5")
        return True
    return False


def peak(torch: Any, devices: Sequence[Any]) -> int | None:
    """The most bytes since ``forget_peak``."""
    if devices[0].type == "cuda":
        return sum(int(torch.cuda.max_memory_allocated(device)) for device in devices)
    with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/self/status") as file:  # noqa: PTH123
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) * 1024
    return None
