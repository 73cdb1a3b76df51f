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
        for step in model.events(*_STEPS, everywhere=True):
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
    drives = model.reached("optimizer_step", "scaler_step")
    seen: set[tuple[int, int]] = set()
    for step in model.reached("scheduler_step"):
        early = _premature(step, drives)
        if early is not None and early.site.tree is model.tree and early.site.key not in seen:
            seen.add(early.site.key)
            yield early


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
    return isinstance(scheduler, v.External | v.Unknown) and "last_epoch" in scheduler.attributes


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
    calls = [b.owner for b in paths.enclosing_blocks(step) if isinstance(b.owner, Call)]
    outer = {id(b.owner) for b in paths.blocks_around(block)} if block is not None else set()
    inner = [call for call in calls if id(call) not in outer]
    site = inner[-1].site if inner else step.site
    return Premature(site, not inner, drive.site)
