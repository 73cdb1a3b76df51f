"""The generated tables: modules with their names, alias modules, bases; built from live modules."""

from __future__ import annotations

import inspect
import types
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module

Describe = Callable[[str, str, object], str]
NAMED = (type, types.FunctionType, types.BuiltinFunctionType)


@dataclass
class Table:
    """What one package's JSON holds; see torchlint/semantics/knowledge.py for how it is read."""

    package: str
    version: str
    modules: dict[str, dict[str, str]] = field(default_factory=dict)
    unstarred: dict[str, list[str]] = field(default_factory=dict)
    aliases: dict[str, list[str]] = field(default_factory=dict)
    bases: dict[str, list[str]] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """Plain data, lists joined by blanks to keep the file small."""
        return {
            "package": self.package,
            "version": self.version,
            "modules": {name: dict(sorted(names.items())) for name, names in sorted(self.modules.items())},
            "unstarred": {name: " ".join(names) for name, names in sorted(self.unstarred.items()) if names},
            "aliases": {name: " ".join(names) for name, names in sorted(self.aliases.items())},
            "subclasses": {bases: " ".join(sorted(names)) for bases, names in sorted(self._subclasses().items())},
        }

    def _subclasses(self) -> dict[str, list[str]]:
        grouped: dict[str, list[str]] = {}
        for name, bases in self.bases.items():
            grouped.setdefault(" ".join(bases), []).append(name)
        return grouped


def is_named(value: object) -> bool:
    """Whether this is a class or function, numpy's dispatched ones included."""
    return isinstance(value, NAMED) or type(value).__name__ == "_ArrayFunctionDispatcher"


def defined_as(value: object) -> str:
    """The name under which a class or function was defined, or ""."""
    if not is_named(value):
        return ""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    return f"{module}.{name}" if isinstance(module, str) and isinstance(name, str) and "<" not in name else ""


class Builder:
    """Walks the public modules of one package, first come first named, and describes what they hold."""

    def __init__(
        self,
        table: Table,
        describe: Describe,
        starred: set[str],
        own: Callable[[str, str], bool],
        preferred: dict[str, object],
    ) -> None:
        self.table = table
        self.describe = describe
        self.starred = starred  # modules of which every bound name is kept, since scripts import them by a star
        self.keep = own  # names that are not aliases even where another module holds the same object
        self.named: dict[int, str] = {id(value): name for name, value in preferred.items()}
        self.alive: list[object] = list(preferred.values())

    def walk(self, names: list[str]) -> None:
        """Describe all public modules, then the modules in which their contents were defined, then bases."""
        modules = {name: import_module(name) for name in names}
        for name, module in modules.items():
            # first those bound under their own name, so that numpy.float64 does not become numpy.double
            for attribute in sorted(public(module), key=partial(_renamed, module)):
                self._name(name, attribute, getattr(module, attribute))
        for name, module in modules.items():
            self._describe_module(name, module)
        self._alias_modules(set(modules))
        self._add_bases()

    def _name(self, module: str, attribute: str, value: object) -> None:
        if not is_named(value) or self.keep(module, attribute):
            return
        origin = defined_as(value)
        if isinstance(value, (type, types.FunctionType)) and not origin.startswith(self.table.package + "."):
            return
        if id(value) not in self.named:
            self.named[id(value)] = f"{module}.{attribute}"
            self.alive.append(value)

    def _describe_module(self, name: str, module: types.ModuleType) -> None:
        starred = set(getattr(module, "__all__", public(module)))
        entries = self.table.modules.setdefault(name, {})
        for attribute in sorted(set(public(module)) | {n for n in starred if hasattr(module, n)}):
            entry = self._entry(name, attribute, getattr(module, attribute))
            listed = name in self.starred or attribute in getattr(module, "__all__", ())
            if listed or self._at_home(name, attribute, module):
                entries[attribute] = entry
        self.table.unstarred[name] = sorted(set(entries) - starred)

    def _at_home(self, name: str, attribute: str, module: types.ModuleType) -> bool:
        value = getattr(module, attribute)
        if isinstance(value, types.ModuleType):
            return value.__name__ == f"{name}.{attribute}"
        return self.named.get(id(value)) == f"{name}.{attribute}" or isinstance(value, (bool, int, float, str))

    def _entry(self, module: str, attribute: str, value: object) -> str:
        own = f"{module}.{attribute}"
        if isinstance(value, types.ModuleType):
            hidden = f"{self.table.package}._" in value.__name__
            return "module" if value.__name__ == own or hidden else f"= {value.__name__}"
        if not self.keep(module, attribute):
            named = self.named.get(id(value), "")
            if named and named != own:
                return f"= {named}"
            origin = defined_as(value)
            if not named and isinstance(value, (type, types.FunctionType)) and origin:
                if not origin.startswith(self.table.package + "."):
                    return f"= {origin.removeprefix('builtins.')}"
        return self.describe(module, attribute, value)

    def _alias_modules(self, public_modules: set[str]) -> None:
        targets: dict[str, Counter[str]] = {}
        for value in self.alive:
            origin, named = defined_as(value), self.named[id(value)]
            home, _, name = origin.rpartition(".")
            if home in public_modules or named.rpartition(".")[2] != name or not reachable(home):
                continue
            targets.setdefault(home, Counter())[named.rpartition(".")[0]] += 1
        for home, counted in targets.items():
            above = [target for target, _ in counted.most_common() if home.startswith((f"{target}.", "torch._C"))]
            if above:
                self.table.aliases[home] = above
                self._check_alias(home)

    def _check_alias(self, home: str) -> None:
        """Where a private module holds another object under a public name, say so by an entry of its own."""
        module = import_module(home)
        for target in self.table.aliases[home]:
            for name in self.table.modules[target]:
                value, other = getattr(module, name, None), getattr(import_module(target), name)
                if value is not None and value is not other:
                    self.table.modules.setdefault(home, {})[name] = self._entry(home, name, value)

    def _add_bases(self) -> None:
        waiting = [value for value in self.alive if isinstance(value, type) and self._has_kind(value)]
        while waiting:
            value = waiting.pop()
            name = self.class_name(value)
            bases = [base for base in value.__bases__ if base.__module__.split(".")[0] == self.table.package]
            if bases and name not in self.table.bases:
                self.table.bases[name] = [self.class_name(base) for base in bases]
                waiting += bases

    def _has_kind(self, value: type) -> bool:
        module, _, name = self.class_name(value).rpartition(".")
        return not self.table.modules[module][name].startswith("class unknown")

    def class_name(self, value: type) -> str:
        """The canonical name of a class of this package."""
        return self.named.get(id(value), defined_as(value))


def _renamed(module: types.ModuleType, attribute: str) -> bool:
    value = getattr(module, attribute)
    return is_named(value) and getattr(value, "__name__", "") != attribute


def public(module: types.ModuleType | type) -> list[str]:
    """Names without a leading underscore that the module holds."""
    return [name for name in dir(module) if not name.startswith("_")]


def reachable(name: str) -> bool:
    """Whether this is an importable module (and not, say, a class's inside)."""
    try:
        return inspect.ismodule(import_module(name))
    except Exception:
        return False
