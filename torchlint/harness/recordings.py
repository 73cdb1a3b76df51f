"""What one run of a program is to record, and what it did, read from what the recorder wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

_ENOUGH = 3  # steps without which nothing can be said

T = TypeVar("T")


class HarnessError(Exception):
    """A run that gives nothing to compare; the message says what happened and what to do."""


class TooLarge(HarnessError):
    """A run that takes more memory than the device has, or too long."""


class TooSlow(TooLarge):
    """A run that takes too long."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one run records. ``steps`` and ``warm_up`` count optimizer steps, ``timeout`` seconds.

    Programs that run in turn (:func:`torchlint.harness.runs.record_in_turn`) make ``block`` steps at a time.
    """

    steps: int
    warm_up: int
    seed: int
    threads: int | None = None
    lines: Mapping[str, Sequence[int]] | None = None
    timeout: float = 600.0
    block: int | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """What one run did.

    ``times`` are seconds from each optimizer step to the next, after the warm-up; ``losses`` the
    sum of what ``backward`` began from before each step (None where nothing did), ``rates`` the
    first parameter group's learning rate; ``peak_memory`` bytes, of the allocator on a GPU, else
    resident (None where the system does not tell, or where other processes shared the work:
    ``has_children``); ``weights`` a fingerprint of the parameters before the first step; ``loaded``
    and ``lines`` the files of the tree that were loaded, and the planned lines that ran;
    ``loader_starts`` how many times data-loader workers were started within ``times``; ``block`` how
    many steps were made without a break, where the program had to wait for its turn.
    """

    device: str
    kind: str
    torch: str
    threads: int
    steps: int
    times: tuple[float, ...]
    losses: tuple[float | None, ...]
    rates: tuple[float, ...]
    peak_memory: int | None
    weights: tuple[float, ...] | None
    from_original: tuple[str, ...] = ()
    loaded: frozenset[str] = field(default_factory=frozenset)
    lines: frozenset[tuple[str, int]] = field(default_factory=frozenset)
    has_children: bool = False
    loader_starts: int = 0
    block: int | None = None

    @property
    def blocks(self) -> tuple[tuple[float, ...], ...]:
        """The times of what was run without a break: of everything, or of a block at a time."""
        size = self.block or len(self.times)
        return tuple(self.times[begin:begin + size] for begin in range(0, len(self.times), size))


def records(folder: Path) -> list[Record]:
    """What the recorder wrote of every process that trained, that which counts first."""
    return sorted(map(Record.read, folder.glob("*.record")), key=lambda record: record.place)


@dataclass(frozen=True, slots=True)
class Record:
    """What the recorder wrote of one process, field by field. HarnessError where one is not what it should be."""

    fields: Mapping[str, object]

    @classmethod
    def read(cls, file: Path) -> Record:
        return cls(json.loads(file.read_text(encoding="utf-8")))

    def one(self, name: str, kind: type[T]) -> T:
        return _known(name, self.fields.get(name), kind)

    def many(self, name: str, kind: type[T]) -> tuple[T, ...]:
        return tuple(_known(name, value, kind) for value in self.one(name, list))

    def maybe(self, name: str, kind: type[T]) -> T | None:
        return None if self.fields.get(name) is None else self.one(name, kind)

    @property
    def place(self) -> tuple[int, int, str, float]:
        """Where the process stands among those of a run, the same one first in every run."""
        return self.one("rank", int), -self.one("steps", int), self.one("process", str), self.one("started", float)

    @property
    def steps(self) -> int:
        return self.one("steps", int)

    def recording(self, plan: Plan, lines: str) -> Recording:
        """What it comes to; ``lines`` are those that the recorder noted. Raises HarnessError where it is too little."""
        if self.steps - 1 - plan.warm_up < _ENOUGH:
            raise HarnessError(
                f"the program ended after {self.steps} optimizer steps: {plan.warm_up} of warm-up and {_ENOUGH} more "
                "are needed; give it more data or epochs, or ask for fewer with --steps"
            )
        seen = (line.split(" ", 1) for line in lines.splitlines())
        kind, has_children = self.one("kind", str), self.one("has_children", bool)
        starts = self.many("loader_starts", int)
        return Recording(
            device=self.one("device", str),
            kind=kind,
            torch=self.one("torch", str),
            threads=self.one("threads", int),
            steps=self.steps,
            times=self.many("times", float)[plan.warm_up:],
            losses=tuple(None if loss is None else _known("losses", loss, float) for loss in self.one("losses", list)),
            rates=self.many("rates", float),
            peak_memory=None if has_children and kind != "cuda" else self.maybe("peak_memory", int),
            weights=None if self.maybe("weights", list) is None else self.many("weights", float),
            from_original=self.many("from_original", str),
            loaded=frozenset(self.many("loaded", str)),
            lines=frozenset((file, int(number)) for number, file in seen),
            has_children=has_children,
            loader_starts=starts[-1] - starts[plan.warm_up],
            block=plan.block,
        )


def _known(name: str, value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise HarnessError(f"the recorder wrote {value!r} where {name} should be")
    return value
