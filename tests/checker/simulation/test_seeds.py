"""Walks of many seeds: the sum of single simulations, whoever takes them, or the first finding."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.many.journal import Journal
from epochfence.checker.many.sweep import Piece
from epochfence.checker.many.workers import Workers
from epochfence.checker.named_systems import load_system
from epochfence.checker.simulation import seeds as of_seeds
from epochfence.checker.simulation.seeds import simulate_seeds
from epochfence.checker.simulation.simulate import Walks, simulate
from epochfence.checker.verdict.result import Verdict
from epochfence.language import DeclarationError
from epochfence.tests.checker.simulation.test_simulate import comparable
from epochfence.tests.cli.test_cli import ROOT, epochfence

LEASE = str(ROOT / "docs" / "examples" / "lease.py")
HOLDS = Piece(load_system(LEASE), "2", ())
BREAKS = replace(HOLDS, protocol="1")
RARELY = Walks(seed="1", steps=40, depth=12, shorter=0.0)  # walks that seldom find the violation


def test_without_a_finding_they_sum_up() -> None:
    options = Walks(seed="5", steps=2_000)
    single = [simulate(HOLDS.instance(), replace(options, seed=str(n))) for n in (5, 6, 7)]
    result = simulate_seeds(HOLDS, options, 3)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.exit_code == 0
    assert result.steps == sum(one.steps for one in single) > 6_000
    assert result.walks == sum(one.walks for one in single)
    taken = [
        sum(times) for times in zip(*([n for _, n in one.rows] for one in single), strict=True)
    ]
    assert [times for _, times in result.rows] == taken
    assert result.seeds == {"first": 5, "asked": 3, "walked": 3}
    assert f"{result.steps:,} steps of {result.walks:,} walks" in result.reason


def test_the_smallest_seed_counts_whoever_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    single = [simulate(BREAKS.instance(), replace(RARELY, seed=str(n))) for n in range(1, 13)]
    hits = [at for at, one in enumerate(single) if one.trace is not None]
    assert 0 < hits[0] < hits[1] < 12, "other options: the first seed shall find nothing"
    expected = comparable(single[hits[0]]) | {"seeds": {"first": 1, "asked": 12, "walked": 12}}

    def backwards(_: Workers, work: Any, pieces: list[Any], __: str) -> Any:
        yield from ((at, work(pieces[at])) for at in reversed(range(len(pieces))))

    with monkeypatch.context() as patch:
        patch.setattr(Workers, "each", backwards)
        assert comparable(simulate_seeds(BREAKS, RARELY, 12)) == expected
    forwards = simulate_seeds(BREAKS, RARELY, 12)
    expected["seeds"]["walked"] = hits[0] + 1  # later ones aren't asked for
    assert comparable(forwards) == expected
    assert forwards.verdict is Verdict.BROKEN


@pytest.mark.slow(2)
def test_processes_come_to_the_same() -> None:
    options = Walks(seed="5", steps=1_000)
    one, two = (simulate_seeds(HOLDS, options, 3, Workers(jobs)) for jobs in (1, 2))
    assert comparable(one) == comparable(two)


def test_a_saved_seed_is_not_walked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Walks(seed="1", steps=500)
    told: list[Mapping[str, Any]] = []

    def interrupted(result: Mapping[str, Any]) -> None:
        told.append(result)
        if len(told) == 2:
            raise KeyboardInterrupt

    with closing(Journal(tmp_path / "walks.jsonl", "now")) as journal:
        part = simulate_seeds(HOLDS, options, 4, journal=journal, on_result=interrupted)
        assert part.verdict is Verdict.INTERRUPTED
        assert part.seeds == {"first": 1, "asked": 4, "walked": 2}
    walked: list[str | None] = []

    def walk(seeded: of_seeds.Seeded) -> dict[str, Any]:
        walked.append(seeded.walks.seed)
        return simulate(seeded.piece.instance(), seeded.walks).as_json()

    monkeypatch.setattr(of_seeds, "walk", walk)
    with closing(Journal(tmp_path / "walks.jsonl", "now")) as journal:
        whole = simulate_seeds(HOLDS, options, 4, journal=journal)
    assert walked == ["3", "4"]
    monkeypatch.undo()
    assert comparable(whole) == comparable(simulate_seeds(HOLDS, options, 4))


@pytest.mark.parametrize(
    ("options", "seeds", "message"),
    [
        (Walks(seed="1", seconds=1.0), 2, "need a limit of steps, or of idle steps"),
        (Walks(seed="1", steps=5), 0, "0 seeds from 1 on: give 1 to 1,000,000"),
        (Walks(seed=str((1 << 63) - 1), steps=5), 2, "2 seeds from 9223372036854775807 on"),
        (Walks(seed="1-00000000", steps=5), 2, "seed 1-00000000 is of another declaration"),
    ],
)
def test_wrong_ones_are_refused(options: Walks, seeds: int, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        simulate_seeds(HOLDS, options, seeds)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--seeds", "2"), "--seeds needs --steps or --idle"),
        (("--engine", "spark"), "--engine spark needs --seeds"),
        (("--results", "x.jsonl"), "--results needs --seeds"),
        (("--seeds", "2", "--steps", "9", "--master", "local[2]"), "--master needs --engine spark"),
    ],
)
def test_the_command_refuses(given: tuple[str, ...], message: str) -> None:
    ended = epochfence("simulate", LEASE, *given)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert message in ended.err


@pytest.mark.usefixtures("spark")
def test_on_spark_they_come_to_the_same(tmp_path: Path) -> None:
    given = ("simulate", LEASE, "--protocol", "2", "--seed", "1", "--seeds", "3", "--steps", "900")
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    alone = epochfence(*given, "--json", str(here))
    ended = epochfence(*given, "--engine", "spark", "--json", str(there))
    assert (alone.code, ended.code) == (0, 0), ended.err
    assert "walks of 3 of the 3 seeds 1 to 3, on Spark" in ended.out
    one, other = (json.loads(file.read_text()) for file in (here, there))
    for name in ("seconds", "steps_per_second", "engine"):
        del one[name], other[name]
    assert one == other
