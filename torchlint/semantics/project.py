"""The project's files: which module a name means, parsed when somebody asks for it, and once only."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantics import knowledge
from torchlint.semantics import values as v
from torchlint.semantics.attributes import ProjectModule
from torchlint.semantics.recording import Block, Context
from torchlint.semantics.scopes import ModuleModel
from torchlint.syntax.source import SourceError, read_source
from torchlint.syntax.tree import ParserLimit, Tree, parse

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter

_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__", "build", "dist", "venv"})
_LARGEST_LINKED = 400_000  # bytes; a larger file is generated, not written
_MODULE_BUDGET = 4_000  # statements that importing one module may run
_LINK_DEPTH = 12  # imports inside each other


class Project:
    """A folder of Python files that import each other. Trees are shared by all runs over the project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._trees: dict[Path, Tree | None] = {}
        self._listings: dict[Path, frozenset[str]] = {}
        self._texts: dict[Path, bytes] = {}
        self._found: dict[tuple[str, Path, int], Path | None] = {}

    # -------------------------------------------------------------------- files

    def tree(self, path: Path) -> Tree | None:
        """The parsed file; None where it cannot be read or parsed."""
        if path not in self._trees:
            self._trees[path] = None
            try:
                if path.stat().st_size <= _LARGEST_LINKED:
                    self._trees[path] = parse(read_source(path, shown_path(path)))
            except (OSError, SourceError, ParserLimit):
                pass
        return self._trees[path]

    def text(self, path: Path) -> bytes:
        """The file's bytes, to search for a name in; b"" where it cannot be read. Kept, since many names are asked for."""
        found = self._texts.get(path)
        if found is None:
            try:
                found = path.read_bytes()
            except OSError:
                found = b""
            self._texts[path] = found
        return found

    def adopt(self, path: Path, tree: Tree) -> None:
        """Use this tree for the file, whatever is on disk (an editor's text, stdin)."""
        self._trees[path] = tree

    def listing(self, folder: Path) -> frozenset[str]:
        found = self._listings.get(folder)
        if found is None:
            try:
                found = frozenset(os.listdir(folder))
            except OSError:
                found = frozenset()
            self._listings[folder] = found
        return found

    @functools.cached_property
    def files(self) -> list[Path]:
        """Every Python file below the root."""
        return sorted(self._walk(self.root))

    def _walk(self, folder: Path) -> Iterator[Path]:
        for here, folders, names in os.walk(folder):
            folders[:] = [f for f in folders if not f.startswith(".") and f not in _SKIPPED]
            for name in names:
                if name.endswith(".py"):
                    yield Path(here, name)

    @functools.cached_property
    def _by_stem(self) -> dict[str, list[Path]]:
        index: dict[str, list[Path]] = {}
        for path in self.files:
            stem = path.parent.name if path.name == "__init__.py" else path.stem
            index.setdefault(stem, []).append(path)
        return index

    # ------------------------------------------------------------------ imports

    def find(self, name: str, importer: Path, level: int = 0) -> Path | None:
        """The file (or package folder) that an import means; None where it lies outside of the project."""
        key = name, importer.parent, level
        if key not in self._found:
            self._found[key] = self._find(name, importer, level)
        return self._found[key]

    def _find(self, name: str, importer: Path, level: int) -> Path | None:
        parts = name.split(".") if name else []
        if level:
            base = importer.parent
            for _ in range(level - 1):
                base = base.parent
            return self._below(base, parts) if parts else self._package(base)
        top = parts[0]
        for base in [importer.parent, *importer.parent.parents]:
            found = self._below(base, parts) if self._holds(base, top) else None
            if found is not None and found != importer:
                return found
            if base == self.root or self.root not in base.parents:
                break
        if top in sys.stdlib_module_names or knowledge.exists(top):
            return None
        for folder in ("src", "lib"):
            if folder in self.listing(self.root):
                found = self._below(self.root / folder, parts)
                if found is not None:
                    return found
        return self._by_suffix(parts)

    def _by_suffix(self, parts: list[str]) -> Path | None:
        """Scripts that edit ``sys.path``: the only file whose path ends so."""
        tail = "/" + "/".join(parts)
        found = [p for p in self._by_stem.get(parts[-1], ())
                 if (p.parent if p.name == "__init__.py" else p.with_suffix("")).as_posix().endswith(tail)]
        return found[0] if len(found) == 1 else None

    def _holds(self, folder: Path, name: str) -> bool:
        listing = self.listing(folder)
        return f"{name}.py" in listing or name in listing

    def _below(self, base: Path, parts: list[str]) -> Path | None:
        for part in parts[:-1]:
            base = base / part
        last = parts[-1]
        listing = self.listing(base)
        if last in listing:
            package = self._package(base / last)
            if package is not None and (package.name == "__init__.py" or f"{last}.py" not in listing):
                return package
        return base / f"{last}.py" if f"{last}.py" in listing else None

    def _package(self, folder: Path) -> Path | None:
        listing = self.listing(folder)
        if "__init__.py" in listing:
            return folder / "__init__.py"
        return folder if any(n.endswith(".py") for n in listing) else None


@functools.lru_cache(4096)
def shown_path(path: Path) -> str:
    """A path as the user reads it: relative to the working directory below it."""
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


class Linker:
    """One run's view of the project: the modules it has run, each in its own frame."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.modules: dict[Path, ModuleModel] = {}
        self.default_device: str | None = "cpu"
        self._assigned: dict[int, dict[str, list[tuple[v.Function, Any]]]] = {}
        self._tried: set[tuple[int, int]] = set()
        self._depth = 0

    def find(self, name: str, importer: ModuleModel, level: int = 0) -> Path | None:
        return self.project.find(name, importer.path, level)

    def load(self, machine: Interpreter, path: Path) -> ModuleModel | None:
        """The module at that path, its body run; None where there is none."""
        found = self.modules.get(path)
        if found is not None:
            return found
        if path.suffix != ".py":  # a namespace package
            return None
        tree = self.project.tree(path) if self._depth < _LINK_DEPTH else None
        if tree is None:
            return None
        return self.run(machine, path, tree)

    def run(self, machine: Interpreter, path: Path, tree: Tree) -> ModuleModel:
        """Run a module's body in a frame of its own, whatever else is going on."""
        model = ModuleModel(path.stem, path, tree)
        model.is_package = path.name == "__init__.py"
        self.modules[path] = model
        model.state = "running"
        model.frame.names["__name__"] = v.Const(path.stem)
        model.body = Block()
        self._depth += 1
        with machine.fresh(model.frame, Context(None, "entry", v.Site(tree, tree.module), "module"), model.body,
                           _MODULE_BUDGET):
            machine.run_guarded(lambda: machine.execute(tree.module))
        self._depth -= 1
        model.state = "done"
        return model

    def imported(self, machine: Interpreter, module: str, name: str) -> v.Value:
        """What ``from module import name`` binds."""
        path = Path(module)
        model = self.load(machine, path)
        found = model.frame.names.get(name) if model is not None else None
        if found is not None:
            return found
        inner = self.submodule(machine, module, name)
        if inner is not None:
            return inner
        if model is not None:
            for library in model.stars:
                if name in knowledge.star_names(library):
                    return v.Symbol(knowledge.canonical(f"{library}.{name}"))
        return v.Unknown(name)

    def classes_of(self, machine: Interpreter, module: v.Value) -> list[v.Value]:
        """The classes that a module of the project defines at its top."""
        assert isinstance(module, ProjectModule)
        model = module.load()
        names = model.frame.names.values() if model is not None else ()
        return [value for value in names if isinstance(value, v.Class) and value.module is model]

    def submodule(self, machine: Interpreter, module: str, name: str) -> v.Value | None:
        """A module inside a package."""
        path = Path(module)
        folder = path.parent if path.name == "__init__.py" else path
        if path.suffix == ".py" and path.name != "__init__.py":
            return None
        found = self.project._below(folder, [name])
        if found is None:
            return None
        return ProjectModule(str(found), lambda: self.load(machine, found))

    # --------------------------------------------------------- self.x, class-wide

    def assignments(self, cls: v.Class, name: str) -> int:
        """At how many places the class's methods assign ``self.name``."""
        return len(self._places(cls).get(name, ()))

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
            if cls in _NESTED:
                waiting.extend(_NESTED[cls](node))
            continue
        for target in targets:
            parts = [e.value for e in target.elements] if isinstance(target, cst.Tuple | cst.List) else [target]
            for part in parts:
                if isinstance(part, cst.Attribute) and isinstance(part.value, cst.Name) \
                        and part.value.value == receiver:
                    found.setdefault(part.attr.value, []).append((function, node))


_NESTED: dict[type, Any] = {
    cst.IndentedBlock: lambda n: n.body,
    cst.SimpleStatementSuite: lambda n: n.body,
    cst.SimpleStatementLine: lambda n: n.body,
    cst.For: lambda n: [n.body, *([n.orelse] if n.orelse else [])],
    cst.While: lambda n: [n.body],
    cst.With: lambda n: [n.body],
    cst.If: lambda n: [n.body, *([n.orelse] if n.orelse else [])],
    cst.Else: lambda n: [n.body],
    cst.Try: lambda n: [n.body, *(h.body for h in n.handlers), *(p.body for p in (n.orelse, n.finalbody) if p)],
}

