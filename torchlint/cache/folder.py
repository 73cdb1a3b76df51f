"""The folder that caches lie in: made, written to and removed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

FOLDER_NAME = ".torchlint_cache"

_TAG = "CACHEDIR.TAG"
_SIGNATURE = "Signature: 8a477f597d28d172789f06886806bc55"  # https://bford.info/cachedir/


def prepare(folder: Path) -> None:
    """Make a cache folder that git and backups leave alone."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / _TAG).exists():
        replace(folder / ".gitignore", b"# Made by torchlint.\n*\n")
        replace(folder / _TAG, f"{_SIGNATURE}\n# Made by torchlint: `torchlint clean` removes it.\n".encode())


def replace(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)  # noqa: PTH105
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise


def clean(folder: Path) -> Iterator[Path]:
    """Remove every cache in a folder and below; gives those removed. Raises OSError where one cannot be."""
    import shutil

    for here, folders, _ in os.walk(folder):
        if FOLDER_NAME in folders:
            folders.remove(FOLDER_NAME)
            found = Path(here, FOLDER_NAME)
            if (found / _TAG).is_file():
                shutil.rmtree(found)
                yield found
        folders[:] = [name for name in folders if name != ".git"]
