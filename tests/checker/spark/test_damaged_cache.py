"""Files of an executor that are damaged while a run goes on cost time, and no state."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epochfence.checker.check import check
from epochfence.checker.native.store import part_plan as planning
from epochfence.checker.spark.search import shards, tasks
from epochfence.tests.checker.native.search.test_checkpoint import ktx
from epochfence.tests.checker.spark.conftest import found, on_spark
from epochfence.tests.checker.spark.in_process import InProcess
from epochfence.tests.checker.spark.test_shards_by_parts import wide

TASK = 25  # the one before which files are damaged


def flipped(file: Path) -> None:
    """Another byte in the middle."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    """Half of it is gone."""
    os.truncate(file, file.stat().st_size // 2)


def huge(file: Path) -> None:
    """More than memory holds."""
    os.truncate(file, 1 << 43)


def packed_otherwise(file: Path) -> None:
    """The archive says that its first member is compressed in a way that there isn't."""
    content = bytearray(file.read_bytes())
    content[content.index(b"PK\1\2") + 10] = 77
    file.write_bytes(content)


DAMAGES: list[tuple[str, Callable[[Path], Any]]] = [
    ("index.npz", flipped), ("index.npz", cut), ("index.npz", lambda file: file.write_bytes(b"")),
    ("index.npz", packed_otherwise), ("states", cut), ("states", Path.unlink),
    ("tables", Path.unlink), ("out-*", cut), ("sent.level", huge),
    ("sent.level", lambda file: file.write_bytes(b"\xff")),
]  # fmt: skip


def damaging(
    folder: Path, name: str, damage: Callable[[Path], Any]
) -> tuple[InProcess, list[Path]]:
    """A session in which files are damaged once, and workers are new from then on; those files."""
    damaged: list[Path] = []
    tasks_begun = 0

    def disturb(stage: str, shard: int) -> None:
        nonlocal tasks_begun
        tasks_begun += 1
        if tasks_begun >= TASK and not damaged:
            damaged.extend(folder.rglob(name))
            for file in damaged:
                damage(file)
            tasks._process = None  # pyright: ignore[reportPrivateUsage]

    return InProcess(disturb), damaged


@pytest.mark.slow(2)
@pytest.mark.long
@pytest.mark.parametrize(("name", "damage"), DAMAGES)
def test_files_of_whole_states(
    name: str,
    damage: Callable[[Path], Any],
    play: Callable[[InProcess], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(tasks, "MOST_TWICE", -1)  # what was sent is remembered
    session, damaged = damaging(tmp_path / "local", name, damage)
    play(session)
    assert found(on_spark(ktx(), tmp_path / "run")) == found(check(ktx()))
    assert damaged


@pytest.mark.slow(2)
@pytest.mark.long
@pytest.mark.parametrize("damage", [cut, Path.unlink])
@pytest.mark.parametrize("name", ["parts-states", "parts-tables", "parts-contents-0"])
def test_files_of_parts(
    name: str,
    damage: Callable[[Path], Any],
    play: Callable[[InProcess], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for module, bound, value in (
        (shards, "DIVIDED_FROM", 1),
        (planning, "WHOLE", 0),
        (planning, "WORTH", 1e9),
    ):
        monkeypatch.setattr(module, bound, value)
    session, damaged = damaging(tmp_path / "local", name, damage)
    play(session)
    assert found(on_spark(wide(), tmp_path / "run")) == found(check(wide()))
    assert damaged


def test_a_folder_of_another_shard_holds_nothing_for_this_one(
    played: InProcess, tmp_path: Path
) -> None:
    on_spark(ktx(), tmp_path / "run")
    one, other = sorted((tmp_path / "local").rglob("*-of-2"))
    process = tasks._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    aside = one.with_name("aside")
    run = one.parent.name.removeprefix("epochfence-")
    for swapped in (False, True):
        if swapped:
            one.rename(aside)
            other.rename(one)
            aside.rename(other)
        with shards.ShardSet(process.worker, run, 0, 2, None) as held:
            assert bool(held.level_sizes) != swapped


def test_files_from_before_the_machine_was_started(
    play: Callable[[InProcess], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What was written last may be lost, so that all of it is read again."""
    read: list[str] = []
    read_run = tasks.read_run

    def noted(storage: Any, run: Any, stride: int) -> Any:
        read.append(run.file)
        return read_run(storage, run, stride)

    def started_anew(_: Path) -> None:
        read.clear()
        monkeypatch.setattr(shards, "machine", lambda: "started anew")

    monkeypatch.setattr(tasks, "read_run", noted)
    session, damaged = damaging(tmp_path / "local", "index.npz", started_anew)
    play(session)
    assert found(on_spark(ktx(), tmp_path / "run")) == found(check(ktx()))
    assert damaged
    assert read
