"""Train and eval mode of modules, as far as a path has set them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlint.semantics import values as v
from torchlint.semantics.attributes import is_frozen
from torchlint.semantics.library import is_module
from torchlint.semantics.recording import Context

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter

_KEY = "%training"
_WHERE = "%training set"
_DEEPEST = 3  # submodules inside each other that take over the mode of their parent
_MOST = 64  # submodules of one module that do


def set_mode(machine: Interpreter, module: v.Value, training: bool | None, depth: int = 0) -> None:
    """``module.train(training)``; the submodules that are known go along."""
    if isinstance(module, v.Union):
        for option in module.options():
            set_mode(machine, option, training, depth)
    elif isinstance(module, v.Unknown):
        module.attributes.setdefault(_KEY, v.NONE)  # so that a branch without the call keeps it open
        machine.write(module.attributes, _KEY, v.Const(training))
        machine.write(module.attributes, _WHERE, v.Const(machine.context))
    elif isinstance(module, (v.External, v.Instance)) and is_module(module):
        module.state.setdefault("training", True)
        machine.write(module.state, "training", training)
        machine.write(module.state, _WHERE, machine.context)
        if depth < _DEEPEST:
            for part in parts_of(module):
                set_mode(machine, part, training, depth + 1)


def parts_of(module: v.External | v.Instance) -> list[v.Value]:
    """The submodules that a module is known to hold."""
    held = [*module.attributes.values(), *(module.children if isinstance(module, v.Instance) else ())]
    items = module.items if isinstance(module, v.External) else module.state.get("items")
    if isinstance(items, v.Sequence):
        held.extend(items.elements())
    parts: list[v.Value] = [part for part in held if isinstance(part, (v.External, v.Instance)) and is_module(part)]
    return parts[:_MOST]


def training_mode(module: v.Value) -> bool | None:
    """True, False, or None where the mode is unknown or was never set."""
    if isinstance(module, v.Union):
        modes = {training_mode(o) for o in module.options() if not isinstance(o, v.Const)}
        return modes.pop() if len(modes) == 1 else None
    if isinstance(module, (v.External, v.Instance)):
        mode = module.state.get("training")
        return mode if isinstance(mode, bool) else None
    if isinstance(module, v.Unknown):
        known = module.attributes.get(_KEY)
        if isinstance(known, v.Const) and isinstance(known.value, bool):
            return known.value
        return training_mode(module.base) if module.base is not None and known is None else None
    return None


def _set_where(module: v.Value) -> Context | None:
    """The context in which the module's mode was set last; None where there is none, or several."""
    if isinstance(module, (v.External, v.Instance)):
        where = module.state.get(_WHERE)
        return where if isinstance(where, Context) else None
    if isinstance(module, v.Unknown):
        known = module.attributes.get(_WHERE)
        if isinstance(known, v.Const) and isinstance(known.value, Context):
            return known.value
        return _set_where(module.base) if module.base is not None and known is None else None
    if isinstance(module, v.Union):
        places = [_set_where(o) for o in module.options() if not isinstance(o, v.Const)]
        return places[0] if places and all(p is places[0] for p in places) else None
    return None


def has_own_parameters(module: v.External | v.Instance) -> bool | None:
    """Whether a module holds parameters of its own, besides its submodules'; None where it may."""
    if isinstance(module, v.External):
        return False
    held = list(module.attributes.values())
    if any(_is_parameter(option) for part in held for option in part.options()):
        return True
    may = module.cls.unknown_bases or module.is_generic or any(isinstance(part, v.Unknown) for part in held)
    return None if may else False


def _is_parameter(part: v.Value) -> bool:
    if isinstance(part, v.Tensor):
        return part.parameter is not None and not is_frozen(part.parameter)
    return part.kind == "parameter" or (isinstance(part, v.External) and part.name == "torch.nn.ParameterList")


def forward_facts(module: v.Value) -> dict[str, Any]:
    """What a forward's event keeps of the module as it was then."""
    return {"training": training_mode(module), "frozen": is_frozen(module), "mode_set": _set_where(module)}
