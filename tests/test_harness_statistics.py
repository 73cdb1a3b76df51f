"""The harness's statistics, on made-up timings whose answer is known."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from torchlint.harness.recordings import Recording
from torchlint.harness.reports import Measurement, render
from torchlint.harness.statistics import Ratio, largest_difference, mean_loss, ratio, shift
from torchlint.harness.verdicts import Comparison, Verdict, judge
from torchlint.rules.rule import Training


def steps(mean: float, noise: float, seed: int, *, count: int = 40, drift: float = 0.0) -> list[float]:
    """A run's step times: noise around a mean that is a bit off in every run, and a few interruptions."""
    generator = random.Random(seed)
    level = mean * (1 + generator.gauss(0, drift))
    times = [level * (1 + abs(generator.gauss(0, noise))) for _ in range(count)]
    for place in generator.sample(range(count), 2):
        times[place] *= 10
    return times


def recording(times: list[float], losses: list[float | None], memory: int = 1000) -> Recording:
    return Recording("cpu", "cpu", "2.13", 1, len(losses), tuple(times), tuple(losses), (), memory, (1.0,))


def in_one(runs: list[list[float]]) -> list[list[list[float]]]:
    """Runs without a break."""
    return [[times] for times in runs]


def interval(found: Ratio) -> tuple[float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def judged(
    before: list[list[float]], after: list[list[float]], *, memory: tuple[int, int] = (1000, 1000),
    losses: tuple[list[list[float | None]], list[list[float | None]]] | None = None, training: Training | None = None,
) -> Comparison:  # fmt: skip
    same: list[list[float | None]] = [[1.0, 0.5] for _ in before]
    one, other = losses or (same, same)
    return judge(
        "fix", None, [recording(t, lo, memory[0]) for t, lo in zip(before, one)],
        [recording(t, lo, memory[1]) for t, lo in zip(after, other)], training or Training(), "diff",
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_a_tenth_is_found(seed: int) -> None:
    before = [steps(0.110, 0.02, seed * 100 + i, drift=0.005) for i in range(5)]
    after = [steps(0.100, 0.02, seed * 100 + 50 + i, drift=0.005) for i in range(5)]
    found = ratio(in_one(before), in_one(after), statistics.median)
    low, high = interval(found)
    assert low < found.median < high
    assert found.median == pytest.approx(1.1, rel=0.02)
    assert judged(before, after).verdict is Verdict.FASTER
    assert judged(after, before).verdict is Verdict.SLOWER


@pytest.mark.parametrize(("pairs", "drift"), [(2, 0.05), (3, 0.02), (3, 0.1), (5, 0.01), (5, 0.05), (10, 0.1)])
def test_noise_is_not_called_a_gain(pairs: int, drift: float) -> None:
    verdicts = []
    for seed in range(50):
        before = [steps(0.1, 0.05, seed * 100 + i, count=15, drift=drift) for i in range(pairs)]
        after = [steps(0.1, 0.05, seed * 100 + 50 + i, count=15, drift=drift) for i in range(pairs)]
        verdicts.append(judged(before, after).verdict)
    assert verdicts.count(Verdict.UNCHANGED) >= 47


@pytest.mark.parametrize(("pairs", "drift"), [(2, 0.05), (3, 0.03), (5, 0.1), (10, 0.03)])
def test_the_interval_holds_the_truth(pairs: int, drift: float) -> None:
    held = 0
    for seed in range(50):
        before = [steps(0.13, 0.05, seed * 100 + i, count=15, drift=drift) for i in range(pairs)]
        after = [steps(0.1, 0.05, seed * 100 + 50 + i, count=15, drift=drift) for i in range(pairs)]
        low, high = interval(ratio(in_one(before), in_one(after), statistics.median))
        held += low <= 1.3 <= high
    assert held >= 44  # 47 or 48 but for the luck of the draw


def test_one_pair_of_runs_shows_nothing() -> None:
    found = judged([[0.2] * 20], [[0.1] * 20])
    assert found.time_ratio is not None
    assert (found.time_ratio.low, found.time_ratio.high) == (None, None)
    assert found.verdict is Verdict.UNCHANGED
    assert any("--repeat 2" in note for note in found.notes)


def test_a_slow_spell_of_the_machine_slows_both() -> None:
    spells = [1.0, 1.0, 2.5, 1.0, 1.7]
    before = [[t * s for t in steps(0.12, 0.02, i)] for i, s in enumerate(spells)]
    after = [[t * s for t in steps(0.10, 0.02, 50 + i)] for i, s in enumerate(spells)]
    assert ratio(in_one(before), in_one(after), statistics.median).median == pytest.approx(1.2, rel=0.02)
    assert judged(before, after).verdict is Verdict.FASTER


def test_a_wide_interval_is_said() -> None:
    before = [steps(mean, 0.02, i) for i, mean in enumerate([0.1, 0.2, 0.05])]
    after = [steps(mean, 0.02, i) for i, mean in enumerate([0.2, 0.1, 0.1])]
    found = judged(before, after)
    assert found.verdict is Verdict.UNCHANGED
    assert any("too noisy" in note for note in found.notes)


def test_the_figures_of_a_comparison_agree() -> None:
    before = [steps(mean, 0.02, i) for i, mean in enumerate([0.1, 0.2, 0.05])]
    after = [steps(mean, 0.02, i) for i, mean in enumerate([0.1, 0.05, 0.05])]
    for training in (Training(), Training(gains="run")):
        found = judged(before, after, training=training)
        assert found.time_before and found.time_after and found.time_ratio  # noqa: PT018
        assert found.time_before / found.time_after == pytest.approx(found.time_ratio.median)


def described(before: float, after: float) -> str:
    """What the text says of two arms whose steps, in seconds, never change."""
    result = judged([[before] * 20] * 3, [[after] * 20] * 3)
    measurement = Measurement("EPYC, 2 CPUs", "EPYC", "cpu", "2.13", None, "2026-12-01", "Little", (result,))
    return render(measurement, "text", colour=False, width=100)


def test_a_speed_is_only_said_where_it_is_the_verdict() -> None:
    assert ": 2.00 times as fast (95%: 2.00 to 2.00); 3 pairs" in described(0.2, 0.1)
    assert ": 2.00 times as slow (95%: 2.00 to 2.00); 3 pairs" in described(0.1, 0.2)
    assert ": ratio 1.01 (95%: 1.01 to 1.01); 3 pairs" in described(0.101, 0.1)


def test_a_processor_is_named_once() -> None:
    assert described(0.1, 0.1).count("EPYC") == 1


def test_memory_counts_where_time_does_not() -> None:
    same = [[0.1] * 20] * 3
    assert judged(same, same, memory=(1200, 1000)).verdict is Verdict.LESS_MEMORY
    assert judged(same, same, memory=(1010, 1000)).verdict is Verdict.UNCHANGED
    grown = judged(same, same, memory=(1000, 1200))
    assert grown.verdict is Verdict.UNCHANGED
    assert "peak memory grew to 1.20 times what it was" in grown.notes


def test_losses_of_one_seed_must_agree() -> None:
    same, times = [[1.0, 0.5, None, 0.25]] * 3, [[0.1] * 20] * 3
    other: list[list[float | None]] = [[1.0, 0.5, None, 0.2501]] * 3
    found = judged(times, times, losses=(same, other))
    assert (found.verdict, found.verdict.fails) == (Verdict.DIFFERENT, True)
    assert found.loss_difference == pytest.approx(4e-4, rel=1e-3)
    assert judged(times, times, losses=(same, other), training=Training(tolerance=1e-2)).verdict is Verdict.UNCHANGED
    broken: list[list[float | None]] = [[1.0, math.nan, None, 0.25]] * 3
    assert judged(times, times, losses=(same, broken)).verdict is Verdict.DIFFERENT
    vanished: list[list[float | None]] = [[1.0, 0.5, None, None]] * 3
    assert judged(times, times, losses=(same, vanished)).verdict is Verdict.DIFFERENT
    short: list[list[float | None]] = [[1.0, 0.5]] * 3
    found = judged(times, times, losses=(same, short))
    assert (found.verdict, found.reason) == (Verdict.DIFFERENT, "4 optimizer steps before, 2 after")
    none: list[list[float | None]] = [[None] * 4] * 3
    unknown = judged(times, times, losses=(none, none))
    assert (unknown.loss_difference, unknown.loss_allowed) == (None, None)
    assert any("no loss was seen" in note for note in unknown.notes)


def curves(mean: float, seeds: range, spread: float = 0.02) -> list[list[float | None]]:
    """Losses of seeds whose data differ: what is common to the n-th of two arms, and what chance adds to each."""
    return [[2 * mean * random.Random(seed % 100).uniform(0.9, 1.1), mean * (1 + random.Random(seed).gauss(0, spread))]
            for seed in seeds]


def test_a_moved_random_stream_is_judged_by_its_spread() -> None:
    moved = Training(moves_random_stream=True)
    times = [[0.1] * 20] * 5
    alike = [judged(times, times, losses=(curves(1.0, range(i, i + 5)), curves(1.0, range(i + 100, i + 105))),
                    training=moved).verdict for i in range(0, 20_000, 500)]
    assert alike == [Verdict.UNCHANGED] * 40
    worse = judged(times, times, losses=(curves(1.0, range(5)), curves(1.3, range(100, 105))), training=moved)
    assert worse.verdict is Verdict.DIFFERENT
    few = judged(times[:3], times[:3], losses=(curves(1.0, range(3)), curves(1.5, range(103, 106))), training=moved)
    assert few.verdict is Verdict.UNCHANGED
    assert few.loss_difference == pytest.approx(0.4, abs=0.1)
    assert few.loss_allowed is None
    assert any("cannot show" in note for note in few.notes)
    one_seed = judged(times, times, losses=([[1.0]] * 5, [[1.1]] * 5), training=moved)
    assert one_seed.verdict is Verdict.UNCHANGED
    assert one_seed.loss_difference == pytest.approx(0.095, abs=0.01)
    assert any("is open" in note for note in one_seed.notes)


def test_a_gain_says_what_it_rests_on() -> None:
    moved = Training(moves_random_stream=True)
    before, after = [[0.2] * 20] * 5, [[0.1] * 20] * 5
    wild = judged(before, after, training=moved,
                  losses=(curves(1.0, range(5), spread=0.9), curves(1.0, range(100, 105), spread=0.9)))
    assert wild.verdict is Verdict.FASTER
    assert wild.reason.startswith("if training is the same: only a change of losses above ")
    tame = judged(before, after, training=moved, losses=(curves(1.0, range(5)), curves(1.0, range(100, 105))))
    assert (tame.verdict, tame.reason) == (Verdict.FASTER, "")
    none: list[list[float | None]] = [[None] * 4] * 5
    unseen = judged(before, after, losses=(none, none))
    assert (unseen.verdict, unseen.reason) == (Verdict.FASTER, "if training is the same: that is not known")


def test_small_things() -> None:
    assert largest_difference([1.0, None], [1.0, None]) == 0
    assert largest_difference([1.0, None], [1.0, 3.0]) == math.inf
    assert largest_difference([1.0], [math.inf]) == math.inf
    assert largest_difference([math.nan], [math.nan]) == 0
    assert mean_loss([None, None]) is None
    assert mean_loss([9.0, None, 1.0]) == 5.0
    moved, chance = shift([1.0, 1.1, 0.9], [1.2, 1.3, 1.1])
    assert moved == pytest.approx(0.183, abs=0.001)
    assert chance == pytest.approx(0.304, abs=0.001)  # Student's 31.6 at two degrees of freedom
    assert shift([1.0], [3.0]) == (1.0, None)
    assert shift([1.0, 2.0], [1.0, math.nan]) == (math.inf, 0.0)
    same = [[0.5, 0.5]] * 2
    assert ratio(in_one(same), in_one(same), statistics.fmean) == ratio(in_one(same), in_one(same), statistics.fmean)
