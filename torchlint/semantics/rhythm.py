"""How often a test comes out true while a loop runs: what makes `if step % 100 == 0` different from `if verbose`.

A Counter is a number that changes with every iteration (an index, a step, a clock). Its remainder, or the difference
of two counters, is ``elapsed``: compared with anything it is true once in a while. A boolean keeps the answer as its
``rhythm``: ``rare`` (true now and then), ``common`` (false now and then), or None where that is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import values as v

if TYPE_CHECKING:
    from collections.abc import Sequence

CLOCKS = ("time.time", "time.perf_counter", "time.monotonic", "time.process_time", "timeit.default_timer",
          "datetime.datetime.now")
_OPPOSITE = {"rare": "common", "common": "rare", None: None}


def counted(op: object, left: v.Value, right: v.Value, flow: v.Flow) -> v.Value | None:
    """The result of arithmetic on counters; None where neither operand counts."""
    counters = [x for x in (left, right) if isinstance(x, v.Counter)]
    if isinstance(op, (cst.Modulo, cst.ModuloAssign)):
        simple = isinstance(left, (v.Number, v.Const, v.Unknown)) and not is_data(left)
        return v.Counter(flow, elapsed=True) if simple else None
    if not counters or any(is_data(x) for x in (left, right)):
        return None
    both = len(counters) == 2 and isinstance(op, cst.Subtract)
    return v.Counter(flow, elapsed=both or any(c.elapsed for c in counters))


def is_data(value: v.Value) -> bool:
    """Whether a value was computed from batches or a model's output."""
    flow = value.flow
    return bool(flow.forwards or flow.detached or flow.loader is not None)


def of_comparison(op: object, left: v.Value, right: v.Value) -> str | None:
    """The rhythm of comparing two values once an iteration."""
    counters = [x for x in (left, right) if isinstance(x, v.Counter)]
    if not counters:
        return None
    if isinstance(op, (cst.Equal, cst.In)):
        return "rare"
    if isinstance(op, (cst.NotEqual, cst.NotIn)):
        return "common"
    return "rare" if any(c.elapsed for c in counters) else None


def of(value: v.Value | None) -> str | None:
    """The rhythm of a value taken as a test."""
    if isinstance(value, v.Unknown):
        return value.rhythm
    if isinstance(value, v.Counter):
        return "common"
    if isinstance(value, v.Union):
        answers = {of(option) for option in value.options()}
        return answers.pop() if len(answers) == 1 else None
    return None


def opposite(rhythm: str | None) -> str | None:
    return _OPPOSITE[rhythm]


def combined(rhythms: Sequence[str | None], *, all_needed: bool) -> str | None:
    """The rhythm of ``and`` (all needed) or ``or`` over tests."""
    decisive, other = ("rare", "common") if all_needed else ("common", "rare")
    if decisive in rhythms:
        return decisive
    return other if all(r == other for r in rhythms) else None


def boolean(rhythm: str | None, name: str = "bool") -> v.Unknown:
    """A truth value of that rhythm."""
    made = v.Unknown(name)
    made.proved = "bool"
    made.rhythm = rhythm
    return made
