"""A tensor is built from a list of numpy arrays, element by element.

What it does:
Reports `torch.tensor`, `torch.as_tensor` and legacy constructors such as `torch.FloatTensor` that are given a list or
a tuple of values that are proven to be numpy arrays.

Why is this bad:
PyTorch walks through such a list one number at a time. It says so itself at run time, once per process: "Creating a
tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the list to a single numpy.ndarray
with numpy.array() before converting to a tensor."

Fix safety:
The fix puts the list through `numpy.array` first. It is safe where the list has a known, positive number of arrays of
one known dtype. It is unsafe otherwise: for mixed dtypes numpy and PyTorch agree on different ones, and an empty list
gives `float64` instead of `float32`.

Evidence:
No measurement yet.

References:
- [pytorch/pytorch#13918](https://github.com/pytorch/pytorch/issues/13918)
- [`torch.tensor`](https://docs.pytorch.org/docs/stable/generated/torch.tensor.html)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.findings import Applicability, Finding, Fix
from torchlint.rules.rule import Rule, Training
from torchlint.semantics import values as v
from torchlint.semantics.torch_library import TENSORS_FROM_DATA, TENSORS_FROM_DATA_TEXT
from torchlint.syntax import editing

if TYPE_CHECKING:
    from torchlint.semantics.model import Model

rule = Rule("TL103", since="0.1", names=TENSORS_FROM_DATA, triggers=TENSORS_FROM_DATA_TEXT,
            training=Training())

rule.bad(
    """
    import numpy as np
    import torch

    def batch(files):
        images = [np.load(file) for file in files]
        return torch.tensor(images)
        #      ^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import numpy as np
    import torch

    def batch(files):
        images = [np.load(file) for file in files]
        return torch.as_tensor(np.array(images))
    """,
    applicability=Applicability.UNSAFE,
)
rule.bad(
    """
    import numpy as np
    import torch

    corners = torch.FloatTensor([np.zeros(2), np.ones(2)])
    #         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    """,
    fixed="""
    import numpy as np
    import torch

    corners = torch.FloatTensor(np.array([np.zeros(2), np.ones(2)]))
    """,
    applicability=Applicability.SAFE,
)
rule.bad(
    """
    import torch

    def collect(loader):
        features = []
        for batch in loader:
            features.append(batch.cpu().numpy())
        return torch.tensor(features,
        #      ^...
                            dtype=torch.float32)
        #                                   ...^
    """,
    fixed="""
    import torch
    import numpy

    def collect(loader):
        features = []
        for batch in loader:
            features.append(batch.cpu().numpy())
        return torch.as_tensor(numpy.array(features),
                               dtype=torch.float32)
    """,
    applicability=Applicability.UNSAFE,
    show=False,
)
rule.ok(
    """
    import numpy as np
    import torch

    a = torch.from_numpy(np.stack([np.zeros(2), np.ones(2)]))
    b = torch.tensor([1.0, 2.0])
    c = torch.tensor([np.float32(1.0), np.float32(2.0)])
    d = torch.stack([torch.zeros(2), torch.ones(2)])
    """,
    why="one array, numbers, and tensors that are stacked",
)
rule.ok(
    """
    import torch

    def wrap(rows):
        return torch.tensor([row for row in rows])
    """,
    why="nothing says that the rows are arrays",
    show=False,
)

_DEFAULT = "torch.tensor"


@rule.question
def check(model: Model, options: dict[str, Any]) -> Iterator[Finding]:
    for site, events in model.by_site("tensor_from_data"):
        lists = [event.subject for event in events]
        if isinstance(site.node, cst.Call) and all(_holds_arrays(value) for value in lists):
            yield rule.at(
                site,
                "PyTorch copies the arrays in the list one number at a time.",
                help="make one array of them first, with `numpy.array` or `numpy.stack`.",
                fix=_fix(model, site.node, events[0].data["name"], [v for v in lists if v is not None]),
            )


def _holds_arrays(value: v.Value | None) -> bool:
    if not isinstance(value, v.Sequence) or value.type not in ("list", "tuple") or value.generator:
        return False
    elements = [option for element in value.elements() for option in element.options()]
    return bool(elements) and all(isinstance(element, v.Array) for element in elements)


def _fix(model: Model, node: cst.Call, name: str, lists: list[v.Value]) -> Fix | None:
    given = node.args[0]
    if given.star or (given.keyword is not None and given.keyword.value != "data"):
        return None
    array = editing.reference(model.tree, "numpy.array", node)
    if array is None:
        return None
    text, edits = array
    if name == _DEFAULT:
        maker = editing.reference(model.tree, "torch.as_tensor", node)
        if maker is None or any(a.keyword is not None and a.keyword.value not in ("data", "dtype", "device")
                                for a in node.args):
            return None
        edits = [*edits, *maker[1]]
        changes = editing.wrap_argument(model.tree, node, given, text, maker=maker[0])
    else:
        changes = editing.wrap_argument(model.tree, node, given, text)
    is_safe = all(isinstance(value, v.Sequence) and _has_one_dtype(value) for value in lists)
    return Fix("Make one array first", Applicability.SAFE if is_safe else Applicability.UNSAFE, (*changes, *edits))


def _has_one_dtype(value: v.Sequence) -> bool:
    dtypes = {getattr(element, "dtype", None) for element in value.elements()}
    return value.exact and len(dtypes) == 1 and None not in dtypes
