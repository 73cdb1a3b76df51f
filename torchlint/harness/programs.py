"""A user's own program, measured before and after the fixes in copies of its tree: nothing of the user's is touched."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchlint.harness.arms import Fixes, Place, Tree, copy, fix
from torchlint.harness.measuring import Arm, Effort, Exercise, OnRun, Step, compare, exercised
from torchlint.harness.recordings import HarnessError, Plan, Recording
from torchlint.harness.verdicts import Comparison, Verdict
from torchlint.rules.registry import all_rules
from torchlint.rules.rule import Training

_LARGE = 100e6  # bytes
_MANY = 100_000
"""A copy that is larger, or has more links, is worth a word: it is made for each side."""


@dataclass(frozen=True, slots=True)
class Program:
    """A command line, the folder it runs in, and the tree that is copied and fixed."""

    command: tuple[str, ...]
    folder: Path
    root: Path

    def __call__(self, seed: int) -> Sequence[str]:
        """The command of a run; seeds are set by the recorder."""
        return self.command

    @classmethod
    def here(cls, command: Sequence[str]) -> Program:
        """A command of the working folder; its tree is the repository around, or the folder itself without one."""
        folder = Path.cwd()
        found = subprocess.run(["git", "rev-parse", "--show-toplevel"], capture_output=True, text=True, check=False) \
            if shutil.which("git") else None
        root = Path(found.stdout.strip()) if found is not None and found.returncode == 0 else folder
        return cls(tuple(command), folder, root if root.is_dir() else folder)


@dataclass(frozen=True, slots=True)
class _Side(Arm):
    """One side, whose every run begins with the tree as it is."""

    def run(self, plan: Plan) -> Recording:
        with self.tree.fresh() as tree:
            return Arm(tree, self.command).run(plan)


def verified(
    program: Program, rules: Sequence[str], effort: Effort, on_run: OnRun, warn: Callable[[str], None], *,
    unsafe: bool, each: bool,
) -> Iterator[Comparison]:  # fmt: skip
    """All fixes together, then (with ``each``) those of every rule alone. Raises HarnessError where nothing is run.

    Threads are pinned to as many as the program had in a run of its own.
    """
    with tempfile.TemporaryDirectory(prefix="torchlint-verify-") as work:
        before, copied = copy(program.root, program.folder, Path(work, "before"))
        if copied.size > _LARGE or copied.linked > _MANY:
            warn(f"each copy of {program.root} takes {copied.size / 1e6:,.0f} MB and {copied.linked:,} links")
        after, fixes = _fixed(program, rules, Path(work, "after"), unsafe)
        if not fixes.diff:
            raise HarnessError(_nothing_to_fix(fixes))
        arms = _Side(before, program), _Side(after, program)
        on_run(Step("which fixes the program comes to"))
        exercise = exercised(arms[0], fixes, effort)
        loaded = exercise.loaded
        effort = replace(effort, threads=exercise.run.threads)
        notes = list(_notes(program, fixes, exercise))
        yield _compared("all fixes", None, arms, exercise, effort, on_run, notes)
        changed = list(dict.fromkeys(place.rule for place in loaded.places))
        for number, slug in enumerate(changed if each and len(changed) > 1 else ()):
            alone, own = _fixed(program, [slug], Path(work, f"after-{number}"), unsafe)
            of_rule = replace(exercise, loaded=own.within(loaded.patches),
                              unreached=tuple(place for place in exercise.unreached if place.rule == slug))
            yield _compared(slug, slug, (arms[0], _Side(alone, program)), of_rule, effort, on_run, [])


def _fixed(program: Program, rules: Sequence[str], to: Path, unsafe: bool) -> tuple[Tree, Fixes]:
    tree, _ = copy(program.root, program.folder, to)
    return tree, fix(tree, rules, unsafe=unsafe)


def _compared(
    name: str, rule: str | None, arms: tuple[Arm, Arm], exercise: Exercise, effort: Effort, on_run: OnRun,
    notes: list[str],
) -> Comparison:  # fmt: skip
    fixes, missed = exercise.loaded, tuple(map(str, exercise.unreached))
    if not exercise.reached:
        steps = effort.steps + effort.warm_up
        why = f"no fix is reached in {steps} steps" if fixes.places else "no fix lies in a file that the copy loads"
        return Comparison(name, rule, Verdict.UNMEASURABLE, why, diff=fixes.diff, not_exercised=missed,
                          notes=tuple(notes))
    training = _training(exercise.reached)
    judged = compare(name, rule, arms, fixes, training, effort, on_run, known=exercise.run)
    notes = [*judged.notes, *notes, *fixes.complaints]
    return replace(judged, not_exercised=missed, notes=tuple(notes))


def _training(places: Sequence[Place]) -> Training:
    """How several fixes together are judged: as the one that changes most."""
    by_slug = {rule.slug: rule.training for rule in all_rules()}
    known = [training for place in places if (training := by_slug.get(place.rule)) is not None]
    return Training(
        gains="run",
        tolerance=max((training.tolerance for training in known), default=Training().tolerance),
        moves_random_stream=any(training.moves_random_stream or training.gains == "schedule" for training in known),
    )


def _notes(program: Program, fixes: Fixes, exercise: Exercise) -> Iterator[str]:
    """What of the fixes a run did not load, and why; and how many were not made."""
    if fixes.unsafe:
        yield f"{fixes.unsafe} more {_fixes(fixes.unsafe)} with --unsafe-fixes"
    others = [place for place in fixes.places if place not in exercise.loaded.places]
    root = program.root.resolve()
    outside = [place for place in others if str(root / place.file) in exercise.run.from_original]
    if elsewhere := len(others) - len(outside):
        yield f"{_more(elsewhere, 'lies', 'lie')} in files that the program does not load"
    if outside:
        listed = f"{', '.join(map(str, outside[:3]))}{' …' * (len(outside) > 3)}"
        yield (f"{_more(len(outside), 'was', 'were')} not measured: the program loads the file from the original tree, "
               f"not from the copy (an editable install?): {listed}")


def _more(count: int, one: str, many: str) -> str:
    return f"{count} more {_fixes(count)} {many if count > 1 else one}"


def _fixes(count: int) -> str:
    return "fixes" if count > 1 else "fix"


def _nothing_to_fix(fixes: Fixes) -> str:
    if fixes.broken:
        return f"nothing could be fixed: {'; '.join(fixes.complaints[:3])}"
    if fixes.unsafe:
        return f"there is nothing to fix safely; {fixes.unsafe} {_fixes(fixes.unsafe)} with --unsafe-fixes"
    return "there is nothing to fix"
