"""What is known of data loaders and the datasets that they draw from."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantics import knowledge
from torchlint.semantics import values as v
from torchlint.semantics.library import device_of
from torchlint.semantics.names import code_below
from torchlint.semantics.recording import Block, Context

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchlint.semantics.interpreter import Interpreter
    from torchlint.semantics.recording import Event

LOADER = "torch.utils.data.DataLoader"
_ITERABLE = "torch.utils.data.IterableDataset"
_WRAPPERS = frozenset({"torch.utils.data.Subset", "torch.utils.data.ConcatDataset", "torch.utils.data.dataset.Subset"})
_INDEXING = frozenset({  # what a __getitem__ calls that only hands out what is in memory already
    "tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "LongTensor", "len", "int", "float", "bool", "long",
    "astype", "unsqueeze", "squeeze", "view", "reshape", "isinstance", "is_tensor", "clone", "copy", "item", "double",
    "half", "append", "get", "Data", "slice", "min", "max", "tolist", "detach", "dict", "tuple", "list", "type",
})

_OF_ARRAYS = tuple(f".{name}()" for name in ("nonzero", "view", "reshape", "argsort", "flatten", "unsqueeze", "astype"))
_A_PART = re.compile(r"(?:\.(?:split|chunk)\(\)|\[[^\[\]]*\])+$")
# results of methods that only arrays and tensors have


def made_loaders(events: list[Event]) -> Iterator[Event]:
    """The constructions of torch's own loader class, by whatever way, and of subclasses that add no constructor."""
    for event in events:
        if event.data["name"] == LOADER or _is_plain_subclass(event.subject):
            yield event


def _is_plain_subclass(value: v.Value | None) -> bool:
    return isinstance(value, v.Instance) and LOADER in value.cls.external_bases and value.cls.find("__init__") is None \
        and not value.cls.unknown_bases


def setting(event: Event, name: str) -> v.Value | None:
    """What a construction passes for a parameter of DataLoader: None where it certainly passes nothing."""
    arguments = event.arguments
    assert arguments is not None
    known = knowledge.api(LOADER)
    position = known.position(name) if known is not None else None
    given = arguments.get(name, position)
    if isinstance(given, v.Choice) or (given is None and arguments.may_hold(name, position)):
        return v.Unknown(name)
    if given is not None and arguments.double_stars and name not in arguments.nodes and name in arguments.keywords:
        return v.Unknown(name)  # one of several dicts holds it
    return given


def constant_of(value: v.Value) -> tuple[v.Const | None, bool]:
    """The constant that a value is, or is by default, and whether it is only a default."""
    if isinstance(value, v.Const):
        return value, False
    if isinstance(value, v.Unknown) and isinstance(value.guess, v.Const):
        return value.guess, True
    return None, False


def nature(machine: Interpreter, dataset: v.Value | None) -> str | None:
    """What drawing an item costs: ``memory`` (an index), ``iterable`` (a stream that workers would repeat), ``device``
    (items are on an accelerator already), ``work``, ``elsewhere`` (an attribute that other code sets), or None where
    nobody knows."""
    if dataset is None:
        return None
    if isinstance(dataset, v.Union):
        # What is not known is what no branch had set.
        natures = {nature(machine, option) for option in dataset.options() if not _is_none(option)} - {None}
        return natures.pop() if len(natures) == 1 else None
    if isinstance(dataset, (v.Sequence, v.Tensor, v.Array, v.Mapping)):
        return "memory"
    if isinstance(dataset, v.Unknown) and _A_PART.sub("", dataset.name).endswith(_OF_ARRAYS):
        return "memory"
    if isinstance(dataset, v.Unknown) and isinstance(dataset.base, v.Instance):
        return "elsewhere"
    if isinstance(dataset, v.External):
        return _library_nature(machine, dataset)
    return _class_nature(machine, dataset) if isinstance(dataset, v.Instance) else None


def _is_none(value: v.Value) -> bool:
    return isinstance(value, v.Const) and value.value is None


def _library_nature(machine: Interpreter, dataset: v.External) -> str | None:
    if dataset.name in _WRAPPERS:
        inner = dataset.argument("dataset", 0) or dataset.argument("datasets", 0)
        if isinstance(inner, v.Sequence):
            inner = v.join(*inner.elements()) if inner.items or inner.rest is not None else None
        return nature(machine, inner)
    if dataset.name == "builtins.range":
        return "memory"
    known = knowledge.api(dataset.name)
    flags = known.flags if known is not None else frozenset()
    if "in_memory" in flags or dataset.name.startswith("torch_geometric.datasets."):
        return "memory"  # nearly all of these derive from InMemoryDataset
    if knowledge.is_subclass(dataset.name, _ITERABLE):
        return "iterable"
    return "work" if flags & {"decodes", "holds_arrays"} else None


def _class_nature(machine: Interpreter, dataset: v.Instance) -> str | None:
    cls = dataset.cls
    if any(knowledge.is_subclass(base, _ITERABLE) for base in cls.external_bases):
        return None if _names(cls, "get_worker_info") else "iterable"
    known = dataset.state.get("nature")
    if known is None:
        known = dataset.state["nature"] = _item_nature(machine, dataset) or "unknown"
    return None if known == "unknown" else str(known)


def _item_nature(machine: Interpreter, dataset: v.Instance) -> str | None:
    method = dataset.cls.find("__getitem__")
    if not isinstance(method, v.Function):
        return None
    if _gives_device(machine, dataset, method):
        return "device"
    calls = list(_calls(method.node))
    return "memory" if all(_last_name(call.func) in _INDEXING for call in calls) else "work"


def _gives_device(machine: Interpreter, dataset: v.Instance, method: v.Function) -> bool:
    """Whether the items are on an accelerator: ``__getitem__`` is run once to see."""
    arguments = v.Arguments()
    arguments.positional.append(v.Number())
    results: list[v.Value] = []
    mark = machine.mark()
    context = Context(None, "entry", method.site, "item")
    with machine.fresh(method.module.frame, context, Block()):
        machine.run_guarded(lambda: results.append(machine.follow(method.bound_to(dataset), arguments, method.node,
                                                                  entry=True)))
    machine.undo(mark)
    return any(_on_device(result) for result in results)


def _on_device(value: v.Value) -> bool:
    parts: Iterable[v.Value] = [option for option in value.options() if option is not value]
    if isinstance(value, v.Sequence):
        parts = value.elements()
    elif isinstance(value, v.Mapping):
        parts = value.items.values()
    return any(map(_on_device, parts)) or device_of(value) not in (None, "cpu")


def _names(cls: v.Class, word: str) -> bool:
    return any(isinstance(node, cst.Name) and node.value == word for each in cls.mro() if isinstance(each, v.Class)
               for node in code_below(each.node))


def _calls(node: cst.CSTNode) -> Iterator[cst.Call]:
    for inner in code_below(node):
        if isinstance(inner, cst.Call):
            yield inner


def _last_name(node: cst.BaseExpression) -> str:
    return node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""
