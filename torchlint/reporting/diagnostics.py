"""What could not be done, as lines for stderr."""

from __future__ import annotations

from collections.abc import Iterable

from torchlint.findings import Diagnostic
from torchlint.reporting.report import Write
from torchlint.reporting.text import place, visible


def render(diagnostics: Iterable[Diagnostic], write: Write) -> None:
    """Write ``torchlint: path:line:column: kind: message`` for each; a message's further lines are indented."""
    for diagnostic in diagnostics:
        first, *rest = map(visible, diagnostic.message.splitlines() or [""])
        write(f"torchlint: {place(diagnostic.path, diagnostic.position)}: {diagnostic.kind}: {first}\n")
        for line in rest:
            write(f"    {line}\n")
