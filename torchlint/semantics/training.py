"""Training iterations: the loops whose every pass runs backward and steps an optimizer, and what is done in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchlint.semantics import rhythm
from torchlint.semantics import values as v
from torchlint.semantics.library import device_of, is_loader

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Context, Event, Loop

_STEPS = ("optimizer_step", "scaler_step")


class TrainingLoops:
    """The loops of a source that train: backward and an optimizer step in one iteration."""

    def __init__(self, model: Model) -> None:
        self._backward = {id(loop.data) for event in model.events("backward", everywhere=True)
                          for loop in event.context.loops()}
        self._loops: set[int] = set()
        steps = model.events(*_STEPS, everywhere=True)
        steps += [e for e in model.events("method", everywhere=True) if e.data["name"] == "step" and _is_optimizer_like(e)]
        for step in steps:
            loop = next((c for c in step.context.loops() if id(c.data) in self._backward), None)
            if loop is not None:
                self._loops.add(id(loop.data))

    def __bool__(self) -> bool:
        return bool(self._loops)

    def around(self, event: Event) -> Context | None:
        """The training loop whose every iteration does this event as a part of training; None where none does.

        What only happens now and then, in a validation round inside, while acting in an environment, or with
        gradients off is no part of it.
        """
        if event.context.grad is False:
            return None
        for context in event.context:
            if context.kind == "loop":
                if id(context.data) in self._loops:
                    return context
                if not self._is_part(context.data):
                    return None
            elif context.kind == "except" or context.kind == "guard" and not _usually_taken(context):
                return None
            elif context.kind == "call" and _evaluates(context, event):
                return None
        return None

    def _is_part(self, loop: Loop) -> bool:
        """Whether an inner loop belongs to one training iteration: it runs backward, or over parts of a result."""
        if id(loop) in self._backward:
            return True
        over = loop.iterable
        if over is None or is_loader(over) or over.flow.loader is not None and is_loader(over.flow.loader) \
                and isinstance(over, v.Sequence) and over.rest is not None and not over.flow.forwards:
            return False
        return isinstance(over, v.Sequence | v.Mapping | v.Parameters | v.Tensor) or rhythm.is_data(over) \
            or device_of(over) is not None


def _is_optimizer_like(step: Event) -> bool:
    """Whether what steps next to a backward can only be an optimizer, or an engine around one."""
    return isinstance(step.subject, v.Unknown) and "zero_grad" in step.subject.uses


def _usually_taken(guard: Context) -> bool:
    """Whether a branch is taken in most iterations of a run, as far as its test tells."""
    pace = rhythm.of(guard.value)
    if pace is not None:
        return guard.taken is (pace == "common")
    value = guard.value
    if value is None or guard.taken is None:
        return guard.taken is not None
    if isinstance(value, v.Unknown) and isinstance(value.guess, v.Const):
        return bool(value.guess.value) is guard.taken  # an option that is off by default
    return guard.taken is False or not rhythm.is_data(value)


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
