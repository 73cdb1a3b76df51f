"""A value goes from the device to the host and back.

What it does:
Reports moves to a device of values that came down from one before (`.cpu()`, `.numpy()`), or were computed from such,
where nothing in between needs the host: the chain `x.cpu().cuda()`, or NumPy functions and host tensors for which
PyTorch has the same on the device. It also reports a host tensor that is moved anew in every iteration of a loop.

Why is this bad:
The way down waits until the device has done all its work, so its queue runs empty; both ways cost bandwidth, and what
lies between runs on the CPU. PyTorch's tuning guide asks to avoid such synchronisation.

Fix safety:
Of a chain, the fix drops the part that goes down and up again. It is safe where the chain starts with the same move of
a batch that a loader gave, to what is proven to be a device; it is unsafe otherwise, as the result may then share
memory with the value that it was made from. A move that does more, such as a cast, stays. Where something lies between,
there is no fix: it has to be rewritten with PyTorch's functions.

Evidence:
No measurement yet.

References:
- [Performance Tuning Guide](https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html), "Avoid unnecessary
  CPU-GPU synchronization"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.findings import Applicability, Edit, Finding, Fix
from torchlint.rules.rule import Rule, Training
from torchlint.semantics import values as v
from torchlint.semantics.names import code_below
from torchlint.semantics.statements import assigned_names
from torchlint.syntax.linked import expression_text

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Context, Event
    from torchlint.syntax.tree import Tree

rule = Rule("TL104", since="0.1", names=("cpu", "numpy", "tolist", "item", "cuda", "to"),
            triggers=(b".to(", b".cuda(", b"torch.cuda", b".xpu(", b"device="),
            training=Training(gpus=1, on_gpu_only="on the CPU a tensor is where it is asked to go"))

rule.bad(
    """
    import torch
    from torch.utils.data import DataLoader

    def train(model, dataset):
        device = torch.device("cuda")
        for x, y in DataLoader(dataset):
            x = x.to(device).cpu().to(device)
            #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            model(x).sum().backward()
    """,
    fixed="""
    import torch
    from torch.utils.data import DataLoader

    def train(model, dataset):
        device = torch.device("cuda")
        for x, y in DataLoader(dataset):
            x = x.to(device)
            model(x).sum().backward()
    """,
    applicability=Applicability.SAFE,
)
rule.bad(
    """
    import numpy as np
    import torch

    def flipped(output):
        mirrored = np.flip(output.cpu().numpy(), 3)
        return torch.from_numpy(mirrored.copy()).cuda()
        #      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
)
rule.bad(
    """
    import torch

    def f(x, device):
        y = torch.from_numpy(x.detach().cpu().numpy()).to(device).argmax(1)
        #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        return x.cpu().cuda(), y
        #      ^^^^^^^^^^^^^^
    """,
    fixed="""
    import torch

    def f(x, device):
        y = x.detach().to(device).argmax(1)
        return x.cuda(), y
    """,
    show=False,
    applicability=Applicability.UNSAFE,
)
rule.bad(
    """
    import torch

    def f(x, table):
        weights = torch.tensor([0.1, 0.9])
        for _ in range(3):
            x = x @ weights.cuda()
            #       ^^^^^^^^^^^^^^
        return x
    """,
)
rule.bad(
    """
    import torch
    from torch.utils.data import DataLoader

    def train(model, dataset):
        device = torch.device("cuda")
        for x, y in DataLoader(dataset):
            x = x.to(device).to("cpu", torch.float64).to(device)
            #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            y = y.to(device).cpu(memory_format=torch.contiguous_format).to(device)
            #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            model(x, torch.from_numpy(y.to("cpu", torch.float64).numpy()).to(device))
            #        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    show=False,
)
rule.bad(
    """
    import torch
    from torch.utils.data import DataLoader

    def train(model, dataset, place):
        device = torch.device("cuda")
        for x, y in DataLoader(dataset):
            x = x.to(device, torch.float16).cpu().to(device, torch.float16)
            #   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
            model(x, y.to(place).cpu().to(place))
            #        ^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import torch
    from torch.utils.data import DataLoader

    def train(model, dataset, place):
        device = torch.device("cuda")
        for x, y in DataLoader(dataset):
            x = x.to(device, torch.float16).to(device, torch.float16)
            model(x, y.to(place).to(place))
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.ok(
    """
    import cv2
    import torch

    def resized(image):
        small = cv2.resize(image.cpu().numpy(), (32, 32))
        return torch.from_numpy(small).cuda()
    """,
    why="the library in between works on the host",
)
rule.ok(
    """
    import torch

    def evaluate(model, loader):
        outputs = []
        for x in loader:
            outputs.append(model(x.cuda()).cpu())
        return torch.cat(outputs).cuda()
    """,
    why="the host holds what the device has no room for until the loop is over",
)
rule.ok(
    """
    import numpy as np
    import torch

    class Search:
        def step(self, score, length):
            values = score.cpu().numpy()
            for i in range(1, length):
                values[i] = np.maximum(values[i], values[i - 1])
            self.best = score.cpu()
            noise = score.cpu().normal_().to(score.device)
            return torch.from_numpy(values).cuda(), self.best.cuda(), noise
    """,
    why="a loop over elements runs better on the host, what is kept spares the device, noise is drawn there on purpose",
)
rule.ok(
    """
    import torch

    def report(loss, device):
        print(loss.cpu())
        return torch.tensor(loss.item() / 2).to(device), loss.to(device)
    """,
    why="a number is wanted in Python; and what is printed does not go back",
    show=False,
)


rule.ok(
    """
    import torch

    def solve(design):
        if design.device.type == "mps":  # has no float64
            return torch.linalg.svd(design.cpu()).U.to(design.device)
        try:
            return design.cuda().sort().values
        except NotImplementedError:
            return design.cuda().cpu().sort().values.to(design.device)

    def roots(design):
        work = design.cpu() if design.device.type == "mps" else design
        return work.sort().values.to(design.device)
    """,
    why="it goes down where the device cannot do it, and only there",
)
rule.ok(
    """
    import torch

    def convert(data, wanted):
        if wanted == "host":
            return data.cuda().cpu()
        return data.cuda()

    def moved(data):
        return convert(data, "device").to("cuda")
    """,
    why="on another path it never came down",
    show=False,
)
rule.ok(
    """
    import random
    import numpy as np
    import torch

    def labels(mask):
        found = mask.cuda().unique().cpu().numpy().tolist()
        random.shuffle(found)
        return torch.tensor(found[:3]).to("cuda")

    def precise(x):
        x = x.cuda()
        return x.cpu().double().mul(2).float().to("cuda"), torch.mul(x.cpu(), torch.ones(3).double()).to("cuda")

    def swapped(data, order):
        if isinstance(data, torch.Tensor):
            return torch.from_numpy(swapped(data.cuda().cpu().numpy(), order)).to("cuda")
        return data.byteswap().view(data.dtype.newbyteorder(order))
    """,
    why="Python, NumPy or float64 are needed in between",
    show=False,
)


@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    for site, events in model.by_site("to_device"):
        if not isinstance(site.node, cst.Call):
            continue
        if all(_comes_back(event) for event in events):
            yield rule.at(
                site,
                f"The value came from the device to the host{_where(events[0], site)}, and goes back.",
                help="keep it on the device, and do there what is done in between.",
                fix=_fix(model, site.node, events),
            )
        elif all(_moves_again(event, site.node) for event in events):
            yield rule.at(
                site,
                "Every iteration copies the same host tensor to the device.",
                help="move it once, before the loop.",
            )


def _where(event: Event, site: v.Site) -> str:
    """The place where the value came down, in words; nothing where it is this very line."""
    lowered = event.subject.flow.lowered if event.subject is not None else None
    place = lowered.site.seen_from(site) if lowered is not None else ""
    return "" if lowered is None or place == site.seen_from(site) else f" ({place})"


def _comes_back(event: Event) -> bool:
    """Whether the value was lowered in the same run of the same function (or in one that this calls) and loops."""
    lowered = event.subject.flow.lowered if event.subject is not None else None
    if lowered is None or lowered.data.get("old") == "cpu" or lowered.data.keys() & {"walked", "kept"}:
        return False
    if _is_choice(lowered.context) or _is_choice(event.context):
        return False
    if not {(c.node.key, c.taken) for c in _guards(lowered)} <= {(c.node.key, c.taken) for c in _guards(event)}:
        return False  # on another path it never came down
    calls = event.context.calls()
    if calls and calls[0].node.key not in {c.node.key for c in lowered.context.calls()}:
        return False
    return {c.node.key for c in lowered.context.loops()} <= {c.node.key for c in event.context.loops()}


_OF_A_DEVICE = re.compile(r"\.device\b|mps|\.is_(cuda|cpu|xpu)\b|\.type ==|\.type !=")


def _is_choice(context: Context) -> bool:
    """Whether code goes there because of where a tensor is, or because something failed there."""
    return any(c.kind == "except" or (c.kind == "guard" and _OF_A_DEVICE.search(expression_text(c.data)))
               for c in context)


def _guards(event: Event) -> list[Context]:
    return [context for context in event.context if context.kind == "guard" and context.node is not None]


def _moves_again(event: Event, node: cst.Call) -> bool:
    """Whether a loop around moves a host tensor that it does not bind."""
    value = event.subject
    if value is None or value.kind != "tensor" or getattr(value, "device", None) != "cpu":
        return False
    if value.flow.created is not None or value.flow.loader is not None or event.data["how"] == "device=":
        return False
    receiver = node.func.value if isinstance(node.func, cst.Attribute) else None
    inner = next((c for c in event.context if c.kind in ("loop", "call")), None)
    if inner is None or inner.kind != "loop" or not isinstance(receiver, cst.Name):
        return False
    loop = inner.node.node
    if not isinstance(loop, (cst.For, cst.While)) or receiver.value in assigned_names(loop.body):
        return False
    return isinstance(loop, cst.While) or receiver.value not in _names(loop.target)


def _names(target: cst.CSTNode) -> set[str]:
    return {node.value for node in code_below(target) if isinstance(node, cst.Name)}


def _fix(model: Model, up: cst.Call, events: list[Event]) -> Fix | None:
    """Drop the way down of ``x.cpu().to(device)``, and the way up too where ``x`` ends in the same one."""
    down = up.func.value if isinstance(up.func, cst.Attribute) else None
    lowered = [event.subject.flow.lowered for event in events if event.subject is not None]
    tree = model.tree
    if not all(e is not None and _only_moves(e) for e in lowered):
        return None
    through = _through_numpy(tree, down)
    if through is not None and all(e is not None and e.site.node is through for e in lowered):
        return _without_numpy(tree, down, through)  # type: ignore[arg-type]
    if not isinstance(down, cst.Call) or not isinstance(down.func, cst.Attribute):
        return None
    if down.func.attr.value not in ("cpu", "to") or any(e is None or e.site.node is not down for e in lowered):
        return None
    before = down.func.value
    begin, finish = tree.offsets_with_parens(before)[1], tree.offsets_with_parens(down)[1]
    is_safe = False
    if isinstance(before, cst.Call) and isinstance(before.func, cst.Attribute):
        tail = tree.source.text[tree.offsets_with_parens(before.func.value)[1]:tree.offsets(before)[1]]
        if tail == tree.source.text[finish:tree.offsets(up)[1]] and all(map(_only_moves, events)):
            finish = tree.offsets(up)[1]
            is_safe = all(e and e.subject and e.subject.flow.loader is not None for e in lowered)
    is_whole = not tree.is_parenthesized(down) and "#" not in tree.source.text[begin:finish]
    if not is_whole or not tree.source.is_editable(begin, finish):
        return None
    edit = Edit(tree.source.span(begin, finish), "")
    return Fix("Drop the round trip", Applicability.SAFE if is_safe else Applicability.UNSAFE, (edit,))


def _only_moves(event: Event) -> bool:
    """Whether a move is given a device, or nothing, and so changes neither the dtype nor the layout."""
    given = event.arguments
    if event.data["how"] in ("numpy", "item", "tolist"):
        return True
    if given is None or given.stars or given.double_stars or given.keywords.keys() - {"device", "non_blocking"}:
        return False
    places = [*given.positional, *(value for name, value in given.keywords.items() if name == "device")]
    if event.data["how"] in ("cpu", "cuda", "xpu") and not places:
        return True
    return len(places) == 1 and all(_is_device(option) for option in places[0].options())


def _is_device(value: v.Value) -> bool:
    return isinstance(value, v.Device | v.Text) or (isinstance(value, v.Const) and isinstance(value.value, str | int))


def _through_numpy(tree: Tree, node: cst.CSTNode | None) -> cst.Call | None:
    """The ``x.cpu()`` of ``torch.from_numpy(x.cpu().numpy())``."""
    if not isinstance(node, cst.Call) or len(node.args) != 1 or node.args[0].star:
        return None
    maker = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    if not isinstance(maker, cst.Name) or maker.value not in ("from_numpy", "as_tensor"):
        return None
    array = node.args[0].value
    if not isinstance(array, cst.Call) or not isinstance(array.func, cst.Attribute) or array.func.attr.value != "numpy":
        return None
    host = array.func.value
    is_plain = isinstance(host, cst.Call) and isinstance(host.func, cst.Attribute) and not tree.is_parenthesized(host)
    return cst.ensure_type(host, cst.Call) if is_plain else None


def _without_numpy(tree: Tree, made: cst.Call, down: cst.Call) -> Fix | None:
    """Keep only ``x`` of ``torch.from_numpy(x.cpu().numpy())``."""
    value = down.func.value if isinstance(down.func, cst.Attribute) else down
    begin, finish = tree.offsets(made)
    first, last = tree.offsets_with_parens(value)
    if "#" in tree.source.text[begin:first] + tree.source.text[last:finish]:
        return None
    edits = (Edit(tree.source.span(begin, first), ""), Edit(tree.source.span(last, finish), ""))
    return Fix("Drop the round trip", Applicability.UNSAFE, edits)
