"""What a run found, written in one of the formats; a format's file is imported only when used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from torchlint.reporting.report import Applied, Display, Report, Write, excerpt
from torchlint.reporting.terminal import display

__all__ = ["FORMATS", "Applied", "Display", "Renderer", "Report", "Write", "display", "excerpt", "renderer"]

Renderer = Callable[[Report, Write], None]

_MODULES = {
    "full": "full",
    "concise": "concise",
    "json": "json_array",
    "jsonlines": "json_lines",
    "github": "github",
    "sarif": "sarif",
    "gitlab": "gitlab",
    "junit": "junit",
}

FORMATS: tuple[str, ...] = tuple(_MODULES)
"""The names that ``--output-format`` takes."""


def renderer(name: str) -> Renderer:
    """The function that writes a report in that format; KeyError for a name not in ``FORMATS``."""
    module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    return cast(Renderer, module.render)
