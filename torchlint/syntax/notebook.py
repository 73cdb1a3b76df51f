"""Notebooks: the code cells of an ``.ipynb`` file joined into one text, with a map back to cell and line."""

from __future__ import annotations

from torchlint.syntax.source import Source, SourceError


def notebook_from_bytes(data: bytes, shown: str) -> Source:
    """The Source of a notebook's bytes. Raises SourceError."""
    raise SourceError("notebooks cannot be read yet", kind="unreadable")
