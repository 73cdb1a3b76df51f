"""Import statements: names of libraries become Symbols, names of the project are looked up when used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantics import knowledge
from torchlint.semantics import values as v
from torchlint.semantics.attributes import Lazy, ProjectModule

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter


def dotted(node: cst.BaseExpression | None) -> str:
    """``a.b.c`` as text."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if isinstance(node, cst.Name):
        parts.append(node.value)
    return ".".join(reversed(parts))


def import_name(machine: Interpreter, alias: cst.ImportAlias) -> None:
    """``import a.b`` binds ``a``; ``import a.b as c`` binds the module itself."""
    full = dotted(alias.name)
    wanted = full if alias.asname is not None else full.partition(".")[0]
    found = machine.project.find(wanted, machine.frame.module)
    value: v.Value = ProjectModule(str(found)) if found is not None else v.Symbol(knowledge.canonical(wanted))
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        machine.frame.names[alias.asname.name.value] = value
    else:
        machine.frame.names[wanted] = value


def import_names(machine: Interpreter, node: cst.ImportFrom) -> None:
    """``from a import b`` and ``from .a import b``."""
    module = machine.frame.module
    base = dotted(node.module) if node.module is not None else ""
    level = len(node.relative)
    found = machine.project.find(base, module, level)
    if isinstance(node.names, cst.ImportStar):
        _import_star(machine, base, found)
        return
    for alias in node.names:
        word = alias.name.value if isinstance(alias.name, cst.Name) else dotted(alias.name)
        renamed = alias.asname.name if alias.asname is not None else None
        bound = renamed.value if isinstance(renamed, cst.Name) else word
        if found is not None:
            value: v.Value = Lazy(str(found), word)
        elif level:
            value = v.Unknown(word)
        else:
            value = v.Symbol(knowledge.canonical(f"{base}.{word}"))
        old = machine.frame.names.get(bound)
        keeps = old is not None and any(c.kind == "except" for c in machine.context)
        if not keeps:  # `except ImportError: from other import name` is the fallback
            machine.frame.names[bound] = value


_MOST_STARS = 64  # libraries that one module imports everything from


def _import_star(machine: Interpreter, base: str, found: Any) -> None:
    if found is None:
        if base not in machine.frame.module.stars and len(machine.frame.module.stars) < _MOST_STARS:
            machine.frame.module.stars.append(base)
        return
    machine.frame.module.star_files.append(found)  # looked into when a name is found nowhere else
