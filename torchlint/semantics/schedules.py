"""Schedulers and their optimizers: which drives which, and which steps first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import knowledge, paths
from torchlint.semantics import values as v
from torchlint.semantics.callers import events_in_runs, runs_of
from torchlint.semantics.guards import holds_in_first_iteration
from torchlint.semantics.recording import Block, Call, Context, Event, enclosing_blocks

if TYPE_CHECKING:
    from torchlint.semantics.model import Model


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


@dataclass(frozen=True, slots=True)
class Premature:
    """A scheduler that steps before its optimizer in a loop's first iteration.

    ``site`` is where that is to be mended: in the lowest function that both happen in, the
    scheduler's own step (``is_direct``) or the call that leads to it.
    """

    site: v.Site
    is_direct: bool
    optimizer_site: v.Site


def premature_steps(model: Model) -> Iterator[Premature]:
    """The scheduler steps that come too early, each place of this source once."""
    unknown = [e for e in model.events("method") if e.data.get("name") == "step" and isinstance(e.subject, v.Unknown)]
    models = runs_of(model, [*model.events("scheduler_step"), *unknown])
    drives = events_in_runs(models, "optimizer_step", "scaler_step")
    found: dict[cst.CSTNode, Premature] = {}
    for step in events_in_runs(models, "scheduler_step"):
        early = _premature(step, drives)
        if early is not None and early.site.tree.module is model.tree.module and (
                early.is_direct or early.site.node not in found):
            found[early.site.node] = early
    yield from found.values()


def _premature(step: Event, drives: list[Event]) -> Premature | None:
    if step.subject is None or is_plateau(step.subject) or _is_set_by_hand(step.subject):
        return None
    if any(c.kind == "except" for c in step.context):
        return None
    together = [drive for drive in drives if paths.meeting(step, drive) is not None]
    driven = _driven_by(step.subject, together)
    mine = [drive for drive in together if any(o in driven for o in stepped(drive))]
    if any(event in mine for event in paths.ahead(step)):
        return None
    for drive in mine:
        if paths.comes_first(step, drive) and _is_first(step, drive, driven):
            return _place(step, drive)
    return None


def _driven_by(scheduler: v.Value, drives: list[Event]) -> list[v.Value]:
    """The optimizers of a scheduler; where that is unknown, the only one that is stepped."""
    stepping = list(dict.fromkeys(o for drive in drives for o in stepped(drive)))
    known = optimizers_of(scheduler)
    if all(isinstance(o, v.Unknown) and o not in stepping for o in known):
        return stepping if len(stepping) == 1 else []
    return known


def _is_set_by_hand(scheduler: v.Value) -> bool:
    return isinstance(scheduler, (v.External, v.Unknown)) and "last_epoch" in scheduler.attributes


def _is_first(step: Event, drive: Event, driven: list[v.Value]) -> bool:
    """Whether the step is sure to be the first of the two: in a loop, or in a function that is called in one."""
    block = paths.meeting(step, drive)
    assert block is not None
    if paths.loops_between(step, block):
        return False
    loop = next(paths.loops_around(block), None)
    if loop is None:
        return _is_run_by_nobody(block) and _is_plain(step)
    if any(_may_step(event, driven) for event in paths.ahead(step, loop)):
        return False
    also = {(_text(c), c.taken) for c in drive.context if c.kind == "guard"}
    return all((_text(c), c.taken) in also or holds_in_first_iteration(c, loop)
               for c in step.context.up_to(loop.context) if c.kind == "guard")


def _may_step(event: Event, driven: list[v.Value]) -> bool:
    """Whether the event is code that nobody sees, which could step one of these optimizers."""
    if event.kind == "cut":
        return True
    return event.kind == "handed" and event.subject is not None and any(o in driven for o in event.subject.options())


def _is_run_by_nobody(block: Block) -> bool:
    """Whether the block belongs to a function that no code is seen to call, so that it may be called in a loop."""
    calls = [b.owner for b in paths.blocks_around(block) if isinstance(b.owner, Call)]
    return len(calls) == 1 and calls[0].is_entry


def _is_plain(step: Event) -> bool:
    """Whether a step takes no argument and stands behind no test but for None."""
    tests = [c.data for c in step.context if c.kind == "guard"]
    given = step.arguments is not None and any(True for _ in step.arguments.all())
    return not given and all(isinstance(t, cst.Comparison) and isinstance(t.comparisons[0].operator, cst.IsNot)
                             for t in tests)


def _text(guard: Context) -> str:
    return str(guard.node.tree.text(guard.data)) if guard.data is not None else ""


def _place(step: Event, drive: Event) -> Premature:
    """The step itself, or the outermost call that leads to it below the function that both happen in."""
    block = paths.meeting(step, drive)
    calls = [b.owner for b in enclosing_blocks(step) if isinstance(b.owner, Call)]
    outer = {id(b.owner) for b in paths.blocks_around(block)} if block is not None else set()
    inner = [call for call in calls if id(call) not in outer]
    site = inner[-1].site if inner else step.site
    return Premature(site, not inner, drive.site)
