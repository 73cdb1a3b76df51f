"""Training iterations: the loops whose every pass runs backward and steps an optimizer, and what is done in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import rhythm
from torchlint.semantics import values as v
from torchlint.semantics.library import device_of, is_loader

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Context, Event, Loop

_STEPS = ("optimizer_step", "scaler_step")


class TrainingLoops:
    """The loops of a source that train: backward and an optimizer step in one iteration.

    A loop whose every pass also evaluates is one over epochs, also where an epoch is a single step.
    """

    def __init__(self, model: Model) -> None:
        self._backward = {id(loop.data) for event in model.events("backward", everywhere=True)
                          for loop in event.context.loops()}
        steps = [*model.events(*_STEPS, everywhere=True),
                 *(e for e in model.events("method", everywhere=True) if _is_optimizer_like(e))]
        acted_on = map(_forwards_acted_on, model.events("method", everywhere=True))
        self._acting: frozenset[Event] = frozenset().union(*acted_on)
        inner = (next((c for c in step.context.loops() if id(c.data) in self._backward), None) for step in steps)
        evaluating = map(_loop_that_evaluates, model.events("mode", everywhere=True))
        self._loops = {id(c.data) for c in inner if c is not None} - {id(c.data) for c in evaluating if c is not None}

    def __bool__(self) -> bool:
        return bool(self._loops)

    def around(self, event: Event) -> Context | None:
        """The training loop whose every iteration does this event as a part of training; None where none does.

        What only happens now and then, in a validation round inside, while acting in an environment, or with
        gradients off is no part of it.
        """
        if event.context.grad is False or event.subject is None or self._acting & _forwards_of(event.subject):
            return None
        for context in event.context:
            if context.kind == "loop" and id(context.data) in self._loops:
                return context
            if not self._is_passed(context, event):
                return None
        return None

    def _is_passed(self, context: Context, event: Event) -> bool:
        """Whether an event that happens in a context happens in every iteration around it, as a part of training."""
        if context.kind == "loop":
            return self._is_part(context.data)
        if context.kind == "guard":
            return _usually_taken(context)
        return not _evaluates(context, event) if context.kind == "call" else context.kind != "except"

    def _is_part(self, loop: Loop) -> bool:
        """Whether an inner loop belongs to one training iteration: it runs backward, or over parts of a result."""
        if id(loop) in self._backward:
            return True
        over = loop.iterable
        if over is None or is_loader(over) or _is_over_batches(over):
            return False
        return isinstance(over, v.Sequence | v.Mapping | v.Parameters | v.Tensor) or rhythm.is_data(over) \
            or device_of(over) is not None


def _forwards_of(value: v.Value) -> frozenset[Event]:
    """The forwards that a value was computed from, with or without their graphs."""
    return value.flow.forwards | value.flow.detached


def _forwards_acted_on(step: Event) -> frozenset[Event]:
    """The forwards whose output an environment's ``step(action)`` takes: it needs that on the host."""
    if step.data["name"] != "step" or step.arguments is None or _is_optimizer_like(step):
        return frozenset()
    return frozenset().union(*map(_forwards_of, step.arguments.positional))


def _is_over_batches(over: v.Value) -> bool:
    """Whether what a loop runs over is ``enumerate(loader)``, ``tqdm(loader)`` and the like."""
    return isinstance(over, v.Sequence) and over.rest is not None and over.flow.loader is not None \
        and over.flow.batch is None and not over.flow.forwards


def _loop_that_evaluates(mode: Event) -> Context | None:
    """The loop whose every pass switches a module to evaluation mode."""
    if mode.data.get("train") is not False:
        return None
    for context in mode.context:
        if context.kind == "loop":
            return context
        if context.kind == "except" or (context.kind == "guard" and not _usually_taken(context)):
            return None
    return None


def _is_optimizer_like(step: Event) -> bool:
    """Whether what steps next to a backward can only be an optimizer, or an engine around one."""
    return step.data["name"] == "step" and isinstance(step.subject, v.Unknown) and "zero_grad" in step.subject.uses


def _usually_taken(guard: Context) -> bool:
    """Whether a branch is taken in most iterations of a run, as far as its test tells."""
    pace = rhythm.of(guard.value)
    if pace is not None:
        return guard.taken is (pace == "common")
    value = guard.value
    if value is None or guard.taken is None:
        return guard.taken is not None
    default = _default(guard)
    if default is not None:
        return default is guard.taken
    return guard.taken is False or not rhythm.is_data(value)


def _default(guard: Context) -> bool | None:
    """What a test comes to where options keep their defaults, as far as these decide."""
    assert guard.value is not None
    defaults = [bool(o.guess.value) if isinstance(o, v.Unknown) and isinstance(o.guess, v.Const) else None
                for o in guard.value.options()]
    if len(defaults) > 1 and isinstance(guard.data, cst.BooleanOperation) and isinstance(guard.data.operator, cst.And):
        return False if False in defaults else None
    return defaults[0] if len(set(defaults)) == 1 else None


def _evaluates(call: Context, event: Event) -> bool:
    """Whether a called function has switched a module to evaluation mode before the event."""
    if call.block is None:
        return False
    train = None
    for other in call.block.events():
        if other is event:
            break
        if other.kind == "mode":
            train = other.data.get("train")
        elif other.kind == "backward":
            return False
    return train is False
