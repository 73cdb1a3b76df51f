"""How to name a qualified thing in a file: by an import that is there, else by one that is added."""

from __future__ import annotations

import functools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import libcst

from torchlint.findings import Edit
from torchlint.syntax.editing.statements import insert_after, insert_before
from torchlint.syntax.tree import Node, Statement, Tree, walk


@dataclass(frozen=True, slots=True)
class Import:
    """One name that an import binds, and the qualified thing that it stands for."""

    name: str
    qualified: str
    node: libcst.Import | libcst.ImportFrom


@dataclass(slots=True)
class Names:
    """Every name that a file binds, in whatever scope, and the imports among them."""

    imports: list[Import] = field(default_factory=list)
    bound: dict[str, list[Node]] = field(default_factory=lambda: defaultdict(list))


def reference(tree: Tree, qualified: str, at: Node | None = None) -> tuple[str, list[Edit]] | None:
    """An expression that means ``qualified`` in this file, and the edits that add the import it needs.

    ``at`` is where it will stand; without it, anywhere inside a function. Existing imports and
    their aliases come first. None where no name is free, or the package is only imported under a
    condition.
    """
    names = _names(tree)
    best = ""
    longest = -1
    for known in names.imports:
        rest = _rest(known.qualified, qualified)
        if rest is None or len(known.qualified) <= longest or not _is_usable(tree, names, known, at):
            continue
        best, longest = known.name + rest, len(known.qualified)
    if best:
        return best, []
    return _imported(tree, names, qualified)


def _rest(known: str, qualified: str) -> str | None:
    """What must follow ``known`` to make ``qualified``; None where it is no prefix.

    A package has its submodules as attributes only once they are imported; torch imports its own
    public ones (torch/__init__.py), others need not.
    """
    if not (qualified + ".").startswith(known + "."):
        return None
    rest = qualified[len(known) :]
    return rest if rest.count(".") <= 1 or qualified.startswith("torch.") else None


def _is_usable(tree: Tree, names: Names, known: Import, at: Node | None) -> bool:
    """Whether the import has certainly run, and its name means nothing else, where the expression will stand."""
    for other in names.bound[known.name]:
        if other is not known.node and not _same_import(names, known, other) and not _in_handler(tree, other):
            return False
    scope, condition = _scope_and_condition(tree, known.node)
    around = [] if at is None else [at, *tree.ancestors(at)]
    if condition is not None and condition not in around:
        return False
    if not isinstance(scope, libcst.Module) and scope not in around:
        return False
    if at is None or any(node is not scope and isinstance(node, libcst.FunctionDef | libcst.Lambda) for node in
                         around[: around.index(scope)]):
        return True
    return tree.offsets(known.node)[0] < tree.offsets(at)[0]


def _same_import(names: Names, known: Import, node: Node) -> bool:
    same = [other for other in names.imports if other.node is node and other.name == known.name]
    return bool(same) and all(other.qualified == known.qualified for other in same)


def _in_handler(tree: Tree, node: Node) -> bool:
    """Whether a binding is the fallback of a failed import."""
    return any(isinstance(above, libcst.ExceptHandler) for above in tree.ancestors(node))


def _scope_and_condition(tree: Tree, node: Node) -> tuple[Node, Node | None]:
    """The scope that an import binds in, and the innermost block that decides whether it runs at all."""
    condition: Node | None = None
    below = node
    for above in tree.ancestors(node):
        if isinstance(above, libcst.FunctionDef | libcst.ClassDef | libcst.Module):
            return above, condition
        is_branch = isinstance(above, libcst.If | libcst.Else | libcst.For | libcst.While | libcst.ExceptHandler
                               | libcst.ExceptStarHandler | libcst.Finally | libcst.MatchCase)
        if is_branch and condition is None:
            condition = below
        below = above
    raise ValueError("the import lies outside the tree")


def _imported(tree: Tree, names: Names, qualified: str) -> tuple[str, list[Edit]] | None:
    """The plainest import whose name is free in the whole file."""
    root, _, last = qualified.rpartition(".")
    package = qualified.partition(".")[0]
    if not root or _is_conditional(tree, names, package):
        return None
    if package not in names.bound and _rest(package, qualified) is not None:
        lines, text = f"import {package}", qualified
    elif last not in names.bound:
        lines, text = f"from {root} import {last}", last
    else:
        return None
    edits = _add_import(tree, lines, package)
    return None if edits is None else (text, edits)


def _is_conditional(tree: Tree, names: Names, package: str) -> bool:
    """Whether the file imports the package only where it is installed or wanted: a plain import could fail."""
    found = [known for known in names.imports if known.qualified.partition(".")[0] == package]
    return bool(found) and all(_is_guarded(tree, known.node) for known in found)


def _is_guarded(tree: Tree, node: Node) -> bool:
    return any(isinstance(above, libcst.If | libcst.Try | libcst.TryStar) for above in tree.ancestors(node))


def _add_import(tree: Tree, line: str, package: str) -> list[Edit] | None:
    """Insert an import line among those at the top of the file that it belongs to."""
    top = list(_head(tree))
    found = [(statement, _packages(statement)) for statement in top]
    for statement, packages in found:
        if package in packages:
            return insert_before(tree, statement, [line])
    plain = [statement for statement, packages in found
             if packages and _group(packages[0]) == _group(package) and _is_plain(statement)]
    if plain:
        return insert_after(tree, plain[-1], [line])
    later = [statement for statement, packages in found if packages and _group(packages[0]) > _group(package)]
    if later:
        return insert_before(tree, later[0], [line])
    imports = [statement for statement, packages in found if packages]
    if imports:
        return insert_after(tree, imports[-1], [line])
    return _add_first_import(tree, top, line)


def _add_first_import(tree: Tree, top: list[Statement], line: str) -> list[Edit] | None:
    if top:
        return insert_after(tree, top[-1], ["", line])
    for statement in tree.module.body:
        if tree.source.is_editable(*tree.offsets(statement)):
            return insert_before(tree, statement, [line, ""])
    return None


def _group(package: str) -> int:
    """isort's sections: the future, the standard library, everything else, the project's own relative imports."""
    if not package:
        return 3
    if package == "__future__":
        return 0
    return 1 if package in sys.stdlib_module_names else 2


def _is_plain(statement: Statement) -> bool:
    return isinstance(statement, libcst.SimpleStatementLine) and isinstance(statement.body[0], libcst.Import)


def _head(tree: Tree) -> Iterator[Statement]:
    """The docstring and the imports that begin the file; lines that must not change are passed over."""
    for index, statement in enumerate(tree.module.body):
        if not tree.source.is_editable(*tree.offsets(statement)):
            continue
        is_line = isinstance(statement, libcst.SimpleStatementLine)
        first = statement.body[0] if isinstance(statement, libcst.SimpleStatementLine) else None
        is_docstring = index == 0 and isinstance(first, libcst.Expr) and isinstance(
            first.value, libcst.SimpleString | libcst.ConcatenatedString)
        if not (is_line and (is_docstring or isinstance(first, libcst.Import | libcst.ImportFrom))):
            return
        yield statement


def _packages(statement: Statement) -> list[str]:
    """The top packages that a line of imports names; a relative one is the empty string."""
    packages = []
    for small in statement.body if isinstance(statement, libcst.SimpleStatementLine) else ():
        if isinstance(small, libcst.Import):
            packages += [_dotted(alias.name).partition(".")[0] for alias in small.names]
        elif isinstance(small, libcst.ImportFrom):
            packages.append("" if small.relative or small.module is None else _dotted(small.module).partition(".")[0])
    return packages


@functools.lru_cache(maxsize=1)  # the rules' fixes of one file ask one after the other
def _names(tree: Tree) -> Names:
    names = Names()
    for node in walk(tree.module):
        bound_here = _BOUND.get(node.__class__)
        for name in bound_here(node) if bound_here is not None else ():
            names.bound[name].append(node)
        if node.__class__ is libcst.Import or node.__class__ is libcst.ImportFrom:
            for known in _imports(node):
                names.imports.append(known)
                names.bound[known.name].append(node)
    return names


def _own_name(node: Any) -> Iterator[str]:
    if isinstance(node.name, libcst.Name):
        yield node.name.value


def _names_of_target(node: Any) -> Iterator[str]:
    return _targets(node.target)


def _name_behind_as(node: Any) -> Iterator[str]:
    clause = node.asname if isinstance(node, libcst.WithItem) else node.name
    return _targets(clause.name) if clause is not None else iter(())


def _declared(node: Any) -> Iterator[str]:
    return (item.name.value for item in node.names)


def _captured(node: Any) -> Iterator[str]:
    name = node.rest if isinstance(node, libcst.MatchMapping) else node.name
    return iter([name.value] if name is not None else [])


_BOUND: dict[type, Callable[[Any], Iterator[str]]] = {
    **dict.fromkeys((libcst.FunctionDef, libcst.ClassDef, libcst.Param), _own_name),
    **dict.fromkeys((libcst.AssignTarget, libcst.AnnAssign, libcst.AugAssign, libcst.NamedExpr, libcst.For,
                     libcst.CompFor), _names_of_target),
    **dict.fromkeys((libcst.WithItem, libcst.ExceptHandler, libcst.ExceptStarHandler), _name_behind_as),
    **dict.fromkeys((libcst.Global, libcst.Nonlocal), _declared),
    **dict.fromkeys((libcst.MatchAs, libcst.MatchStar, libcst.MatchMapping), _captured),
}
"""The names that a node itself binds, except by import."""


def _targets(node: Node) -> Iterator[str]:
    """The names in an assignment's target; the base of an attribute or subscript is not bound."""
    if isinstance(node, libcst.Name):
        yield node.value
    elif isinstance(node, libcst.Tuple | libcst.List):
        for element in node.elements:
            yield from _targets(element.value)


def _imports(node: Any) -> Iterator[Import]:
    if isinstance(node.names, libcst.ImportStar):
        return
    module = ""
    if isinstance(node, libcst.ImportFrom):
        module = "." * len(node.relative) + (_dotted(node.module) if node.module is not None else "")
        module = module if module.endswith(".") else module + "."
    for alias in node.names:
        name = _dotted(alias.name)
        if alias.asname is not None:
            yield Import(_dotted(alias.asname.name), module + name, node)
        elif module:
            yield Import(name, module + name, node)
        else:  # import a.b binds a
            yield Import(name.partition(".")[0], name.partition(".")[0], node)


def _dotted(node: Node) -> str:
    """The text of a dotted name."""
    parts = []
    while isinstance(node, libcst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    return ".".join([node.value if isinstance(node, libcst.Name) else "", *reversed(parts)])
