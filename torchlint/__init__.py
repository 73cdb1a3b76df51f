"""torchlint finds the documented mistakes that make PyTorch training slow or silently wrong.

``torchlint.check(paths)`` is what the command does, from Python: see :func:`torchlint.api.check`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchlint.api import check as check

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "check":  # not imported before it is used: the command line starts quickly
        from torchlint.api import check

        return check
    raise AttributeError(f"module 'torchlint' has no attribute {name!r}")
