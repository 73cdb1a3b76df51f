"""Moves the seeds that a program sets, in every run by another number: with its own seeds all runs would be one.

Moved are whole numbers (torch's and NumPy's too, and those in lists), and text, given to ``random.seed``,
``random.Random``, ``numpy.random`` (``seed``, ``default_rng`` and the classes), ``manual_seed`` and
``manual_seed_all`` of torch and of its devices, and ``torch.Generator.manual_seed``. What a library
would refuse, it refuses as before.
"""

from __future__ import annotations

import functools
import math
import operator
import random
from collections.abc import Callable
from typing import Any

_MOST = {"numpy": 2**32 - 1, "torch": 2**64 - 1}  # the largest seeds that they take


def move_random(by: int) -> None:
    """Seed ``random`` and move its seeds."""
    random.seed(by)
    if by:
        random.Random.seed = _moving(random.Random.seed, by, "a", 1)  # type: ignore[method-assign]
        random.seed = random.seed.__self__.seed  # type: ignore[attr-defined]


def move_numpy(module: Any, by: int) -> None:
    """Seed ``numpy.random`` and move its seeds."""
    module.seed(by)
    if by:
        module.seed = _moving(module.seed, by, "seed", 0, _MOST["numpy"])
        module.default_rng = _moving(module.default_rng, by, "seed", 0)
        _move_class(module, "RandomState", ("__init__", "seed"), "seed", by, _MOST["numpy"])
        _move_class(module, "SeedSequence", ("__init__",), "entropy", by)
        for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"):
            _move_class(module, name, ("__init__",), "seed", by)


def move_torch(module: Any, by: int) -> None:
    """Seed torch and move its seeds."""
    module.manual_seed(by)
    if by:
        for owner in (module, module.random, *(getattr(module, d, None) for d in ("cuda", "mps", "xpu"))):
            for name in {"manual_seed", "manual_seed_all"} & set(dir(owner)):
                setattr(owner, name, _moving(getattr(owner, name), by, "seed", 0, _MOST["torch"]))
        _move_class(module, "Generator", ("manual_seed",), "seed", by, _MOST["torch"])


def _moving(function: Callable[..., Any], by: int, keyword: str, position: int, most: float = math.inf) -> Any:
    """The function with its seed moved, an argument that may be given by keyword."""

    @functools.wraps(function)
    def seeded(*args: Any, **kwargs: Any) -> Any:
        if len(args) > position:
            args = (*args[:position], _moved(args[position], by, most), *args[position + 1:])
        elif keyword in kwargs:
            kwargs[keyword] = _moved(kwargs[keyword], by, most)
        return function(*args, **kwargs)

    return seeded


def _moved(seed: Any, by: int, most: float) -> Any:
    if isinstance(seed, str):
        return f"{seed}+{by}"
    if isinstance(seed, (list, tuple)):
        return [_moved(part, by, most) for part in seed]
    try:
        number = operator.index(seed)
    except TypeError:
        return seed
    moved = number + by if number >= 0 else number - by  # a library that refuses negative ones still does
    return moved if -most / 2 <= moved <= most else seed


def _move_class(
    module: Any, name: str, methods: tuple[str, ...], keyword: str, by: int, most: float = math.inf
) -> None:
    """Put a subclass in the place of a class that cannot be changed; objects of the class still pass for its own."""
    original = getattr(module, name)

    class Kind(type(original)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original) if cls is moving else super().__instancecheck__(instance)

    body = {method: _moving(getattr(original, method), by, keyword, 1, most) for method in methods}
    moving = Kind(name, (original,), {"__module__": module.__name__, "__doc__": original.__doc__, **body})
    setattr(module, name, moving)
