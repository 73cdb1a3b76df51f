"""Write torchlint's generated API tables from the wheels that are installed.

Run it as `python -m tests.tools.generate_api` in an environment that has torch and numpy, with
`--torchvision path/to/torchvision-….whl` (from `pip download --no-deps torchvision`) to renew that table too.
With `--check` it writes nothing and exits 1 when a file would change.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "torchlint" / "semantics" / "data"


def rendered(table: dict[str, Any]) -> str:
    """JSON with one entry a line, so that a diff of two versions can be read."""
    return json.dumps(table, indent=0, ensure_ascii=False) + "\n"


def tables(torchvision: Path | None = None) -> dict[str, str]:
    """File name → content."""
    from .api import from_numpy, from_torch, from_torchvision

    found = {"torchvision.json": rendered(from_torchvision.table(torchvision).as_json())} if torchvision else {}
    return found | {
        "torch.json": rendered(from_torch.table().as_json()),
        "tensor_methods.json": rendered(from_torch.tensor_methods()),
        "numpy.json": rendered(from_numpy.table().as_json()),
    }


def main() -> int:
    """Write or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--torchvision", type=Path, help="a wheel of torchvision")
    options = parser.parse_args()
    stale = 0
    for name, content in tables(options.torchvision).items():
        path = DATA / name
        if path.exists() and path.read_text() == content:
            continue
        stale += 1
        print(f"{'would change' if options.check else 'wrote'} {name} ({len(content) / 1000:.0f} kB)")
        if not options.check:
            path.write_text(content)
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
