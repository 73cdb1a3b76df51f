"""The terminal sessions shown in the documentation: run again and compared, or written anew.

``python -m tests.consoles --write`` runs every ``$ torchlint ...`` of a ``console`` block and puts
what it really prints below it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(r"(?<=```console\n)\$ torchlint (?P<arguments>.*)\n(?P<output>(?:.*\n)*?)(?=```\n)")


def current(text: str) -> str:
    """The page with the sessions as they are today."""
    return _BLOCK.sub(_session, text)


def _session(block: re.Match[str]) -> str:
    arguments = shlex.split(block["arguments"])
    environment = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "PYTHONWARNINGS")}
    done = subprocess.run(
        [sys.executable, "-m", "torchlint", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    return f"$ torchlint {block['arguments']}\n{done.stdout.rstrip()}\n"


def main() -> None:
    """Write or show the pages whose sessions changed."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        fresh = current(text)
        if fresh != text:
            sys.stdout.write(f"{page.relative_to(ROOT)}\n")
            if "--write" in sys.argv:
                page.write_text(fresh, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
