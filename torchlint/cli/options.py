"""The options that ``check`` and ``fix`` share, and what they ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from torchlint.config import Configuration, TorchVersion, parse_version
from torchlint.reporting import FORMATS

Command = TypeVar("Command", bound=Callable[..., Any])


class _Names(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases only
    """Names separated by commas."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else tuple(part.strip() for part in value.split(",") if part.strip())


class _Version(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases only
    """A release of torch."""

    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> TorchVersion:
        version = value if isinstance(value, tuple) else parse_version(value)
        if version is None:
            self.fail(f"'{value}' is no version such as 2.1", param, ctx)
        return version


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for."""

    paths: tuple[str, ...]
    configuration: Configuration
    fix: bool = False
    unsafe_fixes: bool | None = None
    diff: bool = False
    add_ignore: bool = False
    show_fixes: bool = False
    statistics: bool = False
    output_format: str | None = None
    output_file: str | None = None
    exit_zero: bool = False
    exit_non_zero_on_fix: bool = False
    stdin_filename: str | None = None
    jobs: int | None = None
    no_cache: bool = False
    executor: str | None = None


_NAMES_HELP = "slugs, codes, prefixes of codes, families or `all`, separated by commas"


def _names(flag: str, help: str) -> Callable[[Command], Command]:
    return click.option(flag, type=_Names(), multiple=True, metavar="RULES", help=help)


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument("paths", nargs=-1, metavar="[PATHS]..."),
    _names("--select", f"Run these rules only: {_NAMES_HELP}."),
    _names("--extend-select", "Run these rules as well."),
    _names("--ignore", "Do not run these rules."),
    click.option("--preview/--no-preview", default=None, help="Run new rules too that are not yet on by default."),
    click.option("--target-torch", type=_Version(), help="The oldest torch the code must run on, such as 2.1."),
    click.option("--unsafe-fixes/--no-unsafe-fixes", default=None, help="Include fixes that may change behaviour."),
    click.option("--diff", is_flag=True, help="Show what would be fixed, and change nothing."),
    click.option("--show-fixes", is_flag=True, help="List what was fixed, by file and rule."),
    click.option("--statistics", is_flag=True, help="Count the findings of each rule instead of listing them."),
    click.option("--output-format", type=click.Choice(FORMATS), help="How to report; `full` by default."),
    click.option("-o", "--output-file", type=click.Path(dir_okay=False), help="Write the report to this file."),
    click.option("--exit-zero", is_flag=True, help="Exit with 0 even where something was found."),
    click.option("--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 where something was fixed."),
    click.option("--exclude", type=_Names(), multiple=True, metavar="PATTERNS", help="Skip these, not the defaults."),
    click.option("--extend-exclude", type=_Names(), multiple=True, metavar="PATTERNS", help="Skip these as well."),
    click.option("--force-exclude/--no-force-exclude", default=None, help="Skip excluded files even if named."),
    click.option("--respect-gitignore/--no-respect-gitignore", default=None, help="Skip what git ignores (default)."),
    click.option("--stdin-filename", metavar="FILE", help="The name of what is read from standard input (`-`)."),
    click.option("--config", type=click.Path(dir_okay=False), metavar="FILE", help="Use this configuration only."),
    click.option("--isolated", is_flag=True, help="Use no configuration file."),
    click.option("-n", "--no-cache", is_flag=True, envvar="TORCHLINT_NO_CACHE",
                 help="Neither use nor keep results of earlier runs."),
    click.option("--cache-dir", type=click.Path(file_okay=False, resolve_path=True), envvar="TORCHLINT_CACHE_DIR",
                 metavar="FOLDER", help="Where to keep them; `.torchlint_cache` by default."),
    click.option("--executor", metavar="dask:ADDRESS", help="Check files on a Dask cluster that sees them."),
    click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Processes; by default one a CPU."),
)

_OVERRIDES = (
    "select", "extend_select", "ignore", "preview", "target_torch", "unsafe_fixes", "exclude", "extend_exclude",
    "force_exclude", "respect_gitignore", "cache_dir",
)  # fmt: skip


def shared(command: Command) -> Command:
    """Decorator: the options of both commands."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def request_of(given: dict[str, Any]) -> Request:
    """The request that the options of a command line make. ConfigError where ``--config`` is wrong."""
    given = {name: _joined(value) if name in _OVERRIDES else value for name, value in given.items()}
    if given["config"] is not None and given["isolated"]:
        raise click.UsageError("--config and --isolated exclude each other")
    configuration = Configuration(
        {name: given[name] for name in _OVERRIDES if given[name] is not None},
        file=Path(given["config"]).absolute() if given["config"] is not None else None,
        isolated=given["isolated"],
    )
    own = set(Request.__dataclass_fields__) - {"configuration", "paths"}
    wanted = {name: value for name, value in given.items() if name in own}
    return Request(tuple(given["paths"]) or (".",), configuration, **wanted)


def _joined(value: Any) -> Any:
    """An option that may be given several times, with names in each: all names; None where it was not given."""
    if not isinstance(value, tuple) or (value and not isinstance(value[0], tuple)):
        return value
    return tuple(name for names in value for name in names) if value else None
