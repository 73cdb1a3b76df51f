"""Who calls a function from other files: found by a search of bytes, then run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import knowledge
from torchlint.semantics import values as v

if TYPE_CHECKING:
    from pathlib import Path

    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Event

_ANYBODYS = frozenset(dir(list) + dir(dict) + dir(set) + dir(str))  # names of methods that say nothing
_MOST_FILES = 8  # a name that more files call is run in none of them


def models_of_callers(model: Model, event: Event, default: v.Site | None = None) -> list[Model] | None:
    """The files that call the function that an event happens in (or the one whose parameter has that default).

    None where one could not be followed.

    They are run anew, after this source: what it recorded stays, the state of shared modules does not.
    """
    name = (_owner_of(default) if default is not None else None) or _name_called(event, model)
    return [] if name is None else models_calling(model, name)


def models_calling(model: Model, name: str) -> list[Model] | None:
    """The files that call something of that name; None where one could not be followed."""
    from torchlint.semantics.model import model_of_caller

    known = model.callers.get(name)
    if known is None:
        paths = _calling(model, name)
        models = [model_of_caller(model, path, name) for path in paths] if len(paths) <= _MOST_FILES else [None]
        known = model.callers[name] = [m for m in models if m is not None] if None not in models else "cut"
    return None if isinstance(known, str) else known


def events_of_callers(model: Model, event: Event, default: v.Site | None = None) -> list[Event] | None:
    """The same event where other files of the project reach it; None where a caller could not be followed."""
    models = models_of_callers(model, event, default)
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


def _owner_of(default: v.Site) -> str | None:
    """The function, or the class, whose parameter has that default."""
    above = list(default.tree.ancestors(default.node))
    function = next((node for node in above if isinstance(node, cst.FunctionDef)), None)
    if function is None:
        return None
    owner = next((node for node in above if isinstance(node, cst.ClassDef)), None)
    return owner.name.value if function.name.value == "__init__" and owner is not None else function.name.value


def _name_called(event: Event, model: Model) -> str | None:
    """The name by which other files know the outermost function of a model's file that an event happens in."""
    functions = [c.data for c in event.context if c.kind == "call" and isinstance(c.data, v.Function)]
    outer = next((f for f in reversed(functions) if f.module.tree.module is model.tree.module), None)
    if outer is None or not isinstance(outer.node, cst.FunctionDef):
        return None
    return outer.owner.name if outer.name == "__init__" and outer.owner is not None else outer.name


def _calling(model: Model, name: str) -> list[Path]:
    project = model.machine.project.project
    call = rb"(?<!def )(?<!super\(\)\.)\b" + re.escape(name.encode()) + rb"\s*\("
    own = model.module.path
    found = project.files.calling(name, re.compile(call), _MOST_FILES + 1, project.asker)
    if len(found) - (own in found) > _MOST_FILES:
        stem = own.parent.name if own.name == "__init__.py" else own.stem
        mention = rb"(?s)\A(?=.*" + re.escape(stem.encode()) + rb").*?" + call
        found = project.files.calling(name, re.compile(mention), _MOST_FILES + 1, project.asker)
    return [path for path in found if path != own]


def runs_of(model: Model, open_events: list[Event]) -> list[Model]:
    """The model itself, and the models of files that import it and call what the run of an open event began with.

    An event is open where its run began with a function of this file that no code here calls, so
    that only another file can say with what, and in which context, the function is called.
    """
    found: dict[Path, Model] = {model.module.path: model}
    for event in open_events:
        if event.context.entry().data != "function" or _name_called(event, model) == "__call__":
            continue  # a call of an object does not name what it calls
        for other in models_of_callers(model, event) or ():
            if model.module.path in other.machine.project.modules:
                found.setdefault(other.module.path, other)
    return list(found.values())


def reached_elsewhere(model: Model, function: v.Function) -> list[Model]:
    """The models of other files in which somebody is seen to call a function of this file."""
    return [other for other in models_calling(model, function.name) or ()
            if model.module.path in other.machine.project.modules and id(function.node) in other.machine.reached]


def events_in_runs(models: list[Model], *kinds: str) -> list[Event]:
    """The events of these kinds in any file; those of runs that began with a function which somebody is seen to
    call count only in the run of the caller."""
    first, *others = models
    elsewhere = [event for other in others for event in other.events(*kinds, everywhere=True)]
    reached = {node for other in others for node in other.machine.reached}
    own = [event for event in first.events(*kinds, everywhere=True) if not _began_with(event, reached)]
    return own + elsewhere


def _began_with(event: Event, functions: set[int]) -> bool:
    entry = event.context.entry()
    return entry.data == "function" and entry.node is not None and id(entry.node.node) in functions


def may_be_without_grad(models: list[Model], event: Event) -> bool:
    """Whether a file calls a method of the name that the event's run (one of these models) began with, on an object
    that nobody knows, where gradients may be off: that may be the call."""
    began = event.context.entry()
    model = next((m for m in models if began.node is not None and began.node.tree.module is m.tree.module), models[0])
    name = _name_called(event, model)
    if name is None or name in _ANYBODYS or knowledge.method("tensor", name) is not None:
        return False
    callers = models_calling(model, name)
    if callers is None:  # too many to tell
        return _is_override(event)
    for other in callers:
        for call in other.events("method", "forward", everywhere=True):
            if call.context.grad is False and _calls_by_name(call, name):
                return True
    return False


def _is_override(event: Event) -> bool:
    """Whether the run began with a method that a base class has too: code calls it without knowing the class."""
    entered = next((c.data for c in event.context if c.kind == "call" and c.entered), None)
    if not isinstance(entered, v.Function) or entered.owner is None:
        return False
    return entered.owner.unknown_bases or entered.owner.find(entered.name, entered.owner) is not None


def _calls_by_name(call: Event, name: str | None) -> bool:
    if call.kind == "method":
        return call.data.get("name") == name
    return isinstance(call.subject, v.Unknown) and call.subject.name.rpartition(".")[2] == name
