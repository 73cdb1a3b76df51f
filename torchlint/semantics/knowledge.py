"""What torchlint knows of torch, numpy and their neighbours: look-ups over the tables in `data/`.

Nothing here imports torch. A package's table is read when its first name is asked for, and every answer is cached,
so a look-up costs one dictionary access. A name that no table holds is unknown: it stays itself.

An entry of a table reads `category returns[; parameter: returns]… (signature)`, or `= other.name` for an alias::

    "max": "def tensor; dim@1?: tuple[tensor,tensor] (input, *, out=None, other=..., dim=..., keepdim=False)"

`dim@1?: …` says: when `dim` is given, by keyword or as positional argument 1, the result is another one; the
question mark says that another overload has another parameter in that place, so only a number proves it.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent / "data"
_FILES = {"torch": "torch.json", "numpy": "numpy.json"}
_LONGEST = 16  # parts of a qualified name; nothing real is longer
_CACHED = 1 << 16

Kind = str


@dataclass(frozen=True, slots=True)
class Condition:
    """The result is `returns` when `parameter` is given."""

    parameter: str
    position: int | None
    shared: bool
    returns: Kind


@dataclass(frozen=True, slots=True)
class Api:
    """One known name."""

    name: str
    category: str
    returns: Kind
    params: tuple[str, ...] = ()
    keyword_only: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    returns_when: tuple[Condition, ...] = ()
    flags: frozenset[str] = frozenset()
    dtype: str | None = None
    since: str | None = None
    deprecated: str | None = None
    removed: str | None = None
    replacement: str | None = None

    def accepts(self, name: str) -> bool:
        """Whether a parameter of this name is known."""
        return name in self.params or name in self.keyword_only

    def position(self, name: str) -> int | None:
        """The place of a positional parameter."""
        return self.params.index(name) if name in self.params else None

    def returned(self, positional: Sequence[Kind], keywords: Collection[str]) -> Kind:
        """The kind of the result of a call with these arguments (kinds of the positional ones, names of the rest)."""
        return _returned(self.returns, self.returns_when, positional, keywords)


@dataclass(frozen=True, slots=True)
class Method:
    """One method (or attribute) of a kind of value."""

    name: str
    returns: Kind
    params: tuple[str, ...] = ()
    keyword_only: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    returns_when: tuple[Condition, ...] = ()
    flags: frozenset[str] = frozenset()

    def returned(self, positional: Sequence[Kind], keywords: Collection[str]) -> Kind:
        """The kind of the result of a call with these arguments."""
        return _returned(self.returns, self.returns_when, positional, keywords)


def _returned(
    usual: Kind, conditions: tuple[Condition, ...], positional: Sequence[Kind], keywords: Collection[str]
) -> Kind:
    for condition in conditions:
        if condition.parameter in keywords:
            return condition.returns
        place = condition.position
        if place is None or place >= len(positional):
            continue
        if not condition.shared or positional[place] in ("number", "string"):
            return condition.returns
        if positional[place] == "unknown":
            return "unknown"
    return usual


# names


@lru_cache(_CACHED)
def canonical(qname: str) -> str:
    """The documented name of what `qname` names; an unknown name is returned as it is."""
    head, _, name = qname.rpartition(".")
    table = _table(qname)
    if not head or table is None or qname.count(".") > _LONGEST:
        return qname
    entry = table.modules.get(head, _NOTHING).get(name)
    if entry is not None:
        return canonical(entry[2:]) if entry.startswith("= ") else qname
    for target in table.aliases.get(head, ()):
        if name in table.modules[target]:
            return canonical(f"{target}.{name}")
    parent = canonical(head)
    return qname if parent == head else canonical(f"{parent}.{name}")


@lru_cache(_CACHED)
def api(qname: str) -> Api | None:
    """What is known of this name (any alias of it)."""
    name = canonical(qname)
    entry = _entry(name)
    if entry is None:
        return None
    category, _, rest = entry.partition(" ")
    if category == "module":
        return Api(name, "module", "unknown")
    words = {"def": "function", "class": "class", "constant": "constant"}
    if category == "constant":
        return Api(name, "constant", rest, flags=_flags("names").get(name, frozenset()))
    returns, conditions, params, named, defaults = _parsed(rest)
    return Api(
        name, words[category], returns, params, named, defaults, conditions, _flags("names").get(name, frozenset())
    )


def exists(qname: str) -> bool:
    """Whether the name is known to be there; False only says that the tables do not hold it."""
    table = _table(qname)
    return table is not None and (qname == table.package or _entry(canonical(qname)) is not None)


@lru_cache(1024)
def star_names(module: str) -> tuple[str, ...]:
    """The names that `from module import *` binds, () when the module is unknown."""
    table = _table(module)
    if table is None:
        return ()
    name = canonical(module)
    return tuple(sorted(table.modules.get(name, _NOTHING).keys() - table.unstarred.get(name, frozenset())))


# classes


@lru_cache(_CACHED)
def bases(qname: str) -> tuple[str, ...]:
    """The direct base classes, canonical; () when none is known."""
    table = _table(qname)
    return table.bases.get(canonical(qname), ()) if table else ()


@lru_cache(_CACHED)
def is_subclass(qname: str, base: str) -> bool:
    """Whether the class is `base` or is known to derive from it."""
    name, wanted = canonical(qname), canonical(base)
    return name == wanted or any(is_subclass(parent, wanted) for parent in bases(name))


@lru_cache(_CACHED)
def method(owner: str, name: str) -> Method | None:
    """A method of a kind ("tensor") or of a class ("torch.nn.Conv2d"; then its instances' kind decides)."""
    tables = _methods()
    kind = owner
    if "." in owner:
        known = api(owner)
        kind = known.returns if known and known.category == "class" else "unknown"
    entry = tables.get(kind, _NOTHING).get(name)
    if entry is None and kind == "parameter":
        return method("tensor", name)
    if entry is None:
        return None
    returns, conditions, params, named, defaults = _parsed(entry)
    flags = _flags(kind).get(name, frozenset())
    if kind == "tensor" and name.endswith("_") and not name.endswith("__"):
        flags |= {"in_place"}
    return Method(name, returns, params, named, defaults, conditions, flags)


# tables


@dataclass(frozen=True, slots=True)
class _Table:
    package: str
    version: str
    modules: dict[str, dict[str, str]]
    unstarred: dict[str, frozenset[str]]
    aliases: dict[str, list[str]]
    bases: dict[str, tuple[str, ...]]


_NOTHING: dict[str, str] = {}


def version(package: str) -> str | None:
    """The version of the package that its table was made from."""
    table = _table(package)
    return table.version if table else None


def _read(name: str) -> Any:
    return json.loads((_DATA / name).read_bytes())


def _table(qname: str) -> _Table | None:
    return _package(qname.partition(".")[0])


@lru_cache(4096)
def _package(name: str) -> _Table | None:
    if name not in _FILES:
        return None
    data = _read(_FILES[name])
    bases: dict[str, tuple[str, ...]] = {}
    for parents, names in data["subclasses"].items():
        bases.update(dict.fromkeys(names.split(), tuple(parents.split())))
    unstarred = {module: frozenset(names.split()) for module, names in data["unstarred"].items()}
    aliases = {module: targets.split() for module, targets in data["aliases"].items()}
    return _Table(data["package"], data["version"], data["modules"], unstarred, aliases, bases)


def _entry(name: str) -> str | None:
    table = _table(name)
    if table is None:
        return None
    if name in table.modules:
        return "module"
    head, _, last = name.rpartition(".")
    return table.modules.get(head, _NOTHING).get(last)


@lru_cache(1)
def _methods() -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = _read("methods.json")["methods"]
    tables["tensor"] = _read("tensor_methods.json")
    return tables


@lru_cache(64)
def _flags(scope: str) -> dict[str, frozenset[str]]:
    """Name → flags, for a kind's methods or for all qualified names ("names")."""
    collected: dict[str, set[str]] = {}
    for group in _read("methods.json")["flags"].get(scope, ()) if scope != "names" else ():
        for name in group["names"].split():
            collected.setdefault(name, set()).update(group["flags"].split())
    return {name: frozenset(flags) for name, flags in collected.items()}


_Parsed = tuple[Kind, tuple[Condition, ...], tuple[str, ...], tuple[str, ...], dict[str, Any]]


def _parsed(text: str) -> _Parsed:
    """Read `returns; parameter@1?: returns (signature)`."""
    results, _, signature = text.partition(" (")
    usual, *others = results.split("; ")
    positional: list[str] = []
    named: list[str] = []
    defaults: dict[str, Any] = {}
    into = positional
    for part in _split(signature.removesuffix(")")):
        name, _, default = part.partition("=")
        if name.startswith("**"):
            continue
        if name.startswith("*"):
            into = named
            continue
        into.append(name)
        if default and default != "...":
            defaults[name] = ast.literal_eval(default)
    return usual, tuple(map(_condition, others)), tuple(positional), tuple(named), defaults


def _split(signature: str) -> list[str]:
    """Split at the commas between parameters (a default may be a tuple or a text)."""
    parts: list[str] = []
    for piece in signature.split(", "):
        open_before = parts and (
            parts[-1].count("(") + parts[-1].count("[") > parts[-1].count(")") + parts[-1].count("]")
        )
        if open_before:
            parts[-1] += f", {piece}"
        elif piece:
            parts.append(piece)
    return parts


def _condition(text: str) -> Condition:
    parameter, _, returns = text.partition(": ")
    name, _, place = parameter.partition("@")
    position = int(place.rstrip("?")) if place else None
    return Condition(name, position, place.endswith("?"), returns)
