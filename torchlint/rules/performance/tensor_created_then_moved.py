"""A tensor is made on the host only to be copied to the device.

What it does:
Reports tensors that a factory (`torch.zeros`, `torch.randn`, `torch.arange`, …) makes on the host from nothing but
sizes, constants or random numbers, and that are then moved to a device: directly, after cheap operations, or through
a name. Numpy's fills and noise are factories too when the result goes to the device.

Why is this bad:
The host fills the memory, and the copy waits for it. Pageable memory is first copied into a pinned buffer, and the
copy blocks the host, so the device's queue may run dry. With `device=`, the factory runs on the device. PyTorch's
tuning guide says: "Create tensors directly on the target device".

Fix safety:
The fix passes `device=` to the factory and drops the move. It is safe where the factory is deterministic, the move
follows it in the same expression and what names the device is proven to be one. It is unsafe for random factories, as
the device has a random generator of its own and the numbers differ; where the tensor wants a gradient, as it becomes a
leaf; after `expand`, as its rows share memory until they are copied; where names or float64 lie between; and for
`type_as`, as `torch.jit.trace` records the device that it is traced on. What
factories compute, such as `linspace`, may differ in the last bit. A dtype or `memory_format=` of the move stays. There
is no fix where it cannot, where the device may be `None`, or code between needs the host.

Evidence:
No measurement yet.

References:
- [Performance Tuning Guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html), "Create tensors
  directly on the target device"
- [Tensor creation ops](https://docs.pytorch.org/docs/stable/torch.html#creation-ops)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.findings import Applicability, Edit, Finding, Fix
from torchlint.rules.rule import Rule, Training
from torchlint.semantics import knowledge
from torchlint.semantics import values as v
from torchlint.syntax import editing
from torchlint.syntax.tree import literal, walk

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Event
    from torchlint.syntax.tree import Tree

_MAKERS = """
    zeros ones rand randn arange full eye empty linspace logspace randint randperm normal bernoulli tri
    tril_indices triu_indices hann_window hamming_window blackman_window bartlett_window kaiser_window fftfreq
    rfftfreq zero_ fill_ random_ normal_ uniform_ as_tensor tensor Tensor FloatTensor DoubleTensor HalfTensor
    LongTensor IntTensor ByteTensor BoolTensor identity random uniform random_sample standard_normal binomial
    poisson
"""

rule = Rule(
    "TL105", since="0.1", names=tuple(_MAKERS.split()),
    triggers=(b".to(", b".cuda(", b".type(", b".type_as(", b".cuda", b".xpu("),
    training=Training(gpus=1, on_gpu_only="on the CPU a tensor is made where it stays"),
)

rule.bad(
    """
    import torch

    def pad(x, device):
        mask = torch.zeros(x.shape[0], 4).to(x.device)
        #      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        return x, mask
    """,
    fixed="""
    import torch

    def pad(x, device):
        mask = torch.zeros(x.shape[0], 4, device=x.device)
        return x, mask
    """,
    applicability=Applicability.SAFE,
)
rule.bad(
    """
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    noise = torch.randn(16, 100).to(device)
    #       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    noise = torch.randn(16, 100, device=device)
    """,
    applicability=Applicability.UNSAFE,
)
rule.bad(
    """
    import numpy as np
    import torch

    Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor

    def sample(n):
        return Tensor(np.random.normal(0, 1, (n, 100)))
        #      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
)
rule.bad(
    """
    import torch
    from torch import arange

    def f(x, n, gpu):
        a = arange(n).unsqueeze(0).repeat(2, 1).cuda()
        #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        b = torch.ones(
        #   ^...
            n,  # rows
            3,
        ).long().to(device=x.device, dtype=torch.float16, non_blocking=True)
        #                                                               ...^
        c = torch.eye(n).cuda(0)
        #   ^^^^^^^^^^^^^^^^^^^^
        return a, b, c
    """,
    fixed="""
    import torch
    from torch import arange

    def f(x, n, gpu):
        a = arange(n, device="cuda").unsqueeze(0).repeat(2, 1)
        b = torch.ones(
            n,  # rows
            3,
            device=x.device,
        ).long().to(dtype=torch.float16, non_blocking=True)
        c = torch.eye(n, device="cuda:0")
        return a, b, c
    """,
    applicability=Applicability.SAFE,
    show=False,
)
rule.bad(
    """
    import torch

    def f(y, rank):
        x = torch.zeros(3)
        x = x.cuda()
        #   ^^^^^^^^
        w = torch.ones(3, requires_grad=True).cuda()
        #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        like = torch.ones(3).type_as(y.data)
        #      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        return x, w, like, torch.ones(3).to(rank)
        #                  ^^^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import torch

    def f(y, rank):
        x = torch.zeros(3, device="cuda")
        w = torch.ones(3, requires_grad=True, device="cuda")
        like = torch.ones(3, device=y.device, dtype=y.dtype)
        return x, w, like, torch.ones(3, device=rank)
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    import torch

    def f(values, k, cuda, gpu):
        mask = (torch.arange(8) % k == 0) & (torch.arange(8) != k)
        mask = mask.to(values.device)
        #      ^^^^^^^^^^^^^^^^^^^^^^
        index = torch.LongTensor(8).random_(k)
        if cuda:
            index = index.cuda()
            #       ^^^^^^^^^^^^
        rows = torch.zeros(2).type_as(values.cuda())
        #      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        return mask, index, rows, torch.zeros(2).cuda(gpu)
        #                         ^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    show=False,
)
rule.bad(
    """
    import torch

    def f(x, out):
        a = torch.zeros(3).type(torch.FloatTensor).to(x.device)
        #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        b = torch.zeros(3).to("cpu").to(x.device)
        #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        return a, b, torch.eye(3, out=out).to(x.device)
        #            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    show=False,
)
rule.bad(
    """
    import torch

    def f(x):
        return torch.arange(4).double().float().to(x.device)
        #      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import torch

    def f(x):
        return torch.arange(4, device=x.device).double().float()
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    import torch

    def f(x):
        a = torch.zeros(1, 3, 8, 8).to(x.device, memory_format=torch.channels_last)
        #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        b = torch.zeros(3).to(x.device, torch.float16, True)
        #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        c = torch.zeros(3).to(x.device, non_blocking=True, copy=True)
        #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        d = torch.zeros(3).cuda(0, True)
        #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        return a, b, c, d
    """,
    fixed="""
    import torch

    def f(x):
        a = torch.zeros(1, 3, 8, 8, device=x.device).to(memory_format=torch.channels_last)
        b = torch.zeros(3, device=x.device).to(torch.float16, True)
        c = torch.zeros(3, device=x.device)
        d = torch.zeros(3, device="cuda:0")
        return a, b, c, d
    """,
    applicability=Applicability.SAFE,
    show=False,
)
rule.bad(
    """
    import torch

    def f():
        a = torch.zeros(1, 3, 8, 8).cuda(memory_format=torch.channels_last)
        #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        b = torch.zeros(1, 3, 8, 8)
        b = b.cuda(memory_format=torch.channels_last)
        #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        c = torch.zeros(3).cuda(0, memory_format=torch.preserve_format)
        #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        return a, b, c
    """,
    show=False,
)
rule.bad(
    """
    import torch

    def f(x):
        return torch.zeros(1, 3).expand(4, 3).to(x.device)
        #      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import torch

    def f(x):
        return torch.zeros(1, 3, device=x.device).expand(4, 3)
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.ok(
    """
    import torch

    def mask(lengths, n):
        ids = torch.arange(0, n, out=torch.cuda.LongTensor(n))
        return ids.to(lengths.device)
    """,
    why="the numbers are written to `out`, where that is",
    show=False,
)
rule.ok(
    """
    import torch

    x = torch.zeros(3, device="cuda").to(torch.float16)
    y = torch.zeros(3).to(torch.float16)
    """,
    why="the factory runs on the device; and where only the dtype changes, nothing moves",
)
rule.ok(
    """
    import torch

    def load(rows, device):
        x = torch.tensor(rows).to(device)
        buffer = torch.zeros(8, 3)
        buffer[: len(rows)] = torch.tensor(rows)
        return x, buffer.to(device)
    """,
    why="the data come from the host and have to travel",
)
rule.ok(
    """
    import torch

    def noise(x):
        y = x.to("cuda")
        z = torch.zeros_like(y).to(y.device)
        return z, torch.zeros(3).to("cpu"), torch.zeros(3).cpu(), y.new_zeros(3).to(y.device)
    """,
    why="these are on their device already",
    show=False,
)
rule.ok(
    """
    import torch

    def move(batch, device):
        return batch.to(device)

    def run(model, loader, device):
        model = torch.nn.Linear(3, 3).to(device)
        for x in loader:
            model(move(x, device))
        return move(torch.zeros(3), device)
    """,
    why="a module, and a function that moves whatever it is given",
    show=False,
)
rule.ok(
    """
    import torch

    def compare(layer_on_cpu, layer_on_gpu):
        x = torch.rand(2, 3)
        return layer_on_cpu(x) - layer_on_gpu(x.to("cuda")).cpu()
    """,
    why="the same numbers are wanted on the host as well",
    show=False,
)
rule.ok(
    """
    import torch

    torch.set_default_device("cuda")
    x = torch.zeros(3).to("cuda")
    """,
    why="factories allocate on the default device",
    show=False,
)
rule.ok(
    """
    import torch

    with torch.device("cuda"):
        x = torch.zeros(3).to("cuda")
    staging = torch.empty(3, pin_memory=True).to("cuda", non_blocking=True)
    """,
    why="factories allocate on that device inside the block; a pinned buffer is meant to be copied from",
    show=False,
)

_RANDOM = ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "random_", "normal_", "uniform_")
_CHEAP = frozenset({
    "view", "reshape", "unsqueeze", "squeeze", "expand", "repeat", "transpose", "permute", "flatten", "view_as", "tile",
    "expand_as", "t", "triu", "tril", "flip", "contiguous", "clone", "detach", "float", "double", "half", "bfloat16",
    "long", "int", "short", "byte", "bool", "to", "type", "fill_", "zero_", "random_", "normal_", "uniform_",
    "requires_grad_",
})  # fmt: skip


_IN_MEMORY = frozenset({"requires_grad_", "expand", "expand_as"})  # what a copy to another device gets rid of


rule.ok(
    """
    import torch

    def grid(feature, size, generator):
        # type_as inherits the runtime device in traces, unlike device=
        rows = torch.arange(size).type_as(feature)
        noise = torch.rand(size, generator=generator).to(feature.device)
        return rows, noise
    """,
    why="a generator of the host draws on the host; a trace follows the other tensor's device",
)


@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    for site, events in model.by_site("to_device"):
        if isinstance(site.node, cst.Call) and all(_made_here(event) for event in events):
            created = _created(events[0])
            if _stays_in_use(model.tree, site.node, events) or _is_for_traces(model.tree, site, events[0]):
                continue
            yield rule.at(
                site,
                f"{_maker(created)}{_where(created, site)} fills host memory, which is then copied to the device.",
                help="pass `device=` to the factory." if _is_torch(created) else
                "make it on the device with a torch factory and `device=`.",
                fix=_fix(model, site.node, events),
            )
    for site, events in model.by_site("tensor_from_data"):
        events = [event for event in events if event.data["name"].startswith("torch.cuda.")]
        if events and all(_made_here(event) for event in events):
            yield rule.at(
                site,
                f"{_maker(_created(events[0]))} fills host memory, which is then copied to the device.",
                help="make it on the device with a torch factory and `device=`.",
            )


_TRACES = re.compile(r"#.*\b(trac(e|es|ed|ing)|export\w*|onnx)\b", re.IGNORECASE)


def _is_for_traces(tree: Tree, site: v.Site, event: Event) -> bool:
    """Whether the author says that `type_as` is there for traces, in which it follows the other tensor's device."""
    line = site.span.start.line
    lines = tree.source.lines[max(0, line - 6):line] if site.span.start.cell is None else []
    return event.data["how"] == "type_as" and any(map(_TRACES.search, lines))


def _where(created: Event, site: v.Site) -> str:
    """Where the factory stands, in words; nothing where it is this very line."""
    place = created.site.seen_from(site)
    return "" if place == site.seen_from(site) else f" ({place})"


def _created(event: Event) -> Event:
    created = event.subject.flow.created if event.subject is not None else None
    assert created is not None
    return list(_origins(created))[-1]


def _follows(move: cst.Call) -> bool:
    """Whether a trace of the move would follow the other tensor's device, which `device=` would fix."""
    return isinstance(move.func, cst.Attribute) and move.func.attr.value == "type_as"


def _origins(created: Event) -> Iterator[Event]:
    """The event that made a value, and the one that made what it was made from."""
    here: Event | None = created
    while here is not None:
        yield here
        here = here.data.get("source")


def _made_here(event: Event) -> bool:
    """Whether what moves was made by a factory, in the function that moves it or one that this calls."""
    created = event.subject.flow.created if event.subject is not None else None
    if created is None or event.data.get("how") == "device=" or any(e.data.get("filled") for e in _origins(created)):
        return False
    if any(e.arguments is not None and e.arguments.may_hold("generator") for e in _origins(created)):
        return False  # a generator of the host draws nothing on the device
    if event.arguments is not None and (event.arguments.stars or event.arguments.double_stars):
        return False  # it may as well say a dtype only
    if any(c.kind == "with" and isinstance(c.data, v.Device) for c in created.context):
        return False
    calls = event.context.calls()
    return not calls or calls[0].node.key in {c.node.key for c in created.context.calls()}


def _stays_in_use(tree: Tree, move: cst.Call, events: list[Event]) -> bool:
    """Whether only a copy of a named value moves, while others take the value on the host."""
    receiver = move.func.value if isinstance(move.func, cst.Attribute) else None
    if not isinstance(receiver, cst.Name) or isinstance(tree.parent(move), cst.Assign):
        return False
    made = [event.subject.flow.created for event in events if event.subject is not None]
    return any(created is not None and created.data.get("used") for created in made)


def _is_torch(created: Event) -> bool:
    return not created.data["name"].startswith("numpy.")


def _maker(created: Event) -> str:
    return f"`{created.data['name']}`"


@dataclass(frozen=True, slots=True)
class _Target:
    """What the factory must be given instead of the move."""

    device: str
    dtype: str | None  # the move changes the dtype too, to this one
    is_proven: bool  # the text names a device for sure
    argument: cst.Arg | None  # the move's argument that says so; the others may stay


def _fix(model: Model, move: cst.Call, events: list[Event]) -> Fix | None:
    created = _created(events[0])
    factory = created.site.node
    makers = {id(_created(event).site.node) for event in events}
    if len(makers) > 1 or created.kind != "create" or created.site.tree is not model.tree:
        return None
    target = _target(model.tree, move, events)
    if target is None or not isinstance(factory, cst.Call) or not _takes_device(created):
        return None
    steps = _steps(move.func.value, factory) if isinstance(move.func, cst.Attribute) else None
    if steps is not None and _moves_before(model, move, factory):
        return None
    dropped = _without_move(model.tree, move, target, bool(steps)) if steps is not None else None
    if steps is None:
        steps, dropped = _between_statements(model.tree, move, factory, target)
        target = replace(target, is_proven=False)
    text = target.device
    if target.dtype is not None and not steps:
        if created.arguments is None or created.arguments.get("dtype") is not None:
            return None
        text += f", dtype={target.dtype}"
    edits = editing.set_keyword(model.tree, factory, "device", text)
    if dropped is None or edits is None:
        return None
    is_safe = target.is_proven and not _follows(move) and not _changes_values(created, steps, target) and not (
        steps and _is_wide(model.tree.text(move)))
    return Fix("Pass `device=`", Applicability.SAFE if is_safe else Applicability.UNSAFE, (*edits, *dropped))


def _takes_device(created: Event) -> bool:
    known = knowledge.api(created.data["name"])
    if created.arguments is None or created.arguments.get("out") is not None:
        return False
    return known is not None and "factory" in known.flags and _is_torch(created)


def _changes_values(created: Event, steps: list[str], target: _Target) -> bool:
    """Whether other numbers may come out, or a leaf that wants a gradient, or rows in one memory, instead of a copy."""
    name = created.data["name"].rpartition(".")[2]
    if name in _RANDOM or any(step in _RANDOM for step in steps):
        return True
    if target.dtype is not None and name not in ("zeros", "ones", "eye", "empty"):
        return True
    wants = created.arguments.get("requires_grad") if created.arguments is not None else None
    return wants is not None or not _IN_MEMORY.isdisjoint(steps)


def _is_wide(text: str) -> bool:
    """Whether float64 may lie between, which not every device has."""
    return "float64" in text or "double" in text


def _target(tree: Tree, move: cst.Call, events: list[Event]) -> _Target | None:
    how = events[0].data["how"]
    if how in ("cuda", "xpu") and not [a for a in move.args if a.keyword is None or a.keyword.value == "device"]:
        return _Target(f'"{how}"', None, True, None)
    values = [event.data["where"] for event in events]
    argument = next((a for a in move.args if a.keyword is None or a.keyword.value in ("device", "other")), None)
    if argument is None or argument.star or not _is_pure(argument.value) or any(value is None for value in values):
        return None
    text = tree.text(argument.value)
    if how == "type_as" or (how == "to" and all(isinstance(value, v.Tensor) for value in values)):
        is_name = isinstance(argument.value, cst.Name | cst.Attribute)
        text = text.removesuffix(".data")  # which is the tensor that it belongs to in both respects
        return _Target(f"{text}.device", f"{text}.dtype", True, argument) if is_name else None
    if how == "cuda":
        number = isinstance(argument.value, cst.Integer)
        is_device = all(isinstance(value, v.Device | v.Number) for value in values)
        return _Target(f'"cuda:{text}"' if number else text, None, True, argument) if number or is_device else None
    is_proven = all(isinstance(o, v.Device | v.Number | v.Const | v.Text) for value in values for o in value.options())
    return _Target(text, None, is_proven, argument) if how == "to" and (is_proven or _reads_as_device(text)) else None


def _reads_as_device(text: str) -> bool:
    """What is not proven to be a device may be a tensor or a dtype as well: then its name breaks the tie."""
    last = text.rpartition(".")[2].lower()
    return "device" in last or last in ("rank", "local_rank", "gpu", "dev", "cuda")


def _is_pure(node: cst.BaseExpression) -> bool:
    """Whether evaluating the expression earlier gives the same and does nothing else."""
    if isinstance(node, cst.Attribute):
        return _is_pure(node.value)
    if isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        return _is_pure(node.value) and _is_pure(node.slice[0].slice.value)
    return isinstance(node, cst.Name | cst.Integer) or literal(node) is not None


def _steps(node: cst.BaseExpression, factory: cst.Call) -> list[str] | None:
    """The methods between the factory and the move, all in one expression; None where there is anything else."""
    steps: list[str] = []
    while node is not factory:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _CHEAP:
            steps.append(node.func.attr.value)
            node = node.func.value
        elif isinstance(node, cst.Call) and len(node.args) == 1 and not isinstance(node.func, cst.Attribute):
            node = node.args[0].value
            steps.append("Variable")
        elif isinstance(node, cst.Subscript):
            node = node.value
            steps.append("[]")
        else:
            return None
    return steps


def _moves_before(model: Model, move: cst.Call, factory: cst.Call) -> bool:
    """Whether a step between the factory and the move names a place of its own, which would be the last one then."""
    for node in walk(move):
        if node in (factory, move) or not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            continue
        if model.happens_at("to_device", node) or node.func.attr.value == "cpu":
            return True
        if node.func.attr.value in ("to", "type") and any(map(_names_a_place, node.args)):
            return True
    return False


def _names_a_place(argument: cst.Arg) -> bool:
    """Whether what a `to` or a `type` is given is a place, or a tensor type, which has one, rather than a dtype."""
    if argument.keyword is not None and argument.keyword.value == "device":
        return True
    names = [node.value for node in walk(argument.value) if isinstance(node, cst.Name | cst.SimpleString)]
    return any("Tensor" in name or "device" in name or name[:1] in "\"'" for name in names)


def _without_move(tree: Tree, move: cst.Call, target: _Target, stays_cast: bool) -> list[Edit] | None:
    """Drop the move, or of ``.to(device, dtype)`` only the device; None where it says more than can be kept."""
    if target.dtype is not None and stays_cast:
        return []
    if not _says_more(move, target):
        return editing.drop_method_call(tree, move)
    if target.dtype is not None or target.argument is None or _name(move) != "to":
        return None
    if any(a.keyword is None and isinstance(a.value, cst.Name) and a.value.value in _TRUTHS
           for a in move.args[:2]):  # no flag may come to stand where the dtype or the device does
        return None
    return editing.remove_argument(tree, move, target.argument)


def _says_more(move: cst.Call, target: _Target) -> bool:
    """Whether the move does more than to move: a dtype, a memory format, arguments that nobody sees."""
    return any(argument is not target.argument and not _is_about_copying(argument, _name(move), index)
               for index, argument in enumerate(move.args))


_TRUTHS = ("True", "False")


def _is_about_copying(argument: cst.Arg, method: str, index: int) -> bool:
    """Whether an argument only says how to copy, of which a tensor that is made in its place needs nothing."""
    if argument.star:
        return False
    if argument.keyword is None:  # `.cuda(0, True)` and `.to(other, True)` are about the copy
        is_flag = isinstance(argument.value, cst.Name) and argument.value.value in _TRUTHS
        return is_flag and index == 1 and method in ("cuda", "xpu", "type_as")
    return argument.keyword.value in ("non_blocking", "copy") and _is_pure(argument.value)


def _name(move: cst.Call) -> str:
    return move.func.attr.value if isinstance(move.func, cst.Attribute) else ""


def _between_statements(tree: Tree, move: cst.Call, factory: cst.Call,
                        target: _Target) -> tuple[list[str], list[Edit] | None]:
    """``x = torch.zeros(3)`` and, as the very next statement, ``x = x.to(device)``."""
    here = tree.parent(move)
    line = tree.parent(here) if here is not None else None
    block = tree.parent(line) if line is not None else None
    body: list[cst.CSTNode] = list(block.body) if isinstance(block, (cst.IndentedBlock, cst.Module)) else []
    if not isinstance(here, cst.Assign) or line not in body or body.index(line) == 0 or len(here.targets) > 1:
        return [], None
    above = body[body.index(line) - 1]
    first = above.body[0] if isinstance(above, cst.SimpleStatementLine) and len(above.body) == 1 else None
    receiver = move.func.value if isinstance(move.func, cst.Attribute) else None
    if not isinstance(first, cst.Assign) or len(first.targets) > 1:
        return [], None
    if not isinstance(receiver, cst.Name) or target.dtype:
        return [], None
    names = [n.value if isinstance(n, cst.Name) else "" for n in (first.targets[0].target, here.targets[0].target)]
    steps = _steps(first.value, factory)
    if steps is None or set(names) != {receiver.value} or _says_more(move, target) or receiver.value in target.device:
        return [], None
    return steps, editing.delete_statement(tree, here)
