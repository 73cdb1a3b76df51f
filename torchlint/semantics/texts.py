"""Strings of which only a part is known: the names under which a loop registers layers, ``f"conv{i}"``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from torchlint.semantics import bounds
from torchlint.semantics import values as v

if TYPE_CHECKING:
    from torchlint.semantics.interpreter import Interpreter

_PLACEHOLDER = re.compile(r"%(?P<percent>%)|%[-+ #0-9.]*(?P<number>[dif])|%[-+ #0-9.]*[a-zA-Z]|\{[^{}]*\}")
_MOST_UNKNOWN = 4  # parts of a name that are filled in
_DIGITS, _ANYTHING = r"\d+", r".+"


def composed(parts: Iterable[v.Value]) -> v.Value:
    """The string made of these parts, one behind the other."""
    given = list(parts)
    if all(isinstance(part, v.Const) for part in given):
        return bounds.constant("".join(_word(part.value) for part in given))  # type: ignore[attr-defined]
    pattern = "".join(map(_pattern, given))
    return v.Text(pattern if _is_quick(pattern) else None)


def _is_quick(pattern: str) -> bool:
    """Whether matching takes no time: each unknown part multiplies it by the length of the word."""
    return len(pattern) <= bounds.LONGEST_TEXT and pattern.count(_ANYTHING) + pattern.count(_DIGITS) <= _MOST_UNKNOWN


def _word(value: object) -> str:
    try:
        return str(value)
    except ValueError:  # Python refuses to print an integer of thousands of digits
        return "?"


def filled(template: str) -> v.Text:
    """What ``template % values`` and ``template.format(values)`` give."""
    pieces, end = [], 0
    for found in _PLACEHOLDER.finditer(template):
        pieces.append(re.escape(template[end:found.start()]))
        pieces.append("%" if found["percent"] else _DIGITS if found["number"] else _ANYTHING)
        end = found.end()
    pattern = "".join([*pieces, re.escape(template[end:])])
    return v.Text(pattern if _is_quick(pattern) else None)


def _pattern(part: v.Value) -> str:
    if isinstance(part, v.Const):
        return re.escape(_word(part.value))
    if isinstance(part, v.Text):
        return part.pattern or _ANYTHING
    options = part.options()
    counted = all(isinstance(o, v.Number) or (isinstance(o, v.Const) and isinstance(o.value, int)) for o in options)
    return _DIGITS if counted else _ANYTHING


def parts_named(module: v.Instance, name: v.Text) -> list[v.Value]:
    """The modules among an object's attributes that such a name may mean."""
    if name.pattern is None or name.pattern == _ANYTHING:
        return []
    alike = name.pattern.replace(_DIGITS, _ANYTHING)
    return [value for key, value in module.attributes.items()
            if isinstance(value, (v.External, v.Instance, v.Union))
            and (key.replace(_DIGITS, _ANYTHING) == alike or re.fullmatch(name.pattern, key))]


def part_named(module: v.Instance, name: str) -> v.Value | None:
    """The attribute of a literal name where it was registered under a composed one."""
    found = [value for key, value in module.attributes.items() if "\\" in key and re.fullmatch(key, name)]
    return v.join(*found) if found else None


def register(machine: Interpreter, module: v.Instance, name: v.Text, part: v.Value) -> bool:
    """Keep a module's part under a composed name; False where nothing of the name is known."""
    if name.pattern is None or name.pattern == _ANYTHING:
        return False
    old = module.attributes.get(name.pattern)
    machine.write(module.attributes, name.pattern, part if old is None else v.join(old, part))
    module.state["composed"] = True
    return True
