"""Checks files on processes that others manage: those of any executor, such as a Dask cluster's."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, as_completed
from typing import TYPE_CHECKING, Any

from torchlint import __version__, workers
from torchlint.checking import FileResult, Setup, Task
from torchlint.config import ConfigError
from torchlint.work import OnResult, check_batch, usable_cpus

if TYPE_CHECKING:
    from distributed import Client

_BATCHES = 8
"""For each process of an executor: enough that none waits long for the last."""


def run_on(
    executor: Executor, tasks: Sequence[Task], setup: Setup, on_result: OnResult
) -> None:
    """Check the tasks on an executor; what it loses, say with a process that died, is checked here."""
    run = uuid.uuid4().hex
    lost: list[Task] = []
    waiting: dict[Any, list[Task]] = {}
    for batch in workers.batches(tasks, max(1, _width(executor) * _BATCHES // 4)):
        part = [tasks[index] for index in batch]
        try:
            waiting[executor.submit(check_batch, run, part, setup)] = part
        except Exception:  # it is broken already
            lost += part
    for future in as_completed(waiting):
        for result in _results(future) or ():
            on_result(result)
        if future.exception() is not None:
            lost += waiting[future]
    if lost:
        workers.run_apart(lost, setup, usable_cpus(), on_result)


def _results(future: Any) -> list[FileResult] | None:
    return future.result() if future.exception() is None else None


def _width(executor: Executor) -> int:
    """How many tasks an executor runs at once, as far as it tells."""
    client = getattr(executor, "_client", None)  # distributed.cfexecutor.ClientExecutor
    if client is not None:
        return len(client.scheduler_info()["workers"]) or 1
    return getattr(executor, "_max_workers", None) or usable_cpus()


@contextlib.contextmanager
def opened(name: str) -> Iterator[Executor]:
    """The executor that a command line names: ``dask:ADDRESS``. ConfigError where there is none."""
    kind, _, address = name.partition(":")
    if kind != "dask" or not address:
        raise ConfigError(f"there is no executor '{name}': give dask:ADDRESS, such as dask:tcp://127.0.0.1:8786")
    try:
        from distributed import Client
    except ImportError:
        raise ConfigError("Dask is not installed: pip install 'torchlint[dask]'") from None
    try:
        client = Client(address, timeout=10, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ConfigError(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        _check_versions(client)
        yield client.get_executor(pure=False)  # type: ignore[no-untyped-call]


def _check_versions(client: Client) -> None:
    """ConfigError unless every worker has this torchlint: another would report something else."""
    if not client.scheduler_info()["workers"]:
        raise ConfigError("the Dask cluster has no workers")
    try:
        found = client.run(_version)
    except Exception as error:  # whatever the worker raised: most likely it has no torchlint at all
        raise ConfigError(f"the Dask workers cannot run torchlint {__version__}: {error}") from None
    others = {worker: version for worker, version in found.items() if version != __version__}
    for worker, version in others.items():
        raise ConfigError(f"the Dask worker {worker} has torchlint {version}, not {__version__}")


def _version() -> str:
    return __version__
