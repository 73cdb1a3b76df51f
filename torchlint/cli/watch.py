"""``torchlint check --watch``: check again whenever a file changes."""

from __future__ import annotations

import gc
import re
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import click

from torchlint import engine

_QUIET = 50
"""Milliseconds without another change after which it is checked: an editor writes several files."""

_MATTER = re.compile(
    r"\.(py|pyw|ipynb|toml|cfg|yml|yaml)$|requirement[^/\\]*(/[^/\\]+)?\.(txt|in|pip)$|Pipfile$|\.gitignore$")
"""What a file is called that may change what is found: source, settings, requirements. No report of our own is."""


def repeat(check: Callable[[], object], folders: Iterable[Path]) -> int:
    """Check, and again after every change in folders and below, until Ctrl-C. The exit code: 0."""
    try:
        from watchfiles import Change, DefaultFilter, watch
    except ImportError:
        raise click.UsageError("--watch needs watchfiles: pip install 'torchlint[watch]'") from None

    class Sources(DefaultFilter):
        def __call__(self, change: Change, path: str) -> bool:
            return _MATTER.search(path) is not None and super().__call__(change, path)

    # It watches from before the first check, which begins when it has seen nothing for a moment.
    turns = watch(*folders, watch_filter=Sources(), step=_QUIET, rust_timeout=2 * _QUIET, yield_on_timeout=True)
    is_checked = False
    try:
        for changes in turns:
            if changes or not is_checked:
                _check(check)
                is_checked = True
    except KeyboardInterrupt:
        pass
    return 0


def _check(check: Callable[[], object]) -> None:
    if sys.stdout.isatty():
        click.clear()
    began = time.monotonic()
    check()
    sys.stdout.flush()
    took = time.monotonic() - began
    click.echo(f"{time.strftime('%H:%M:%S')}: checked in {took:.2f} s; waiting for changes (Ctrl-C ends)", err=True)
    engine.preload()  # while nobody waits
    gc.collect()  # a command does without; one that goes on must not
