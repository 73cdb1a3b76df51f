"""The Model of one source: what rules ask. It holds every event that the program's entries reach."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantics import values as v
from torchlint.semantics.calls import external_kind, initialise
from torchlint.semantics.containers import items_of, iterate
from torchlint.semantics.library import is_loader, is_module
from torchlint.semantics.linker import Linker, SharedBodies
from torchlint.semantics.machine import new_machine
from torchlint.semantics.names import names_in
from torchlint.semantics.project import Project
from torchlint.semantics.recording import Block, Context, Event
from torchlint.semantics.scopes import ModuleModel
from torchlint.semantics.values import Site
from torchlint.syntax.source import Source
from torchlint.syntax.tree import Tree

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter

TorchVersion = tuple[int, ...]
_FOREIGN_BUDGET = 250  # statements of other files that one source may run ...
_FOREIGN_PER_LINE = 0.5  # ... and more for a longer source
_STALE = 3
_MOST_LEADING = 16  # entries of one source that only lead to others: a model zoo has hundreds
_LEAST_BUDGET = 1_200  # statements that all entries of one source may run together ...
_BUDGET_PER_LINE = 1  # ... and more for a longer source
_FORWARD_SHARE = 1.5  # what was constructed within the budget is run forward within this much of it


class Model:
    """What torchlint knows of one source."""

    def __init__(
        self, tree: Tree, machine: Interpreter, module: ModuleModel, target_torch: TorchVersion | None = None
    ) -> None:
        self.tree = tree
        self.machine = machine
        self.module = module
        self.target_torch = target_torch
        self.entries: list[Block] = []
        self._nodes: dict[str, set[int]] = {}  # where events of a kind happen: see ``happens_at``
        self.callers: dict[str, list[Model] | str] = {}  # by name of a function: see ``callers``

    def site(self, node: cst.CSTNode) -> Site:
        """A node of this source."""
        return Site(self.tree, node)

    @functools.cached_property
    def all_events(self) -> list[Event]:
        """Every event, in this file or another, in the order of the entries."""
        return [event for entry in self.entries for event in entry.events()]

    @functools.cached_property
    def order(self) -> dict[Event, tuple[int, int]]:
        """Where each event stands: in which run, and there in which place."""
        return {event: (run, place) for run, entry in enumerate(self.entries)
                for place, event in enumerate(entry.events())}

    @functools.cached_property
    def _by_kind(self) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = {}
        for event in self.all_events:
            kind = _settled_kind(event)
            found.setdefault(kind, []).append(event)
        return found

    def events(self, *kinds: str, everywhere: bool = False) -> list[Event]:
        """The events of these kinds that happen in this file (or anywhere)."""
        found = [event for kind in kinds for event in self._by_kind.get(kind, ())]
        return found if everywhere else [event for event in found if event.site.tree is self.tree]

    def by_site(self, *kinds: str) -> Iterator[tuple[Site, list[Event]]]:
        """The events of these kinds in this file, all contexts of one place together."""
        groups: dict[tuple[int, int], list[Event]] = {}
        for event in self.events(*kinds):
            groups.setdefault(event.site.key, []).append(event)
        for group in groups.values():
            yield group[0].site, group

    def happens_at(self, kind: str, node: cst.CSTNode) -> bool:
        """Whether an event of that kind happens at a node of this file."""
        nodes = self._nodes.get(kind)
        if nodes is None:
            nodes = self._nodes[kind] = {id(event.site.node) for event in self.events(kind)}
        return id(node) in nodes

    @functools.cached_property
    def is_test(self) -> bool:
        """Whether the file is a unit test: it is named as pytest wants it and defines tests, or uses unittest."""
        name, text = self.module.path.name, self.tree.source.text
        named = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
        return (named and ("def test_" in text or "import pytest" in text)) or "unittest.TestCase" in text

    def draws_single_batch(self, loader: v.Value) -> bool:
        """Whether all that is seen of a loader's use is ``next(iter(loader))``."""
        drawn = any(event.subject is not None and event.subject.flow.loader is loader for event in
                    self.events("next", everywhere=True))
        loops = (loop for entry in self.entries for loop in entry.loops())
        return drawn and not any(_source_of(loop.iterable) is loader for loop in loops)


def _source_of(iterable: v.Value | None) -> v.Value | None:
    if iterable is None:
        return None
    return iterable if is_loader(iterable) else iterable.flow.loader


def _settled_kind(event: Event) -> str:
    """An event on a value whose kind only a later use proved."""
    if event.kind == "method" and isinstance(event.subject, v.Unknown):
        name = event.data.get("name", "")
        kind = event.subject.kind
        if kind in ("optimizer", "scheduler", "scaler") and name in ("step", "zero_grad", "unscale_", "update"):
            return "zero_grad" if name == "zero_grad" else f"{kind}_{name.strip('_')}"
    return event.kind


def build_model(project: Project, source: Source, path: Path, target_torch: TorchVersion | None = None,
                triggers: frozenset[str] | None = None, *, whole: bool = False) -> Model:
    """Run a source's entries and keep what they record. Raises what ``parse`` raises.

    ``triggers``: identifiers without which nobody will ask anything of a piece of code; None: anybody may.
    ``whole``: parse all of the source first. Else this raises WholeTreeNeeded where an outline cannot tell.
    """
    project.make_room()
    tree = project.adopt(path, source, whole=whole)
    return _run(project, tree, path, frozenset({path}), target_torch, triggers)


def model_of_caller(model: Model, path: Path, name: str) -> Model | None:
    """The model of another file of the project that calls ``name``, of a model's source; None if unreadable."""
    project = model.machine.project.project
    tree = project.tree(path)
    project.rests_on(path, project.asker)
    if tree is None:
        return None
    fresh = frozenset({path, model.module.path})
    triggers = model.machine.triggers  # and what calls that name matters as well
    return _run(project, tree, path, fresh, model.target_torch, None if triggers is None else triggers | {name})


def _run(project: Project, tree: Any, path: Path, fresh: frozenset[Path], target_torch: TorchVersion | None,
         triggers: frozenset[str] | None) -> Model:
    if project.last_machine is not None:
        project.last_machine.undo_all()
    if project.shared is None:
        project.shared = SharedBodies(project)
    linker = Linker(project, path, project.shared, fresh)
    machine = project.last_machine = new_machine(linker)
    machine.triggers = triggers
    machine.foreign_budget = _FOREIGN_BUDGET + int(_FOREIGN_PER_LINE * tree.source.text.count("\n"))
    module = linker.run(machine, path, tree)
    model = Model(tree, machine, module, target_torch)
    if module.body is not None:
        model.entries.append(module.body)
    Entries(machine, model).run()
    for other in linker.modules.values():
        if other is not module and other.body is not None:
            model.entries.append(other.body)
    return model


_RUN_BY_CONSTRUCTION = frozenset({"__init__", "__new__", "__init_subclass__", "__class_getitem__"})


class Entries:
    """Which pieces of a source are run, and in which order.

    The module's body and its main guard come first, then functions that nobody names, then what
    no one reached, users before what they use; last, modules that nobody called are run forward.
    """

    def __init__(self, machine: Interpreter, model: Model) -> None:
        self.machine = machine
        self.model = model
        self.module = model.module
        self.steps = 0
        self._leading = 0  # entries so far that only lead to others
        self._stale: dict[frozenset[str], int] = {}  # entries of a sort, in a row, that showed nothing new
        self.budget = max(_LEAST_BUDGET, _BUDGET_PER_LINE * model.tree.source.text.count("\n"))

    def run(self) -> None:
        for guard in self.module.mains:
            self._entry("main", guard, functools.partial(self.machine.execute, guard.body), keep=True)
        self._run_uncalled()
        self._run_templates()
        self._construct_unused()
        self._forward_uncalled()

    def _run_uncalled(self) -> None:
        """Run the functions that nothing has reached; then those that only these runs defined, and so on."""
        triggers = self.machine.triggers
        run: set[int] = set()
        while order := [function for function in self._in_order() if id(function.node) not in run]:
            if triggers is not None:  # what a rule may report in comes before what only leads there
                order.sort(key=lambda function: triggers.isdisjoint(names_in(function.node)))
            for function in order:
                node = id(function.node)
                if node not in run and self._remains(function):
                    self._run_function(function)
                run.add(node)

    def _run_templates(self) -> None:
        """Methods that call what a subclass defines anew are run for the subclass as well, unless a caller is seen."""
        for cls in self.module.classes:
            for function in self._inherited(cls):
                names = names_in(function.node)
                parts = (name for name, part in cls.attributes.items() if isinstance(part, v.Function))
                if not names.isdisjoint(parts) and self._remains(function):
                    self._run_function(function, cls)

    def _inherited(self, cls: v.Class) -> Iterator[v.Function]:
        """The methods that a class has from others of this file."""
        for base in cls.mro()[1:]:
            if isinstance(base, v.Class) and base.module is self.module:
                for name, function in base.attributes.items():
                    if isinstance(function, v.Function) and cls.find(name) is function and name != "forward" \
                            and name not in _RUN_BY_CONSTRUCTION:
                        yield function

    def _construct_unused(self) -> None:
        """Classes that nobody constructs are constructed once, with unknown arguments."""
        machine = self.machine
        for cls in self.module.classes:
            constructor = cls.attributes.get("__init__")
            if cls in machine.generic or not isinstance(constructor, v.Function):
                continue
            if self._remains(constructor):
                self._entry("receiver", cls.node, functools.partial(made_for, machine, cls), keep=True)

    @functools.cached_property
    def _relevant(self) -> frozenset[str]:
        """The triggers, and the functions and classes of this file that lead to one."""
        relevant = set(self.machine.triggers or ())
        relevant |= {cls.name for cls in self.module.classes
                     if any(not relevant.isdisjoint(names_in(base)) for base in cls.node.bases)}
        parts = {function: names_in(function.node) for function in self.module.functions}
        owned = {function: function.owner.name for function in parts if function.owner is not None}
        aliases = [(names_in(small.value), _targets(small)) for line in self.model.tree.module.body
                   if isinstance(line, cst.SimpleStatementLine) for small in line.body if isinstance(small, cst.Assign)]
        while True:
            more = {name for function, names in parts.items() if not relevant.isdisjoint(names)
                    for name in (function.name, owned.get(function, function.name))
                    if name != "forward" and not name.startswith("__")}  # these lead there by their class's name
            more |= {name for names, targets in aliases if not relevant.isdisjoint(names) for name in targets}
            more -= relevant
            if not more:
                return frozenset(relevant)
            relevant |= more

    def _remains(self, function: v.Function) -> bool:
        """Whether nothing has run a function yet, and there is reason and budget to."""
        return id(function.node) not in self.machine.reached and self.steps < self.budget and self._matters(function)

    def _matters(self, function: v.Function) -> bool:
        """Whether running a function that nobody calls may show a rule anything.

        Of functions that only lead to others, the first few of their sort do.
        """
        triggers = self.machine.triggers
        if triggers is None:
            return True
        names = names_in(function.node)
        if not triggers.isdisjoint(names):
            return True
        if self._relevant.isdisjoint(names):
            return False
        return self._leading < _MOST_LEADING and self._stale.get(self._sort(names), 0) < _STALE

    def _sort(self, names: frozenset[str]) -> frozenset[str]:
        return names & self._relevant

    def _entry(self, what: str, node: cst.CSTNode, run: Callable[[], object], *, keep: bool = False) -> None:
        machine = self.machine
        block = Block()
        self.model.entries.append(block)
        mark = machine.mark()
        machine.sharing = what == "function"
        context = Context(None, "entry", v.Site(self.model.tree, node), what)
        with machine.fresh(self.module.frame, context, block):
            machine.run_guarded(run)
            self.steps += machine.steps
        if not keep:
            machine.undo(mark)

    def _in_order(self) -> list[v.Function]:
        text = self.model.tree.source.text
        unnamed: list[v.Function] = []
        named: list[v.Function] = []
        for function in self.module.functions:
            if function.owner is not None and function.name in _RUN_BY_CONSTRUCTION:
                continue
            again = text.find(function.name, text.find(function.name) + 1) >= 0
            (named if again else unnamed).append(function)
        return [*unnamed, *reversed(named)]

    def _run_function(self, function: v.Function, cls: v.Class | None = None) -> None:
        """Run a function with unknown arguments; a method on an object of its class, or of that subclass."""
        machine = self.machine
        function = self._as_decorated(function)
        owner = cls or function.owner
        if owner is not None and owner not in machine.generic and not function.static:
            self._entry("receiver", owner.node, lambda: made_for(machine, owner), keep=True)

        def run() -> None:
            target = function
            arguments = v.Arguments()
            if owner is not None and owner in machine.generic and not function.static:
                target = function.bound_to(machine.generic[owner])
            if function.name == "forward" and function.owner is not None and target.receiver is not None \
                    and getattr(target.receiver, "external", None) == "module":
                machine.forwarded.add(id(target.receiver))
                machine.forwarding += 1
                try:
                    result = machine.follow(target, arguments, function.node, entry=True)
                finally:
                    machine.forwarding -= 1
            else:
                result = machine.follow(target, arguments, function.node, entry=True)
            machine.consume(result, function.node, "returned")
            v.mark_used(result, "returned")
            self._iterate_over(result)

        before = len(machine.modules), len(machine.containers)
        new = machine.habits.new
        names = names_in(function.node)
        self._leading += machine.triggers is not None and machine.triggers.isdisjoint(names)
        self._entry("function", function.node, run)
        sort = self._sort(names)
        self._stale[sort] = self._stale.get(sort, 0) + 1 if machine.habits.new == new else 0
        self._forward_uncalled(*before)

    def _iterate_over(self, result: v.Value) -> None:
        """A prefetcher that a function hands out is iterated over by somebody unknown."""
        parts = result.items if isinstance(result, v.Sequence) else [result]
        for value in [option for part in parts for option in part.options()]:
            if not isinstance(value, v.Instance) or is_module(value) or value.cls.find("__iter__") is None:
                continue
            if any(is_loader(option) for held in value.attributes.values() for option in held.options()):
                iterate(self.machine, value)

    def _as_decorated(self, function: v.Function) -> v.Function:
        """The function as its decorators left it."""
        frame = function.frame or self.module.frame
        names = function.owner.attributes if function.owner is not None else frame.names
        bound = names.get(function.name)
        return bound if isinstance(bound, v.Function) and bound.node is function.node else function

    def _forward_uncalled(self, modules: int = 0, containers: int = 0) -> None:
        """Modules and Sequentials that nobody calls are run once, their output taken by somebody unknown.

        The first ``modules`` and ``containers`` are left out: they were there before.
        """
        machine = self.machine
        for module in [*machine.modules[modules:], *machine.containers[containers:]]:
            if id(module) in machine.forwarded:
                continue
            if self.steps > self.budget * _FORWARD_SHARE and not _runs_no_code(module):
                continue
            node = self._forward_of(module)
            if node is None or not self._is_ours(module):
                continue

            def run(module: v.Value = module, node: cst.CSTNode = node) -> None:
                arguments = v.Arguments()
                arguments.positional = [v.Tensor()]
                if isinstance(module, v.Instance):
                    method = module.cls.find("forward")
                    if isinstance(method, v.Function):
                        machine.forwarded.add(id(module))
                        machine.forwarding += 1
                        try:
                            result = machine.follow(method.bound_to(module), v.Arguments(), method.node, entry=True)
                        finally:
                            machine.forwarding -= 1
                        machine.consume(result, method.node, "returned")
                        return
                result = machine.call(module, arguments, node)
                machine.consume(result, node, "returned")

            self._entry("uncalled", node, run)

    def _forward_of(self, module: v.Instance | v.External) -> cst.CSTNode | None:
        """Where a module's forward stands: its method, or where layers in a row are made; None without one."""
        method = module.cls.find("forward") if isinstance(module, v.Instance) else None
        if isinstance(method, v.Function):
            return method.node
        site = module.site
        here = site is not None and site.tree is self.model.tree
        return site.node if site is not None and here and items_of(module) is not None else None

    def _is_ours(self, module: v.Value) -> bool:
        if isinstance(module, v.Instance):
            if self.machine.triggers is not None and self._relevant.isdisjoint(names_in(module.cls.node)):
                return False
            return module.cls.module is self.module
        return isinstance(module, v.External) and module.site is not None and module.site.tree is self.model.tree


def _runs_no_code(module: v.Value) -> bool:
    """Whether a module is a row of the library's own layers: to run it forward takes no statement of anybody's."""
    items = items_of(module) if isinstance(module, v.External) else None
    return items is not None and all(isinstance(item, v.External) and items_of(item) is None
                                     for item in items.elements())


def _targets(assignment: cst.Assign) -> list[str]:
    return [target.target.value for target in assignment.targets if isinstance(target.target, cst.Name)]


def made_for(machine: Interpreter, cls: v.Class) -> v.Instance:
    """An object made with unknown arguments."""
    made = v.Instance(cls, v.Site(cls.module.tree, cls.node))
    made.external = external_kind(cls)
    made.is_generic = True
    machine.generic[cls] = made
    if made.external == "module":
        machine.modules.append(made)
    initialise(machine, made, v.Arguments(), cls.node, entry=True)
    return made
