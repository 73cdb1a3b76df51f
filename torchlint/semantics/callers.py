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


def events_of_callers(model: Model, event: Event) -> list[Event] | None:
    """The same event where other files of the project reach it; None where a caller could not be followed."""
    from torchlint.semantics.model import build_model

    name = _name_of_entry(event)
    if name is None:
        return []
    paths = _calling(model, name)
    if len(paths) > _MOST_FILES:
        return None
    found: list[Event] = []
    for path in paths:
        tree = model.machine.project.project.tree(path)
        if tree is None:
            return None
        other = build_model(model.machine.project.project, tree.source, path, model.target_torch)
        here = [e for e in other.all_events
                if e.kind == event.kind and e.site.key == event.site.key and _is_outside(e, model)]
        if not here:
            return None
        found += here
    return found


def _is_outside(event: Event, model: Model) -> bool:
    """Whether an event's entry lies in another file than the model's."""
    node = event.context.entry().node
    return node is not None and node.tree is not model.tree


def _name_of_entry(event: Event) -> str | None:
    """The name by which callers know the function that an event's run began with."""
    entry = event.context.entry()
    if entry.data != "function" or entry.node is None or not isinstance(entry.node.node, cst.FunctionDef):
        return None
    name = entry.node.node.name.value
    if name != "__init__":
        return str(name)
    first = next((c.data for c in reversed(list(event.context)) if isinstance(c.data, v.Function)), None)
    return first.owner.name if first is not None and first.owner is not None else None


def _calling(model: Model, name: str) -> list[Path]:
    project = model.machine.project.project
    pattern = re.compile(rb"(?<!def )\b" + name.encode() + rb"\s*\(")
    return [path for path in project.files if path != model.module.path and pattern.search(project.text(path))]
