"""Bounds on what values grow to: a program may double a list, a word or a number at every line.

What is beyond a bound becomes less known, never wrong: a list keeps the kind of its elements, a
word is any word. So containers are trees, never cycles, whose walks are short, and the code that
walks them may be plain recursion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torchlint.semantics import values as v

LONGEST_LIST = 20_000  # elements that are told apart
LONGEST_TEXT = 10_000  # characters that are known
LARGEST_NUMBER = 1 << 256
_HEAVIEST = 1 << 14  # values within a container, each level of nesting counting twice the one around it

_NESTING = (v.Sequence, v.Mapping, v.Union, v.Choice)


def element(value: v.Value, container: object = None) -> v.Value:
    """The value as an element of a container: an unknown one in its place where it holds too much, or the container."""
    if value.__class__ not in _NESTING:
        return value
    weight = 0
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        here, level = waiting.pop()
        if container is not None and (here is container or getattr(here, "items", None) is container):
            return v.Unknown("itself", value.flow)
        weight += level
        inner = 2 * level if isinstance(here, (v.Sequence, v.Mapping)) else level
        for part in _parts(here):
            if part.__class__ in _NESTING:
                waiting.append((part, inner))
            else:
                weight += level
        if weight > _HEAVIEST:
            return v.Unknown("too large", value.flow)
    return value


def elements(values: Iterable[v.Value], container: object = None) -> list[v.Value]:
    """The values as elements of a container."""
    return [element(value, container) for value in values]


def _parts(value: Any) -> Iterator[v.Value]:
    if isinstance(value, v.Choice):
        for run in value.runs:
            yield from run
    elif isinstance(value, v.Union):
        yield from value.options()
    else:
        yield from value.items if isinstance(value, v.Sequence) else value.items.values()
        if value.rest is not None:
            yield value.rest


def shortened(sequence: v.Sequence) -> v.Sequence:
    """The list, its elements told apart only while they are not too many."""
    if len(sequence.items) > LONGEST_LIST:
        sequence.rest = v.join(*sequence.elements())
        sequence.items = []
    return sequence


def constant(value: Any) -> v.Value:
    """A computed constant, of unknown value where that is too large to go on with."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return v.Text()
    if isinstance(value, (int, float)) and not -LARGEST_NUMBER < value < LARGEST_NUMBER:
        return v.Number()
    return v.Const(value)
