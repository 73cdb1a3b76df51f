"""``torchlint bench``: what each fix gains, measured on a reference training loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from torchlint.cli import measuring

if TYPE_CHECKING:
    from torchlint.harness.loops import Loop
    from torchlint.harness.verdicts import Comparison


@click.command(short_help="Measure what each fix gains, on reference training loops.")
@click.option("--rule", "rules", multiple=True, metavar="RULE",
              help="Measure the loop of this rule (a slug, code, prefix or family), or the whole script of this name, "
                   "only (repeatable).")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda", "mps"]), default="auto", show_default=True,
              help="Where to train.")
@click.option("--size", type=click.Choice(["small", "medium", "large"]),
              help="How large a loop is; by default each size in turn, up to the largest that fits.")
@click.option("--quick", is_flag=True, help="The small size and few steps: a few minutes for everything.")
@measuring.options
@click.pass_context
def bench(
    ctx: click.Context, /, rules: tuple[str, ...], device: str, size: str | None, quick: bool, **given: Any
) -> None:
    """Measure what each fix gains: a training loop that has the mistake, before and after torchlint's own fix.

    Runs alternate, each in a process of its own. Exit code 1 where a fix is slower or changes the result. It needs
    torch: `pip install 'torchlint[harness]'`.
    """
    ctx.exit(measuring.guarded(lambda: _execute(rules, device, size, quick, given)))


def _execute(rules: tuple[str, ...], wanted: str, size: str | None, quick: bool, given: dict[str, Any]) -> int:
    from torchlint.harness import loops, machines
    from torchlint.harness.measuring import Effort
    from torchlint.harness.recordings import HarnessError

    chosen = _chosen(rules, loops.loops())
    device = machines.device(wanted)
    effort = Effort(
        steps=given["steps"] or (20 if quick else 40),
        warm_up=5 if quick else 10,
        repeats=given["repeat"] or (3 if quick else 5),
        most_repeats=given["repeat"] or (5 if quick else 12),
        threads=max(1, machines.cpus() // 2) if device.kind == "cpu" else None,
        timeout=60.0 if quick else 180.0,
        block=measuring.BLOCK if device.kind == "cpu" else None,
        turns=0 if given["steps"] else measuring.TURNS,
    )
    sizes = (size,) if size else loops.SIZES[:1] if quick else loops.SIZES
    results: list[Comparison] = []
    failed: list[str] = []
    with measuring.Progress() as progress:
        for number, loop in enumerate(chosen, 1):
            progress.place = f"{number}/{len(chosen)} "
            try:
                results += loops.measured(loop, sizes, device, effort, progress.say)
            except HarnessError as error:
                failed.append(f"{loop.name}: {error}")
    measurement = measuring.measurement(device, machines.commit(loops.folder()), effort, results, ())
    return measuring.deliver(measurement, given, failed)


def _chosen(names: tuple[str, ...], known: list[Loop]) -> list[Loop]:
    """The loops of these names, in order; all where none is given."""
    chosen = [loop for name in names for loop in _named(name, known)]
    return list(dict.fromkeys(chosen)) if names else known


def _named(name: str, known: list[Loop]) -> list[Loop]:
    """The whole script of a name, or the loops of the rules that it names. UsageError where there is none."""
    from torchlint.rules.registry import rules_named
    from torchlint.selection import near_name

    rules = rules_named(name)
    found = [loop for loop in known if name in (loop.name, "all") or loop.rule in rules]
    if not found:
        names = [loop.name for loop in known]
        near = "" if rules else near_name(name, (loop.name for loop in known if loop.rule is None))
        raise click.UsageError(f"there is no reference loop '{name}'{near}; there are {', '.join(names)}")
    return found
