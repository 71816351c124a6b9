"""A damaged folder of a run on Spark: refused, or what was written; without Spark itself."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings

from epochfence.checker.native.search.checkpoint import CheckpointError
from epochfence.checker.spark.storage.files import Storage
from epochfence.checker.spark.storage.manifest import Level, Manifest
from epochfence.checker.spark.storage.runs import read_run, write_run
from epochfence.checksums import DamagedError
from epochfence.tests.checker.damage import apply, damages

STRIDE = 8
STATES = [
    [n.to_bytes(STRIDE, "little") for n in range(first, first + 40)] for first in range(0, 160, 40)
]


def manifest(folder: Path, system: str = "one") -> Manifest:
    """What a folder says of a run."""
    return Manifest(Storage(str(folder)), {"system": system}, 1, {})


def written(folder: Path, system: str) -> Path:
    """The folder of a run of four levels."""
    run = manifest(folder, system)
    run.begin()
    for number, states in enumerate(STATES):
        file = write_run(run.storage, 0, [(number, b"".join(states))], STRIDE)
        run.finish(Level([len(states)], [number], [1], 1.0), [(0, [file])])
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of two runs."""
    folder = tmp_path_factory.mktemp("runs")
    return written(folder / "one", "one"), written(folder / "other", "other")


@settings(
    max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(damages=damages())
def test_what_is_read_is_what_was_written(
    damages: list[tuple[str, int, int, int]], runs: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(runs[0], folder)
    for damage in damages:
        apply(folder, runs[1], *damage)
    run = manifest(folder)
    try:
        run.load(None)
    except CheckpointError as error:
        refused = str(error)
    else:
        refused = ""
        whole = manifest(runs[0])
        whole.read(None)
        assert run.levels == whole.levels[: len(run.levels)]
        for file in run.each_run():
            try:
                levels = dict(read_run(run.storage, file, STRIDE))
            except DamagedError:
                continue
            for level, states in levels.items():
                assert states == b"".join(STATES[level])
    assert not refused or (str(folder) in refused and "\n" not in refused)


def test_only_what_does_not_count_is_deleted_at_the_end(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    shutil.copytree(runs[0], tmp_path / "run")
    run = manifest(tmp_path / "run")
    run.load(None)
    whole = run.storage.sizes()

    def more(name: str) -> None:
        (tmp_path / "run" / "shard-000" / name).touch()

    more("left.parquet")
    run.tidy()
    assert run.storage.sizes() == whole
    # Ctrl-C before what replaces all runs is saved
    with (
        mock.patch.object(Storage, "sizes", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        run.finish(Level([0], [9], [1], 2.0), [(0, [replace(run.runs[0][0], file="of them")])])
    more("left.parquet")
    run.tidy()
    assert run.storage.sizes() == whole
    # another process has gone on
    other = manifest(tmp_path / "run")
    other.load(None)
    other.finish(Level([0], [9], [1], 2.0), [])
    more("of the other.parquet")
    run.tidy()
    assert "shard-000/of the other.parquet" in run.storage.sizes()


def test_two_drivers_on_one_run(runs: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(runs[0], tmp_path / "run")
    first, second = manifest(tmp_path / "run"), manifest(tmp_path / "run")
    for driver in (first, second):
        driver.load(None)
    level = Level([0], [9], [1], 2.0)
    as_before = first.storage.sizes()
    first.finish(level, [])
    with pytest.raises(CheckpointError, match="run is in use: another process has gone on"):
        second.finish(level, [])
    # even one that has looked just before
    with (
        mock.patch.object(Storage, "sizes", return_value=as_before),
        pytest.raises(CheckpointError, match="run is in use"),
    ):
        second.finish(level, [])
    assert not list((tmp_path / "run").glob(".*"))
    after = manifest(tmp_path / "run")
    after.load(None)
    assert len(after.levels) == len(STATES) + 1
