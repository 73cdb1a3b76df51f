"""Records a training run from inside: when its optimizer steps, and the losses it goes back from.

Runs in the user's process, whatever Python that is: the standard library and torch only. It hooks
what torch offers for all optimizers at once, adds no synchronisation to a step, and ends the
program after the steps that were asked for. One record (JSON) for each process that trained.

The plan (a JSON file) says: ``folder`` for the records, ``steps`` to run, ``warm_up`` steps before
memory is watched, ``seed``, ``threads`` (or null), ``root`` (the copy that the program runs in),
``original`` (the tree that it must leave alone), ``names`` (the paths that lead there; none where it
runs in no copy), ``lines`` (null, or for each file below ``root`` the lines whose running is to be
noted), ``block`` (null, or how many steps it makes before it waits for its next turn), ``turn`` (the
file that says whose turn it is) and ``patience`` (seconds that it waits for one).
"""

from __future__ import annotations

import atexit
import functools
import importlib.abc
import json
import mmap
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

import torchlint_seeds
import torchlint_tree
from torchlint_devices import devices_of, forget_peak, mark, name_of, peak, seconds, wait_for
from torchlint_lines import trace
from torchlint_turns import Turns

_PATIENCE = 10.0  # seconds that a program may take to end once it was asked to
_MOST_OPTIMIZERS = 64  # that are told apart: a bound for what is kept, far above what one model takes
_COUNT = 8  # bytes of a number of steps


class _Finished(SystemExit):
    """Ends the program as ``sys.exit(0)`` does, through its own ``finally`` blocks."""


def arrange(plan_file: str) -> None:
    """Record this process once it imports torch."""
    with open(plan_file, encoding="utf-8") as file:  # noqa: PTH123
        plan = json.load(file)
    if plan.get("lines"):
        os.environ["TORCHDYNAMO_DISABLE"] = "1"  # Python runs no line of what is compiled
    torchlint_seeds.move_random(plan["seed"])
    move_numpy = functools.partial(torchlint_seeds.move_numpy, by=plan["seed"])
    _once_imported({"torch": Recorder(plan).begin, "numpy.random": move_numpy})
    if plan["names"]:
        torchlint_tree.keep_in(plan["root"], plan["names"])


def _once_imported(then: dict[str, Callable[[Any], None]]) -> None:
    """Call each function with its module, once and as soon as the program has imported it."""
    sys.meta_path.insert(0, _AfterImport(then))
    for name in then.keys() & sys.modules.keys():  # a .pth file of the environment was before us
        then.pop(name)(sys.modules[name])


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds what the others find, however often a program asks for a module before it imports it."""

    def __init__(self, then: dict[str, Callable[[Any], None]]) -> None:
        self._then = then

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name not in self._then:
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            if name in self._then:
                self._then.pop(name)(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class Track:
    """The steps of one optimizer, or of several where each took the place of one that is gone."""

    def __init__(self, optimizer: Any, devices: list[Any], weights: list[float] | None) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.devices = devices  # the first is where the steps are timed
        self.weights = weights
        self.marks: list[Any] = []  # a time or an event for each step
        self.begins: list[Any] = []  # the same of what comes after it: later where the program had to wait
        self.rates: list[Any] = []
        self.losses: list[int] = []  # how many losses there had been, at each step
        self.loader_starts: list[int] = []  # how many times workers had been started, at each step
        self.has_peak = False  # the peak of memory began anew after the warm-up


class Recorder:
    """Watches the steps of one process, and anew of every process that is forked from it."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.torch: Any = None
        self.inherited: Any = None
        self.reset()

    def reset(self) -> None:
        """Nothing was seen yet."""
        self.tracks: list[Track] = []
        self.losses: list[Any] = []  # what backward began from
        self.loader_starts = 0
        self.has_children = False
        self.rank = 0
        self.count: mmap.mmap | None = None
        self.turns: Turns | None = None
        self.started = time.time()
        self.finished = False

    def begin(self, torch: Any) -> None:
        """Hook torch, which has just been imported."""
        from torch.optim import optimizer

        self.torch = torch
        torchlint_seeds.move_torch(torch, self.plan["seed"])
        if self.plan.get("threads"):
            torch.set_num_threads(self.plan["threads"])
        optimizer.register_optimizer_step_pre_hook(self._before_step)
        optimizer.register_optimizer_step_post_hook(self._after_step)
        self._watch_backward(torch)
        self._watch_save(torch)
        self._watch_loaders()
        self._watch_processes()
        if self.plan.get("lines"):
            trace(self.plan)

    def _watch_backward(self, torch: Any) -> None:
        original = torch.autograd.backward

        @functools.wraps(original)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            for tensor in tensors if isinstance(tensors, (list, tuple)) else (tensors,):
                if getattr(tensor, "numel", int)() == 1:
                    self.losses.append(tensor.detach().clone())  # the program may change its own in place
            return original(tensors, *args, **kwargs)

        torch.autograd.backward = backward

    def _watch_save(self, torch: Any) -> None:
        original = torch.save

        def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            if self.plan["names"]:  # torch writes past Python
                torchlint_tree.own(self.plan["root"], f, keeps=False)
            return original(obj, f, *args, **kwargs)

        torch.save = save

    def _watch_loaders(self) -> None:
        from torch.utils.data import DataLoader

        original = DataLoader.__iter__

        @functools.wraps(original)
        def iterate(loader: Any) -> Any:
            if loader.num_workers > 0 and getattr(loader, "_iterator", None) is None:  # persistent workers go on
                self.loader_starts += 1
            return original(loader)

        DataLoader.__iter__ = iterate  # type: ignore[method-assign]

    def _watch_processes(self) -> None:
        """See the ends that ``atexit`` does not, the beginnings of forks, and that other processes share the work."""
        from multiprocessing.process import BaseProcess

        leave, start = os._exit, BaseProcess.start

        @functools.wraps(leave)
        def exit_now(*args: Any, **kwargs: Any) -> NoReturn:  # every forked process of multiprocessing ends so
            try:
                self.write()
            finally:
                leave(*args, **kwargs)

        @functools.wraps(start)
        def start_seen(process: BaseProcess) -> None:
            self.has_children = True
            start(process)

        def forked() -> None:
            self.inherited = self.inherited, self.tracks, self.losses  # CUDA's objects must not be destroyed here
            self.reset()

        os._exit = exit_now
        BaseProcess.start = start_seen  # type: ignore[method-assign,assignment]
        atexit.register(self.write)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=forked)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._track(optimizer) is not None:
            return
        devices = devices_of(optimizer) or [self.torch.device("cpu")]
        for track in sorted(self.tracks, key=_steps, reverse=True):
            if track.optimizer() is None and track.devices == devices:  # made anew, say in every epoch
                track.optimizer = weakref.ref(optimizer)
                return
        if len(self.tracks) < _MOST_OPTIMIZERS:
            self._note_rank()
            self.tracks.append(Track(optimizer, devices, self._fingerprint(optimizer)))

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self.finished:
            os._exit(0)  # somebody caught the end
        track = self._track(optimizer)
        if track is None:
            return
        rate = optimizer.param_groups[0].get("lr", 0.0)
        track.rates.append(rate.detach().clone() if hasattr(rate, "detach") else rate)
        track.losses.append(len(self.losses))
        track.loader_starts.append(self.loader_starts)
        now = mark(self.torch, track.devices[0])
        track.marks.append(now)
        track.begins.append(now)
        if track is self._leader():
            self._after_step_of_leader(track)

    def _after_step_of_leader(self, track: Track) -> None:
        made = len(track.marks)
        self._count(made)
        if made == max(self.plan["warm_up"], 1):
            track.has_peak = forget_peak(self.torch, track.devices)
        if made > self.plan["steps"]:
            self.write()
            watchdog = threading.Timer(_PATIENCE, os._exit, (0,))
            watchdog.daemon = True
            watchdog.start()
            raise _Finished(0)
        timed = made - max(self.plan["warm_up"], 1) - 1
        if self.plan["block"] and timed >= 0 and timed % self.plan["block"] == 0:
            self._wait(track)

    def _wait(self, track: Track) -> None:
        """Stop until it is this program's turn again; what comes next begins then."""
        if self.turns is None:
            self.turns = Turns(self.plan["turn"], self.plan["patience"])
        wait_for(self.torch, track.devices[0])
        self.turns.wait()
        track.begins[-1] = mark(self.torch, track.devices[0])

    def _track(self, optimizer: Any) -> Track | None:
        return next((track for track in self.tracks if track.optimizer() is optimizer), None)

    def _leader(self) -> Track:
        """The optimizer that counts: that of the most steps, where a GAN has two or something was tried before."""
        return max(self.tracks, key=_steps)

    def _note_rank(self) -> None:
        distributed = self.torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            self.rank = distributed.get_rank()
        elif os.environ.get("RANK", "").isdecimal():
            self.rank = int(os.environ["RANK"])

    def _count(self, made: int) -> None:
        """Keep the number of steps where not even a kill loses it, at the cost of a write to memory."""
        if self.count is None:
            with open(self._file("steps"), "w+b") as file:  # noqa: PTH123
                file.write(bytes(_COUNT))
                file.flush()
                self.count = mmap.mmap(file.fileno(), _COUNT)
        self.count[:] = made.to_bytes(_COUNT, "little")

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

    def write(self) -> None:
        """Put down what was seen, once, and only in a process that trained."""
        from multiprocessing.process import current_process

        if self.finished or not any(track.marks for track in self.tracks):
            return
        self.finished = True
        track = self._leader()
        record = {
            "rank": self.rank,
            "process": current_process().name,
            "started": self.started,
            "torch": self.torch.__version__,
            "device": name_of(self.torch, track.devices[0]),
            "kind": track.devices[0].type,
            "threads": self.torch.get_num_threads(),
            "steps": len(track.marks),
            "times": seconds(self.torch, track.devices[0], list(zip(track.begins, track.marks[1:]))),
            "losses": self._losses(track),
            "rates": [float(rate) for rate in track.rates],
            "loader_starts": track.loader_starts,
            "peak_memory": peak(self.torch, track.devices) if track.has_peak else None,
            "has_children": self.has_children,
            "weights": track.weights,
            "from_original": self._from_original(),
            "loaded": self._loaded(),
        }
        target = self._file("record")
        with open(target + ".part", "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(record, file)
        os.replace(target + ".part", target)  # noqa: PTH105

    def _file(self, suffix: str) -> str:
        return os.path.join(self.plan["folder"], f"{os.getpid()}.{suffix}")  # noqa: PTH118

    def _losses(self, track: Track) -> list[float | None]:
        """The sum of what backward began from before each step."""
        spans = zip([0, *track.losses], track.losses)
        return [sum(map(float, self.losses[begin:end])) if end > begin else None for begin, end in spans]

    def _loaded(self) -> list[str]:
        """The files below the root that the program has loaded."""
        root = f"{os.path.realpath(self.plan['root'])}{os.sep}"
        return sorted({real.removeprefix(root) for _, real in self._module_files if real.startswith(root)})

    def _from_original(self) -> list[str]:
        """Modules that came from the tree that was copied, not from the copy: what they hold was not changed."""
        copy, original = f"{self.plan['root']}{os.sep}", f"{self.plan['original']}{os.sep}"
        real = {real for file, real in self._module_files if not file.startswith(copy)}
        return sorted(file for file in real if file.startswith(original) and "site-packages" not in file)

    @functools.cached_property
    def _module_files(self) -> list[tuple[str, str]]:
        """The file of each module, as Python knows it and without links."""
        files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())} - {""}
        return [(file, os.path.realpath(file)) for file in files]


def _steps(track: Track) -> int:
    return len(track.marks)
