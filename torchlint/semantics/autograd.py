"""Graphs that nobody asks for: forwards of an evaluation that autograd records for nothing.

A forward is wasted where gradients are recorded, its output's graph reaches no backward and no
code that nobody sees, and something shows that it evaluates: the module is in eval mode, or its
output is only read after it has been detached or turned into Python numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import knowledge
from torchlint.semantics import values as v
from torchlint.semantics.callers import events_in_runs, may_be_without_grad, reached_elsewhere, runs_of
from torchlint.semantics.escapes import leaves_with_a_graph
from torchlint.semantics.library import is_module
from torchlint.semantics.modes import parts_of
from torchlint.semantics.recording import Call, enclosing_blocks
from torchlint.syntax.tree import children

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Event
    from torchlint.syntax.tree import Node, Statement

_WANTED = frozenset({"backward", "target", "yielded", "numpy", "cut", "attribute", "returned"})
_TRAINS = frozenset({"backward", "target", "attribute", "yielded"})
_HANDED_OUT = frozenset({"returned", "handed over"})  # to code that nobody sees, which may go backward from it
_READ = frozenset({"detached", "python", "index"})
_HARMLESS = _READ | {"computed"}  # "computed" alone tells nothing: it leads to something else
_NEEDS_GRAD = ("backward", "optimizer_step", "scaler_step", "requires_grad", "zero_grad", "export")
_ENCODERS = frozenset({"torch.nn.TransformerEncoder", "torch.nn.Transformer"})
_DEEPEST = 4  # modules inside each other that are looked for encoders
_EVALUATION_SPLITS = frozenset({"val", "valid", "validation", "test", "dev", "eval"})


@dataclass(frozen=True, slots=True)
class Frame:
    """One function (None: the module's body) on the way to an event, and the node in it that leads there."""

    function: v.Function | None
    site: v.Site
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class Wasted:
    """Forwards whose graph nobody uses. ``first`` is the first of them, or the call that leads there.

    ``regions`` are the statements that a ``with torch.no_grad():`` each would hold, none where that
    would take the graph from other values too; ``function`` is set where there is one that is the
    function's whole body, or could be. ``proven``: all that comes out stays the same, for all who are seen.
    """

    first: v.Site
    regions: tuple[tuple[Statement, ...], ...]
    function: cst.FunctionDef | None
    proven: bool


def frames_of(event: Event) -> Iterator[Frame]:
    """The functions around an event, innermost first; a module's own methods count as functions."""
    site = event.site
    calls = {id(b): b.owner for b in enclosing_blocks(event) if isinstance(b.owner, Call)}
    for context in event.context:
        if context.kind == "call" and isinstance(context.data, v.Function):
            yield Frame(context.data, site, calls.get(id(context.block)))
            if context.entered:
                return
            site = context.node
    yield Frame(None, site)


def carries(value: v.Value | None, event: Event) -> bool:
    """Whether a value holds the graph of a forward's output; so it may be where nothing is known of it."""
    if value is None or event in value.flow.forwards:
        return True
    if isinstance(value, v.Sequence):
        return any(carries(item, event) for item in value.elements())
    if isinstance(value, v.Mapping):
        return value.open or any(carries(item, event) for item in value.items.values())
    return isinstance(value, v.Union) and any(carries(option, event) for option in value.options())


def wasted_forwards(model: Model) -> list[Wasted]:
    """The regions of this source that should not record gradients, in order; none in unit tests."""
    if model.is_test:
        return []
    models = runs_of(model, [e for e in model.events("forward", "method") if _is_open(e)])
    forwards = [e for e in events_in_runs(models, "forward") if e.subject is not None and is_module(e.subject)]
    candidates = [e for e in forwards if _is_wasted(e) and not (
        e.context.entry().data == "function" and may_be_without_grad(models, e))]
    if not candidates:
        return []
    switched = [e.context.entry() for e in events_in_runs(models, "grad_switched")]
    programs = {entry.data for entry in switched} & {"module", "main"}
    if "module" in programs:
        return []  # for whoever imports it, from a place that no path may be traced back to
    if programs:  # what such a program calls in other ways, nobody knows; other programs are not concerned
        candidates = [e for e in candidates if e.context.entry().data == "main"]
    candidates = [e for e in candidates if e.context.entry() not in switched and not _is_in_hook(e)]
    return _Regions(models, forwards).of(candidates)


def _is_in_hook(event: Event) -> bool:
    """Whether the run began with a method that a framework calls with gradients off, or with either."""
    entered = next((c.data for c in event.context if c.kind == "call" and c.entered), None)
    if not isinstance(entered, v.Function) or entered.owner is None:
        return False
    known = [knowledge.framework(base) for base in entered.owner.external_bases]
    return any(f is not None and entered.name not in f.train_hooks for f in known)


def _is_open(event: Event) -> bool:
    """Whether only a caller in another file can say if the forward is wasted."""
    if event.context.grad is not True or event.subject is None or event.context.entry().data != "function":
        return False
    if event.kind == "method":  # of what has an eval mode: it may run it forward
        return event.data.get("training") is False and knowledge.method("module", event.data.get("name", "")) is None
    if event.used & (_WANTED - {"returned"}):
        return False
    if is_module(event.subject):
        return event.data.get("training") is False or bool(event.used)
    return event.subject.kind == "unknown" and bool(event.used & _READ) and event.used <= _HARMLESS


def _is_wasted(event: Event) -> bool:
    if event.context.grad is not True or event.data.get("frozen") or event.data.get("records") is False:
        return False
    if _is_wanted(event):
        return False
    if any(c.kind == "except" for c in event.context):
        return False
    if event.data.get("training") is False or _evaluation_data(event):
        return not _is_smoke_test(event)
    return bool(event.used & _READ) and event.used <= _HARMLESS and event.data.get("records", True) is True


def _is_wanted(event: Event) -> bool:
    """Whether the output's graph is used, or may be by code that nobody sees.

    What a function returns is taken for an evaluation's result where the function itself put the
    module into eval mode.
    """
    wanted = event.used & _WANTED
    if wanted != {"returned"} or event.data.get("training") is not False:
        return bool(wanted)
    where = event.data.get("mode_set")
    frame = next((c for c in where if c.kind == "call"), None) if where is not None else None
    return frame is None or not any(c is frame for c in event.context)


def _is_mode_set_in(event: Event, call: Call) -> bool:
    """Whether the function that a call runs has itself put the module into eval mode."""
    where = event.data.get("mode_set") if event.data.get("training") is False else None
    return where is not None and any(c.block is call.body for c in where)


def _evaluation_data(event: Event) -> bool:
    """Whether the input is a batch of a dataset that was made with ``train=False`` or for a test split."""
    for value in event.arguments.all() if event.arguments is not None else ():
        loader = value.flow.loader
        dataset = loader.argument("dataset", 0) if isinstance(loader, v.External) else None
        if not isinstance(dataset, (v.External, v.Instance)):
            continue
        given = dataset.arguments.keywords if isinstance(dataset, v.External) else {}
        train, split = given.get("train"), given.get("split")
        if isinstance(train, v.Const) and train.value is False:
            return True
        if isinstance(split, v.Const) and split.value in _EVALUATION_SPLITS:
            return True
    return False


def _is_smoke_test(event: Event) -> bool:
    """Whether a module that was just made runs on made-up numbers and nobody looks at the result."""
    if event.used or not isinstance(event.subject, (v.External, v.Instance)) or event.subject.site is None:
        return False
    here = next(frames_of(event)).function
    tree, node = event.site.tree, event.subject.site.node
    made_here = event.subject.site.tree is tree and (here is None or here.node in tree.ancestors(node))
    inputs = list(event.arguments.all()) if event.arguments is not None else []
    return made_here and bool(inputs) and all(i.flow.loader is None and isinstance(i, v.Tensor) for i in inputs)


class _Regions:
    """Finds for each wasted forward the largest piece of code around it that may lose its gradients."""

    def __init__(self, models: list[Model], forwards: list[Event]) -> None:
        self.models = models
        self.tree = models[0].tree
        self.wasted: list[Event] = []
        self.cut = {node for model in models for node in model.machine.cut}
        self.fine: dict[Node, list[Event]] = {}  # forwards that are right as they are, by place
        for event in forwards:
            if event.context.grad is not True or event.data.get("frozen") or event.used & (_WANTED - {"returned"}):
                self.fine.setdefault(event.site.node, []).append(event)
        self.needing = self._nodes_that_need_gradients(forwards)
        self.wanting = {id(f.function.node) for e in events_in_runs(models, "requires_grad", "export")
                        for f in [next(frames_of(e))] if f.function is not None}

    def _nodes_that_need_gradients(self, forwards: list[Event]) -> set[Node]:
        """Every node of this source that something happens in that a no_grad around it would break or stop."""
        events = [e for e in forwards if e.context.grad is not False and _is_wanted(e)]
        events += [e for e in events_in_runs(self.models, "forward") if e.used & _TRAINS]
        events += events_in_runs(self.models, *_NEEDS_GRAD)
        starts = {f.site.node for e in events for f in frames_of(e)
                  if self._is_here(f.site)}
        found: set[Node] = set()
        for start in starts:
            found.add(start)
            found.update(self.tree.ancestors(start))
        return found

    def _is_here(self, site: v.Site) -> bool:
        return site.tree.module is self.tree.module

    def of(self, candidates: list[Event]) -> list[Wasted]:
        places: dict[Node, tuple[Event, Frame]] = {}
        for event in candidates:
            frame = self._home(event)
            frame = frame and self._around_the_loop(event, frame)
            if frame is not None and self._is_here(frame.site):
                places.setdefault(frame.site.node, (event, frame))
        self.wasted = candidates
        groups: dict[Node, list[tuple[Statement, Event, Frame]]] = {}
        for node, (event, frame) in places.items():
            outermost = self._outermost(node)
            block = self.tree.parent(outermost)
            if block is not None:
                groups.setdefault(block, []).append((outermost, event, frame))
        found = [region for block, members in groups.items() for region in self._merged(block, members)]
        return sorted(found, key=lambda region: self.tree.offsets(region.first.node))

    def _home(self, event: Event) -> Frame | None:
        """The lowest function that may lose its gradients for this forward: not a module's method, nor one
        that others call for the same forward with gradients off already, or wanting them."""
        others = self.fine.get(event.site.node, ())
        is_shared = False
        for frame in frames_of(event):
            function = frame.function
            if function is None:
                return None if is_shared else frame
            if self._is_bound_to_gradients(function):
                return None
            is_shared = any(f.function is not None and f.function.node is function.node
                            for other in others for f in frames_of(other))
            if is_shared or self._is_left_to_callers(frame, event):
                continue
            return None if self._is_needed_elsewhere(function, event) else frame
        return None

    def _is_bound_to_gradients(self, function: v.Function) -> bool:
        """Whether a function wants gradients, or does what nobody sees."""
        node = id(function.node)
        return node in self.wanting or node in self.cut or function.grad is True or function.opaque

    def _around_the_loop(self, event: Event, home: Frame) -> Frame:
        """The function that puts the module into eval mode and calls the home in a loop, or else the home's caller
        if it does that for another, as far as these may lose their gradients as well; else the home.

        That is the evaluation, the home only one turn of it.
        """
        frames = list(frames_of(event))
        place = [f.call for f in frames].index(home.call)
        looping: Frame | None = None
        for depth, frame in enumerate(frames[place:]):
            if frame.call is None or frame.function is None or not self._is_here(frame.site):
                break
            is_loop = self._is_in_loop(frame.site.node)
            if _is_mode_set_in(event, frame.call):
                looping = frame if is_loop else looping
                return looping if looping is not None and self._may_lose_gradients(looping, event) else home
            if is_loop and depth == 1 and not self._is_in_loop(home.site.node):
                looping = frame
        return home

    def _may_lose_gradients(self, frame: Frame, event: Event) -> bool:
        function = frame.function
        if function is None or self._is_bound_to_gradients(function) or self._is_left_to_callers(frame, event):
            return False
        return not self._is_needed_elsewhere(function, event)

    def _is_in_loop(self, node: Node) -> bool:
        """Whether a loop of the same function is around a node."""
        for above in self.tree.ancestors(node):
            if isinstance(above, cst.FunctionDef | cst.Lambda):
                return False
            if isinstance(above, cst.For | cst.While):
                return True
        return False

    def _is_needed_elsewhere(self, function: v.Function, event: Event) -> bool:
        """Whether another file calls the function where the same forward is no evaluation, or inside a module."""
        for other in reached_elsewhere(self.models[0], function):
            same = [e for e in other.events("forward", everywhere=True) if e.site.node is event.site.node]
            if not any(_is_wasted(e) for e in same) or any(e.used & _TRAINS for e in same):
                return True
        return False

    def _is_left_to_callers(self, frame: Frame, event: Event) -> bool:
        """Whether a module's method gives its output's graph to whoever calls it, seen or not."""
        owner = frame.function.owner if frame.function is not None else None
        if owner is None or not any(_is_module_class(base) for base in owner.external_bases):
            return False
        if frame.call is None or carries(frame.call.result, event):
            return True
        return frame.call.is_entry and not _is_mode_set_in(event, frame.call)

    def _outermost(self, node: Node) -> Statement:
        """The largest statement around a node that holds nothing which needs gradients.

        What a test guards is wrapped inside of the test, unless the whole function is.
        """
        statement = guarded = self.tree.statement(node)
        while True:
            above = self._statement_around(statement)
            if isinstance(above, cst.FunctionDef):
                return statement if above not in self.needing and not _yields(above.body) else guarded
            if above is None or isinstance(above, cst.ClassDef) or above in self.needing or _yields(above):
                return guarded
            if isinstance(above, cst.If) and _is_main_guard(above):
                return guarded
            statement = above
            guarded = guarded if isinstance(above, cst.If) else above

    def _statement_around(self, statement: Statement) -> Statement | None:
        block = self.tree.parent(statement)
        above = self.tree.parent(block) if block is not None else None
        return self.tree.statement(above) if above is not None else None

    def _merged(self, block: Node, members: list[tuple[Statement, Event, Frame]]) -> Iterator[Wasted]:
        """Neighbours in one block become one region, where nothing between them needs gradients."""
        body = list(getattr(block, "body", ()))
        runs: list[list[tuple[Statement, Event, Frame]]] = []
        members.sort(key=lambda member: (body.index(member[0]), self.tree.offsets(member[2].site.node)))
        for member in members:
            if runs and self._may_join(block, body, runs[-1][-1][0], member[0]):
                runs[-1].append(member)
            else:
                runs.append([member])
        for run in runs:
            first, last = body.index(run[0][0]), body.index(run[-1][0])
            site = v.Site(self.tree, run[0][2].site.node)
            proven = all(event.data.get("training") is False and not _pads_differently(event.subject)
                         and not event.used & _HANDED_OUT for _, event, _ in run)
            function = None if isinstance(body[first], cst.FunctionDef) else self._whole_function(block, body)
            if any(map(self._is_scripted, self.tree.ancestors(run[0][2].site.node))):
                yield Wasted(site, (), None, proven)
            elif function is not None and self._may_lose_graphs(body):
                yield Wasted(site, (tuple(body[first:last + 1]),), function, proven)
            else:
                yield Wasted(site, self._regions(body[first:last + 1], run), None, proven)

    def _is_scripted(self, node: Node) -> bool:
        """Whether TorchScript compiles what a node defines."""
        return any(id(node) in model.machine.scripted for model in self.models)

    def _may_lose_graphs(self, statements: Sequence[Statement]) -> bool:
        """Whether nothing but the wasted forwards loses its graph under a no_grad around the statements."""
        functions = [s for s in statements if isinstance(s, cst.FunctionDef)]  # whose body stands on the same line
        if any(leaves_with_a_graph(self.models, list(f.body.body), f, self.wasted) for f in functions):
            return False
        around = self.tree.ancestors(statements[0])
        scope = next(node for node in around if isinstance(node, cst.FunctionDef | cst.Module))
        return not leaves_with_a_graph(self.models, statements, scope, self.wasted)

    def _regions(self, statements: list[Statement],
                 run: list[tuple[Statement, Event, Frame]]) -> tuple[tuple[Statement, ...], ...]:
        """All of the statements, or of each that holds a wasted forward the largest part that may lose its graphs."""
        if self._may_lose_graphs(statements):
            return (tuple(statements),)
        parts: list[Statement] = []
        for outermost, _, frame in run:
            part = self._largest(frame.site.node, outermost)
            if part is None:
                return ()
            if not any(node in parts for node in (part, *self.tree.ancestors(part))):
                parts = [other for other in parts if part not in set(self.tree.ancestors(other))] + [part]
        joined: list[tuple[Statement, ...]] = []
        for part in parts:
            both = self._between(joined[-1], part) if joined else ()
            if both and self._may_lose_graphs(both):
                joined[-1] = both
            else:
                joined.append((part,))
        return tuple(joined)

    def _between(self, region: tuple[Statement, ...], last: Statement) -> tuple[Statement, ...]:
        """The region, a later statement of its block and all between them; nothing if it is in another block."""
        body = list(getattr(self.tree.parent(region[0]), "body", ()))
        return tuple(body[body.index(region[0]):body.index(last) + 1]) if last in body else ()

    def _largest(self, node: Node, outermost: Statement) -> Statement | None:
        found = None
        statement: Statement | None = self.tree.statement(node)
        while statement is not None and statement is not outermost:
            is_guard = isinstance(statement, cst.If) and found is not None
            if not is_guard and self._may_lose_graphs([statement]):
                found = statement
            statement = self._statement_around(statement)
        return found if found is not None or not self._may_lose_graphs([outermost]) else outermost

    def _may_join(self, block: Node, body: list[Statement], first: Statement, last: Statement) -> bool:
        between = body[body.index(first):body.index(last) + 1]
        if any(statement in self.needing or _yields(statement) for statement in between):
            return False
        if any(isinstance(statement, cst.FunctionDef) for statement in between):  # its body stands on the same line
            return first is last
        simple = all(isinstance(s, cst.SimpleStatementLine) for s in between)
        return first is last or simple or not isinstance(block, cst.Module)

    def _whole_function(self, block: Node, body: list[Statement]) -> cst.FunctionDef | None:
        function = self.tree.parent(block)
        if not isinstance(function, cst.FunctionDef) or any(s in self.needing or _yields(s) for s in body):
            return None
        return function


def _is_module_class(name: str) -> bool:
    return knowledge.is_subclass(name, "torch.nn.Module")


def _is_main_guard(node: cst.If) -> bool:
    test = node.test
    return isinstance(test, cst.Comparison) and isinstance(test.left, cst.Name) and test.left.value == "__name__"


def _yields(node: Node) -> bool:
    """Whether code yields; what a function does that is defined in it is no part of that."""
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if isinstance(here, cst.Yield):
            return True
        if not isinstance(here, cst.FunctionDef | cst.Lambda):
            waiting.extend(children(here))
    return False


def _pads_differently(module: v.Value | None, depth: int = 0) -> bool:
    """Whether a module holds torch's transformer encoder: without gradients it gives zeros for what is padded."""
    if isinstance(module, v.Union):
        return any(_pads_differently(option, depth) for option in module.options())
    if not isinstance(module, v.External | v.Instance) or depth > _DEEPEST:
        return False
    if isinstance(module, v.External) and module.name in _ENCODERS:
        return True
    return any(_pads_differently(part, depth + 1) for part in parts_of(module))
