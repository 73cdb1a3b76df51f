"""torchlint from Python: what the command line does, without one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from torchlint import discovery, engine
from torchlint.config import Configuration
from torchlint.reporting.report import Display, Report


def check(
    paths: Sequence[str | os.PathLike[str]] = (".",), *, executor: Executor | None = None, jobs: int | None = None,
    cached: bool = False, config: str | os.PathLike[str] | None = None, isolated: bool = False, **settings: Any,
) -> Report:  # fmt: skip
    """Check files and folders as ``torchlint check`` does; nothing is changed, and no setting of the process.

    ``executor`` is any executor of :mod:`concurrent.futures` whose processes see the same files: a
    process pool, or ``distributed.Client(address).get_executor()``. ``jobs`` is the number of processes
    without one, ``cached`` says whether results of earlier runs are used and kept, ``config`` names the
    one configuration file that counts, ``isolated`` that none does. ``settings`` are those of the
    configuration, with underscores: ``select=("TL101",)``, ``target_torch=(2, 1)``.

    Raises :class:`torchlint.config.ConfigError` where a setting is wrong. What could not be looked at
    is among the report's diagnostics.
    """
    file = Path(config).absolute() if config is not None else None
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    configuration = Configuration(given, file=file, isolated=isolated)
    found = discovery.discover([os.fspath(path) for path in paths], configuration)
    done = engine.run(found.targets, jobs=jobs, executor=executor, cached=cached)
    return engine.report_of(done.results, found.problems, len(found.targets), Display())
