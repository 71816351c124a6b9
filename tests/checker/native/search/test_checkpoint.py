"""Runs that end early go on where they were, and no run goes on from another's levels."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.native.search.checkpoint import CheckpointError
from epochfence.checker.native.search.explore import Progress
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.checksums import checksum, seal
from epochfence.language import Instance, instantiate
from epochfence.tests.systems.counter import Ticker

ROOT = Path(__file__).parents[4]
KTX = ROOT / "bench" / "ktx.py"
TWO_PHASE = ROOT / "docs" / "examples" / "two_phase_commit.py"


def ktx(**constants: int) -> Instance:
    """The benchmark protocol at its smallest size of the table."""
    given = {"I": 1, "K": 1, "E": 2, "S": 2} | constants
    return instantiate(load_system(str(KTX)), constants=given)


def counted(result: Result) -> tuple[Any, ...]:
    """All that must be the same of a run that was interrupted."""
    return (
        result.verdict, result.states, result.transitions, result.depth, result.rows,
        result.first_depths,
        result.properties, result.trace,
    )  # fmt: skip


class Killed(Exception):
    """The end of a process, in the middle of a run."""


def killed_at(depth: int, folder: Path, instance: Instance, **options: Any) -> None:
    """A run with a checkpoint that ends in the middle of a level."""

    def end(progress: Progress) -> None:
        if progress.depth == depth:
            raise Killed

    with pytest.raises(Killed):
        check(instance, Options(checkpoint=folder, **options), end)


def manifest(folder: Path) -> dict[str, Any]:
    """What the folder says of itself."""
    return json.loads((folder / "manifest.json").read_text())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run that was killed in its tenth level."""
    killed_at(10, tmp_path / "run", ktx())
    return tmp_path / "run"


@pytest.mark.slow(1)
@pytest.mark.parametrize("depth", [1, 2, 10, 28])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_resumed_run_comes_to_the_same_result(depth: int, threads: int, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    killed_at(depth, folder, ktx())
    assert len(manifest(folder)["levels"]) == depth
    result = check(ktx(), Options(threads, resume=folder))
    assert counted(result) == counted(check(ktx()))
    assert (result.states, result.transitions, result.depth) == (5_094, 22_028, 28)


def test_a_resumed_run_finds_the_same_counterexample(tmp_path: Path) -> None:
    broken = ktx(V=0)
    whole = check(broken)
    assert whole.verdict is Verdict.BROKEN
    killed_at(5, tmp_path / "run", broken)
    assert counted(check(broken, Options(resume=tmp_path / "run"))) == counted(whole)


@pytest.mark.slow(1)
def test_a_resumed_run_is_saved_and_resumed_again(run: Path) -> None:
    def end(progress: Progress) -> None:
        if progress.depth == 15:
            raise Killed

    with pytest.raises(Killed):
        check(ktx(), Options(resume=run), end)
    assert len(manifest(run)["levels"]) == 15
    assert counted(check(ktx(), Options(resume=run))) == counted(check(ktx()))
    # and what is complete may be resumed, to tell its result once more
    assert counted(check(ktx(), Options(resume=run))) == counted(check(ktx()))


def test_under_symmetry_as_well(tmp_path: Path) -> None:
    two_phase = instantiate(load_system(str(TWO_PHASE)), constants={"RM": 5})
    killed_at(6, tmp_path / "run", two_phase)
    result = check(two_phase, Options(resume=tmp_path / "run"))
    assert result.states == 314
    with pytest.raises(CheckpointError, match="symmetry is none here and rm there"):
        check(two_phase, Options(resume=tmp_path / "run", symmetry=False))


def test_a_level_that_was_half_written_is_ignored(run: Path) -> None:
    (run / ".0123.part").write_bytes(b"half a le")
    (run / "level-00010.states").write_bytes(b"whole, but not yet counted")
    assert counted(check(ktx(), Options(resume=run))) == counted(check(ktx()))
    assert not list(run.glob(".*"))


def test_a_copy_of_the_folder_goes_on_by_itself(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "copy")
    assert counted(check(ktx(), Options(resume=tmp_path / "copy"))) == counted(check(ktx()))
    assert len(manifest(run)["levels"]) == 10


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constants", "difference"),
    [
        ({"E": 3}, "constant E is 3 here and 2 there"),
        ({"V": 0}, "constant V is 0 here and 1 there"),
    ],
)
def test_other_constants_are_refused(run: Path, constants: dict[str, int], difference: str) -> None:
    with pytest.raises(CheckpointError, match=f"run holds another run: {difference}"):
        check(ktx(**constants), Options(resume=run))


def test_other_properties_are_refused(run: Path) -> None:
    one = instantiate(
        load_system(str(KTX)), constants=dict(ktx().constants), properties=["EpochBound"]
    )
    with pytest.raises(CheckpointError, match="properties is EpochBound here"):
        check(one, Options(resume=run))


def test_another_slicing_is_refused(run: Path, tmp_path: Path) -> None:
    one = instantiate(
        load_system(str(KTX)), constants=dict(ktx().constants), properties=["EpochBound"]
    )
    killed_at(5, tmp_path / "one", one)
    with pytest.raises(CheckpointError, match="left out is none here and ktx"):
        check(one, Options(resume=tmp_path / "one", slicing=False))


def one_row(below: int = 3) -> Instance:
    """A system with a row that counts to three."""
    return Ticker().instance(to=below)


def test_another_declaration_of_the_same_name_is_refused(tmp_path: Path) -> None:
    killed_at(2, tmp_path / "run", one_row())
    assert check(one_row(), Options(resume=tmp_path / "run")).states == 4
    with pytest.raises(CheckpointError, match="the rows differ"):
        check(one_row(below=2), Options(resume=tmp_path / "run"))


def test_a_new_run_does_not_overwrite_another(run: Path) -> None:
    before = sorted(path.name for path in run.iterdir())
    assert before[-2:] == ["lock", "manifest.json"]
    with pytest.raises(
        CheckpointError, match=f"already holds a run: resume it with --resume {run}"
    ):
        check(ktx(), Options(checkpoint=run))
    assert sorted(path.name for path in run.iterdir()) == before


def test_an_empty_folder_is_nothing_to_resume(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(CheckpointError, match="holds no run to resume: no manifest"):
            check(ktx(), Options(resume=folder))


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"levels": []}', "\x00" * 99])
def test_a_manifest_that_is_none_is_refused(run: Path, text: str) -> None:
    (run / "manifest.json").write_text(text)
    with pytest.raises(
        CheckpointError, match=r"manifest\.json: (not valid JSON|it has no checksum)"
    ):
        check(ktx(), Options(resume=run))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"levels": []}, "levels must contain at least 1 items"),
        ({"taken": [1]}, "its counts contradict each other"),
        ({"first": []}, "its counts contradict each other"),
        ({"first": [0] * 8}, "its counts contradict each other"),
        ({"taken": "many"}, "taken must be array"),
        ({"seconds": -1}, "seconds must be bigger than or equal to 0"),
        ({"program": "epochfence 0.0.1"}, "program is epochfence .* here and epochfence 0.0.1"),
    ],
)
def test_a_manifest_that_says_something_else_is_refused(
    run: Path, change: dict[str, Any], says: str
) -> None:
    """Even with a checksum that fits."""
    changed = {**manifest(run), **change}
    (run / "manifest.json").write_text(json.dumps(changed))
    with pytest.raises(CheckpointError, match=r"manifest\.json: its checksum doesn't fit"):
        check(ktx(), Options(resume=run))
    changed.pop("checksum")
    (run / "manifest.json").write_text(json.dumps(seal(changed)))
    with pytest.raises(CheckpointError, match=says):
        check(ktx(), Options(resume=run))


def forge(folder: Path, level: int, states: bytes) -> None:
    """Other states in a level, with checksums that fit."""
    told = manifest(folder)
    told.pop("checksum")
    stride = told["levels"][0]["size"]
    told["levels"][level] = {
        "states": len(states) // stride,
        "size": len(states),
        "checksum": checksum(states),
    }
    (folder / f"level-{level:05}.states").write_bytes(states)
    (folder / "manifest.json").write_text(json.dumps(seal(told)))


def test_other_initial_states_are_refused(run: Path) -> None:
    forge(run, 0, (run / "level-00001.states").read_bytes()[: manifest(run)["levels"][0]["size"]])
    with pytest.raises(CheckpointError, match="its initial states differ"):
        check(ktx(), Options(resume=run))


def test_a_state_that_stands_there_twice_is_refused(run: Path) -> None:
    forge(run, 9, (run / "level-00009.states").read_bytes() * 2)
    with pytest.raises(CheckpointError, match="level 9 holds a state twice"):
        check(ktx(), Options(resume=run))


@pytest.mark.parametrize("bits", [1 << 63, 0xFF], ids=["of no leaf", "of a leaf"])
def test_what_is_no_state_is_refused(bits: int, run: Path) -> None:
    states = (run / "level-00009.states").read_bytes()
    forged = (int.from_bytes(states[:8], "little") | bits).to_bytes(8, "little") + states[8:]
    assert forged != states
    forge(run, 9, forged)
    with pytest.raises(CheckpointError, match="level 9 holds a value that is out of its range"):
        check(ktx(), Options(resume=run))


def test_a_level_that_is_cut_short_is_refused(run: Path) -> None:
    level = run / "level-00007.states"
    level.write_bytes(level.read_bytes()[:-8])
    with pytest.raises(CheckpointError, match=r"level-00007\.states is damaged"):
        check(ktx(), Options(resume=run))


@pytest.mark.slow(1)
@pytest.mark.parametrize("resumed", [False, True])
def test_two_runs_in_one_folder_are_refused(run: Path, resumed: bool) -> None:
    second = Options(resume=run) if resumed else Options(checkpoint=run)

    def also(progress: Progress) -> None:
        with pytest.raises(CheckpointError, match="run is in use: another process goes on"):
            check(ktx(), second)
        raise Killed

    with pytest.raises(Killed):
        check(ktx(), Options(resume=run), also)
    assert counted(check(ktx(), Options(resume=run))) == counted(check(ktx()))


def test_memory_that_is_too_little_to_resume_is_inconclusive(run: Path) -> None:
    before = manifest(run)
    result = check(ktx(), Options(resume=run, memory=1))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "memory limit" in result.reason
    assert manifest(run) == before


def test_a_level_that_is_gone_is_refused(run: Path) -> None:
    (run / "level-00007.states").unlink()
    with pytest.raises(CheckpointError, match=r"can't read .*level-00007\.states"):
        check(ktx(), Options(resume=run))


def test_a_folder_that_can_t_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"can't make .*file/run"):
        check(ktx(), Options(checkpoint=tmp_path / "file" / "run"))
