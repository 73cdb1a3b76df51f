"""The abstract interpreter: one visitor of libcst's nodes that runs a program without running it.

It keeps the state (names, heap, context, the block being recorded) and knows how branches,
loops and calls change it. What single node classes mean is in ``statements`` and
``expressions``; what torch and numpy do is in ``library``. It is bounded: every entry has a
budget, and what a cut leaves unseen is marked (``cut``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import libcst as cst

from torchlint.semantics import values as v
from torchlint.semantics.habits import Habits
from torchlint.semantics.host import settled
from torchlint.semantics.names import names_in
from torchlint.semantics.recording import Block, Branch, Call, Context, Event, Exit, Loop
from torchlint.semantics.scopes import Frame, ModuleModel

if TYPE_CHECKING:
    from torchlint.semantics.linker import Linker

_MISSING: Any = object()
CALL_DEPTH = 8  # followed calls inside each other; a trial found nothing more at 12 than at 4
ENTRY_BUDGET = 6_000  # statements that one entry may run
_NESTING = 8  # containers inside each other that are looked into

Change = tuple[Any, Any, Any, Any]  # target, key, old, new
Arm = tuple["cst.CSTNode | None", bool | None, Callable[[], "str | None"]]


# What a function of another file may make, or do to its caller, that rules ask about.
_FEW_NAMES = 24  # a function that mentions no more than that, such as a meter's update(), is quickly run
VALUE_NAMES = frozenset({
    "Conv1d", "Conv2d", "Conv3d", "Linear", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm2d", "GroupNorm",
    "SyncBatchNorm", "Sequential", "ModuleList", "ModuleDict", "Module", "forward", "__init__", "DataLoader", "Dataset",
    "TensorDataset", "optim", "SGD", "Adam", "AdamW", "lr_scheduler", "optimizer", "array", "asarray", "imread",
    "stack", "concatenate", "zeros", "numpy", "np", "device", "cuda", "to", "no_grad", "inference_mode",
    "set_grad_enabled", "enable_grad", "backward", "step", "eval", "train", "ArgumentParser", "add_argument",
    "GradScaler", "autocast", "DataParallel", "append", "super", "yield",
})


_ARRAY_NAMES = frozenset({"np", "numpy", "ndarray"})
_RESERVE = 2  # times the budget for other files: to there, short functions and those that mention numpy are run


class OutOfBudget(Exception):
    """An entry ran more statements than it may."""


class Interpreter:
    """The state of one abstract run over the files of a project."""

    # The visitor's tables and the two ends of a call; ``machine`` puts the parts together.
    expressions: ClassVar[dict[type, Callable[[Any, Any], v.Value]]]
    statements: ClassVar[dict[type, Callable[[Any, Any], str | None]]]
    call_value: ClassVar[Callable[[Any, v.Value, v.Arguments, cst.CSTNode], v.Value]]
    bind_parameters: ClassVar[Callable[..., bool]]
    attribute: ClassVar[Callable[[Any, v.Value, str, cst.CSTNode], v.Value]]
    set_attribute: ClassVar[Callable[[Any, v.Value, str, v.Value, cst.CSTNode], None]]
    passes_over: ClassVar[Callable[[Any, v.Value, Any], list[Callable[[], None]]]]
    settle: ClassVar[Callable[[Any, v.Instance], None]]
    run_layers: ClassVar[Callable[[Any, Any, v.Arguments, cst.CSTNode], v.Value]]
    as_promised: ClassVar[Callable[[Any, v.Function, v.Value], v.Value]]
    opaque_forward: ClassVar[Callable[[Any, v.Value, v.Arguments, cst.CSTNode], v.Value]]

    def __init__(self, project: Linker) -> None:
        self.project = project
        self.frame: Frame = None  # type: ignore[assignment]  # set by every entry
        self.context: Context = Context(None, "entry")
        self.block = Block()
        self.journal: list[tuple[Any, Any, Any]] = []
        self.loop_stash: list[list[tuple[dict[str, v.Value], list[Change]]]] = []
        self.steps = 0
        self.budget = ENTRY_BUDGET
        self.foreign_steps = 0  # statements run in functions of other files than the source
        self.foreign_budget = 0
        self.depth = 0
        self.forwarding = 0  # module forwards we are inside of
        self.building = 0  # module constructors we are inside of
        self.growth = 0  # layers that the running loop put into lists
        self.quiet = 0
        self.active: list[Any] = []  # functions being followed, for recursion
        self.reached: set[int] = set()  # functions that a real context has run, by id of the node
        self.named: set[int] = set()  # functions that something refers to
        self.scripted: set[int] = set()  # functions and classes that TorchScript compiles, by id of the node
        self.cut: set[int] = set()  # functions whose run was cut short, by id of the node
        self.recursive: set[int] = set()  # functions of which a call inside themselves was not followed
        self.containers: list[Any] = []  # Sequentials, to be simulated if nobody calls them
        self.modules: list[v.Instance] = []  # the project's own modules that were made
        self.made: dict[v.Class, dict[Any, v.Instance]] = {}  # submodules, by class and arguments
        self.habits = Habits()
        self.statement: cst.CSTNode | None = None  # the expression that is a statement, while it is run
        self.deferred: dict[v.Value, v.Value] = {}  # modules' constants that somebody asked for
        self.triggers: frozenset[str] | None = None  # identifiers without which no rule can report; None: any may
        self.inherited: dict[tuple[v.Value, str], v.Unknown] = {}  # attributes that an unseen base class may set
        self.sharing = False  # whether an entry may be given an object that another one made
        self.generic: dict[v.Class, v.Instance] = {}  # objects made with unknown arguments
        self.summaries: dict[int, dict[Any, Any]] = {}  # modules' forwards that were run, by id
        self.recordings = 0  # calls that autograd records inside forwards: layers with parameters
        self.unseen = 0  # calls that it may record there: code that nobody sees
        self.externals: list[v.External] = []
        self.forwarded: set[int] = set()  # modules that were called, by id
        self.bias_uses: list[v.BiasUse] = []
        self.alive: list[Any] = []  # keeps objects alive whose ids are used as keys
        self.computing: dict[tuple[str, str], bool] = {}  # who asks of which name of a method: see ``definitions``
        self.noted: dict[cst.CSTNode, list[v.Value]] = {}  # what assignments bound, loops took and returns gave

    # ------------------------------------------------------------------ nodes

    def evaluate(self, node: cst.BaseExpression) -> v.Value:
        """The value of an expression; its events are recorded on the way."""
        handler = self.expressions.get(node.__class__)
        return handler(self, node) if handler is not None else v.Unknown()

    def execute(self, body: cst.BaseSuite | cst.Module) -> str | None:
        """Run a suite's statements; how it ends early on every path: return, raise, break, continue, or None."""
        statements = self.statements
        outer = self.context
        ends = None
        for line in body.body:
            if line.__class__ is cst.SimpleStatementLine:
                for small in line.body:
                    self.steps += 1
                    ends = statements[small.__class__](self, small)
                    if ends is not None:
                        break
            else:
                self.steps += 1
                if self.steps > self.budget:
                    raise OutOfBudget
                handler = statements.get(line.__class__)
                ends = handler(self, line) if handler is not None else None
            if ends is not None:
                break
        self.context = outer
        return ends

    def site(self, node: cst.CSTNode) -> v.Site:
        return v.Site(self.frame.module.tree, node)

    # ----------------------------------------------------------------- events

    def emit(self, kind: str, node: cst.CSTNode | v.Site, subject: v.Value | None = None,
             result: v.Value | None = None, arguments: v.Arguments | None = None, **data: Any) -> Event:
        """Record an event at a node, in the context of now."""
        site = node if isinstance(node, v.Site) else self.site(node)
        event = Event(kind, site, self.context, subject, result, arguments, **data)
        if self.sharing:
            self.habits.see_event(kind, site)
        if not self.quiet:
            self.block.add(event)
        return event

    @contextmanager
    def fresh(self, frame: Frame, context: Context, block: Block, budget: int = ENTRY_BUDGET) -> Iterator[None]:
        """Everything inside is an entry of its own, with a budget of its own."""
        kept = (self.frame, self.context, self.block, self.steps, self.budget, self.depth, self.forwarding,
                self.building, self.quiet, self.active, self.loop_stash)
        self.frame, self.context, self.block, self.steps, self.budget = frame, context, block, 0, budget
        self.depth = self.forwarding = self.building = self.quiet = 0
        self.active, self.loop_stash = [], []
        try:
            yield
        finally:
            (self.frame, self.context, self.block, self.steps, self.budget, self.depth, self.forwarding,
             self.building, self.quiet, self.active, self.loop_stash) = kept

    def run_guarded(self, run: Callable[[], Any]) -> None:
        """Run an entry; when its budget is spent, what it was in the middle of counts as cut."""
        try:
            run()
        except OutOfBudget:
            self.cut.add(id(self.context.entry().node.node))

    def bias_use(self, value: v.Value, node: cst.CSTNode) -> None:
        """Note that code reads or writes a module's ``bias``, and in which context."""
        self.bias_uses.append(v.BiasUse(value, self.site(node), self.context))

    def exit(self, node: cst.CSTNode, how: str) -> str:
        if not self.quiet:
            self.block.add(Exit(self.site(node), how))
        return how

    def within(self, context: Context, block: Block | None = None) -> Within:
        """``with``: everything inside happens in that context (and is recorded in that block)."""
        return Within(self, context, block)

    # -------------------------------------------------------------- the state

    def bind(self, name: str, value: v.Value) -> None:
        """Bind a name in the running scope (or where it is declared to be: global or nonlocal)."""
        frame = self.frame
        target = frame.declared.get(name)
        if target is not None:
            if target is not frame:
                self.journal.append((target, name, target.names.get(name, _MISSING)))
            target.names[name] = value
        else:
            frame.names[name] = value

    def note(self, node: cst.CSTNode, value: v.Value) -> None:
        """Keep what a run of a statement gave."""
        seen = self.noted.setdefault(node, [])
        if not seen or seen[-1] is not value:
            seen.append(value)

    def write(self, target: Any, key: Any, value: Any) -> None:
        """Change the heap: a dict entry, or a slot of a Sequence; undone and joined at branches."""
        self.journal.append((target, key, _read(target, key)))
        _store(target, key, value)

    def mark(self) -> tuple[int, int]:
        """A state of the heap to go back to."""
        v.Clock.now += 1
        return len(self.journal), v.Clock.now

    def undo(self, mark: tuple[int, int]) -> list[Change]:
        """Take back the heap writes since ``mark``; returns them with their new values.

        Objects that were made since keep what was written to them: nobody knew them before.
        """
        changes: dict[tuple[int, Any], Change] = {}
        length, time = mark
        while len(self.journal) > length:
            target, key, old = self.journal.pop()
            if target is self.frame:
                continue  # the arm's own copy of the names holds it
            if target.__class__ is not Frame and target.born >= time:
                continue
            slot = id(target), key
            new = changes[slot][3] if slot in changes else _read(target, key)
            changes[slot] = (target, key, old, new)
            _store(target, key, old)
        return list(changes.values())

    def undo_all(self) -> None:
        """Give objects that other runs share their state from before this run."""
        self.frame = None  # type: ignore[assignment]
        self.undo((0, 0))

    def _merge(self, outcomes: list[list[Change]]) -> None:
        """Make the heap any one of these outcomes, each given as changes from the state of now."""
        if not any(outcomes):
            return
        by_slot = [{(id(change[0]), change[1]): change for change in changes} for changes in outcomes]
        slots = {slot: change for changes in by_slot for slot, change in changes.items()}
        for slot, (target, key, old, _) in slots.items():
            news = [changes[slot][3] if slot in changes else old for changes in by_slot]
            self.write(target, key, _joined(news, target))

    def alternatives(self, node: cst.CSTNode, arms: list[Arm], value: v.Value | None = None) -> str | None:
        """Run each arm from the same state, then join. Returns how control leaves, if on every arm.

        ``value`` is what the test evaluates to.
        """
        frame, before, outer = self.frame, self.frame.names, self.context
        branch = Branch(self.site(node))
        if not self.quiet:
            self.block.add(branch)
        going: list[tuple[dict[str, v.Value], list[Change]]] = []
        ended: list[str] = []
        left: list[tuple[cst.CSTNode | None, bool | None]] = []
        for test, taken, run in arms:
            frame.names = dict(before)
            mark = self.mark()
            arm = Block(branch)
            branch.arms.append(arm)
            context = Context(outer, "guard", self.site(node), test)
            context.taken, context.value = taken, value
            with self.within(context, arm):
                ends = run()
            arm.ends = ends
            changes = self.undo(mark)
            if ends is None:
                going.append((frame.names, changes))
            else:
                ended.append(ends)
                left.append((test, taken))
                self._leave(ends, frame.names, changes)
        if not going:
            frame.names = before
            return "return" if "return" in ended else ended[0]
        frame.names = going[0][0] if len(going) == 1 else _join_names([names for names, _ in going], self.deferred)
        self._merge([changes for _, changes in going])
        for test, taken in left:  # what follows happens only where that arm was not taken
            self.context = Context(self.context, "guard", self.site(node), test)
            self.context.taken, self.context.value = None if taken is None else not taken, value
        return None

    def _leave(self, ends: str, names: dict[str, v.Value], changes: list[Change]) -> None:
        """Keep the state of a path that left early, for the join where it arrives."""
        if ends == "return":
            self.frame.stashed.append(changes)
        elif ends in ("break", "continue") and self.loop_stash:
            self.loop_stash[-1].append((names, changes))

    # ------------------------------------------------------------------ loops

    def loop(self, node: cst.CSTNode, iterable: v.Value | None, passes: list[Callable[[], None]],
             body: Callable[[], str | None], changing: frozenset[str] = frozenset()) -> None:
        """Run a loop's body once per pass (each binds the loop's target), as one loop of the recording."""
        for name in changing:
            old = self.frame.names.get(name)
            if isinstance(old, v.Const):
                self.frame.names[name] = widened(old)
        loop = Loop(self.site(node), iterable, v.Clock.now)
        context = Context(self.context, "loop", loop.site, loop)
        context.block = loop.body
        loop.context = context
        if not self.quiet:
            self.block.add(loop)
        grown_before, self.growth = self.growth, 0
        with self.within(context, loop.body):
            self._passes(passes, body)
            if self.growth and len(passes) == 1:
                self._passes(passes, body)  # a list grew: what follows its last element is its first
        self.growth = grown_before + bool(self.growth)

    def _passes(self, passes: list[Callable[[], None]], body: Callable[[], str | None]) -> None:
        for bind_target in passes:
            self.loop_stash.append([])
            bind_target()
            mark = self.mark()
            before = dict(self.frame.names)
            ends = body()
            stash = self.loop_stash.pop()
            if not stash:
                if ends in ("return", "raise"):
                    self.frame.names = before
                    if ends == "return":
                        self.frame.stashed.append(self.undo(mark))
                continue
            here = self.undo(mark)
            outcomes = [*stash, (self.frame.names, here)] if ends is None else stash
            self.frame.names = _join_names([names for names, _ in outcomes], self.deferred)
            self._merge([changes for _, changes in outcomes])

    # ------------------------------------------------------------------ calls

    def call(self, callee: v.Value, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
        """The result of calling a value."""
        return self.call_value(callee, arguments, node)

    def follow(self, function: v.Function, arguments: v.Arguments, node: cst.CSTNode, *,
               entry: bool = False) -> v.Value:
        """Run a project's function with these arguments; its value, or Unknown where that is cut."""
        self.named.add(id(function.node))
        if self.active.count(function.node) > (1 if self.forwarding else 0):
            self.recursive.add(id(function.node))
            return self.give_up(function, arguments, node)
        if self.triggers is not None and not entry and self._is_beside_the_point(function):
            return self.leave_out(function, arguments, node)
        self.steps += 1
        if self.depth >= CALL_DEPTH or (self.depth and self.steps > self.budget):
            return self.give_up(function, arguments, node)
        frame = Frame(function.module, function.frame, function)
        frame.receiver = function.receiver
        frame.owner = function.owner
        call = Call(self.site(node), function, is_entry=entry)
        outer_frame = self.frame
        if not self.bind_parameters(frame, function, arguments, generic=entry):
            return self.give_up(function, arguments, node)
        if not entry:
            self.reached.add(id(function.node))
        habit = self.habits.of(self, function, arguments) if self.sharing and not entry else None
        if habit is not None and habit.is_settled:
            return habit.result()
        if not self.quiet:
            self.block.add(call)
        context = Context(self.context, "call", call.site, function)
        context.block = call.body
        context.entered = entry
        if function.grad is not None:
            context.grad = function.grad
        if function.decorated:
            context.taken = False
        self.depth += 1
        self.active.append(function.node)
        stash, self.loop_stash = self.loop_stash, []
        before = self.habits.before(self) if self.sharing else None
        try:
            with self.within(context, call.body):
                self.frame = frame
                steps, elsewhere = self.steps, self.foreign_steps
                result = call.result = self.as_promised(function, self._run_body(function, frame))
                if function.module.path not in self.project.fresh:
                    self.foreign_steps = elsewhere + self.steps - steps
                if before is not None and not entry:
                    self.habits.note(self, function, habit, before, result)
                return result
        finally:
            self.frame = outer_frame
            self.loop_stash = stash
            self.depth -= 1
            self.active.pop()

    def _is_beside_the_point(self, function: v.Function) -> bool:
        """Whether a function of another file can neither show a rule anything nor make what one asks for."""
        if function.module.path in self.project.fresh or isinstance(function.node, cst.Lambda):
            return False
        names = names_in(function.node)
        goes_on = len(names) <= _FEW_NAMES or not _ARRAY_NAMES.isdisjoint(names)
        if self.foreign_steps > self.foreign_budget * (_RESERVE if goes_on else 1):
            return True
        assert self.triggers is not None
        return len(names) > _FEW_NAMES and VALUE_NAMES.isdisjoint(names) and self.triggers.isdisjoint(names)

    def leave_out(self, function: v.Function, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
        """A call whose inside does not matter: its arguments are used, its result is unknown."""
        self.unseen += 1
        for value in arguments.all():
            self.consume(value, node, "escape")
        return self.as_promised(function, v.Unknown(function.name, v.merge_flows(a.flow for a in arguments.all())))

    def _run_body(self, function: v.Function, frame: Frame) -> v.Value:
        if isinstance(function.node, cst.Lambda):
            return self.evaluate(function.node.body)
        ends = self.execute(function.node.body)
        for changes in frame.stashed:
            for target, key, old, new in changes:
                now = _read(target, key)
                self.write(target, key, _joined([old if now is old else now, new], target))
        if frame.yields:
            element = v.join(*frame.yields)
            result = v.Sequence((), "generator", rest=element, flow=element.flow)
            result.generator = True
            result.grad_inside = self._grad_where_it_yields(frame)
            return result
        if not frame.returns:
            return v.NONE
        return v.join(*frame.returns) if ends else v.join(*frame.returns, v.NONE)

    def _grad_where_it_yields(self, frame: Frame) -> str:
        """What a generator used as a context manager does to the grad mode: same, on, off or unknown."""
        if frame.yield_grads == {self.context.grad}:
            return "same"
        if len(frame.yield_grads) > 1:
            return "unknown"
        return {True: "on", False: "off", None: "unknown"}[next(iter(frame.yield_grads))]

    def give_up(self, function: v.Function, arguments: v.Arguments, node: cst.CSTNode) -> v.Value:
        """A call that is not followed: what it would have touched counts as not fully seen."""
        self.cut.add(id(function.node))
        if not self.forwarding:
            self.emit("cut", node, function, arguments=arguments)
        for value in arguments.all():
            self.consume(value, node, "cut")
            v.mark_used(value, "cut")
        result = v.Unknown(function.name, settled(v.merge_flows(a.flow for a in arguments.all())))
        result.cut = True
        return self.as_promised(function, result)

    # ---------------------------------------------------------- layers' users

    def consume(self, value: v.Value, node: cst.CSTNode, how: str = "operation", layer: v.Value | None = None,
                inside: tuple[v.Value, ...] = ()) -> None:
        """Note that something takes the direct output of the layers that this value comes from.

        ``inside``: the containers around the value, as one may hold itself.
        """
        cls = value.__class__
        if cls is v.Const or cls is v.Symbol:
            return
        if value.flow.layers:
            consumer = v.Consumer(self.site(node), layer, how)
            if self.sharing:
                self.habits.see_consumer(value.flow.layers, consumer)
            for producer in value.flow.layers:
                producer.consumers.append(consumer)
        if isinstance(value, (v.Sequence, v.Union, v.Mapping)) and value not in inside and len(inside) < _NESTING:
            inside = (*inside, value)
            for item in _parts(value):
                self.consume(item, node, how, layer, inside)


def _parts(value: v.Sequence | v.Union | v.Mapping) -> Iterable[v.Value]:
    if isinstance(value, v.Sequence):
        return value.elements()
    return value.options() if isinstance(value, v.Union) else value.items.values()


class Within:
    """Sets a machine's context and block for a while; a class, as this is entered a hundred times a statement."""

    __slots__ = ("machine", "context", "block", "outer")

    def __init__(self, machine: Interpreter, context: Context, block: Block | None) -> None:
        self.machine = machine
        self.context = context
        self.block = block

    def __enter__(self) -> None:
        machine = self.machine
        self.outer = machine.context, machine.block
        machine.context = self.context
        if self.block is not None:
            machine.block = self.block

    def __exit__(self, *error: object) -> None:
        self.machine.context, self.machine.block = self.outer


def widened(value: v.Const) -> v.Value:
    """A constant that a loop changes: of the same kind, of unknown value."""
    if isinstance(value.value, bool) or value.value is None:
        return v.Union((value, v.Unknown("changed in the loop")))
    if isinstance(value.value, (int, float, complex)):
        return v.Counter()
    if isinstance(value.value, str):
        return v.Text()
    return v.Unknown("changed in the loop")


def _read(target: Any, key: Any) -> Any:
    if isinstance(target, dict):
        return target.get(key, _MISSING)
    if isinstance(target, Frame):
        return target.names.get(key, _MISSING)
    return getattr(target, key)


def _store(target: Any, key: Any, value: Any) -> None:
    if isinstance(target, Frame):
        target = target.names
    if isinstance(target, dict):
        if value is _MISSING:
            target.pop(key, None)
        else:
            target[key] = value
    else:
        setattr(target, key, value)


def _joined(news: list[Any], target: Any) -> Any:
    """The join of a heap slot's contents; a slot that some arm lacks keeps what the others hold."""
    present = [new for new in news if new is not _MISSING]
    if not present:
        return _MISSING
    first = present[0]
    if all(new is first for new in present):
        return first
    if isinstance(first, list):
        merged = first
        for other in present[1:]:
            merged = v.join_runs(merged, other)
        return merged
    if all(isinstance(new, v.Value) for new in present):
        return v.join(*present)
    if isinstance(first, dict):
        return v.Slots((key, item) for new in present for key, item in new.items())
    if isinstance(target, (v.Mapping, v.Sequence)):  # `open`, and `rest` that one arm lacks
        return True if isinstance(first, bool) else next((new for new in present if new is not None), None)
    return first if all(new == first for new in present) else None


def _join_names(outcomes: list[dict[str, v.Value]], built: dict[Any, v.Value]) -> dict[str, v.Value]:
    """The names after a branch: bound to any of what the arms bound them to.

    A constant that one arm has built is that value in the others too.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    first = outcomes[0]
    joined = dict(first)
    for other in outcomes[1:]:
        for name, value in other.items():
            mine = joined.get(name)
            if mine is None:
                joined[name] = value
            elif mine is not value:
                mine, value = built.get(mine, mine), built.get(value, value)
                joined[name] = v.join(mine, value)
    return joined


__all__ = ["CALL_DEPTH", "Interpreter", "ModuleModel", "OutOfBudget", "widened"]
