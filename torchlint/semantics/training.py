"""Optimizers and what drives them: which optimizer a scheduler, a scaler or an event is about."""

from __future__ import annotations

from torchlint.semantics import knowledge
from torchlint.semantics import values as v
from torchlint.semantics.recording import Event


def optimizers_of(scheduler: v.Value) -> list[v.Value]:
    """The optimizers that a scheduler may drive; [] where that is unknown."""
    found: list[v.Value] = []
    for option in scheduler.options():
        given = _given(option)
        if given is not None:
            found.extend(o for o in given.options() if not isinstance(o, v.Const))
    return found


def _given(scheduler: v.Value) -> v.Value | None:
    if isinstance(scheduler, v.External):
        known = knowledge.api(scheduler.name)
        place = known.position("optimizer") if known is not None and known.accepts("optimizer") else 0
        return scheduler.argument("optimizer", place)
    if isinstance(scheduler, v.Instance):
        passed = scheduler.state.get("base_arguments")
        given = passed.get("optimizer", 0) if isinstance(passed, v.Arguments) else None
        return given or scheduler.attributes.get("optimizer")
    return None


def is_plateau(scheduler: v.Value) -> bool:
    """Whether the scheduler is stepped with a metric, so that it has to wait for one."""
    names = [scheduler.name] if isinstance(scheduler, v.External) else \
        scheduler.cls.external_bases if isinstance(scheduler, v.Instance) else []
    return any(name.rpartition(".")[2] == "ReduceLROnPlateau" for name in names)


def stepped(event: Event) -> list[v.Value]:
    """The optimizers that an event steps: ``optimizer.step()`` or ``scaler.step(optimizer)``."""
    if event.kind == "optimizer_step" and event.subject is not None:
        return list(event.subject.options())
    if event.kind == "scaler_step" and event.arguments is not None:
        given = event.arguments.get("optimizer", 0)
        return list(given.options()) if given is not None else []
    return []
