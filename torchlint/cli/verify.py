"""``torchlint verify``: what the fixes gain in the user's own training script."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from torchlint.cli import measuring


@click.command(short_help="Measure what the fixes gain in your own training script.",
               context_settings={"ignore_unknown_options": False})
@click.option("--rule", "rules", multiple=True, metavar="RULE",
              help="Apply the fixes of this rule (a slug, code, prefix or family) only (repeatable).")
@click.option("--unsafe-fixes", is_flag=True, help="Apply fixes that may change behaviour too.")
@click.option("--each", is_flag=True, help="Measure the fixes of each rule alone as well.")
@click.option("--timeout", type=click.FloatRange(min=1), default=600.0, show_default=True, metavar="SECONDS",
              help="How long one run may take.")
@measuring.options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.pass_context
def verify(
    ctx: click.Context, /, rules: tuple[str, ...], unsafe_fixes: bool, each: bool, timeout: float,
    command: tuple[str, ...], **given: Any,
) -> None:  # fmt: skip
    """Measure what the fixes gain in your own training script, which is not changed.

    Your files are copied, the copy is fixed, and both are run for some optimizer steps, in turn and with several
    seeds:

        torchlint verify --steps 50 -- python train.py --batch-size 64

    Step time, peak memory and losses are compared. Exit code 1 where the fixes make it slower or change the result.
    """
    ctx.exit(measuring.guarded(lambda: _execute(command, rules, unsafe_fixes, each, timeout, given)))


def _execute(
    command: tuple[str, ...], rules: tuple[str, ...], unsafe: bool, each: bool, timeout: float, given: dict[str, Any]
) -> int:
    from torchlint.harness import machines
    from torchlint.harness.copying import changed, state
    from torchlint.harness.measuring import Effort
    from torchlint.harness.programs import Program, verified
    from torchlint.rules.registry import rules_named
    from torchlint.selection import near_name

    for name in rules:
        if not rules_named(name):
            raise click.UsageError(f"there is no rule '{name}'{near_name(name)}")
    repeats = given["repeat"] or 3
    effort = Effort(given["steps"] or 30, 5, repeats, given["repeat"] or 8, timeout=timeout)
    program = Program.here(command)
    untouched = state(program.root)
    try:
        with measuring.Progress() as progress:
            results = list(verified(program, rules, effort, progress.say, _warn, unsafe=unsafe, each=each))
    finally:
        if touched := changed(untouched, state(program.root)):
            _warn(f"THE ORIGINAL TREE HAS CHANGED meanwhile, by the program or by somebody else: {_listed(touched)}")
    run = next((result.before[0] for result in results if result.before), None)
    kind, torch = (run.kind, run.torch) if run else ("cpu", "unknown")
    device = machines.Device(kind, run.device if run and kind == "cuda" else machines.name(kind), 1, torch)
    effort = replace(effort, threads=run.threads if run else None)
    return measuring.deliver(
        measuring.measurement(device, machines.commit(program.root), effort, results, ()), given)


def _warn(message: str) -> None:
    click.echo(f"torchlint: {message}", err=True)


def _listed(files: list[str]) -> str:
    return ", ".join(files[:10]) + (f" and {len(files) - 10} more" if len(files) > 10 else "")
