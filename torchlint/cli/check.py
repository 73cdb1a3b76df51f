"""``torchlint check`` and ``torchlint fix``."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from torchlint import discovery, engine
from torchlint.checking import FileResult, Mode
from torchlint.cli import output
from torchlint.cli.options import Request, request_of, shared
from torchlint.cli.progress import Bar
from torchlint.config import ConfigError, Settings
from torchlint.findings import Diagnostic
from torchlint.reporting import Report, display

if TYPE_CHECKING:
    from concurrent.futures import Executor

STDIN = "-"


@click.command(short_help="Report the mistakes in files, folders and notebooks.")
@shared
@click.option("--fix", is_flag=True, help="Apply the fixes that are safe, and report what is left.")
@click.option("--add-ignore", is_flag=True, help="Silence what is found with comments in the files.")
@click.option("-w", "--watch", is_flag=True, help="Check again whenever a file changes, until Ctrl-C.")
@click.pass_context
def check(ctx: click.Context, /, **given: Any) -> None:
    """Report the mistakes in files, folders and notebooks (by default below the current folder).

    `-` reads from standard input. Nothing is changed unless --fix or --add-ignore is given.
    """
    ctx.exit(_execute(given))


@click.command(short_help="Apply the fixes that are safe, and report what is left.")
@shared
@click.pass_context
def fix(ctx: click.Context, /, **given: Any) -> None:
    """Apply the fixes that are safe, and report what is left.

    `--unsafe-fixes` applies the others too: read the diff. `--diff` shows it and changes nothing.
    """
    ctx.exit(_execute({**given, "fix": True}))


def _execute(given: dict[str, Any]) -> int:
    if given.get("add_ignore") and (given["diff"] or given.get("fix")):
        raise click.UsageError("--add-ignore excludes --fix and --diff")
    try:
        request = request_of(given)
        settings = request.configuration.for_folder(Path.cwd())
        engine.check_settings(settings)
        if given.get("watch"):
            return _watched(request)
        return _from_stdin(request, settings) if STDIN in request.paths else _from_files(request, settings)
    except ConfigError as error:
        click.echo(f"torchlint: {error}", err=True)
        return 2


def _watched(request: Request) -> int:
    if request.fix or request.diff or request.add_ignore or STDIN in request.paths:
        raise click.UsageError("--watch reports only: it excludes --fix, --diff, --add-ignore and `-`")
    from torchlint.cli import watch

    def check() -> None:
        try:
            configuration = request.configuration.anew()  # its files may have changed too
            _from_files(replace(request, configuration=configuration), configuration.for_folder(Path.cwd()))
        except ConfigError as error:
            click.echo(f"torchlint: {error}", err=True)

    found = discovery.discover(request.paths, request.configuration)
    given = [Path(path).absolute() for path in request.paths if Path(path).exists()]
    return watch.repeat(check, {target.root for target in found.targets}.union(given) or {Path.cwd()})


def _mode(request: Request, settings: Settings) -> Mode:
    if request.add_ignore:
        return Mode.ADD_IGNORE
    if not (request.fix or request.diff):
        return Mode.CHECK
    return Mode.FIX_UNSAFE if settings.unsafe_fixes else Mode.FIX


def _from_files(request: Request, settings: Settings) -> int:
    found = discovery.discover(request.paths, request.configuration)
    if not found.targets and not found.problems:
        output.warn(f"no Python files or notebooks under {', '.join(request.paths)}")
    mode = _mode(request, settings)
    with _executor(request) as executor, Bar() as bar:
        done = engine.run(found.targets, mode, jobs=request.jobs, on_done=bar.update, cached=not request.no_cache,
                          executor=executor)
    results = done.results
    if request.diff:
        _write_diff(results, sys.stdout)
    elif done.rewrites:
        from torchlint.saving import save

        results = save(results, found.targets, mode)
    return _report(request, settings, results, found.problems, len(found.targets), sys.stdout)


def _executor(request: Request) -> AbstractContextManager[Executor | None]:
    if request.executor is None:
        return nullcontext()
    from torchlint import executors

    return executors.opened(request.executor)


def _from_stdin(request: Request, settings: Settings) -> int:
    if len(request.paths) > 1:
        raise click.UsageError("`-` (standard input) cannot be combined with other paths")
    target = discovery.stdin_target(request.stdin_filename, request.configuration)
    data = sys.stdin.buffer.read()
    if target is None:  # excluded: an editor that fixes gets back what it sent
        result = FileResult(request.stdin_filename or STDIN)
    else:
        result = engine.check_bytes(data, target, _mode(request, settings))
    if request.diff:
        _write_diff([result], sys.stdout)
    elif request.fix or request.add_ignore:
        own = [rewrite.after for rewrite in result.rewrites if rewrite.shown == result.path]
        sys.stdout.buffer.write(own[0] if own else data)
        sys.stdout.flush()
        return _report(request, settings, [result], [], 1, sys.stderr)
    return _report(request, settings, [result], [], 1, sys.stdout)


def _write_diff(results: list[FileResult], stream: IO[str]) -> None:
    colour = stream.isatty() and display(stream, os.environ).colour  # what a patch is piped to is no terminal
    for result in results:
        if result.rewrites:
            from torchlint.saving import diff

            text = diff(result.rewrites)
            if colour:
                from torchlint.reporting import painting

                text = painting.patch(text)
            click.echo(text, file=stream, nl=False, color=colour)


def _report(
    request: Request,
    settings: Settings,
    results: list[FileResult],
    problems: list[Diagnostic],
    files: int,
    stream: IO[str],
) -> int:
    watched = stream if request.output_file is None else None
    shown = output.display_for(watched, unsafe_fixes=settings.unsafe_fixes, show_fixes=request.show_fixes,
                               done="Silenced" if request.add_ignore else "Fixed")
    report = engine.report_of(results, problems, files, shown)
    output.write_diagnostics(report.diagnostics)
    if request.diff:
        output.write_diff_summary(report)
    else:
        chosen = request.output_format or settings.output_format or "full"
        output.write_report(report, chosen, statistics=request.statistics, file=request.output_file, stream=stream)
    return _exit_code(request, report)


def _exit_code(request: Request, report: Report) -> int:
    if report.diagnostics:
        return 2
    if request.exit_zero:
        return 0
    if report.applied and (request.exit_non_zero_on_fix or request.diff):
        return 1
    return 1 if report.findings and not request.add_ignore else 0
