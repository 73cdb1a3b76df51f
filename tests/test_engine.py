"""Runs over many files: what is parsed at all, in how many processes, and what a crash costs."""

from __future__ import annotations

import faulthandler
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import throwaway
from torchlint import engine, memory, work, workers
from torchlint.checking import Checker, FileResult, Mode, Setup, Task, screened
from torchlint.config import ConfigError, Configuration, Settings
from torchlint.discovery import Target, discover, stdin_target
from torchlint.findings import Diagnostic
from torchlint.reporting import Display
from torchlint.semantics.project import Project

FORKS = sys.platform.startswith("linux")
forks_only = pytest.mark.skipif(not FORKS, reason="a new interpreter does not know the throwaway rules")


@pytest.fixture(autouse=True)
def _throwaway_rules() -> Iterator[None]:
    with throwaway.installed():
        yield


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However small the files are, they go to worker processes."""
    monkeypatch.setattr(engine, "_HERE_AT_MOST", -1)
    monkeypatch.setattr(engine, "_ALONE_AT_MOST", -1)
    told = faulthandler.is_enabled()
    faulthandler.disable()  # the crashes are meant
    yield
    if told:
        faulthandler.enable()


def plant(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"import torch\n{text}\n", encoding="utf-8")


def targets(root: Path, **overrides: object) -> list[Target]:
    return discover(["."], Configuration(overrides, working_folder=root), root).targets


def results(root: Path, jobs: int | None = 2, mode: Mode = Mode.CHECK, **overrides: object) -> list[FileResult]:
    return engine.run(targets(root, **overrides), mode, jobs=jobs).results


def said(found: list[FileResult]) -> dict[str, str]:
    """What was reported of each file, in a word: the kind of the first diagnostic, or the rules found."""
    return {r.path: r.diagnostics[0].kind if r.diagnostics else ",".join(f.rule for f in r.findings) for r in found}


def many(count: int = 40) -> dict[str, str]:
    chance = random.Random(0)
    return {
        f"{chance.choice('abc')}/{n:02}.py": "\n".join(chance.choices(["bad", "plain", "good"], k=n))
        for n in range(count)
    }


def test_a_file_without_torch_or_a_trigger_is_never_read_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("bad syntax here (", encoding="utf-8")
    (tmp_path / "b.py").write_text("import torch\nno trigger (", encoding="utf-8")
    (tmp_path / "c.py").write_text("import torch\nbad", encoding="utf-8")
    asked: list[str] = []

    def model(checker: Checker, source: object, task: Task, *others: object, whole: bool) -> object:
        asked.append(task.shown)
        return throwaway.Model(source)  # type: ignore[arg-type]

    monkeypatch.setattr(Checker, "_model", model)
    run = engine.run(targets(tmp_path))
    assert asked == ["c.py"]
    assert run.files == 3
    assert said(run.results) == {"c.py": "first-rule"}


def test_only_rules_with_a_trigger_in_the_file_are_asked() -> None:
    first, second, *_ = throwaway.RULES
    assert screened(throwaway.RULES, b"import torch\nbad") == [first]
    assert screened(throwaway.RULES, b"bad and risky") == []
    assert screened([second], b"torch: risky") == [second]
    both = throwaway.make_rule("TL910", "both", triggers=((b"one", b"two"), b"three"))
    assert screened([both], b"torch one") == []
    assert screened([both], b"torch one two") == [both]
    assert screened([both], b"torch three") == [both]
    always = throwaway.make_rule("TL911", "always", triggers=())
    assert screened([always], b"torch") == [always]


def test_a_run_without_torch_loads_no_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
    monkeypatch.setattr(engine, "selection_of", lambda settings: pytest.fail("the rules were loaded"))
    assert engine.run(targets(tmp_path)).results == []


def test_selectors_are_checked_even_when_no_file_needs_them(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="names no rule: 'nothing'"):
        engine.run(targets(tmp_path, ignore=("nothing",)))


@forks_only
@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("jobs", [1, 2, 7, 100])
def test_the_number_of_processes_changes_nothing(tmp_path: Path, jobs: int) -> None:
    plant(tmp_path, many())
    everything = targets(tmp_path)
    expected: list[FileResult] = []
    settings = [everything[0].settings]
    tasks = [Task(t.path, t.shown, 0, t.root, None, t.path.stat().st_size) for t in everything]
    work.run_here(tasks, Setup(settings), expected.append)
    found = engine.run(everything, jobs=jobs).results
    assert [r for r in found if r.findings] == sorted((r for r in expected if r.findings), key=lambda r: r.path)
    random.Random(1).shuffle(everything)
    assert engine.run(everything, jobs=jobs).results == found


@forks_only
@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("SEGFAULT", "parser-limit"),
        ("KILLED", "worker-crash"),
        ("LEAVE", "worker-crash"),
        ("RECURSE", "parser-limit"),
        ("CRASH", "rule-crash"),
    ],
)
def test_a_crash_costs_one_file(tmp_path: Path, word: str, kind: str) -> None:
    plant(tmp_path, {f"{n}.py": "bad" for n in range(10)} | {"5.py": f"bad {word}", "7.py": f"bad {word}"})
    found = said(results(tmp_path))
    assert found == {f"{n}.py": kind if n in (5, 7) else "first-rule" for n in range(10)}


@forks_only
@pytest.mark.usefixtures("apart")
def test_when_every_file_crashes_the_run_ends(tmp_path: Path) -> None:
    plant(tmp_path, {f"{n}.py": "bad SEGFAULT" for n in range(6)})
    assert set(said(results(tmp_path)).values()) == {"parser-limit"}


@forks_only
@pytest.mark.usefixtures("apart")
def test_a_file_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "PATIENCE", 1.0)
    plant(tmp_path, {f"{n}.py": "bad" for n in range(6)} | {"3.py": "bad HANG"})
    begun = time.monotonic()
    found = results(tmp_path, jobs=1)
    assert time.monotonic() - begun < 15
    assert said(found) == {f"{n}.py": "worker-crash" if n == 3 else "first-rule" for n in range(6)}
    assert "1 seconds" in found[3].diagnostics[0].message


@forks_only
@pytest.mark.usefixtures("apart")
def test_a_worker_over_its_share_of_memory_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MEMORY", 1)
    plant(tmp_path, many(8))
    assert len(results(tmp_path)) == len([1 for text in many(8).values() if "bad" in text or "plain" in text])


def test_a_crash_of_one_rule_leaves_the_findings_of_the_others(tmp_path: Path) -> None:
    plant(tmp_path, {"a.py": "bad\n  CRASH\nplain"})
    (result,) = results(tmp_path)
    assert [f.rule for f in result.findings] == ["first-rule", "third-rule"]
    (crash,) = result.diagnostics
    assert crash.kind == "rule-crash"
    assert "TL905 crashing-rule crashed: ZeroDivisionError: in line 3 (throwaway.py:" in crash.message
    assert crash.position is not None
    assert (crash.position.line, crash.position.column) == (3, 3)


def test_a_crash_of_the_interpreter_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    plant(tmp_path, {"a.py": "bad"})
    with throwaway.installed():
        # The real _model, around an interpreter that fails.
        monkeypatch.setattr(Checker, "_model", REAL_MODEL)
        monkeypatch.setattr(Project, "adopt", lambda *_, **__: (_ for _ in ()).throw(KeyError("x")))
        (result,) = results(tmp_path)
    assert [(d.kind, d.path) for d in result.diagnostics] == [("rule-crash", "a.py")]
    assert "the interpreter crashed: KeyError: 'x'" in result.diagnostics[0].message


REAL_MODEL = Checker._model


def test_files_that_cannot_be_read_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, {"a.py": "bad", "b.py": "bad", "c.py": "bad"})
    found = targets(tmp_path)
    (tmp_path / "a.py").unlink()
    (tmp_path / "b.py").write_bytes(b"import torch\nbad \xff")
    assert said(engine.run(found).results) == {"a.py": "unreadable", "b.py": "unreadable", "c.py": "first-rule"}


def test_a_file_that_vanishes_between_search_and_check(tmp_path: Path) -> None:
    checker = Checker([Settings(root=tmp_path)])
    result = checker.check_file(Task(tmp_path / "gone.py", "gone.py", 0, tmp_path, None))
    assert [d.kind for d in result.diagnostics] == ["unreadable"]


def test_a_text_that_is_data_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlint.checking.MAX_CHARACTERS", 100)
    target = stdin_target("a.py", Configuration(isolated=True))
    assert target is not None
    result = engine.check_bytes(b"import torch\n" + b"bad\n" * 100, target)
    assert [d.kind for d in result.diagnostics] == ["parser-limit"]


def test_bytes_that_are_on_no_disk() -> None:
    target = stdin_target("a.py", Configuration(isolated=True))
    assert target is not None
    assert [f.rule for f in engine.check_bytes(b"import torch\nbad", target).findings] == ["first-rule"]
    assert engine.check_bytes(b"bad", target) == FileResult("a.py")
    assert [d.kind for d in engine.check_bytes(b"torch bad RECURSE", target).diagnostics] == ["parser-limit"]


def test_the_torch_that_the_nearest_requirements_ask_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, {"pyproject.toml": "", "a.py": "bad", "old/b.py": "bad", "old/deep/c.py": "bad"})
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    (tmp_path / "old" / "requirements.txt").write_text("torch==1.7\n", encoding="utf-8")
    asked: dict[str, object] = {}

    def model(checker: Checker, source: object, task: Task, *others: object, whole: bool) -> object:
        asked[task.shown] = task.target_torch
        return throwaway.Model(source)  # type: ignore[arg-type]

    monkeypatch.setattr(Checker, "_model", model)
    engine.run(targets(tmp_path))
    assert asked == {"a.py": None, "old/b.py": (1, 7), "old/deep/c.py": (1, 7)}
    engine.run(targets(tmp_path, target_torch=(2, 0)))
    assert asked == dict.fromkeys(asked, (2, 0))


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    plant(tmp_path, many(10))
    told: list[tuple[int, int]] = []
    engine.run(targets(tmp_path), on_done=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] > 0
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_batches_hold_every_task_once_heaviest_first_and_folders_together() -> None:
    chance = random.Random(3)
    tasks = [
        Task(Path(f"{chance.choice('abcde')}/{n}.py"), f"{n}", 0, Path(), None, chance.randrange(1, 1000))
        for n in range(200)
    ]
    made = workers.batches(tasks, 4)
    assert sorted(index for batch in made for index in batch) == list(range(200))
    weights = [sum(tasks[i].size for i in batch) for batch in made]
    assert weights == sorted(weights, reverse=True)
    assert all(len({tasks[i].path.parent for i in batch}) == 1 for batch in made)
    assert max(weights) <= sum(weights) // 16 + 1000
    assert workers.batches([tasks[0]], 8) == [[0]]


def test_reports_are_in_order_and_complete() -> None:
    from torchlint.findings import Position

    late = Diagnostic("unreadable", "z.py", "no")
    first = Diagnostic("syntax-error", "a.py", "no", Position(2, 1))
    earlier = Diagnostic("syntax-error", "a.py", "no", Position(1, 9))
    report = engine.report_of([FileResult("a.py", diagnostics=(first, earlier))], [late], 3, Display())
    assert report.diagnostics == (earlier, first, late)
    assert report.files == 3


class TestMemory:
    def test_a_deep_stack_bears_deep_recursion(self) -> None:
        def down(depth: int) -> int:
            return 0 if depth == 0 else 1 + down(depth - 1)

        before = sys.getrecursionlimit()
        assert memory.with_deep_stack(lambda: down(15_000)) == 15_000
        assert sys.getrecursionlimit() == before

    def test_what_is_raised_comes_back(self) -> None:
        def fail() -> None:
            raise KeyError("x")

        with pytest.raises(KeyError):
            memory.with_deep_stack(fail)

    def test_collection_is_paused_and_restored(self) -> None:
        import gc

        with memory.collection_paused():
            assert not gc.isenabled()
        assert gc.isenabled()

    @pytest.mark.skipif(not FORKS, reason="only Linux tells it cheaply")
    def test_resident_memory(self) -> None:
        held = memory.resident()
        assert held is not None
        assert 5_000_000 < held < 2_000_000_000

    def test_where_memory_cannot_be_measured_the_bytes_read_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memory, "resident", lambda: None)
        forgotten: list[int] = []
        checker = Checker([])
        monkeypatch.setattr(checker, "forget_projects", lambda: forgotten.append(1))
        keeper = work.Housekeeper(checker, 1, replaceable=True)
        assert not any(keeper.over_budget(900_000) for _ in range(6))
        assert len(forgotten) == 2

    @pytest.mark.parametrize(
        ("readings", "replaceable", "replaced", "forgotten"),
        [
            ([80], True, False, 0),
            ([120, 80], True, False, 0),
            ([120, 95], True, True, 0),
            ([120, 95], False, False, 1),
        ],
    )
    def test_the_cheapest_means_comes_first(
        self, monkeypatch: pytest.MonkeyPatch, readings: list[int], replaceable: bool, replaced: bool, forgotten: int
    ) -> None:
        monkeypatch.setattr(memory, "resident", iter(readings).__next__)
        calls: list[int] = []
        checker = Checker([])
        monkeypatch.setattr(checker, "forget_projects", lambda: calls.append(1))
        assert work.Housekeeper(checker, 100, replaceable=replaceable).over_budget(1) is replaced
        assert len(calls) == forgotten


def test_usable_cpus() -> None:
    assert 1 <= work.usable_cpus() <= (os.cpu_count() or 1)
