"""Public packages at pinned versions, as real code to check: fetched from PyPI, never kept in the repository."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

PINNED = {
    "timm": "1.0.31",
    "torch-geometric": "2.8.1",
    "speechbrain": "1.1.2",
    "ultralytics": "8.4.190",
    "monai": "1.6.1",
    "kornia": "0.9.0",
    "pytorch-lightning": "2.6.6",
    "vit-pytorch": "1.26.14",
    "segmentation-models-pytorch": "0.6.0",
}


def fetched(folder: Path, names: Iterable[str] = PINNED) -> dict[str, Path]:
    """The folders of packages, by name, in the order of the names; fetched into ``folder`` where they are not there."""
    return {name: _fetched(folder / f"{name}-{PINNED[name]}", name) for name in names}


def _fetched(target: Path, name: str) -> Path:
    if not target.is_dir():
        with tempfile.TemporaryDirectory() as work:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                       "--dest", work, f"{name}=={PINNED[name]}"]
            subprocess.run(command, check=True)
            [wheel] = Path(work).glob("*.whl")
            unpacked = Path(work, "unpacked")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(unpacked)
            # What ends in .dist-info is no source of the package.
            target.parent.mkdir(parents=True, exist_ok=True)
            _moved(unpacked, target)
    return target


def _moved(source: Path, target: Path) -> None:
    import shutil

    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(source, part, ignore=shutil.ignore_patterns("*.dist-info", "*.data"))
    (part / "pyproject.toml").write_text("# Marks the root of a project.\n", encoding="utf-8")
    part.rename(target)
