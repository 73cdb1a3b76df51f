"""What torch.nn's layers are: role, bias, and whether a norm takes a constant back out. Data: `data/layers.json`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torchlint.semantics.knowledge import api, bases, canonical
from torchlint.semantics.tables import read


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer class, or the function that does the same."""

    name: str
    role: str  # conv, conv_transpose, linear, batch_norm, …, loss; see data/layers.json
    dims: int | None = None  # spatial dimensions of a conv or norm
    lazy: bool = False  # without its first argument, the input's channels
    bias: str | None = None  # the parameter that switches the bias
    bias_position: int | None = None
    bias_default: bool = False
    channels: str | None = None  # a norm's parameter that holds the number of channels
    cancels_bias: str = "never"  # "always", or "groups": only with as many groups as channels
    keeps_shift: bool = False  # layer(x + c) == layer(x) + c for a constant c of each channel
    expects: str | None = None  # of a loss: logits, log_probabilities, probabilities, values
    gives: str | None = None  # of a function: log_probabilities, probabilities


@lru_cache(4096)
def layer(qname: str) -> Layer | None:
    """The layer of this name, or of the nearest base class that has one (`torch.nn.Module` itself says nothing)."""
    name = canonical(qname)
    entry = _entries().get(name)
    if entry is None:
        inherited = (layer(base) for base in bases(name) if base != "torch.nn.Module")
        return next((found for found in inherited if found is not None), None)
    bias: str | None = entry.get("bias")
    known = api(name)
    return Layer(
        name,
        entry["role"],
        entry.get("dims"),
        entry.get("lazy", False),
        bias,
        known.position(bias) if known and bias else None,
        bool(known and bias and known.defaults.get(bias)),
        entry.get("channels"),
        entry.get("cancels_bias", "never"),
        entry.get("keeps_shift", False),
        entry.get("expects"),
        entry.get("gives"),
    )


@lru_cache(1)
def _entries() -> dict[str, dict[str, Any]]:
    data = read("layers.json")
    return {name: entry for entry in [*data["layers"], *data["functional"]] for name in entry["names"].split()}
