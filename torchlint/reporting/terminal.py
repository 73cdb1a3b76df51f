"""What the stream at the other end can show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO

from torchlint.reporting.report import Display


def display(stream: IO[str], environ: Mapping[str, str]) -> Display:
    """Colours and width for a stream.

    Colours are for terminals, unless ``NO_COLOR`` is set (https://no-color.org) or ``TERM`` is
    ``dumb``; ``FORCE_COLOR`` asks for them in a pipe as well. An empty variable counts as not set.
    """
    watched = stream.isatty()
    able = watched and environ.get("TERM") != "dumb"
    colour = not environ.get("NO_COLOR") and (able or bool(environ.get("FORCE_COLOR")))
    return Display(colour=colour, width=columns() if watched else None)


def columns() -> int:
    """The terminal's width; 80 where it does not know (Python 3.10 then says 0)."""
    import shutil  # a pipe needs none of it

    return shutil.get_terminal_size().columns or 80
