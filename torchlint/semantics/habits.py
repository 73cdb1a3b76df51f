"""Habits: functions that have stopped showing anything new are not run again for callers that nobody calls.

A model zoo has hundreds of functions that each build a model by the same few helpers. After some
runs of a helper with arguments of the same kinds, within the same loops and grad mode, that
recorded nothing new, its result stands for the next ones. A function that changes what it is
given is run every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlint.semantics import values as v

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter

_SETTLED = 2  # runs that showed nothing new


class Habit:
    """What is known of one function with arguments of certain kinds."""

    __slots__ = ("same", "depends", "_result")

    def __init__(self) -> None:
        self.same = 0  # runs in a row that showed nothing new
        self.depends = False  # it changes what it is given
        self._result: v.Value = v.NONE

    @property
    def is_settled(self) -> bool:
        return self.same >= _SETTLED and not self.depends

    def result(self) -> v.Value:
        """The result of the last run; a container is copied, since the caller may change it."""
        kept = self._result
        if isinstance(kept, v.Sequence):
            return v.Sequence(kept.items, kept.type, rest=kept.rest, site=kept.site, flow=kept.flow)
        if isinstance(kept, v.Mapping):
            return v.Mapping(dict(kept.items), kept.open, kept.rest, kept.site)
        return kept

    def note(self, result: v.Value, *, new: bool, depends: bool) -> None:
        self.same = 0 if new else self.same + 1
        self.depends |= depends
        self._result = result


class Habits:
    """The habits of all functions in one run."""

    def __init__(self) -> None:
        self._runs: dict[Any, int] = {}
        self._known: dict[Any, Habit] = {}
        self._seen: set[Any] = set()
        self.new = 0

    def see_event(self, kind: str, site: v.Site) -> None:
        key = kind, site.node
        if key not in self._seen:
            self._seen.add(key)
            self.new += 1

    def see_consumer(self, producers: tuple[Any, ...], consumer: v.Consumer) -> None:
        taker = consumer.layer
        made = getattr(taker, "site", None)
        for producer in producers:
            site = producer.site
            if site is not None:
                key = site.node, consumer.site.node, made.node if made is not None else None, consumer.how
                if key not in self._seen:
                    self._seen.add(key)
                    self.new += 1

    def of(self, machine: Interpreter, function: v.Function, arguments: v.Arguments) -> Habit | None:
        """The habit of a call; None while the function has not run often."""
        runs = self._runs.get(function.node, 0)
        self._runs[function.node] = runs + 1
        if runs < _SETTLED:
            return None
        around = machine.context
        key = (function.node, around.grad, tuple(loop.node.node for loop in around.loops()), _gist(function.receiver),
               tuple(map(_gist, arguments.positional)),
               tuple((name, _gist(value)) for name, value in arguments.keywords.items()))
        habit = self._known.get(key)
        if habit is None:
            habit = self._known[key] = Habit()
        return habit

    def before(self, machine: Interpreter) -> tuple[int, tuple[int, int]]:
        return self.new, machine.mark()

    def note(self, machine: Interpreter, function: v.Function, habit: Habit | None,
             before: tuple[int, tuple[int, int]], result: v.Value) -> None:
        """Learn from a run that is over."""
        if habit is None:
            return
        new, (length, time) = before
        changes = any(getattr(target, "born", -1) < time for target, _, _ in machine.journal[length:])
        habit.note(result, new=self.new > new, depends=changes)


def _gist(value: v.Value | None) -> Any:
    """What of an argument may change what a function does: its kind, not its number or word."""
    if isinstance(value, v.Const):
        return value.value if value.value is None or isinstance(value.value, bool) else type(value.value)
    if isinstance(value, v.Symbol):
        return value.name
    if isinstance(value, v.Class):
        return value
    if isinstance(value, v.Instance):
        return value.cls
    if isinstance(value, v.External):
        return value.name
    if isinstance(value, v.Function):
        return value.node
    if isinstance(value, v.Sequence):
        return value.type, frozenset(map(_gist, value.items[:8]))
    if isinstance(value, v.Mapping):
        return tuple((key, _gist(item)) for key, item in list(value.items.items())[:24])
    if isinstance(value, v.Union):
        return frozenset(map(_gist, value.options()))
    if isinstance(value, v.Unknown):
        return value.kind
    if isinstance(value, v.Tensor):
        return "tensor", value.device, bool(value.flow.layers), bool(value.flow.forwards)
    return value.__class__
