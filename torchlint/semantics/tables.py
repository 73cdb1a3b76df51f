"""Reading the tables in `data/`: one package at a time, when its first name is asked for.

`knowledge` is the public face; nothing else should import this module. Nothing here imports torch. The records are
named tuples: a frozen dataclass takes ten times as long to define, and start-up time counts.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

Kind = str
Names = dict[str, str]

NOTHING: Names = {}
NO_DEFAULTS: Mapping[str, Any] = {}
_DATA = Path(__file__).parent / "data"
_FILES = {"torch": "torch.json", "numpy": "numpy.json", "torchvision": "torchvision.json"}
_LIBRARIES = _DATA / "libraries"  # hand-kept, one file a package; they may add to a generated table too


class Condition(NamedTuple):
    """The result is `returns` when `parameter` is given."""

    parameter: str
    position: int | None
    shared: bool
    returns: Kind


class Signature(NamedTuple):
    """The parameters and results of one entry."""

    returns: Kind
    returns_when: tuple[Condition, ...] = ()
    params: tuple[str, ...] = ()
    keyword_only: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = NO_DEFAULTS
    flags: frozenset[str] = frozenset()


class Fact(NamedTuple):
    """What the hand-kept files add to a name."""

    returns: str | None = None
    dtype: str | None = None
    flags: frozenset[str] = frozenset()


class Package(NamedTuple):
    """One package: its modules' names, which of them a star leaves out, alias modules, base classes, history."""

    name: str
    version: str | None
    modules: dict[str, Names]
    unstarred: dict[str, frozenset[str]]
    aliases: dict[str, list[str]]
    bases: dict[str, tuple[str, ...]]
    changes: dict[str, dict[str, str]]
    facts: dict[str, Fact]

    def entry(self, name: str) -> str | None:
        """The text that describes a canonical name."""
        head, _, last = name.rpartition(".")
        found = self.modules.get(head, NOTHING).get(last)
        return "module" if found is None and name in self.modules else found


@lru_cache(64)
def read(name: str) -> Any:
    """The content of one data file; callers must not change it."""
    return json.loads((_DATA / name).read_bytes())


@lru_cache(1)
def _libraries() -> frozenset[str]:
    return frozenset(path.stem for path in _LIBRARIES.glob("*.json"))


@lru_cache(1 << 16)
def package_of(qname: str) -> Package | None:
    """The table that would hold this name."""
    root = qname.partition(".")[0]
    return _package(root) if root in _FILES or root in _libraries() else None


@lru_cache(64)
def _package(root: str) -> Package:
    sources = [read(_FILES[root])] if root in _FILES else []
    if root in _libraries():
        sources.append(read(f"libraries/{root}.json"))
    modules: dict[str, Names] = {}
    bases: dict[str, tuple[str, ...]] = {}
    aliases: dict[str, list[str]] = {}
    unstarred: dict[str, frozenset[str]] = {}
    for source in sources:
        for module, names in source["modules"].items():
            modules.setdefault(module, {}).update(names)
        for parents, names in source["subclasses"].items():
            bases.update(dict.fromkeys(names.split(), tuple(parents.split())))
        aliases |= {module: targets.split() for module, targets in source["aliases"].items()}
        unstarred |= {module: frozenset(names.split()) for module, names in source.get("unstarred", NOTHING).items()}
    changes = {change["name"]: change for change in read("history.json")["changes"] if _root(change["name"]) == root}
    for name, change in changes.items():
        head, _, last = name.rpartition(".")
        text = f"= {change['of']}" if "of" in change else change.get("entry")
        if text:
            modules.setdefault(head, {})[last] = text
    version = sources[0].get("version")
    return Package(root, version, modules, unstarred, aliases, bases, changes, _facts(root, modules))


def _facts(root: str, modules: dict[str, Names]) -> dict[str, Fact]:
    facts: dict[str, Fact] = {}
    for group, name in _named_groups(root, modules):
        fact = facts.get(name, Fact())
        facts[name] = Fact(
            group.get("returns", fact.returns),
            group.get("dtype", fact.dtype),
            fact.flags | set(group.get("flags", "").split()),
        )
    return facts


def _named_groups(root: str, modules: dict[str, Names]) -> Iterator[tuple[dict[str, str], str]]:
    for group in read("facts.json")["groups"]:
        if _root(group["in"]) == root:
            yield from ((group, f"{group['in']}.{name}") for name in group["names"].split())
    if root == "torch":  # torch.argmax(x) is what x.argmax() is
        for group in read("methods.json")["flags"]["tensor"]:
            for name in group["names"].split():
                if modules["torch"].get(name, "").startswith("def "):
                    yield {"flags": group["flags"]}, f"torch.{name}"


def _root(qname: str) -> str:
    return qname.partition(".")[0]


@lru_cache(1)
def methods() -> dict[str, Names]:
    """Kind → method name → entry."""
    tables: dict[str, Names] = read("methods.json")["methods"]
    return {**tables, "tensor": {**read("tensor_methods.json"), **tables["tensor"]}}


@lru_cache(64)
def method_flags(kind: Kind) -> dict[str, frozenset[str]]:
    """Method name → flags."""
    collected: dict[str, frozenset[str]] = {}
    for group in read("methods.json")["flags"].get(kind, ()):
        for name in group["names"].split():
            collected[name] = collected.get(name, frozenset()) | set(group["flags"].split())
    return collected


def parse_signature(text: str, results: str | None = None) -> Signature:
    """Read `returns; parameter@1?: returns (parameters) #flag`; `results` replaces what stands before the bracket."""
    text, *flags = text.split(" #")
    written, _, parameters = text.partition(" (")
    usual, *others = (results or written).split("; ")
    positional: list[str] = []
    named: list[str] = []
    defaults: dict[str, Any] = {}
    into = positional
    for part in _split(parameters.removesuffix(")")):
        name, _, default = part.partition("=")
        if name.startswith("**"):
            continue
        if name.startswith("*"):
            into = named
            continue
        into.append(name)
        if default and default != "...":
            defaults[name] = ast.literal_eval(default)
    return Signature(usual, tuple(map(_condition, others)), tuple(positional), tuple(named), defaults, frozenset(flags))


def _split(parameters: str) -> list[str]:
    """Split at the commas between parameters; a default may be a tuple or a list."""
    parts: list[str] = []
    for piece in parameters.split(", "):
        last = parts[-1] if parts else ""
        if last.count("(") + last.count("[") > last.count(")") + last.count("]"):
            parts[-1] += f", {piece}"
        elif piece:
            parts.append(piece)
    return parts


def _condition(text: str) -> Condition:
    parameter, _, returns = text.partition(": ")
    name, _, place = parameter.partition("@")
    position = int(place.rstrip("?")) if place else None
    return Condition(name, position, place.endswith("?"), returns)
