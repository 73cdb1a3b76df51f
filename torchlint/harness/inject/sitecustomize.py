"""Python imports this by itself before a program begins: it lets the recorder in, and is otherwise not there."""

import importlib
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # pathlib would slow every child's start


def _run_hidden() -> None:
    """Run the environment's own sitecustomize, which this file hides."""
    elsewhere = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]  # noqa: PTH100
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("TORCHLINT_RECORD"):
    importlib.import_module("torchlint_recorder").arrange(os.environ["TORCHLINT_RECORD"])
_run_hidden()
