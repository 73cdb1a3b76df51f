"""Linking: one run's view of the project's modules, and the bodies that all runs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantics import knowledge
from torchlint.semantics import values as v
from torchlint.semantics.attributes import Deferred, Lazy, ProjectModule
from torchlint.semantics.project import AnyTree, Project
from torchlint.semantics.recording import Block, Context
from torchlint.semantics.scopes import ModuleModel
from torchlint.syntax.suites import inside

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter

_MODULE_BUDGET = 4_000  # statements that importing one module may run
_LINK_DEPTH = 12  # imports inside each other


class Linker:
    """The modules that one run sees, each with its body run once.

    A body that does not rest on the run's own source is run on a machine of its own and shared by
    all runs over the project: importing is most of the work, and always comes to the same.
    """

    def __init__(self, project: Project, source: Path | None = None, shared: SharedBodies | None = None,
                 fresh: frozenset[Path] = frozenset()) -> None:
        self.project = project
        self.source = source
        self.fresh = fresh  # files whose bodies, and those that rest on them, are not shared
        self.shared = shared
        self.modules: dict[Path, ModuleModel] = {}
        self.rests_on: dict[Path, set[Path]] = {}
        self.default_device: str | None = "cpu"
        self._imported: dict[tuple[str, str], v.Value] = {}
        self._running: list[set[Path]] = []
        self._assigned: dict[int, dict[str, list[tuple[v.Function, Any]]]] = {}
        self._tried: set[tuple[int, int]] = set()

    def find(self, name: str, importer: ModuleModel, level: int = 0) -> Path | None:
        return self.project.find(name, importer.path, level)

    def asker(self, machine: Interpreter) -> str:
        """Who asks now: the module whose body everybody shares, or the check of a file."""
        return str(machine.frame.module.path) if self.shared is None else self.project.asker

    def load(self, machine: Interpreter, path: Path) -> ModuleModel | None:
        """The module at that path, its body run; None where there is none."""
        if machine.frame is not None:
            self.project.rests_on(path, str(machine.frame.module.path))
        found = self.modules.get(path)
        if found is None:
            found = self._loaded(machine, path)
        for needed in self._running:
            needed.add(path)
            needed |= self.rests_on.get(path, set())
        return found

    def _loaded(self, machine: Interpreter, path: Path) -> ModuleModel | None:
        if path.suffix != ".py":  # a namespace package
            return None
        if self.shared is not None:
            shared = self.shared.load(path)
            if shared is None:
                return None
            if self.fresh.isdisjoint(self.shared.linker.rests_on[path]):
                self.modules[path] = shared
                return shared
        if len(self._running) >= _LINK_DEPTH:
            return None
        # What all runs share outlives the tree of the file that is checked.
        tree = self.project.outline(path) if self.source is None else self.project.tree(path)
        return None if tree is None else self.run(machine, path, tree)

    def run(self, machine: Interpreter, path: Path, tree: AnyTree) -> ModuleModel:
        """Run a module's body in a frame of its own, whatever else is going on."""
        model = ModuleModel(path.stem, path, tree)
        self.modules[path] = model
        model.frame.names["__name__"] = v.Const(path.stem)
        model.body = Block()
        needed = self.rests_on[path] = {path}
        self._running.append(needed)
        with machine.fresh(model.frame, Context(None, "entry", v.Site(tree, tree.module), "module"), model.body,
                           _MODULE_BUDGET):
            machine.run_guarded(lambda: machine.execute(tree.module))
        self._running.pop()
        return model

    def imported(self, machine: Interpreter, module: str, name: str) -> v.Value:
        """What ``from module import name`` binds."""
        key = module, name
        found = self._imported.get(key)
        if found is None:
            self._imported[key] = v.Unknown(name)  # a cycle of imports ends here
            found = self._imported[key] = self._looked_up(machine, module, name)
        elif self._running:
            self.load(machine, Path(module))  # the running module rests on it all the same
        return found

    def _looked_up(self, machine: Interpreter, module: str, name: str) -> v.Value:
        model = self.load(machine, Path(module))
        found = model.frame.names.get(name) if model is not None else None
        if found is None and model is not None:
            found = self.starred(machine, model, name)
        if found is None:
            found = self.submodule(module, name)
        if found is None:
            return v.Unknown(name)
        return found.forced(machine) if isinstance(found, (Lazy, Deferred)) else found

    def starred(self, machine: Interpreter, model: ModuleModel, name: str) -> v.Value | None:
        """A name that a module has by ``from other import *``: only files that mention it are looked into."""
        for path in reversed(model.star_files):
            self.project.rests_on(path, str(model.path))
            if name.startswith("_") or name.encode() not in self.project.files.read(path):
                continue
            found = self.imported(machine, str(path), name)
            if not isinstance(found, v.Unknown):
                return found
        for library in reversed(model.stars):
            if name in knowledge.star_names(library):
                return v.Symbol(knowledge.canonical(f"{library}.{name}"))
        return None

    def classes_of(self, machine: Interpreter, module: v.Value) -> list[v.Value]:
        """The classes that a module of the project defines at its top."""
        model = self.load(machine, Path(module.path)) if isinstance(module, ProjectModule) else None
        names = model.frame.names.values() if model is not None else ()
        return [value for value in names if isinstance(value, v.Class) and value.module is model]

    def submodule(self, module: str, name: str) -> v.Value | None:
        """A module inside a package."""
        path = Path(module)
        if path.suffix == ".py" and path.name != "__init__.py":
            return None
        found = self.project.below(path.parent if path.name == "__init__.py" else path, [name], module)
        return None if found is None else ProjectModule(str(found))

    @property
    def is_running(self) -> bool:
        return bool(self._running)

    # --------------------------------------------------------- self.x, class-wide

    def assignments(self, cls: v.Class, name: str) -> int:
        """At how many places the class's methods assign ``self.name``."""
        return len(self._places(cls).get(name, ()))

    def is_written_in_place(self, cls: v.Class, name: str) -> bool:
        """Whether a method other than the constructor writes to what ``self.name`` holds: to an item, or by ``+=``."""
        places = self._places(cls)
        return any(function.name != "__init__" for function, node in places.get(f"{name}[]", ())) or any(
            function.name != "__init__" and isinstance(node, cst.AugAssign) for function, node in places.get(name, ()))

    def assigned_elsewhere(self, machine: Interpreter, value: v.Instance, name: str) -> v.Value | None:
        """``self.name`` where a method other than the constructor sets it: that method is run for it."""
        for function, _ in self._places(value.cls).get(name, ()):
            tried = id(value), id(function.node)
            if tried in self._tried or function.node in machine.active:
                continue
            self._tried.add(tried)
            machine.quiet += 1
            try:
                machine.follow(function.bound_to(value), v.Arguments(), function.node, entry=True)
            finally:
                machine.quiet -= 1
            if name in value.attributes:
                return value.attributes[name]
        return None

    def _places(self, cls: v.Class) -> dict[str, list[tuple[v.Function, Any]]]:
        found = self._assigned.get(id(cls))
        if found is None:
            found = {}
            for each in cls.mro():
                if isinstance(each, v.Class):
                    for function in each.attributes.values():
                        if isinstance(function, v.Function) and isinstance(function.node, cst.FunctionDef):
                            _self_assignments(function, found)
            self._assigned[id(cls)] = found
        return found


def _self_assignments(function: v.Function, found: dict[str, list[tuple[v.Function, Any]]]) -> None:
    """Where a method assigns attributes of its object, by name, and items of what they hold, by ``name[]``."""
    params = function.node.params.params
    if not params:
        return
    receiver = params[0].name.value
    waiting: list[Any] = [function.node.body]
    while waiting:
        node = waiting.pop()
        cls = node.__class__
        if cls is cst.Assign:
            targets = [t.target for t in node.targets]
        elif cls is cst.AugAssign or cls is cst.AnnAssign:
            targets = [node.target]
        else:
            waiting.extend(inside(node))
            continue
        for target in targets:
            parts = [e.value for e in target.elements] if isinstance(target, (cst.Tuple, cst.List)) else [target]
            for part in parts:
                held, mark = (part.value, "[]") if isinstance(part, cst.Subscript) else (part, "")
                if isinstance(held, cst.Attribute) and isinstance(held.value, cst.Name) \
                        and held.value.value == receiver:
                    found.setdefault(held.attr.value + mark, []).append((function, node))


class SharedBodies:
    """The module bodies that were run for everybody, on one machine that runs nothing else."""

    def __init__(self, project: Project) -> None:
        from torchlint.semantics.machine import new_machine

        self.linker = Linker(project)
        self.machine = new_machine(self.linker)

    def load(self, path: Path) -> ModuleModel | None:
        found = self.linker.load(self.machine, path)
        if not self.linker.is_running:
            self.machine.journal.clear()
        return found
