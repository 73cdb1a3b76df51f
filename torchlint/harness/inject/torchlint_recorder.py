"""Records a training run from inside: when its optimizer steps, and the losses it goes back from.

Runs in the user's process, whatever Python that is: the standard library and torch only. It hooks
what torch offers for all optimizers at once, adds no synchronisation to a step, and ends the
program after the steps that were asked for. One JSON file for each process that trained.

The plan (a JSON file) says: ``folder`` for the records, ``steps`` to run, ``warm_up`` steps before
memory is watched, ``seed``, ``threads`` (or null), ``root`` (the copy that the program runs in),
``original`` (the tree that it must leave alone), ``names`` (the paths that lead there; none where it
runs in no copy), ``lines`` (null, or for each file below ``root`` the lines whose running is to be
noted).
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.abc
import importlib.util
import json
import os
import random
import sys
import threading
import time
import weakref
from typing import Any

import torchlint_tree

_PATIENCE = 10.0  # seconds that a program may take to end once it was asked to


class _Finished(SystemExit):
    """Ends the program as ``sys.exit(0)`` does, through its own ``finally`` blocks."""


def arrange(plan_file: str) -> None:
    """Record this process once it imports torch."""
    with open(plan_file, encoding="utf-8") as file:  # noqa: PTH123
        plan = json.load(file)
    random.seed(plan["seed"])
    _shift_seeds(random, "seed", plan["seed"])
    sys.meta_path.insert(0, _AfterTorch(Recorder(plan)))
    if plan["names"]:
        torchlint_tree.keep_in(plan["root"], plan["names"])


class _AfterTorch(importlib.abc.MetaPathFinder):
    """Calls the recorder as soon as the program has imported torch."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            self._recorder.begin(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class Recorder:
    """Watches the steps of one process."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.torch: Any = None
        self.leader: Any = None  # a reference to the optimizer whose steps are counted
        self.others = 0  # steps of other optimizers: a GAN has two
        self.marks: list[Any] = []  # a time or an event for each step
        self.losses: list[list[Any]] = [[]]  # what backward began from, before each step
        self.rates: list[Any] = []
        self.device = "cpu"
        self.weights: list[float] | None = None
        self.finished = False
        self.process = os.getpid()

    def begin(self, torch: Any) -> None:
        """Hook torch, which has just been imported."""
        from torch.optim import optimizer

        self.torch = torch
        torch.manual_seed(self.plan["seed"])
        _shift_seeds(torch, "manual_seed", self.plan["seed"])
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(self.plan["seed"])
            _shift_seeds(sys.modules["numpy"].random, "seed", self.plan["seed"])
        if self.plan.get("threads"):
            torch.set_num_threads(self.plan["threads"])
        optimizer.register_optimizer_step_pre_hook(self._before_step)
        optimizer.register_optimizer_step_post_hook(self._after_step)
        self._watch_backward(torch)
        self._watch_save(torch)
        if self.plan.get("lines"):
            _trace(self.plan)
        atexit.register(self.write)

    def _watch_backward(self, torch: Any) -> None:
        original = torch.autograd.backward

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            for tensor in tensors if isinstance(tensors, (list, tuple)) else (tensors,):
                if getattr(tensor, "numel", int)() == 1:
                    self.losses[-1].append(tensor.detach())
            return original(tensors, *args, **kwargs)

        torch.autograd.backward = backward

    def _watch_save(self, torch: Any) -> None:
        original = torch.save

        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            if self.plan["names"]:  # torch writes past Python
                torchlint_tree.own(self.plan["root"], f, keeps=False)
            return original(obj, f, *args, **kwargs)

        torch.save = save

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        leader = self.leader() if self.leader is not None else None
        if leader is None:
            self.leader = weakref.ref(optimizer)
            if self.weights is None:
                self.weights = self._fingerprint(optimizer)
                self.device = next((p.device.type for g in optimizer.param_groups for p in g["params"]), "cpu")

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.finished:
            os._exit(0)  # somebody caught the end
        if self.leader is None or self.leader() is not optimizer:
            self.others += 1
            return
        rate = optimizer.param_groups[0].get("lr", 0.0)
        self.rates.append(rate.detach().clone() if hasattr(rate, "detach") else rate)
        self.losses.append([])
        self.marks.append(self._mark())
        if len(self.marks) == self.plan["warm_up"]:
            self._forget_peak()
        if len(self.marks) > self.plan["steps"]:
            self.write()
            watchdog = threading.Timer(_PATIENCE, os._exit, (0,))
            watchdog.daemon = True
            watchdog.start()
            raise _Finished(0)

    def _mark(self) -> Any:
        if self.device == "cuda":
            event = self.torch.cuda.Event(enable_timing=True)
            event.record()
            return event
        if self.device == "mps":
            self.torch.mps.synchronize()
        return time.perf_counter()

    def _fingerprint(self, optimizer: Any) -> list[float] | None:
        """Enough to tell whether two runs began with the same weights; None where they cannot be read whole."""
        total, squares, number = 0.0, 0.0, 0
        try:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    values = parameter.detach().to("cpu", self.torch.float64)
                    total += float(values.sum())
                    squares += float((values * values).sum())
                    number += parameter.numel()
        except Exception:  # sharded or lazy parameters: nothing but this comparison is lost
            return None
        return [float(number), total, squares]

    def _forget_peak(self) -> None:
        if self.device == "cuda":
            self.torch.cuda.reset_peak_memory_stats()
            return
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123
            file.write("5")  # Linux: begin the peak of resident memory anew

    def _peak(self) -> int | None:
        if self.device == "cuda":
            return int(self.torch.cuda.max_memory_allocated())
        with contextlib.suppress(OSError, ValueError, StopIteration), open("/proc/self/status") as file:  # noqa: PTH123
            line = next(line for line in file if line.startswith("VmHWM"))
            return int(line.split()[1]) * 1024
        with contextlib.suppress(ImportError):
            import resource

            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return peak if sys.platform == "darwin" else peak * 1024
        return None

    def write(self) -> None:
        """Put down what was seen, once, and only in the process that trained."""
        if self.finished or os.getpid() != self.process or not self.marks:
            return
        self.finished = True
        record = {
            "rank": int(os.environ.get("RANK", "0")),
            "python": sys.version.split()[0],
            "torch": self.torch.__version__,
            "device": self._device_name(),
            "kind": self.device,
            "threads": self.torch.get_num_threads(),
            "steps": len(self.marks),
            "other_steps": self.others,
            "times": self._times(),
            "losses": [sum(map(float, parts)) if parts else None for parts in self.losses[: len(self.marks)]],
            "rates": [float(rate) for rate in self.rates],
            "peak_memory": self._peak(),
            "weights": self.weights,
            "from_original": self._from_original(),
            "loaded": self._loaded(),
        }
        target = os.path.join(self.plan["folder"], f"{self.process}.json")  # noqa: PTH118
        with open(target + ".part", "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(record, file)
        os.replace(target + ".part", target)  # noqa: PTH105

    def _times(self) -> list[float]:
        """Seconds from each step to the next."""
        pairs = list(zip(self.marks, self.marks[1:]))
        if self.device == "cuda":
            self.torch.cuda.synchronize()
            return [begin.elapsed_time(end) / 1000 for begin, end in pairs]
        return [end - begin for begin, end in pairs]

    def _device_name(self) -> str:
        if self.device == "cuda":
            return str(self.torch.cuda.get_device_name())
        return self.device

    def _loaded(self) -> list[str]:
        """The files below the root that the program has loaded."""
        root = os.path.realpath(self.plan["root"]) + os.sep
        files = [os.path.realpath(getattr(m, "__file__", None) or "") for m in list(sys.modules.values())]
        return sorted({file.removeprefix(root) for file in files if file.startswith(root)})

    def _from_original(self) -> list[str]:
        """Modules that came from the tree that was copied, not from the copy: what they hold was not changed."""
        copy, original = f"{self.plan['root']}{os.sep}", f"{self.plan['original']}{os.sep}"
        files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
        real = {os.path.realpath(file) for file in files if file and not file.startswith(copy)}
        return sorted(f for f in real if f.startswith(original) and "site-packages" not in f)


def _shift_seeds(module: Any, name: str, shift: int) -> None:
    """A program that sets a seed of its own gets another one in every run, or all runs would be one."""
    original = getattr(module, name)

    def seeded(seed: Any = None, *args: Any, **kwargs: Any) -> Any:
        return original(seed + shift if isinstance(seed, int) else seed, *args, **kwargs)

    setattr(module, name, seeded)


def _trace(plan: dict[str, Any]) -> None:
    """Note which of the planned lines are run, in this process and in those that it forks."""
    root = os.path.realpath(plan["root"])
    wanted = {f"{root}{os.sep}{file}": (file, set(lines)) for file, lines in plan["lines"].items()}
    out = os.open(os.path.join(plan["folder"], "lines"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)  # noqa: PTH118
    seen: set[tuple[str, int]] = set()
    real: dict[str, Any] = {}

    def local(frame: Any, event: str, arg: Any) -> Any:
        if event == "line":
            name, lines = real[frame.f_code.co_filename]
            if frame.f_lineno in lines and (name, frame.f_lineno) not in seen:
                seen.add((name, frame.f_lineno))
                os.write(out, f"{frame.f_lineno} {name}\n".encode())
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
