"""``torchlint clean``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Remove the caches in the current folder and below.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".",
                metavar="[FOLDER]")
@click.pass_context
def clean(ctx: click.Context, folder: Path) -> None:
    """Remove the caches (`.torchlint_cache`) in a folder, by default the current one, and below."""
    from torchlint.cache.folder import clean as remove

    try:
        for found in remove(folder):
            click.echo(f"Removed {found.as_posix()}", err=True)
    except OSError as error:
        click.echo(f"torchlint: {error.filename}: {error.strerror}", err=True)
        ctx.exit(2)
