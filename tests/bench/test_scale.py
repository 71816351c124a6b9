"""The model of what a search on Spark costs: held to recorded runs, and to what it should do."""

import sys
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import scale  # pyright: ignore[reportMissingImports]

RUNS = scale.recorded()
COSTS = scale.fit(RUNS)
PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


@pytest.mark.parametrize("run", RUNS, ids=[run.size for run in RUNS])
def test_the_model_is_within_a_quarter_of_each_recorded_run(run: scale.Recorded) -> None:
    found = scale.simulate(COSTS, run.found, run.successors, run.shards, run.cores, run.before)
    for simulated, name in (
        (found.seconds, "seconds"),
        (found.sent_bytes, "sent_bytes"),
        (found.written_bytes, "written_bytes"),
    ):
        measured = sum(getattr(level, name) for level in run.levels)
        assert abs(simulated / measured - 1) <= scale.WITHIN, (name, simulated, measured)
    assert found.levels == len(run.levels)


def test_costs_that_are_known_are_found_again() -> None:
    known = scale.Costs((0.3, 0.02, 5e-7, 1e-7, 4e-9), 0.5, 9.0, 10.0, 16.0)
    runs: list[scale.Recorded] = []
    for shards, cores, largest in ((4, 2, 4_000_000), (8, 4, 900_000), (16, 2, 20_000)):
        found = [int(largest * part) for part in (0.1, 0.5, 1.0, 0.3, 0.01)]
        files = scale.written(found, (1_000,), shards)
        levels: list[scale.Level] = []
        for expanded, states, count in zip((1_000, *found), found, files, strict=False):
            level = scale.Level(expanded, states, states * 3.0, states * 27.0, count * 10.0)
            work = scale.work(level, shards, cores)
            seconds = sum(a * b for a, b in zip(work, known.seconds, strict=True))
            told = (states * 3.0, states * 27.0, count * 10.0)
            levels.append(scale.Level(expanded, states, *told, seconds))
        memory = 16 * (1_000 + sum(found))
        runs.append(scale.Recorded("", 6.0, cores, shards, (1_000,), levels, memory))
    fitted = scale.fit(runs)
    for name in ("share", "candidate_bytes", "state_bytes", "memory"):
        assert getattr(fitted, name) == pytest.approx(getattr(known, name))
    for run in runs:
        model = scale.simulate(fitted, run.found, run.successors, run.shards, run.cores, run.before)
        assert model.seconds == pytest.approx(sum(x.seconds for x in run.levels), rel=0.02)


def test_merging_writes_states_again() -> None:
    assert scale.written([8] * 6, (8,), 1)[-1] == 8
    assert scale.written([8] * 7, (8,), 1)[-1] == 64
    assert scale.written([0, 8], (0,), 1) == [0, 8]


def test_larger_searches_cost_more_and_more_cores_less() -> None:
    for cores in scale.CORES:
        shards = min(scale.MOST_SHARDS, 2 * cores)
        shapes = [scale.shape(RUNS, states) for states in scale.STATES]
        told = [scale.simulate(COSTS, found, 8.0, shards, cores) for found in shapes]
        for few, many in pairwise(told):
            assert many.seconds > few.seconds
            assert many.sent_bytes > 9 * few.sent_bytes
    found = scale.shape(RUNS, 10**9)
    assert sum(found) == pytest.approx(10**9, rel=0.001)
    several = (1, 10, 100, 256, 1_000)
    times = [scale.simulate(COSTS, found, 8.0, 256, cores).seconds for cores in several]
    assert all(before >= after for before, after in pairwise(times))
    assert times[-1] == times[-2]  # there are no more shards


def test_the_page_has_one_place_for_what_the_model_says() -> None:
    text = PAGE.read_text()
    assert text.count("<!-- scale: begin -->") == text.count("<!-- scale: end -->") == 1
    told = {line[0] for line in scale.predicted(RUNS, COSTS)}
    assert told == {"10^9", "10^10", "10^11", "10^12"}
    assert all(f"| {size} " in text for size in told)


def test_a_hundred_billion_states_fit_into_the_driver() -> None:
    found = scale.shape(RUNS, 10**11)
    few, many = scale.driver(found, 4), scale.driver(found, 16)
    for part in ("runs", "manifest_bytes", "broadcast_bytes", "memory"):
        assert getattr(few, part) < getattr(many, part)
        assert getattr(many, part) * scale.MOST_SHARDS / 16 < 100e6, part


def test_places_suffice_for_as_many_states_as_the_page_has() -> None:
    assert scale.places(1) == 1 << 32
    assert scale.places(16) == 1 << 36
    assert scale.places(scale.MOST_SHARDS) == 1 << 40 > max(scale.STATES)
    assert "places" not in {line[-1] for line in scale.predicted(RUNS, COSTS)}
