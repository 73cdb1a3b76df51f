"""Signatures of the API: from stubs (overloads merged), from `inspect`, or from a docstring's first line."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from .kinds import kind_of, kind_of_text

Overloads = dict[str, list["Signature"]]
_AWKWARD = re.compile(r"; |, |#|[()]+.")  # would need a cleverer reader than knowledge.py has


@dataclass
class Signature:
    """Parameters by name with the default's text (None: required), those that must be named, and the result."""

    positional: dict[str, str | None] = field(default_factory=dict)
    named: dict[str, str | None] = field(default_factory=dict)
    variadic: str = ""
    catches_keywords: str = ""
    returns: str = "unknown"
    returns_when: tuple[tuple[str, str], ...] = ()

    def required(self) -> set[str]:
        """The parameters without a default."""
        return {name for name, default in {**self.positional, **self.named}.items() if default is None}

    def __str__(self) -> str:
        if self.variadic and self.catches_keywords and not self.positional and not self.named:
            return self.returns
        parts = [_parameter(name, default) for name, default in self.positional.items()]
        if self.variadic:
            parts.append(f"*{self.variadic}")
        elif self.named:
            parts.append("*")
        parts += [_parameter(name, default) for name, default in self.named.items()]
        if self.catches_keywords:
            parts.append(f"**{self.catches_keywords}")
        conditions = "".join(f"; {name}: {kind}" for name, kind in self.returns_when)
        return f"{self.returns}{conditions} ({', '.join(parts)})"


def _parameter(name: str, default: str | None) -> str:
    return name if default is None else f"{name}={default}"


def _literal(node: ast.expr | None) -> str:
    """The default's text when it is a short literal, else "..."."""
    if node is None:
        return "..."
    try:
        return _default_text(ast.literal_eval(node))
    except ValueError:
        return "..."


def from_arguments(arguments: ast.arguments, drop_self: bool = False) -> Signature:
    """Read the parameters of a parsed function."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    signature = Signature()
    for argument, default in zip(positional, defaults):
        signature.positional[argument.arg] = None if default is None else _literal(default)
    if drop_self and positional:
        del signature.positional[positional[0].arg]
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        signature.named[argument.arg] = None if default is None else _literal(default)
    signature.variadic = arguments.vararg.arg if arguments.vararg else ""
    signature.catches_keywords = arguments.kwarg.arg if arguments.kwarg else ""
    return signature


def structs_of(stub: Path) -> dict[str, int]:
    """How many fields each of torch.return_types has."""
    lengths = {}
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.bases and isinstance(node.bases[0], ast.Subscript):
            inner = node.bases[0].slice
            lengths[node.name] = len(inner.elts) if isinstance(inner, ast.Tuple) else 1
    return lengths


def read_stub(path: Path, structs: dict[str, int], inside: str = "") -> Overloads:
    """Every function of a stub file (or every method of the class `inside`), with its overloads."""
    body: Iterable[ast.stmt] = ast.parse(path.read_text()).body
    if inside:
        body = next(node.body for node in body if isinstance(node, ast.ClassDef) and node.name == inside)
    found: Overloads = {}
    for node in body:
        if isinstance(node, ast.FunctionDef) and not any(ast.unparse(d) == "property" for d in node.decorator_list):
            signature = from_arguments(node.args, drop_self=bool(inside))
            signature.returns = kind_of(node.returns, structs)
            found.setdefault(node.name, []).append(signature)
    return found


def read_attributes(path: Path, structs: dict[str, int], inside: str) -> dict[str, str]:
    """The annotated public attributes of a stub's class and their kinds; `X | None` counts as X."""
    body = ast.parse(path.read_text()).body
    declared = next(node.body for node in body if isinstance(node, ast.ClassDef) and node.name == inside)
    found = {}
    for node in declared:
        name, annotation = "", None
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, annotation = node.target.id, node.annotation
        elif isinstance(node, ast.FunctionDef) and any(ast.unparse(d) == "property" for d in node.decorator_list):
            name, annotation = node.name, node.returns
        if name and not name.startswith("_"):
            found[name] = kind_of_text(ast.unparse(annotation).removesuffix(" | None") if annotation else "", structs)
    return found


def merge(overloads: list[Signature]) -> Signature:
    """One signature for all overloads: the first decides the order, others add names that can be given."""
    kinds = list(dict.fromkeys(overload.returns for overload in overloads))
    first = overloads[0]
    merged = Signature(dict(first.positional), dict(first.named), first.variadic, first.catches_keywords, kinds[0])
    for overload in overloads[1:]:
        for name, default in [*overload.positional.items(), *overload.named.items()]:
            if name not in merged.positional and name not in merged.named:
                merged.named[name] = default or "..."
        merged.variadic = merged.variadic or overload.variadic
    merged.returns, merged.returns_when = _returns(overloads, kinds)
    return merged


def _returns(overloads: list[Signature], kinds: list[str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The result's kind; where overloads differ, the required parameter that tells them apart."""
    if len(kinds) == 1:
        return kinds[0], ()
    usual, *others = kinds
    plain = [set(o.positional) | set(o.named) for o in overloads if o.returns == usual]
    conditions = []
    for other in others:
        rest = [overload.required() for overload in overloads if overload.returns == other]
        telling = set.intersection(*rest) - set().union(*plain)
        if not telling:
            return "unknown", ()
        order = [name for o in overloads for name in o.positional if name in telling] or sorted(telling)
        conditions.append((order[0] + _position(order[0], overloads, other), other))
    return usual, tuple(conditions)


def _position(name: str, overloads: list[Signature], kind: str) -> str:
    """Where the telling parameter stands: "@1", or "@1?" when another overload has another parameter there."""
    places = {list(o.positional).index(name) for o in overloads if o.returns == kind and name in o.positional}
    if len(places) != 1:
        return ""
    place = places.pop()
    shared = any(len(o.positional) > place or o.variadic for o in overloads if o.returns != kind)
    return f"@{place}?" if shared else f"@{place}"


def from_object(value: object, drop_self: bool = False) -> Signature | None:
    """The signature that `inspect` sees, if any."""
    try:
        seen = inspect.signature(value)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return None
    signature = Signature()
    for parameter in list(seen.parameters.values())[1 if drop_self else 0 :]:
        default = None if parameter.default is parameter.empty else _default_text(parameter.default)
        if parameter.kind is parameter.VAR_POSITIONAL:
            signature.variadic = parameter.name
        elif parameter.kind is parameter.VAR_KEYWORD:
            signature.catches_keywords = parameter.name
        elif parameter.kind is parameter.KEYWORD_ONLY:
            signature.named[parameter.name] = default
        else:
            signature.positional[parameter.name] = default
    returns = seen.return_annotation
    if returns is not seen.empty:
        written = "None" if returns is None else returns if isinstance(returns, str) else _annotation_text(returns)
        signature.returns = kind_of_text(written)
    return signature


def _annotation_text(annotation: object) -> str:
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__name__
    return str(annotation)


def _default_text(value: object) -> str:
    """The default's text when it is a short literal, else "..."."""
    text = repr(value)
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return "..."
    return text if len(text) <= 24 and not _AWKWARD.search(text) else "..."


_HEAD = re.compile(r"^\s*(?:[\w.]+\.)?(?P<name>\w+)\((?P<parameters>.*)\)\s*(?:->\s*(?P<returns>[^\n]*))?$")


def from_docstring(doc: str | None, name: str) -> Signature | None:
    """The signature written as the first line of a builtin's docstring: `name(a, b=None) -> Tensor`."""
    for line in (doc or "").strip().splitlines()[:2]:
        found = _HEAD.match(line)
        if not found or found["name"] != name:
            continue
        try:
            parsed = ast.parse(f"def f({found['parameters']}): ...").body[0]
        except SyntaxError:
            continue
        assert isinstance(parsed, ast.FunctionDef)
        signature = from_arguments(parsed.args)
        signature.returns = kind_of_text(found["returns"] or "")
        return signature
    return None
