"""The recorder in programs that train in every way there is: real processes, real torch."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchlint.harness.arms import Tree
from torchlint.harness.recordings import HarnessError, Plan, Recording, TooSlow
from torchlint.harness.runs import INJECTED, record, record_in_turn

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

TRAINING = """
import os, random, signal, sys
import multiprocessing
import torch
from torch import nn
torch.set_num_threads(1)


def train(steps=100, seed=0, model=None, at=lambda step: None):
    torch.manual_seed(seed)
    model = nn.Linear(4, 1) if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        at(step)
"""
PLAN = Plan(6, 2, seed=0)


def recorded(folder: Path, script: str, plan: Plan = PLAN, **environment: str) -> Recording:
    (folder / "train.py").write_text(script)
    return record([sys.executable, "train.py"], Tree(folder, folder), plan, environment)


def main(body: str) -> str:
    return f"{TRAINING}\nif __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in body.splitlines())


def test_what_a_recording_holds(tmp_path: Path) -> None:
    run = recorded(tmp_path, main("train()"))
    assert (run.kind, run.device, run.threads, run.steps) == ("cpu", "cpu", 1, 9)
    assert len(run.times) == 6
    assert len(run.losses) == len(run.rates) == 9
    assert all(loss is not None and loss > 0 for loss in run.losses)
    assert run.weights is not None
    assert run.weights[0] == 5
    assert (run.has_children, run.loader_starts) == (False, 0)


# Imports

ASKING = {
    "asks": "from importlib.util import find_spec\n"
            "assert all(find_spec(name) for name in ('torch', 'torch', 'numpy.random'))",
    "asks for a part": "import importlib.util\nassert importlib.util.find_spec('torch.nn') is not None",
    "has another finder in front": """
import importlib.util, sys
class Finder:
    busy = False
    def find_spec(self, name, path=None, target=None):
        if name == "torch" and not self.busy:
            self.busy = True
            try:
                return importlib.util.find_spec(name)
            finally:
                self.busy = False
sys.meta_path.insert(0, Finder())
""",
}  # fmt: skip


@pytest.mark.parametrize("how", ASKING)
def test_programs_that_look_for_torch_before_they_import_it(how: str, tmp_path: Path) -> None:
    assert recorded(tmp_path, ASKING[how] + main("train()")).steps == 9


def test_torch_in_the_environment_before_the_program(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import torch")
    assert recorded(tmp_path, main("train()"), PYTHONPATH=str(tmp_path)).steps == 9


# Processes

SPAWNED = TRAINING + """
class Apart(nn.Linear):
    def forward(self, x):
        return super().forward(x) - 10 * int(os.environ["TURN"])


def worker(turn, ranks):
    os.environ["TURN"] = str(turn)
    if ranks:
        os.environ.update(MASTER_ADDR="127.0.0.1")
        store = torch.distributed.FileStore("store", 2)
        torch.distributed.init_process_group("gloo", store=store, rank=ranks[turn], world_size=2)
    train(model=Apart(4, 1))


if __name__ == "__main__":
    torch.multiprocessing.spawn(worker, args=({ranks},), nprocs=2)
"""


@pytest.mark.parametrize(("ranks", "turn"), [((0, 1), 0), ((1, 0), 1), (None, 0)])
def test_spawned_processes_are_told_apart(ranks: tuple[int, int] | None, turn: int, tmp_path: Path) -> None:
    run = recorded(tmp_path, SPAWNED.replace("{ranks}", repr(ranks)))
    assert run.losses[0] is not None
    assert run.steps == 9
    assert (run.losses[0] > 50) is (turn == 1)


ELSEWHERE = {
    "forks": "process = multiprocessing.get_context('fork').Process(target=train)\nprocess.start()\nprocess.join()",
    "forks after steps of its own": "train(3)\n"
                                    "process = multiprocessing.get_context('fork').Process(target=train)\n"
                                    "process.start()\nprocess.join()",
    "forks by hand": "child = os.fork()\nif child:\n    os.waitpid(child, 0)\nelse:\n    train()",
    "spawns": "process = multiprocessing.get_context('spawn').Process(target=train)\nprocess.start()\nprocess.join()",
    "serves forks": "process = multiprocessing.get_context('forkserver').Process(target=train)\n"
                    "process.start()\nprocess.join()",
    "ends in a fork": "process = multiprocessing.get_context('fork').Process(target=train, args=(8,))\n"
                      "process.start()\nprocess.join()",
    "ends at once": "train(8)\nos._exit(0)",
}  # fmt: skip


@pytest.mark.parametrize("how", ELSEWHERE)
@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
def test_training_that_begins_or_ends_elsewhere(how: str, tmp_path: Path) -> None:
    run = recorded(tmp_path, main(ELSEWHERE[how]))
    assert run.steps == (8 if "ends" in how else 9)
    assert len(run.losses) == run.steps


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_signal_is_called_one(name: str, tmp_path: Path) -> None:
    kill = f"train(at=lambda step: os.kill(os.getpid(), signal.{name}) if step == 4 else None)"
    with pytest.raises(HarnessError, match="ended after 5 optimizer steps, by a signal"):
        recorded(tmp_path, main(kill))


def test_a_program_that_cannot_make_its_first_step(tmp_path: Path) -> None:
    fails = "optimizer = torch.optim.LBFGS(nn.Linear(4, 1).parameters())\noptimizer.step()"
    with pytest.raises(HarnessError, match="failed before its first optimizer step"):
        recorded(tmp_path, main(fails))


# Lines

REACHED = TRAINING + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        scale = torch.ones(4)  # compiled
        return self.layer(x) * scale.sum()


spare = lambda n: torch.zeros(n)  # never
lazy = (torch.zeros(n) for n in range(3))  # never taken
used = lambda n: torch.zeros(n)  # used
used(3)
taken = list(torch.zeros(n) for n in range(3))  # taken
long = lambda n: (
    torch.zeros(n)  # inside
)
train(model=torch.compile(Model(), backend="eager"))
"""


def test_lines_count_when_they_run(tmp_path: Path) -> None:
    names = {n: line.split("#")[1].strip() for n, line in enumerate(REACHED.splitlines(), 1) if "#" in line}
    plan = Plan(6, 2, seed=0, lines={"train.py": list(names)})
    lines = recorded(tmp_path, REACHED, plan).lines
    assert {names[line] for _, line in lines} == {"compiled", "used", "taken"}


def test_a_run_that_is_traced_has_its_losses(tmp_path: Path) -> None:
    traced = recorded(tmp_path, main("train()"), Plan(6, 2, seed=0, lines={"train.py": [9]}))
    assert traced.losses == recorded(tmp_path, main("train()")).losses


# Optimizers and losses

def test_losses_are_kept_as_they_were(tmp_path: Path) -> None:
    changed = TRAINING.replace("loss.backward()", "loss.backward(); loss.detach().zero_()")
    assert recorded(tmp_path, changed + "train()").losses == recorded(tmp_path, TRAINING + "train()").losses


OPTIMIZERS = {
    "one that tried something": "other = torch.optim.SGD(probe.parameters(), lr=0.5)\nother.step()\ntrain()",
    "one for every epoch": "for _ in range(10):\n    train(4)",
    "hundreds": "others = [torch.optim.SGD(probe.parameters(), lr=0.5) for _ in range(60)]\n"
                "for other in others:\n    other.step()\ntrain()",
}  # fmt: skip


@pytest.mark.parametrize("which", OPTIMIZERS)
def test_the_optimizer_that_steps_most_is_followed(which: str, tmp_path: Path) -> None:
    run = recorded(tmp_path, f"{TRAINING}\nprobe = nn.Linear(2, 1)\nprobe(torch.ones(2)).backward()\n"
                             f"{OPTIMIZERS[which]}\n")  # fmt: skip
    assert run.steps == 9
    assert set(run.rates) == {0.01}
    assert run.weights is not None
    assert run.weights[0] == 5
    assert all(loss is not None for loss in run.losses)


# Seeds

SEEDS = """
import random
import sys
from random import seed as chosen
{first}
import numpy as np
import torch
before = [random.random(), np.random.rand(), torch.rand(1).item()]
values = []
for seeding in (lambda: random.seed(3), lambda: random.seed(a=3), lambda: random.seed("three"), lambda: chosen(3, 2)):
    seeding()
    values.append(random.random())
random.seed(), random.seed(None), random.seed(b"three"), random.seed(2.5)
values += [random.Random(3).random(), random.Random(x=3).random()]
for seeding in (lambda: np.random.seed(3), lambda: np.random.seed(seed=3), lambda: np.random.seed(np.int64(3)),
                lambda: np.random.seed([3, 4])):
    seeding()
    values.append(np.random.rand())
np.random.seed(), np.random.seed(2**32 - 1)
values += [np.random.default_rng(3).random(), np.random.default_rng(seed=np.int64(3)).random(),
           np.random.default_rng([3, 4]).random(), np.random.RandomState(3).rand(),
           np.random.RandomState(seed=3).rand(), np.random.Generator(np.random.PCG64(3)).random(),
           np.random.default_rng(np.random.SeedSequence(3)).random()]
np.random.default_rng(), np.random.default_rng(np.random.PCG64()), np.random.RandomState(np.random.MT19937())
for seeding in (lambda: torch.manual_seed(3), lambda: torch.manual_seed(seed=np.int64(3)),
                lambda: torch.random.manual_seed(3), lambda: torch.manual_seed(torch.tensor(3))):
    seeding()
    values.append(torch.rand(1).item())
torch.manual_seed(-1), torch.manual_seed(2**64 - 1)
torch.cuda.manual_seed(3), torch.cuda.manual_seed_all(seed=3)
generator = torch.Generator().manual_seed(3)
values += [torch.rand(1, generator=given).item() for given in (generator, torch.Generator(device="cpu").manual_seed(3))]
import copy, inspect, pickle
for state in (generator, np.random.RandomState(3), np.random.default_rng(3), random.Random(3)):
    assert type(pickle.loads(pickle.dumps(state))) is not None and copy.deepcopy(state) is not None
assert isinstance(torch.default_generator, torch.Generator) and isinstance(generator, torch.Generator)
assert isinstance(np.random.mtrand._rand, np.random.RandomState) and not isinstance(3, torch.Generator)
class Mine(torch.Generator): pass
assert not isinstance(torch.Generator(), Mine)
assert list(inspect.signature(random.seed).parameters) == ["a", "version"]
assert list(inspect.signature(torch.manual_seed).parameters) == ["seed"]
for refused in (lambda: torch.manual_seed("three"), lambda: np.random.seed(-1), lambda: torch.manual_seed(2**64)):
    try:
        refused()
    except (TypeError, ValueError, RuntimeError):
        continue
    raise AssertionError("a wrong seed was taken")
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
for value in before + values + [0.0] * 10:
    torch.tensor(value, dtype=torch.float64, requires_grad=True).backward()
    optimizer.step()
"""
KINDS = len("random numpy torch".split())


@pytest.mark.parametrize("first", ["", "import torch", "import numpy.random; numpy.random.seed(1)"])
def test_every_way_to_set_a_seed_is_moved(first: str, tmp_path: Path) -> None:
    script = SEEDS.replace("{first}", first)
    runs = [recorded(tmp_path, script, Plan(35, 2, seed=seed)).losses for seed in (0, 0, 5)]
    assert runs[0] == runs[1]
    differ = [a != b for a, b in zip(runs[0], runs[2])]
    chosen = next(n for n, (a, b) in enumerate(zip(runs[0], runs[2])) if a == b == 0.0)
    assert chosen >= KINDS + 20
    assert all(differ[:chosen]), [n for n, is_moved in enumerate(differ[:chosen]) if not is_moved]


# Memory and workers

LOADING = TRAINING + """
from torch.utils.data import DataLoader


def epochs(**options):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(torch.randn(16, 4), batch_size=4, **options)
    for epoch in range(9):
        for x in loader:
            loss = model(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    epochs({options})
"""


@pytest.mark.parametrize(("options", "starts"), [
    ("", 0), ("num_workers=1", 2), ("num_workers=1, persistent_workers=True", 0),
    ("num_workers=1, multiprocessing_context='spawn'", 2),
])  # fmt: skip
def test_workers_are_seen_to_start_and_to_take_memory(options: str, starts: int, tmp_path: Path) -> None:
    run = recorded(tmp_path, LOADING.replace("{options}", options), Plan(8, 2, seed=0))
    assert run.loader_starts == starts
    assert run.has_children is bool(options)
    if options:
        assert run.peak_memory is None


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_the_peak_is_that_after_the_warm_up(tmp_path: Path) -> None:
    early = main("big = torch.ones(64 << 20)\ndel big\ntrain()")
    run = recorded(tmp_path, early)
    assert run.peak_memory is not None
    late = recorded(tmp_path, main("train(at=lambda step: torch.ones(64 << 20) if step == 4 else None)")).peak_memory
    assert late is not None
    assert late - run.peak_memory > 200 << 20


LOCKED = """
import builtins
real = open


def refusing(file, *args, **kwargs):
    if file == "/proc/self/clear_refs":
        raise PermissionError(file)
    return real(file, *args, **kwargs)


builtins.open = refusing
"""


def test_a_peak_that_cannot_begin_anew_is_left_out(tmp_path: Path) -> None:
    run = recorded(tmp_path, LOCKED + main("train()"))
    assert run.peak_memory is None


# Devices, without any

@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(INJECTED))
    yield importlib.import_module("torchlint_devices")
    sys.modules.pop("torchlint_devices")


class Cuda:
    """What is called, in words, in place of ``torch.cuda``."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.current_stream = "stream of {}".format
        self.max_memory_allocated = {"cuda:1": 30, "cuda:2": 12}.__getitem__

    def Event(self, *, enable_timing: bool) -> Any:
        assert enable_timing
        event = SimpleNamespace(record=lambda stream: self.calls.append(f"record on {stream}"))
        event.elapsed_time = lambda end: 500.0
        return event

    def synchronize(self, device: Any) -> None:
        self.calls.append(f"synchronize {device}")

    def reset_peak_memory_stats(self, device: Any) -> None:
        self.calls.append(f"reset {device}")


class Device(str):
    @property
    def type(self) -> str:
        return self.split(":")[0]


def optimizer_on(*names: str) -> Any:
    groups: Sequence[Mapping[str, Any]] = [{"params": [SimpleNamespace(device=Device(name))]} for name in names]
    return SimpleNamespace(param_groups=groups)


def test_the_devices_are_those_of_the_parameters(devices: Any) -> None:
    assert devices.devices_of(optimizer_on("cpu", "cpu")) == ["cpu"]
    assert devices.devices_of(optimizer_on("cpu", "cuda:1", "cuda:2", "cuda:1")) == ["cuda:1", "cuda:2"]
    assert devices.devices_of(optimizer_on("mps:0")) == ["mps:0"]
    assert devices.devices_of(SimpleNamespace(param_groups=[{"params": []}])) == []


def test_time_and_memory_are_those_of_the_device(devices: Any) -> None:
    cuda = Cuda()
    torch = SimpleNamespace(cuda=cuda)
    both = devices.devices_of(optimizer_on("cuda:1", "cuda:2"))
    marks = [devices.mark(torch, both[0]) for _ in range(3)]
    assert devices.forget_peak(torch, both)
    assert cuda.calls == ["record on stream of cuda:1"] * 3 + ["reset cuda:1", "reset cuda:2"]
    assert devices.seconds(torch, both[0], list(itertools.pairwise(marks))) == [0.5, 0.5]
    assert cuda.calls[-1] == "synchronize cuda:1"
    assert devices.peak(torch, both) == 42


def test_a_step_on_mps_waits_for_nothing(devices: Any) -> None:
    def event(*, enable_timing: bool) -> Any:
        return SimpleNamespace(record=lambda: None, elapsed_time=lambda end: 250.0)

    torch = SimpleNamespace(mps=SimpleNamespace(Event=event))
    marks = [devices.mark(torch, Device("mps")) for _ in range(2)]
    torch.mps.synchronize = lambda: None
    assert devices.seconds(torch, Device("mps"), [(marks[0], marks[1])]) == [0.25]


# The recording

def test_a_record_that_is_not_one_is_refused(tmp_path: Path) -> None:
    wrong = """
import os
with open(os.path.join(os.path.dirname(os.environ["TORCHLINT_RECORD"]), "1.record"), "w") as file:
    file.write('{"rank": 0, "steps": "many"}')
"""
    with pytest.raises(HarnessError, match="the recorder wrote 'many' where steps should be"):
        recorded(tmp_path, wrong)


TAKING_TURNS = main("""
import time
slow = float(sys.argv[1])
def at(step):
    began = time.time()
    time.sleep(slow)
    print(step, began, time.time(), flush=True)
    if len(sys.argv) > 2 and step == int(sys.argv[2]):
        raise ValueError("no more")
train(at=at)
""")


def in_turn(folder: Path, *arguments: list[str], timeout: float = 60) -> list[Recording | HarnessError]:
    (folder / "train.py").write_text(TAKING_TURNS.replace("print(", "print(file=open(f'{slow}.log', 'a'), *("
                                                          ).replace("flush=True)", "))"))
    commands = [([sys.executable, "train.py", *given], Tree(folder, folder)) for given in arguments]
    return record_in_turn(commands, Plan(9, 2, seed=0, block=3, timeout=timeout))


def blocks(log: Path) -> list[tuple[float, float]]:
    """From when to when each block of three steps lasted, after three of warm-up."""
    rows = [line.split() for line in log.read_text().splitlines()]
    steps = [(float(began), float(ended)) for _, began, ended in rows]
    # A step's pause begins after the step, where a block ends: it belongs to the block that comes.
    return [(steps[at][0], steps[at + 2][1]) for at in (2, 5, 8)]


def test_programs_take_turns(tmp_path: Path) -> None:
    fast, slow = in_turn(tmp_path, ["0.01"], ["0.03"])
    assert isinstance(fast, Recording)
    assert isinstance(slow, Recording)
    assert [len(block) for block in fast.blocks] == [len(block) for block in slow.blocks] == [3, 3, 3]
    assert fast.weights == slow.weights
    assert fast.losses == slow.losses
    assert max(fast.times) < 0.03, "a wait for the other counts as time"
    inside = sorted([*blocks(tmp_path / "0.01.log"), *blocks(tmp_path / "0.03.log")])
    assert all(ended <= began for (_, ended), (began, _) in itertools.pairwise(inside))


@pytest.mark.parametrize("step", [1, 6])
def test_one_that_fails_does_not_hold_the_other(step: int, tmp_path: Path) -> None:
    failed, went_on = in_turn(tmp_path, ["0.01", str(step)], ["0.02"])
    assert isinstance(failed, HarnessError)
    assert f"failed after {step + 1} steps" in str(failed)
    assert isinstance(went_on, Recording)


def test_only_its_own_time_counts(tmp_path: Path) -> None:
    """The slow one is ended; the other has waited for it as long, and is not."""
    fast, slow = in_turn(tmp_path, ["0.01"], ["15"], timeout=20)
    assert isinstance(fast, Recording)
    assert isinstance(slow, TooSlow)
