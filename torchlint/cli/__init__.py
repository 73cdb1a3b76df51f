"""The command line: arguments in, the engine, a report out."""

from __future__ import annotations

import contextlib
import gc
import os
import sys

import click

from torchlint import __version__
from torchlint.cli.bench import bench
from torchlint.cli.check import check, fix
from torchlint.cli.clean import clean
from torchlint.cli.inform import config, rule, version
from torchlint.cli.output import prepare_streams
from torchlint.cli.verify import verify

INTERRUPTED = 130
"""What a shell expects of a program that Ctrl-C ended: 128 and the signal's number."""

FAILED = 2
"""Something could not be done: usage, configuration, a file that cannot be read, a rule that crashed."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="torchlint", message="%(prog)s %(version)s")
def cli() -> None:
    """Find and fix the documented mistakes that make PyTorch training slow or silently wrong.

    Your code is read, never run. `torchlint check` reports, `torchlint fix` repairs.

    Exit codes: 0 nothing found, 1 something found, 2 something could not be done.
    """


for command in (check, fix, rule, bench, verify, config, clean, version):
    cli.add_command(command)


def main() -> None:
    """The ``torchlint`` command."""
    gc.disable()  # what a command makes lives until it ends: looking for garbage finds none, and takes a tenth
    try:
        prepare_streams()
        code = run()
    except KeyboardInterrupt:  # at the very beginning or end
        code = INTERRUPTED
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    # Taking a heap of syntax trees apart would take a tenth of a short run; everything is written.
    os._exit(code)


def run(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    try:
        code = cli.main(arguments, prog_name="torchlint", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        error.show()
        return FAILED
    except (click.Abort, KeyboardInterrupt):
        click.echo("torchlint: interrupted", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain again when it flushes at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
