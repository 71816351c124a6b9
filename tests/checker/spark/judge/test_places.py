"""Data directories get the same verdict by URI as by path."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import pytest

from epochfence.checker.spark.judge.places import place_of, text_of
from epochfence.checker.spark.storage.files import StorageError
from epochfence.model.judge.segments.directories import judge_segments
from epochfence.tests.checker.spark.judge.test_segments import has_broken_link, written

DRAWN = 6


def test_directories_by_uri_come_to_the_same(tmp_path: Path, seed: int) -> None:
    """By Arrow's file system of this machine."""
    honest, *every = written(tmp_path / "a folder")
    others = [each for each in every if not any(map(has_broken_link, each))]
    for directories in (honest, *Random(seed).sample(others, DRAWN)):
        places = [place_of(directory.as_uri()) for directory in directories]
        told = json.dumps(judge_segments(places).as_json()).replace("file:///", "/")
        assert json.loads(told) == judge_segments(directories).as_json()


def test_a_file_that_is_none_is_named_as_by_path(tmp_path: Path) -> None:
    for name in ("orders-0/00000000000000000000.log/x", "orders-1", "other/1.log"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (by_uri,) = (judge_segments([place_of(tmp_path.as_uri())]),)
    by_path = judge_segments([tmp_path])
    assert [str(each).removeprefix("file://") for each in by_uri.every] == [
        str(each) for each in by_path.every
    ]
    assert len(by_path.every) >= 3


def test_a_place_is_written_as_it_is_read(tmp_path: Path) -> None:
    assert place_of("orders").is_absolute()
    assert text_of(place_of("/orders")) == "/orders"
    uri = "s3://bucket/a%20b/orders-0?region=eu&scheme=http"
    place = place_of(uri)
    assert text_of(place) == uri
    assert str(place) == "s3://bucket/a b/orders-0"
    assert text_of(place / "0.log") == uri.replace("orders-0", "orders-0/0.log")
    assert (place.name, place.parent, place / "x" == place_of("s3://bucket/a b/orders-0/x")) == (
        "orders-0",
        place_of("s3://bucket/a b"),
        True,
    )


def test_the_time_of_an_upload_is_no_time_of_a_broker(tmp_path: Path) -> None:
    for number, name in enumerate(("0.log", "0.snapshot")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (number * 10**6, number * 10**6))
    times = {each.stat().st_mtime for each in place_of(tmp_path.as_uri()).iterdir()}
    assert times == {0.0}


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    uri = (tmp_path / "no").as_uri()
    with pytest.raises(FileNotFoundError) as found:
        list(place_of(uri).iterdir())
    assert found.value.filename == uri
    with pytest.raises(FileNotFoundError):
        place_of(f"{uri}/0.log").open("rb")
    with pytest.raises(StorageError, match="can't use"):
        list(place_of("ftp://host/x").iterdir())
