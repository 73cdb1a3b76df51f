"""`torch.tensor` copies a numpy array that PyTorch could share.

What it does:
Reports `torch.tensor(a)` where `a` is proven to be a numpy array, and legacy constructors such as
`torch.FloatTensor(a)` where the array is itself a copy that was made a moment ago, in another dtype or out of a list.

Why is this bad:
`torch.tensor` always copies its data. `torch.from_numpy` shares the array's memory, and `torch.as_tensor` copies only
where dtype or device ask for it; PyTorch's documentation of `torch.tensor` recommends both. A legacy constructor
shares an array of its own dtype, but an array that was just converted to another one is converted a second time.

What is not reported:
An array that is written to later, in a loop's next turn or in another method, and a tensor that is written to while
others hold the array: there the copy is needed.

Fix safety:
The fix calls `torch.as_tensor`, with the `dtype=` and `device=` that were given. The tensor then shares the array's
memory. That is safe where the array was made in this very expression, nobody else holds it, and its dtype is one that
PyTorch knows; it is unsafe where the array lives on, as a later change of one shows in the other, and where the
expression swaps axes, as the tensor keeps the array's strides, and a later `view` may refuse them. There is no fix
where the array is read-only or a view that may have negative strides.

Evidence:
No measurement yet.

References:
- [`torch.tensor`](https://docs.pytorch.org/docs/stable/generated/torch.tensor.html), its first note
- [`torch.from_numpy`](https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.findings import Applicability, Finding, Fix
from torchlint.rules.rule import Rule, Training
from torchlint.semantics import values as v
from torchlint.semantics.arrays import is_written, may_be_written_after
from torchlint.semantics.library import where_of
from torchlint.semantics.torch_library import TENSORS_FROM_DATA, TENSORS_FROM_DATA_TEXT
from torchlint.syntax import editing
from torchlint.syntax.tree import walk

if TYPE_CHECKING:
    from torchlint.semantics.model import Model
    from torchlint.semantics.recording import Event

rule = Rule("TL102", since="0.1", names=TENSORS_FROM_DATA, triggers=TENSORS_FROM_DATA_TEXT,
            training=Training())

rule.bad(
    """
    import numpy as np
    import torch

    def batch(images):
        return torch.tensor(np.stack(images))
        #      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import numpy as np
    import torch

    def batch(images):
        return torch.as_tensor(np.stack(images))
    """,
    applicability=Applicability.SAFE,
)
rule.bad(
    """
    import numpy as np
    import torch

    weights = np.load("weights.npy")
    parameter = torch.tensor(weights, dtype=torch.float32)
    #           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import numpy as np
    import torch

    weights = np.load("weights.npy")
    parameter = torch.as_tensor(weights, dtype=torch.float32)
    """,
    applicability=Applicability.UNSAFE,
)
rule.bad(
    """
    import numpy as np
    import torch

    words = np.loadtxt("cora.content", dtype=str)
    features = torch.FloatTensor(words.astype(np.int32))
    #          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
)
rule.bad(
    """
    import numpy as np
    from torch import tensor

    def f(n, device):
        a = tensor(
        #   ^...
            np.zeros(n),  # filled below
            device=device,
        )
        b = tensor(np.ones(n).reshape(-1, 1),
        #   ^...
                   device=device)
        #                    ...^
        return a, b
    """,
    fixed="""
    import numpy as np
    import torch
    from torch import tensor

    def f(n, device):
        a = torch.as_tensor(
            np.zeros(n),  # filled below
            device=device,
        )
        b = torch.as_tensor(np.ones(n).reshape(-1, 1),
                            device=device)
        return a, b
    """,
    applicability=Applicability.SAFE,
    show=False,
)
rule.bad(
    """
    import numpy as np
    import torch

    def half(n):
        return torch.tensor(np.zeros((n, n))[:, : n // 2])
        #      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import numpy as np
    import torch

    def half(n):
        return torch.as_tensor(np.zeros((n, n))[:, : n // 2])
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    import numpy as np
    import torch

    def channels_first(images):
        return torch.tensor(np.stack([image.transpose(2, 0, 1) for image in images]))
        #      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import numpy as np
    import torch

    def channels_first(images):
        return torch.as_tensor(np.stack([image.transpose(2, 0, 1) for image in images]))
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    import numpy as np
    import torch

    def f(image, rows):
        mask = image.strides and torch.tensor(image)
        #                        ^^^^^^^^^^^^^^^^^^^
        if isinstance(rows, np.ndarray):
            rows = torch.tensor(rows)
            #      ^^^^^^^^^^^^^^^^^^
        return mask, rows
    """,
    fixed="""
    import numpy as np
    import torch

    def f(image, rows):
        mask = image.strides and torch.as_tensor(image)
        if isinstance(rows, np.ndarray):
            rows = torch.as_tensor(rows)
        return mask, rows
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.bad(
    """
    import numpy as np
    import torch

    def f(grad):
        return torch.tensor(np.arange(4), requires_grad=grad), torch.tensor(np.frombuffer(b"ab", dtype=np.uint8))
        #      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    show=False,
)
rule.ok(
    """
    import numpy as np
    import torch

    a = torch.from_numpy(np.zeros(3))
    b = torch.as_tensor(np.zeros(3), device="cuda")
    """,
    why="both share the array's memory as far as they can",
)
rule.ok(
    """
    import numpy as np
    import torch

    loss = torch.tensor(np.mean([1.0, 2.0]))
    rows = torch.tensor([1, 2, 3])
    empty = torch.Tensor(3, 4)
    """,
    why="a number, a list and a size are no arrays",
)
rule.ok(
    """
    import numpy as np
    import torch

    a = torch.tensor(np.random.rand(3), dtype=torch.float32)
    b = torch.FloatTensor(np.random.rand(3))
    c = torch.tensor(np.zeros(3), device="cuda")
    """,
    why="another dtype or a GPU needs its own memory: there is one copy either way",
)
rule.bad(
    """
    import itertools

    import numpy as np
    import torch
    from project.audio import read

    class Score:
        def one(self, x, mask):
            return torch.tensor(x[mask > 0])
            #      ^^^^^^^^^^^^^^^^^^^^^^^^^

        def all(self, n):
            return self.one(np.zeros(n), np.ones(n))

    def load(path):
        wave, rate = read(path)
        return torch.tensor(wave)
        #      ^^^^^^^^^^^^^^^^^^

    def collate(batch, image):
        is_array = isinstance(image, np.ndarray)
        image = torch.tensor(image) if is_array else image
        #       ^^^^^^^^^^^^^^^^^^^
        if isinstance(batch[0][0], np.ndarray):
            return [torch.tensor(batch[i][0]) for i in range(len(batch))], image
            #       ^^^^^^^^^^^^^^^^^^^^^^^^^

    def align(x, y):
        return np.stack([x, y])

    def rows(pairs, table, i, frame):
        for row in itertools.starmap(align, pairs):
            print(torch.tensor(row))
            #     ^^^^^^^^^^^^^^^^^
        row = np.load(table)[i]
        if row.ndim == 2:
            print(torch.tensor(row))
            #     ^^^^^^^^^^^^^^^^^
        return torch.tensor(frame.drop_duplicates().groupby("user").tail(1).values)
        #      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import itertools

    import numpy as np
    import torch
    from project.audio import read

    class Score:
        def one(self, x, mask):
            return torch.as_tensor(x[mask > 0])

        def all(self, n):
            return self.one(np.zeros(n), np.ones(n))

    def load(path):
        wave, rate = read(path)
        return torch.as_tensor(wave)

    def collate(batch, image):
        is_array = isinstance(image, np.ndarray)
        image = torch.as_tensor(image) if is_array else image
        if isinstance(batch[0][0], np.ndarray):
            return [torch.as_tensor(batch[i][0]) for i in range(len(batch))], image

    def align(x, y):
        return np.stack([x, y])

    def rows(pairs, table, i, frame):
        for row in itertools.starmap(align, pairs):
            print(torch.as_tensor(row))
        row = np.load(table)[i]
        if row.ndim == 2:
            print(torch.as_tensor(row))
        return torch.as_tensor(frame.drop_duplicates().groupby("user").tail(1).values)
    """,
    applicability=Applicability.UNSAFE,
    files={"project/audio.py": """
        import numpy as np
        from reader import decode

        def read(path) -> tuple[np.ndarray, int]:
            return decode(path)
        """, "project/__init__.py": ""},
    show=False,
)
rule.ok(
    """
    import numpy as np
    import torch

    def collate(batch, image, rows):
        is_array = isinstance(image, np.ndarray)
        image = rows
        if isinstance(batch[0][0], np.ndarray):
            return torch.tensor(batch[0][1]), torch.tensor(image) if is_array else None
        item = np.load("a.npy")[rows]
        return torch.tensor(item)
    """,
    why="another item and another value than the ones that were asked, and an item that may be a number",
    show=False,
)
rule.ok(
    """
    import torch

    def wrap(data):
        return torch.tensor(data)
    """,
    why="nothing says that it is an array",
    show=False,
)

_TORCH_DTYPES = {"half": "float16", "float": "float32", "double": "float64", "long": "int64", "int": "int32"}


rule.ok(
    """
    import numpy as np
    import torch

    def collect(count):
        recent, frames = np.zeros((4, 8), dtype=np.float32), []
        for _ in range(count):
            recent[:-1] = recent[1:]
            recent[-1] = np.random.rand(8)
            frames.append(torch.tensor(recent))
        return torch.stack(frames)
    """,
    why="the next turn of the loop writes to the array",
)
rule.bad(
    """
    import numpy as np
    import torch

    def collect(count):
        frames = []
        for number in range(count):
            frame = np.zeros((4, 8))
            frame[0] = number
            frames.append(torch.tensor(frame))
            #             ^^^^^^^^^^^^^^^^^^^
        return frames
    """,
    fixed="""
    import numpy as np
    import torch

    def collect(count):
        frames = []
        for number in range(count):
            frame = np.zeros((4, 8))
            frame[0] = number
            frames.append(torch.as_tensor(frame))
        return frames
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.ok(
    """
    import numpy as np
    import torch

    def decay(path):
        weights = np.load(path)
        before = torch.tensor(weights)
        weights *= 0.9
        return before, weights

    def first(x):
        array = x.cpu().numpy()
        kept = torch.tensor(array)
        array[0] = 5
        np.random.shuffle(array)
        return kept

    def view(path):
        whole = np.load(path)
        tail = torch.tensor(whole[1:])
        np.copyto(whole, 0)
        return tail

    def filled(path):
        array = np.load(path)
        kept = torch.tensor(array)
        np.add(array, 1, out=array)
        array.fill(0)
        return kept

    def other(path):
        array = np.load(path)
        noisy = torch.tensor(array)
        noisy += 1
        noisy[0] = 2
        return noisy, array
    """,
    why="the array, or the tensor, is written to while the other lives on",
    show=False,
)
rule.ok(
    """
    import numpy as np
    import torch

    class Memory:
        def __init__(self, size):
            self.rewards = np.zeros(size, dtype=np.float32)

        def push(self, index, reward):
            self.rewards[index] = reward

        def sample(self):
            return torch.tensor(self.rewards)
    """,
    why="another method writes to the array",
)


@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    for site, events in model.by_site("tensor_from_data"):
        name = events[0].data["name"]
        node = site.node
        if not isinstance(node, cst.Call) or not _are_arrays([event.subject for event in events]):
            continue
        if any(_needs_copy(model, node, event) for event in events):
            continue
        if name == "torch.tensor" and any(_could_share(event) for event in events):
            yield rule.at(
                site,
                "`torch.tensor` copies the array, although PyTorch could share its memory.",
                help="use `torch.as_tensor`, which shares it.",
                fix=_fix(model, node, events),
            )
        elif name in _LEGACY and all(_converted_twice(event, node) for event in events):
            yield rule.at(
                site,
                f"The array is converted to one dtype, and then to another one by `{name}`.",
                help="convert it once, to the dtype that is wanted, and use `torch.from_numpy`.",
            )


_LEGACY = frozenset(f"torch.{kind}Tensor" for kind in (
    "", "Float", "Double", "Half", "Long", "Int", "Short", "Byte", "Char", "Bool", "BFloat16"))


def _are_arrays(values: list[v.Value | None]) -> bool:
    """Whether every caller that is seen passes an array; a run of the function by itself shows nothing else."""
    others = [value for value in values if not _is_array(value)]
    return len(others) < len(values) and all(isinstance(value, v.Unknown) and value.generic for value in others)


def _is_array(value: v.Value | None) -> bool:
    return value is not None and all(option.kind == "ndarray" for option in value.options())


def _needs_copy(model: Model, node: cst.Call, event: Event) -> bool:
    """Whether what is written to the array, or to the tensor, must not show in the other."""
    arrays = [option for option in event.subject.options() if isinstance(option, v.Array)] if event.subject else []
    return any(may_be_written_after(model, event, array) for array in arrays) or (
        is_written(model, event.result) and not all(_is_ours_alone(model, node, array) for array in arrays))


def _could_share(event: Event) -> bool:
    """Whether nothing in the call makes a copy necessary."""
    arguments = event.arguments
    if arguments is None or event.subject is None or arguments.double_stars:
        return False
    device = arguments.get("device")
    if device is not None and str(where_of(device)).startswith("cuda"):
        return False
    if arguments.get("dtype") is None:
        return True
    wanted = event.result.dtype if isinstance(event.result, v.Tensor) else None
    dtypes = {o.dtype if isinstance(o, v.Array) else None for o in event.subject.options()}
    return wanted is not None and bool(dtypes & {None, wanted})


def _converted_twice(event: Event, node: cst.Call) -> bool:
    given = node.args[0].value if node.args else None
    method = given.func if isinstance(given, cst.Call) else None
    if not isinstance(method, cst.Attribute) or method.attr.value != "astype":
        return False
    array, made = event.subject, event.result
    return isinstance(array, v.Array) and isinstance(made, v.Tensor) and None not in (array.dtype, made.dtype) \
        and array.dtype != made.dtype


def _fix(model: Model, node: cst.Call, events: list[Event]) -> Fix | None:
    arguments = events[0].arguments
    assert arguments is not None
    if arguments.stars or not set(arguments.keywords) <= {"data", "dtype", "device"}:
        return None
    arrays = [option for event in events if event.subject is not None for option in event.subject.options()]
    if any(isinstance(array, v.Array) and array.readonly for array in arrays):
        return None
    named = editing.reference(model.tree, "torch.as_tensor", node)
    if named is None:
        return None
    text, edits = named
    is_safe = not _permutes(node) and all(
        isinstance(array, v.Array) and _is_ours_alone(model, node, array) for array in arrays)
    return Fix("Use `torch.as_tensor`", Applicability.SAFE if is_safe else Applicability.UNSAFE,
               (*editing.replace_callee(model.tree, node, text), *edits))


_PERMUTING = frozenset({
    "T", "transpose", "swapaxes", "moveaxis", "rollaxis", "flip", "fliplr", "flipud", "rot90", "asfortranarray",
})


def _permutes(call: cst.Call) -> bool:
    """Whether the array's axes may lie in another order in memory: `torch.tensor` puts them in order, for a `view`."""
    for node in walk(call):
        if isinstance(node, cst.Attribute) and node.attr.value in _PERMUTING:
            return True
        if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "order":
            return True
    return False


def _is_ours_alone(model: Model, call: cst.Call, array: v.Array) -> bool:
    """Whether the memory was made within this very call, so that nobody else can reach it."""
    while array.owner is not None and not array.held:
        if array.site is not None and isinstance(array.site.node, cst.Subscript):
            return False  # a copy of a part is contiguous, the part itself is not
        array = array.owner
    made = array.site
    if array.held or not array.fresh or made is None or made.tree is not model.tree:
        return False
    return call in model.tree.ancestors(made.node)
