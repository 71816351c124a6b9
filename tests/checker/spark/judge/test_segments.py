"""Data directories get the same verdict on Spark as on one machine."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyarrow import parquet

from epochfence.checker.spark.judge import segments
from epochfence.checker.spark.judge.places import place_of
from epochfence.checker.spark.judge.segments import Summary, judge_on_spark
from epochfence.checker.spark.options import SparkError, SparkOptions
from epochfence.checker.spark.session import session
from epochfence.language import DeclarationError
from epochfence.model.judge.segments.directories import Segments, judge_segments
from epochfence.tests.cli.test_cli import epochfence
from epochfence.tests.model.judge.segments.test_damage import DAMAGE
from epochfence.tests.model.judge.segments.test_directories import SLIPS, Broker, honest
from epochfence.tests.model.judge.segments.test_policies import config, controllers, keyed

SCHEME = "file://"  # before what is named by a URI
TOGETHER = 4  # folders that are judged at once beside the honest one
Row = dict[str, Any]


def findings(folder: Path) -> list[Row]:
    """What was written, in an order."""
    rows: list[Row] = parquet.read_table(folder / "findings").to_pylist()
    for row in rows:
        row["file"] = row["file"].removeprefix(SCHEME)
    return sorted(rows, key=in_text)


def in_text(row: Row) -> str:
    """By what rows are put in an order."""
    return json.dumps(row, sort_keys=True)


def written(root: Path) -> list[list[Path]]:
    """Data directories, of one broker or two: honest ones, one for each slip, damaged ones, one
    without a transaction log, and one without anything."""
    found: list[list[Path]] = []
    for number, (write, _) in enumerate([(honest, ""), *SLIPS.values()]):
        write(broker := Broker(root / f"broker-{number}"))
        broker.judge()
        found.append([broker.folder])
    whole = found[0][0]
    for number, path in enumerate(sorted(whole.rglob("*.*"))):
        data, place = path.read_bytes(), root / f"damaged-{number}"
        for other in whole.rglob("*.*"):
            copy = place / other.relative_to(whole)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(other.read_bytes() if other != path else data[: len(data) * 2 // 3])
        found.append([place])
    for number, (damage, _, _) in enumerate(DAMAGE.values()):
        honest(broker := Broker(root / f"lost-{number}"))
        broker.judge()
        damage(broker.folder)
        found.append([broker.folder])
    found.append([whole / "orders-0"])
    found.append([found[2][0], whole])
    (root / "empty").mkdir()
    return [*found, [root / "empty"]]


def has_broken_link(directory: Path) -> bool:
    """Whether a link in it leads nowhere. Arrow lists no such link; an object storage has none."""
    return any(each.is_symlink() and not each.exists() for each in directory.rglob("*"))


@pytest.mark.slow(20)
@pytest.mark.long
def test_directories_come_to_the_same_on_spark(tmp_path: Path, seed: int) -> None:
    honest_one, *others = written(tmp_path)
    random = Random(seed)
    alone = random.choice((honest_one, random.choice(others)))
    # of one id and one producer
    together = list(dict.fromkeys(chain(honest_one, *random.sample(others, TOGETHER))))
    with session(SparkOptions(2, "local[2]"), "test") as spark:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        for number, directories in enumerate((alone, together)):
            output = tmp_path / f"output-{number}"
            # the second time by URIs, as in an object storage, which has no links
            whole = [each for each in directories if not (number and has_broken_link(each))]
            by_uri = [place_of(each.as_uri()) for each in whole]
            found = judge_on_spark(spark, by_uri if number else whole, str(output), None)
            _compare(found, output, judge_segments(whole))
            assert directories != honest_one or found.outcome.name == "EXPLAINED"
        _of_a_topic_without_compaction(spark, tmp_path)
        _of_a_running_broker(spark, honest_one, tmp_path)
        with pytest.raises(DeclarationError):
            judge_on_spark(spark, honest_one, str(tmp_path / "none"), "9.9")
        with pytest.raises(SparkError, match="exists already"):
            judge_on_spark(spark, honest_one, str(tmp_path), None)
        assert not (tmp_path / "none").exists()


def _compare(found: Summary, output: Path, local: Segments) -> None:
    """Verdict, complaints and counts, and what each partition has."""
    told = local.as_json()
    assert found.outcome == local.outcome
    assert findings(output) == sorted(told["findings"], key=in_text)
    assert found.count == len(told["findings"])
    assert (found.decided, found.not_known) == (local.matched, local.unknown)
    assert found.batches == sum(part.batches for part in local.partitions)
    texts: list[str] = parquet.read_table(output / "partitions")["told"].to_pylist()
    parts = [*told["partitions"], *told["transaction_logs"]]
    found_parts = (json.loads(text.replace(SCHEME, "")) for text in texts)
    assert sorted(found_parts, key=in_text) == sorted(parts, key=in_text)


def _of_a_topic_without_compaction(spark: Any, tmp_path: Path) -> None:
    """By hand, and by the controllers' log, which may be in another directory."""
    directories = [tmp_path / "gap", tmp_path / "controllers"]
    keyed(directories[0])
    controllers(directories[1], f"{0:020}.log", config("delete"))
    for number, policies in enumerate(({}, {"orders": "compact"})):
        output = tmp_path / f"policies-{number}"
        found = judge_on_spark(spark, directories, str(output), None, policies)
        _compare(found, output, judge_segments(directories, None, policies))
        assert found.outcome.name == ("UNJUDGED" if policies else "UNEXPLAINED")


def _of_a_running_broker(spark: Any, directories: list[Path], tmp_path: Path) -> None:
    """A file that grows between the looks at it; so does the controllers' log, which doesn't
    count."""
    log = directories[0] / "orders-0" / f"{0:020}.log"
    controllers = directories[0] / "__cluster_metadata-0" / log.name
    controllers.parent.mkdir()
    controllers.write_bytes(b"")
    real = segments._Judging._counted  # pyright: ignore[reportPrivateUsage]

    def counted(judging: Any, numbers: Any) -> Any:
        found = real(judging, numbers)
        for each in (log, controllers):
            each.write_bytes(each.read_bytes() + b"\0")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments._Judging, "_counted", counted)  # pyright: ignore[reportPrivateUsage]
        found = judge_on_spark(spark, directories, str(tmp_path / "running"), None)
    assert found.outcome.name == "UNJUDGED"
    (one,) = found.findings
    assert "1 folder was changed during the run" in one.what


def test_what_the_command_takes(tmp_path: Path) -> None:
    ended = epochfence("judge", "--segments", tmp_path, "--engine", "spark")
    assert (ended.code, ended.err) == (
        2,
        "epochfence: --segments with --engine spark needs --output URI\n",
    )
    for more in (["--runs", "one"], ["--input", "x"]):
        ended = epochfence("judge", "--segments", tmp_path / "no", *more)
        assert ended.code == 2
    assert ended.err == "epochfence: --input needs --engine spark\n"
