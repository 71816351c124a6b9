"""The search that Spark carries comes to what the local one comes to, whatever dies on the way.

Spark's part is played in this process; tests/checker/spark/test_session.py has the real one.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from epochfence.checker.check import check
from epochfence.checker.named_systems import load_system
from epochfence.checker.native.search.checkpoint import CheckpointError
from epochfence.checker.native.search.explore import Progress
from epochfence.checker.native.store import store as stores
from epochfence.checker.native.store.store import BLOCK
from epochfence.checker.native.store.store import SHARDS as SHARDS_OF_HASH
from epochfence.checker.prepare import prepare
from epochfence.checker.spark.options import SparkError
from epochfence.checker.spark.search import levels, outbox, shards, tasks
from epochfence.checker.spark.storage import runs
from epochfence.checker.spark.storage.files import Storage, StorageError
from epochfence.checker.spark.storage.manifest import Manifest
from epochfence.checker.verdict.result import Verdict
from epochfence.checksums import seal
from epochfence.language import Instance, instantiate
from epochfence.spec.systems import SHIPPED
from epochfence.tests.checker.spark.conftest import found, on_spark
from epochfence.tests.checker.spark.in_process import InProcess
from epochfence.tests.checker.spark.matrix import SHARDS, SIZES, Case, sampled
from epochfence.tests.systems.counter import Ticker

BENCH = Path(__file__).parents[4] / "bench"
TWO_PHASE = BENCH.parent / "docs" / "examples" / "two_phase_commit.py"


def ktx(**constants: int) -> Instance:
    """The benchmark protocol at its smallest size of the table: 5,094 states, 28 levels."""
    given = {"I": 1, "K": 1, "E": 2, "S": 2} | constants
    return instantiate(load_system(str(BENCH / "ktx.py")), constants=given)


def counting(below: int = 3, *, terminal: Any = False) -> Instance:
    """A row that counts to three: then there is a deadlock, or the range ends."""
    return Ticker().instance(to=below, terminal=terminal)


SMALL: dict[str, Callable[[], Instance]] = {
    "holds": ktx,
    "breaks": lambda: ktx(V=0),
    "symmetry": lambda: instantiate(load_system(str(TWO_PHASE)), constants={"RM": 5}),
    "deadlock": counting,
    "out of range": lambda: counting(below=4),
}


@pytest.mark.sample(1, of="engines: shards")
@pytest.mark.parametrize("count", [1, 2, 7, 16])
@pytest.mark.parametrize("name", SMALL)
def test_any_number_of_shards_comes_to_the_same(
    name: str, count: int, played: InProcess, tmp_path: Path
) -> None:
    instance = SMALL[name]()
    result = on_spark(instance, tmp_path / "run", shards=count)
    assert found(result) == found(check(instance))
    assert result.engine["name"] == "spark"
    assert "level 1: expand" in played.stages


def test_each_shipped_system_has_bounds_here() -> None:
    assert SIZES.keys() == SHIPPED.keys()  # a sample need not draw the one that has none


@pytest.mark.slow
@pytest.mark.sample(1, of="engines: a system on Spark")
@pytest.mark.parametrize("case", sampled(), ids=str)
def test_shipped_systems_come_to_the_same(case: Case, played: InProcess) -> None:
    assert case._replace(shards=SHARDS).differs() == []


@pytest.mark.long
@pytest.mark.parametrize("most", [1, 10, 500])
def test_the_first_levels_are_explored_in_one_process(
    most: int, played: InProcess, tmp_path: Path
) -> None:
    result = on_spark(ktx(), tmp_path / "run", hand_over=most)
    assert found(result) == found(check(ktx()))
    assert result.engine["levels_on_spark"] < 28
    assert result.engine["states_on_spark"] < 5_094
    told = any("without Spark this would take about " in note for note in result.notes)
    assert told or most < 500  # a rate of so few states says little
    trace = on_spark(ktx(V=0), tmp_path / "broken", hand_over=most)
    assert found(trace) == found(check(ktx(V=0)))


def test_a_small_system_never_gets_to_spark(played: InProcess, tmp_path: Path) -> None:
    result = on_spark(ktx(), tmp_path / "run", hand_over=1_000_000)
    assert found(result) == found(check(ktx()))
    assert result.engine["name"] == "local"
    assert played.stages == []
    assert any("Spark would only have slowed it down" in note for note in result.notes)


def test_few_candidates_are_sent(
    played: InProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(outbox.VARIABLE, outbox.OFF)
    engine = on_spark(ktx(E=4), tmp_path / "run", shards=4).engine
    assert engine["states_on_spark"] > 10_000
    assert engine["states_on_spark"] < engine["candidates_sent"] < 4 * engine["states_on_spark"]
    assert engine["bytes_written"] < 40 * engine["states_on_spark"]


# What dies ----------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("phase", ["expand", "insert"])
def test_a_task_that_is_run_again_changes_no_count(
    phase: str, after: int, play: Callable[[InProcess], None], tmp_path: Path
) -> None:
    def disturb(stage: str, shard: int) -> int | None:
        return after if stage.endswith(phase) and (len(stage) + shard) % 3 else None

    play(InProcess(disturb))
    assert found(on_spark(ktx(), tmp_path / "run", shards=3)) == found(check(ktx()))


def test_a_cache_that_is_gone_or_behind_is_made_anew(
    play: Callable[[InProcess], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machines = 0

    def disturb(stage: str, shard: int) -> None:
        # another machine, that has what it saw last
        nonlocal machines
        machines += 1
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / f"machine-{machines % 5}"))
        monkeypatch.setattr(tasks, "_process", None)

    play(InProcess(disturb))
    assert found(on_spark(ktx(), tmp_path / "run", shards=3)) == found(check(ktx()))


@pytest.mark.slow(1)
def test_without_room_for_a_cache_all_comes_from_the_runs(
    played: InProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sets = weakref.WeakSet[shards.ShardSet]()

    made = 0

    class Noted(shards.ShardSet):
        def __init__(self, *args: Any) -> None:
            nonlocal made
            made += 1
            if made == 20:
                raise MemoryError  # the task is run again, by this process
            super().__init__(*args)
            sets.add(self)

    monkeypatch.setattr(shards, "LEAST_FREE", 1 << 62)
    monkeypatch.setattr(tasks, "ShardSet", Noted)
    files = len(os.listdir("/proc/self/fd"))
    assert found(on_spark(ktx(), tmp_path / "run", shards=3)) == found(check(ktx()))
    assert len(sets) == 3  # a task's set goes when the next one is made
    assert len(os.listdir("/proc/self/fd")) <= files + 3


@pytest.mark.slow(2)
def test_a_level_may_have_more_pieces_than_its_shard_has_parts(
    played: InProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tasks, "PIECE", 1)
    assert found(on_spark(ktx(), tmp_path / "run")) == found(check(ktx()))
    # all is read again
    shutil.rmtree(tmp_path / "local")
    monkeypatch.setattr(tasks, "_process", None)
    assert found(on_spark(ktx(), tmp_path / "run", resume=True)) == found(check(ktx()))


class Killed(BaseException):
    """The end of the driver."""


def killed_at(level: int, folder: Path, play: Callable[[InProcess], None], **more: Any) -> None:
    """A run whose driver ends while a level is inserted."""

    def disturb(stage: str, shard: int) -> None:
        if stage == f"level {level}: insert" and shard == 1:
            raise Killed

    play(InProcess(disturb))
    with pytest.raises(Killed):
        on_spark(ktx(**more), folder)
    play(InProcess())


class JavaEnds(InProcess):
    """A session whose Java answers so many calls, and then none."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def call(self) -> None:
        """Raises what PySpark does where nothing answers."""
        self.left -= 1
        if self.left < 0:
            raise ConnectionRefusedError(111, "Connection refused")

    def setLocalProperty(self, name: str, value: str) -> None:
        self.call()
        super().setLocalProperty(name, value)

    def broadcast(self, value: Any) -> Any:
        self.call()
        return SimpleNamespace(value=super().broadcast(value).value, destroy=self.call)

    def parallelize(self, items: Iterable[int], count: int) -> Any:
        self.call()
        return super().parallelize(items, count)


def test_a_java_that_ends_at_any_call_is_told_or_changes_nothing(
    play: Callable[[InProcess], None], seed: int, tmp_path: Path
) -> None:
    whole, most, outcomes = found(check(counting())), 1 << 20, set[str]()
    play(session := JavaEnds(most))
    assert found(on_spark(counting(), tmp_path / "whole")) == whole
    calls = most - session.left
    for left in (0, *random.Random(seed).sample(range(1, calls - 1), 4), calls - 1):
        folder = tmp_path / str(left)
        play(JavaEnds(left))
        try:
            result = on_spark(counting(), folder)
            outcomes.add("changes nothing")
        except SparkError as error:
            outcomes.add(str(error).rpartition(": ")[2])
            play(InProcess())
            result = on_spark(counting(), folder, resume=True)
        assert found(result) == whole
    assert outcomes == {"Spark's Java has ended", "changes nothing"}


@pytest.mark.slow(10)
@pytest.mark.sample(1, of="kills")
def test_a_driver_killed_at_ten_moments_is_resumed_each_time(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, Path(__file__).with_name("killed.py"), tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "10 drivers killed, 5,094 states\n"), ended


@pytest.mark.long
@pytest.mark.parametrize("level", [1, 2, 10, 28])
def test_a_resumed_run_comes_to_the_same(
    level: int, play: Callable[[InProcess], None], tmp_path: Path
) -> None:
    killed_at(level, tmp_path / "run", play)
    assert found(on_spark(ktx(), tmp_path / "run", resume=True)) == found(check(ktx()))
    # what is complete tells its result once more
    assert found(on_spark(ktx(), tmp_path / "run", resume=True)) == found(check(ktx()))


def test_a_run_that_was_killed_before_the_hand_over_begins_again(
    play: Callable[[InProcess], None], tmp_path: Path
) -> None:
    def end(progress: Progress) -> None:
        if progress.depth == 5:
            raise Killed

    play(InProcess())
    with pytest.raises(Killed):
        on_spark(ktx(), tmp_path / "run", hand_over=200, on_progress=end)
    again = on_spark(ktx(), tmp_path / "run", resume=True, hand_over=200)
    assert found(again) == found(check(ktx()))


def test_a_resumed_run_finds_the_same_counterexample(
    play: Callable[[InProcess], None], tmp_path: Path
) -> None:
    killed_at(5, tmp_path / "run", play, V=0)
    assert found(on_spark(ktx(V=0), tmp_path / "run", resume=True)) == found(check(ktx(V=0)))


def test_nothing_stays_of_a_level_that_was_half_written(
    play: Callable[[InProcess], None], tmp_path: Path
) -> None:
    killed_at(10, tmp_path / "run", play)
    (tmp_path / "run" / "shard-001" / "left.parquet").write_bytes(b"half a ru")
    (tmp_path / "run" / ".manifest-000099.json.part").write_text('{"system": "k')
    result = on_spark(ktx(), tmp_path / "run", resume=True)
    assert found(result) == found(check(ktx()))
    names = {path.name for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert len([name for name in names if name.startswith("manifest")]) == 1
    assert not {name for name in names if name.startswith(".") or name == "left.parquet"}
    # and what was merged is gone
    assert len(names) < 28


def test_files_of_what_is_not_finished_go_at_the_end(
    play: Callable[[InProcess], None], tmp_path: Path
) -> None:
    """Of an attempt at a task that was made twice, and of the level after a broken property."""

    def disturb(stage: str, shard: int) -> int | None:
        return 1 if stage.endswith("insert") else None

    play(InProcess(disturb))
    on_spark(ktx(V=0), tmp_path / "run", hand_over=50)
    (name,) = (tmp_path / "run").glob("manifest-*.json")
    named = {run["file"] for runs in json.loads(name.read_text())["runs"] for run in runs}
    files = (tmp_path / "run").rglob("*.*")
    assert {str(file.relative_to(tmp_path / "run")) for file in files} == named | {name.name}


def with_a_value_out_of_its_range(folder: Path) -> None:
    """Puts a value that can't be into each state of a run's first file, whose checksums, and those
    of the files that name it, are computed again."""
    prepared = prepare(ktx())
    most = {leaf.index: leaf.high - leaf.low for leaf in prepared.grounded.leaves}
    places = prepared.packing.places
    place = next(at for i, at in places.items() if most[i] < (1 << at.width) - 1)
    (name,) = folder.glob("manifest-*.json")
    told: dict[str, Any] = json.loads(name.read_text())
    del told["checksum"]
    storage, stride = Storage(str(folder)), prepared.packing.stride
    first = told["runs"][0][0]
    levels: list[tuple[int, bytes]] = []
    for level, states in runs.read_run(storage, runs.Run(**first), stride):
        number = int.from_bytes(states[:stride], "little") | place.mask << 64 * place.word
        levels.append((level, number.to_bytes(stride, "little") + states[stride:]))
    told["runs"][0][0] = runs.write_run(storage, 0, levels, stride).as_json()
    name.write_text(json.dumps(seal(told)))


def test_a_value_out_of_its_range_is_noticed(
    play: Callable[[InProcess], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    killed_at(10, tmp_path / "run", play)
    with_a_value_out_of_its_range(tmp_path / "run")
    # another machine, that has nothing of it
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "another"))
    monkeypatch.setattr(tasks, "_process", None)
    with mock.patch.object(Manifest, "roll_back", autospec=True) as rolled_back:
        rolled_back.side_effect = Killed
        with pytest.raises(Killed):
            on_spark(ktx(), tmp_path / "run", resume=True)
    assert found(on_spark(ktx(), tmp_path / "run", resume=True)) == found(check(ktx()))


@pytest.mark.parametrize("keep", [0.5, 0])
def test_a_run_cut_short_is_redone(
    keep: float, play: Callable[[InProcess], None], tmp_path: Path
) -> None:
    killed_at(20, tmp_path / "run", play)
    files = sorted((tmp_path / "run").rglob("*.parquet"))
    cut = files[-1]
    cut.write_bytes(cut.read_bytes()[: int(cut.stat().st_size * keep)])
    assert found(on_spark(ktx(), tmp_path / "run", resume=True)) == found(check(ktx()))


@pytest.mark.slow(1)
def test_a_run_of_some_of_the_first_levels_costs_all_of_them(
    play: Callable[[InProcess], None], tmp_path: Path
) -> None:
    """What was explored in one process has counted its rows to its end alone."""

    def end(stage: str, shard: int) -> None:
        raise Killed

    play(InProcess(end))
    folder = tmp_path / "run"
    with pytest.raises(Killed):
        on_spark(ktx(), folder, shards=7, hand_over=1)
    play(InProcess())
    first, *_, last = sorted(folder.rglob("*.parquet"), key=lambda file: file.name)
    assert (first.name[:18], last.name[:18]) == ("levels-00000-00000", "levels-00002-00002")
    last.unlink()
    result = on_spark(ktx(), folder, resume=True, shards=7, hand_over=1)
    assert found(result) == found(check(ktx()))


@pytest.mark.long
@pytest.mark.parametrize("at", [0, -1])
@pytest.mark.parametrize("constants", [{}, {"V": 0}], ids=["holds", "breaks"])
def test_a_bit_that_flipped_is_seen_by_the_checksum(
    constants: dict[str, int],
    at: int,
    play: Callable[[InProcess], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    killed_at(7, tmp_path / "run", play, **constants)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "elsewhere"))
    broken = sorted((tmp_path / "run" / "shard-000").iterdir())[at]
    content = bytearray(broken.read_bytes())
    content[len(content) // 3] ^= 4
    broken.write_bytes(content)
    instance = ktx(**constants)
    assert found(on_spark(instance, tmp_path / "run", resume=True)) == found(check(instance))


def test_memory_that_is_too_little_is_inconclusive_and_more_goes_on(
    played: InProcess, tmp_path: Path
) -> None:
    result = on_spark(ktx(), tmp_path / "run", memory=270_000)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert 100 < result.states < 5_094
    assert found(on_spark(ktx(), tmp_path / "run", resume=True)) == found(check(ktx()))


@pytest.mark.parametrize("memory", [None, 1 << 40])
def test_each_shard_has_places_of_its_own(
    memory: int | None, played: InProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """5,094 states are 20 in each of 256 parts: a part that is refused more once it has 18 is too
    small, unless each of 16 shards has 256."""
    monkeypatch.setattr(shards, "MOST_PER_SHARD", BLOCK + 17)
    result = on_spark(ktx(), tmp_path / "run", shards=16, memory=memory)
    assert found(result) == found(check(ktx()))
    process = tasks._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    counts = [held.store.counts for held in process.sets.values()]
    assert len(counts) == 16
    assert sum(int(each.sum()) for each in counts) == 5_094
    assert all((each > 0).sum() > 128 for each in counts)

    monkeypatch.setattr(shards, "MOST_PER_SHARD", BLOCK + 1)
    result = on_spark(ktx(), tmp_path / "few", shards=2, memory=memory)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.exit_code == 20
    assert result.reason.startswith("the visited set has no more places after level ")
    assert "more memory doesn't help, but more shards on Spark do" in result.reason
    assert "limit" not in result.reason


@pytest.mark.parametrize("name", ["holds", "breaks"])
@pytest.mark.parametrize(("count", "after"), [(1, 0), (3, 0), (3, 50), (16, 50)])
def test_finer_parts_come_to_the_same(
    name: str,
    count: int,
    after: int,
    play: Callable[[InProcess], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Two workers take turns, and each has mapped the files as they were."""
    monkeypatch.setattr(levels, "FINER_FROM", after)
    monkeypatch.setattr(stores, "TO_DIVIDE", 1)  # the least at once
    kept: dict[int, Any] = {}
    seen = 0

    def disturb(stage: str, shard: int) -> None:
        nonlocal seen
        seen += 1
        kept[seen % 2] = tasks._process  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(tasks, "_process", kept.get((seen + 1) % 2))

    play(InProcess(disturb))
    made: list[range] = []
    begin = shards.ShardSet._begin_finer  # pyright: ignore[reportPrivateUsage]

    def noted(held: shards.ShardSet) -> None:
        begin(held)
        made.append(held.store.used)

    monkeypatch.setattr(shards.ShardSet, "_begin_finer", noted)
    instance = SMALL[name]()
    assert found(on_spark(instance, tmp_path / "run", shards=count)) == found(check(instance))
    assert len(made) == (count if count > 1 else 0)  # once, not in each worker
    assert all(len(used) > SHARDS_OF_HASH / 2 for used in made)


@pytest.mark.long
@pytest.mark.parametrize(
    ("stage", "constants"), [("coverage", {}), ("counterexample", {"V": 0})], ids=str
)
def test_a_set_that_is_lost_and_has_no_room_any_more_is_told(
    stage: str,
    constants: dict[str, int],
    play: Callable[[InProcess], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def disturb(name: str, shard: int) -> None:
        if name.startswith(stage) and shard == 1:
            shutil.rmtree(tmp_path / "local")
            monkeypatch.setattr(tasks, "_process", None)
            monkeypatch.setattr(shards, "OWN_MEMORY", 0)

    play(InProcess(disturb))
    with pytest.raises(SparkError, match=f"^{stage}.*: the memory is too small to read"):
        on_spark(ktx(**constants), tmp_path / "run")
    monkeypatch.setattr(shards, "OWN_MEMORY", 0.5)
    play(InProcess())
    instance = ktx(**constants)
    assert found(on_spark(instance, tmp_path / "run", resume=True)) == found(check(instance))


# Storage ------------------------------------------------------------------------------------------


class Failing:
    """A file system in which a level's file can't be renamed, some times."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __reduce__(self) -> Any:
        return Failing, (self.inner,)

    def move(self, source: str, target: str) -> None:
        times, _, folder = os.environ["FAIL"].partition(" ")
        failed = len(list(Path(folder).iterdir()))
        if "shard-001/levels-00009" in target and failed < int(times):
            (Path(folder) / str(failed)).touch()
            raise OSError(28, "No space left on device")
        self.inner.move(source, target)


class FailingStorage(Storage):
    """Storage on such a file system."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.fs = Failing(self.fs)


@pytest.mark.parametrize("tries", [1, 3])
def test_a_write_that_fails_is_tried_again(
    tries: int, played: InProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failed = tmp_path / "failed"
    failed.mkdir()
    monkeypatch.setenv("FAIL", f"{tries} {failed}")
    monkeypatch.setattr("epochfence.checker.spark.search.engine.Storage", FailingStorage)
    monkeypatch.setattr("epochfence.checker.spark.storage.files.TRIES", 2)
    assert found(on_spark(ktx(), tmp_path / "run")) == found(check(ktx()))
    assert len(list(failed.iterdir())) == tries
    assert not list((tmp_path / "run").rglob(".*"))


@pytest.mark.parametrize(
    ("constants", "difference"),
    [({"E": 3}, "constant E is 3 here and 2 there"), ({"V": 0}, "constant V is 0 here")],
)
def test_another_declaration_is_refused_with_the_difference(
    constants: dict[str, int], difference: str, play: Callable[[InProcess], None], tmp_path: Path
) -> None:
    killed_at(5, tmp_path / "run", play)
    before = sorted(path.name for path in (tmp_path / "run").rglob("*"))
    with pytest.raises(CheckpointError, match=f"holds another run: {difference}"):
        on_spark(ktx(**constants), tmp_path / "run", resume=True)
    with pytest.raises(CheckpointError, match="shards is 5 here and 2 there"):
        on_spark(ktx(), tmp_path / "run", resume=True, shards=5)
    with pytest.raises(CheckpointError, match="already holds a run: resume it with --resume"):
        on_spark(ktx(), tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").rglob("*")) == before


def test_a_folder_without_a_run_is_nothing_to_resume(played: InProcess, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="holds no run on Spark to resume: no manifest"):
        on_spark(ktx(), tmp_path, resume=True)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(CheckpointError, match="a checkpoint of the local engine"):
        on_spark(ktx(), tmp_path, resume=True)
    (tmp_path / "manifest-000001.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"manifest-000001\.json: it has no checksum"):
        on_spark(ktx(), tmp_path, resume=True)


def test_storage_that_can_t_be_written_is_told(played: InProcess, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"can.t .*file/run"):
        on_spark(ktx(), tmp_path / "file" / "run")
    with pytest.raises(StorageError, match="can't use no-such-scheme://x"):
        on_spark(ktx(), "no-such-scheme://x")


def test_storage_can_be_a_uri(played: InProcess, tmp_path: Path) -> None:
    result = on_spark(ktx(), f"file://{tmp_path}/run")
    assert found(result) == found(check(ktx()))
    assert list((tmp_path / "run").glob("manifest-*.json"))


# Runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stride", [8, 9, 16, 21])
def test_what_is_written_is_read(stride: int, tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    states = [bytes([i % 5, *bytes(stride - 2), i]) for i in range(40)]
    parts = [(3, b"".join(states[:10])), (4, b"".join(states[10:])), (6, states[0])]
    run = runs.write_run(storage, 1, parts, stride)
    assert (run.first, run.last, run.states) == (3, 6, 41)
    assert list(runs.read_run(storage, run, stride)) == parts


def test_runs_of_like_size_are_merged_and_large_ones_stay() -> None:
    def sized(*sizes: int) -> list[runs.Run]:
        return [runs.Run("", at, at, size, 0, "") for at, size in enumerate(sizes)]

    assert runs.to_merge(sized(*[5] * 7)) == 0
    assert runs.to_merge(sized(*[5] * 8)) == 8
    assert runs.to_merge(sized(1_000, *[5] * 8)) == 8
    assert runs.to_merge(sized(30, *[5] * 8)) == 9
    assert runs.to_merge(sized(*[1 << 21] * 8)) == 0


def test_every_part_has_one_owner() -> None:
    for count in (1, 2, 7, 16, 255, 256):
        parts = [part for shard in range(count) for part in shards.owned_by(shard, count)]
        assert parts == list(range(256))
