"""``torchlint rule``, ``config`` and ``version``: what torchlint says about itself."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from torchlint import __version__
from torchlint.config import ConfigError, Configuration, Settings, TorchVersion


@click.command(short_help="Explain rules: slugs, codes or families.")
@click.argument("names", nargs=-1, metavar="[RULE]...")
@click.option("--all", "everything", is_flag=True, help="Every rule.")
@click.option("--output-format", type=click.Choice(["text", "markdown", "json"]), default="text", show_default=True,
              help="How to write it.")
def rule(names: tuple[str, ...], everything: bool, output_format: str) -> None:
    """Explain rules, named by slug, code or family: what is wrong and why, what is left alone, when a fix is safe."""
    from torchlint.reporting.terminal import columns
    from torchlint.rules import docs, registry

    if not names and not everything:
        raise click.UsageError("name a rule, or give --all")
    rules = list(registry.all_rules()) if everything else []
    for name in names:
        found = registry.rules_named(name)
        if not found:
            raise click.UsageError(f"there is no rule '{name}'{_near(name)}")
        rules += [one for one in found if one not in rules]
    if output_format == "json":
        click.echo(docs.as_json(rules), nl=False)
    elif output_format == "markdown":
        click.echo("\n".join(docs.as_markdown(one) for one in rules), nl=False)
    elif _colours():
        width = min(columns(), 100)
        click.echo("\n".join(docs.as_painted(one, width) for one in rules), nl=False, color=True)
    else:
        click.echo("\n".join(docs.as_text(one) for one in rules), nl=False)


@click.command(short_help="Show the settings that hold here, and where they come from.")
@click.option("--config", "file", type=click.Path(dir_okay=False), metavar="FILE", help="Show this configuration.")
@click.option("--isolated", is_flag=True, help="Show the defaults.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="How to write it.")
@click.argument("folder", type=click.Path(), default=".", metavar="[PATH]")
@click.pass_context
def config(ctx: click.Context, file: str | None, isolated: bool, output_format: str, folder: str) -> None:
    """Show the settings that hold for a file or folder (by default the current one), and where they come from."""
    try:
        path = Path(folder).absolute()
        within = path if path.is_dir() else path.parent
        configuration = Configuration(file=Path(file).absolute() if file else None, isolated=isolated)
        settings = configuration.for_folder(within)
        from torchlint.engine import selection_for

        rules = [one.slug for one in selection_for(settings).rules]
    except ConfigError as error:
        click.echo(f"torchlint: {error}", err=True)
        ctx.exit(2)
    target = _target(settings, within)
    if output_format == "json":
        values = {"file": str(settings.file) if settings.file else None, **_values(settings),
                  "target-torch-here": {"version": target.version, "from": target.origin}, "rules-that-run": rules}
        click.echo(json.dumps(values, indent=2))
        return
    click.echo(f"# {settings.file or 'no configuration file: the defaults'}")
    unset = {**_UNSET, "target-torch": f"{target.version}, from {target.origin}"}
    for key, value in _values(settings).items():
        click.echo(f"# {key}: {unset[key]}" if value is None else f"{key} = {_toml(value)}")
    click.echo(f"# rules that run: {', '.join(rules)}")


@click.command()
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
              help="How to write it.")
def version(output_format: str) -> None:
    """Print the version."""
    click.echo(json.dumps({"version": __version__}) if output_format == "json" else f"torchlint {__version__}")


def _values(settings: Settings) -> dict[str, Any]:
    values = {}
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.name == "target_torch":
            value = _dotted(value) if value else None
        if field.name not in ("root", "file", "given"):
            values[field.name.replace("_", "-")] = value
    return values


_UNSET = {"select": "every rule that is on by default", "output-format": "full"}


@dataclass(frozen=True, slots=True)
class _Target:
    """The torch that code must run on, and what says so."""

    version: str
    origin: str


def _target(settings: Settings, folder: Path) -> _Target:
    from torchlint import requirements
    from torchlint.discovery import project_root
    from torchlint.semantics import knowledge

    if settings.target_torch is not None:
        return _Target(_dotted(settings.target_torch), settings.origin)
    found = requirements.nearest_torch(folder, project_root(folder))
    if found is not None:
        return _Target(_dotted(found[0]), f"the requirements in {found[1]}")
    newest = knowledge.version("torch")
    return _Target(str(newest), "torchlint, as the newest that it knows: no requirements name one")


def _dotted(version: TorchVersion) -> str:
    return ".".join(map(str, version))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def _near(name: str) -> str:
    from torchlint.selection import near_name

    return near_name(name)


def _colours() -> bool:
    from torchlint.reporting import display

    return display(sys.stdout, os.environ).colour
