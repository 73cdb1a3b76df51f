"""What torchlint knows of torch, numpy and their neighbours: look-ups over the tables in `data/`.

Nothing here imports torch. A package's table is read when its first name is asked for, and every answer is cached,
so a look-up costs one dictionary access. A name that no table holds is unknown: it stays itself.

An entry of a table reads `category returns[; parameter: returns]… (signature)`, or `= other.name` for an alias::

    "max": "def tensor; dim@1?: tuple[tensor,tensor] (input, *, out=None, other=..., dim=..., keepdim=False)"

`dim@1?: …` says: when `dim` is given, by keyword or as positional argument 1, the result is another one; the
question mark says that another overload has another parameter in that place, so only a number proves it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from torchlint.semantics.tables import (
    NO_DEFAULTS,
    NOTHING,
    Condition,
    Fact,
    Kind,
    method_flags,
    methods,
    package_of,
    parse_signature,
    read,
)

_LONGEST = 16  # dots in a qualified name; nothing real has more
_CACHED = 1 << 16
_CATEGORIES = {"def": "function", "ufunc": "function", "class": "class", "constant": "constant", "module": "module"}
_UFUNC = frozenset({"elementwise", "like_input"})
_IN_PLACE = frozenset({"in_place"})
_NO_FLAGS: frozenset[str] = frozenset()
_NO_FACT = Fact()


class Api(NamedTuple):
    """One known name."""

    name: str
    category: str  # "class", "function", "constant" or "module"
    returns: Kind
    params: tuple[str, ...] = ()  # those that can be given by position, in order
    keyword_only: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = NO_DEFAULTS  # only simple literals
    returns_when: tuple[Condition, ...] = ()
    flags: frozenset[str] = frozenset()
    dtype: str | None = None  # of the result, unless the call says another
    since: str | None = None
    deprecated: str | None = None
    removed: str | None = None
    replacement: str | None = None

    def accepts(self, name: str) -> bool:
        """Whether it has a parameter of this name."""
        return name in self.params or name in self.keyword_only

    def position(self, name: str) -> int | None:
        """The place of a parameter among the positional ones."""
        return self.params.index(name) if name in self.params else None

    def returned(self, positional: Sequence[Kind], keywords: Collection[str]) -> Kind:
        """The kind of a call's result, given the kinds of its positional arguments and the names of the others.

        `keywords` may map the names to values: one that is False or None, or whose `.value` is, counts as not given.
        """
        return _returned(self.returns, self.returns_when, positional, keywords)


class Method(NamedTuple):
    """One method, or attribute, of a kind of value."""

    name: str
    returns: Kind
    params: tuple[str, ...] = ()
    keyword_only: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = NO_DEFAULTS
    returns_when: tuple[Condition, ...] = ()
    flags: frozenset[str] = frozenset()
    is_attribute: bool = False

    def returned(self, positional: Sequence[Kind], keywords: Collection[str]) -> Kind:
        """The kind of a call's result, given the kinds of its positional arguments and the names of the others."""
        return _returned(self.returns, self.returns_when, positional, keywords)


def _returned(
    usual: Kind, conditions: tuple[Condition, ...], positional: Sequence[Kind], keywords: Collection[str]
) -> Kind:
    for condition in conditions:
        if _given(condition.parameter, keywords):
            return condition.returns
        place = condition.position
        if place is None or place >= len(positional):
            continue
        if not condition.shared or positional[place] in ("number", "string", "constant"):
            return condition.returns
        if positional[place] == "unknown":
            return "unknown"
    return usual


def _given(name: str, keywords: Collection[str]) -> bool:
    """Whether a keyword is there, and is not known to be False or None (keywords may map names to values)."""
    if name not in keywords:
        return False
    if not isinstance(keywords, Mapping):
        return True
    value = getattr(keywords[name], "value", keywords[name])
    return value is not False and value is not None


# names


@lru_cache(_CACHED)
def canonical(qname: str) -> str:
    """The documented name of what `qname` names; an unknown name is returned as it is."""
    head, _, name = qname.rpartition(".")
    package = package_of(qname)
    if not head or package is None or qname.count(".") > _LONGEST:
        return qname
    entry = package.modules.get(head, NOTHING).get(name)
    if entry is not None:
        return canonical(entry[2:]) if entry.startswith("= ") else qname
    for target in package.aliases.get(head, ()):
        if name in package.modules[target]:
            return canonical(f"{target}.{name}")
    parent = canonical(head)
    return qname if parent == head else canonical(f"{parent}.{name}")


@lru_cache(_CACHED)
def api(qname: str) -> Api | None:
    """What is known of this name, whichever alias of it is given."""
    name = canonical(qname)
    package = package_of(name)
    entry = package.entry(name) if package else None
    if package is None or entry is None:
        return _undocumented_class(name)
    word, _, rest = entry.partition(" ")
    fact = package.facts.get(name, _NO_FACT)
    change = package.changes.get(qname) or package.changes.get(name, NOTHING)
    signature = parse_signature(rest or "unknown", fact.returns)
    return Api(
        name,
        _CATEGORIES[word],
        signature.returns,
        signature.params,
        signature.keyword_only,
        signature.defaults,
        signature.returns_when,
        fact.flags | signature.flags | (_UFUNC if word == "ufunc" and signature.returns == "unknown" else _NO_FLAGS),
        fact.dtype,
        change.get("since"),
        change.get("deprecated"),
        change.get("removed"),
        change.get("replacement"),
    )


def _undocumented_class(name: str) -> Api | None:
    """A class that only shows as a base of others, such as torch.nn.modules.conv._ConvNd: of its own base's kind."""
    for base in bases(name):
        known = api(base)
        if known is not None:
            return Api(name, "class", known.returns)
    return None


def exists(qname: str) -> bool:
    """Whether the name is known to be there; False only says that the tables do not hold it."""
    package = package_of(qname)
    return package is not None and (qname == package.name or api(qname) is not None)


@lru_cache(1024)
def star_names(module: str) -> tuple[str, ...]:
    """The names that `from module import *` binds, () when the module is unknown."""
    name = canonical(module)
    package = package_of(name)
    if package is None:
        return ()
    hidden = package.unstarred.get(name, frozenset())
    return tuple(sorted(n for n in package.modules.get(name, NOTHING).keys() - hidden if not n.startswith("_")))


def version(package: str) -> str | None:
    """The version of the package that its table was made from."""
    table = package_of(package)
    return table.version if table else None


# classes


@lru_cache(_CACHED)
def bases(qname: str) -> tuple[str, ...]:
    """The direct base classes, canonical; () when none is known."""
    package = package_of(qname)
    return package.bases.get(canonical(qname), ()) if package else ()


@lru_cache(_CACHED)
def is_subclass(qname: str, base: str) -> bool:
    """Whether the class is `base` or is known to derive from it."""
    name, wanted = canonical(qname), canonical(base)
    return name == wanted or any(is_subclass(parent, wanted) for parent in bases(name))


@lru_cache(_CACHED)
def method(owner: str, name: str) -> Method | None:
    """A method of a kind ("tensor"), or of a class ("torch.nn.Conv2d": then its instances' kind decides)."""
    kind = _kind_of(owner)
    entry = methods().get(kind, NOTHING).get(name)
    if entry is None:
        return None
    attribute = entry.startswith("attribute ")
    signature = parse_signature(entry.removeprefix("attribute "))
    flags = method_flags(kind).get(name, frozenset())
    if kind == "tensor" and name.endswith("_") and not name.endswith("__"):
        flags |= _IN_PLACE
    return Method(
        name,
        signature.returns,
        signature.params,
        signature.keyword_only,
        signature.defaults,
        signature.returns_when,
        flags,
        attribute,
    )


def _kind_of(owner: str) -> Kind:
    if "." in owner:
        known = api(owner)
        owner = known.returns if known and known.category == "class" else "unknown"
    return "tensor" if owner == "parameter" else owner


# layers and frameworks


class Layer(NamedTuple):
    """One layer class, or the function that does the same; see data/layers.json."""

    name: str
    role: str  # conv, conv_transpose, linear, batch_norm, …, loss
    dims: int | None = None  # spatial dimensions of a conv or norm
    lazy: bool = False  # without its first argument, the input's channels
    bias: str | None = None  # the parameter that switches the bias
    bias_position: int | None = None
    bias_default: bool = False
    channels: str | None = None  # a norm's parameter that holds the number of channels
    cancels_bias: str = "never"  # "always", or "groups": only with as many groups as channels
    keeps_shift: bool = False  # layer(x + c) == layer(x) + c for a constant c of each channel
    expects: str | None = None  # of a loss: logits, log_probabilities, probabilities, values
    gives: str | None = None  # of a function: log_probabilities, probabilities


@lru_cache(4096)
def layer(qname: str) -> Layer | None:
    """The layer of this name, or of the nearest base class that is one (`torch.nn.Module` itself does not count)."""
    name = canonical(qname)
    entry = _layers().get(name)
    if entry is None:
        inherited = (layer(base) for base in bases(name) if base != "torch.nn.Module")
        return next((found for found in inherited if found is not None), None)
    facts = {key: value for key, value in entry.items() if key not in ("names", "source")}
    bias, known = entry.get("bias"), api(name)
    if bias and known:
        facts["bias_position"] = known.position(bias)
        facts["bias_default"] = bool(known.defaults.get(bias))
    return Layer(name, **facts)


@lru_cache(1)
def _layers() -> dict[str, dict[str, Any]]:
    data = read("layers.json")
    return {name: entry for entry in [*data["layers"], *data["functional"]] for name in entry["names"].split()}


class Framework(NamedTuple):
    """A class that owns part of the training loop; see data/frameworks.json."""

    name: str
    no_grad_hooks: frozenset[str] = frozenset()  # methods of a subclass that are called with gradients off
    train_hooks: frozenset[str] = frozenset()  # those called with gradients on, in train mode
    no_grad_calls: frozenset[str] = frozenset()  # methods that turn gradients off themselves
    returns_argument: frozenset[str] = frozenset()  # methods that give back what they are given
    callbacks: frozenset[str] = frozenset()  # methods that register a function to be called later
    moves_batches: bool = False  # batches arrive on the device
    steps: str = "user"  # who steps optimizer and scheduler: user, framework, engine, call
    backward: str | None = None  # the method that is its backward


@lru_cache(4096)
def framework(qname: str) -> Framework | None:
    """The framework class of this name, or the nearest base class that is one."""
    name = canonical(qname)
    entry = _frameworks().get(name)
    if entry is None:
        return next((found for base in bases(name) if (found := framework(base)) is not None), None)
    facts: dict[str, Any] = {
        key: frozenset(value.split()) if key in _NAME_SETS else value
        for key, value in entry.items()
        if key not in ("names", "source")
    }
    return Framework(name, **facts)


_NAME_SETS = ("no_grad_hooks", "train_hooks", "no_grad_calls", "returns_argument", "callbacks")


@lru_cache(1)
def _frameworks() -> dict[str, dict[str, Any]]:
    return {name: entry for entry in read("frameworks.json")["frameworks"] for name in entry["names"].split()}
