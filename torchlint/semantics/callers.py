"""Who calls a function from other files: found by a search of bytes, then run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import values as v

if TYPE_CHECKING:
    from pathlib import Path

    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Event

_MOST_FILES = 8  # a name that more files call is run in none of them


def models_of_callers(model: Model, event: Event) -> list[Model] | None:
    """The files that call the function that an event happens in; None where one could not be followed.

    They are run anew, after this source: what it recorded stays, the state of shared modules does not.
    """
    from torchlint.semantics.model import build_model

    name = _name_called(event)
    if name is None:
        return []
    known = model.callers.get(name)
    if known is None:
        project = model.machine.project.project
        paths = _calling(model, name)
        trees = [project.tree(path) for path in paths] if len(paths) <= _MOST_FILES else [None]
        models = [build_model(project, tree.source, path, model.target_torch)
                  for path, tree in zip(paths, trees) if tree is not None and None not in trees]
        known = model.callers[name] = models if None not in trees else "cut"
    return None if isinstance(known, str) else known


def events_of_callers(model: Model, event: Event) -> list[Event] | None:
    """The same event where other files of the project reach it; None where a caller could not be followed."""
    models = models_of_callers(model, event)
    if models is None:
        return None
    found: list[Event] = []
    for other in models:
        here = [e for e in other.all_events
                if e.kind == event.kind and e.site.node is event.site.node and _is_outside(e, model)]
        if not here:
            return None
        found += here
    return found


def _is_outside(event: Event, model: Model) -> bool:
    """Whether an event's entry lies in another file than the model's."""
    node = event.context.entry().node
    return node is not None and node.tree.module is not model.tree.module


def _name_called(event: Event) -> str | None:
    """The name by which other files know the outermost function of this file that an event happens in."""
    functions = [c.data for c in event.context if c.kind == "call" and isinstance(c.data, v.Function)]
    outer = next((f for f in reversed(functions) if f.module.tree.module is event.site.tree.module), None)
    if outer is None or not isinstance(outer.node, cst.FunctionDef):
        return None
    return outer.owner.name if outer.name == "__init__" and outer.owner is not None else outer.name


def _calling(model: Model, name: str) -> list[Path]:
    project = model.machine.project.project
    pattern = re.compile(rb"(?<!def )\b" + name.encode() + rb"\s*\(")
    return [path for path in project.files if path != model.module.path and pattern.search(project.text(path))]
