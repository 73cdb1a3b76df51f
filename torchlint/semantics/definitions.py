"""What a method may do whose object nobody knows: all methods of its name that the project's classes define.

They are found by a search of bytes; none of them is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchlint.semantics.project import Project

_MOST = 64  # methods of one name that are looked at
_TRAINS = re.compile(rb"backward|autograd|zero_grad|requires_grad|\.step\(|\.grad\b|\byield\b")


def only_compute(project: Project, name: str, asker: str) -> bool:
    """Whether the project defines methods of that name, and none of them can go backward from what it is given."""
    found = 0
    for text in _methods(project, name, asker):
        found += 1
        if found > _MOST or _TRAINS.search(text):
            return False
    return found > 0


def _methods(project: Project, name: str, asker: str) -> Iterator[bytes]:
    """The text of every method of a name."""
    method = re.compile(rb"(?m)^([ \t]+)(?:async[ \t]+)?def[ \t]+" + re.escape(name.encode()) + rb"\s*\(\s*self\b")
    for path in project.files.calling(name, method, _MOST, asker):
        project.rests_on(path, asker)
        text = project.files.read(path)
        for start in method.finditer(text):
            end = _next_definition(len(start[1])).search(text, start.end())
            yield text[start.start():end.start() if end is not None else len(text)]


def _next_definition(indent: int) -> re.Pattern[bytes]:
    """Finds what begins no deeper than a method that is indented by so many characters."""
    return re.compile(rb"^[ \t]{0,%d}(?:def|class|async|@)" % indent, re.MULTILINE)
