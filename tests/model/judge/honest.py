"""Whole runs of a cluster as clients and brokers would have recorded them: several transactional
ids and partitions, with the markers between them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from epochfence.model.broker.transactions.marker_channel_manager import Marker
from epochfence.model.cluster import Cluster
from epochfence.model.judge.histories import read_runs
from epochfence.model.judge.judge import Finding, Judgement
from epochfence.model.judge.operations import Settings
from epochfence.model.judge.verdicts import judge_run

Line = dict[str, Any]
IDS = ("a", "b")
PARTITIONS = ("orders-0", "orders-1")
TIMEOUT_MS = 100


class Recorded(Cluster):
    """A cluster whose requests are written down, each at a time of its own. `overlap` is how far a
    request may begin before it takes effect, and end behind."""

    def __init__(self, release: str, random: Random | None = None, overlap: float = 0) -> None:
        super().__init__(protocol=release, now_ms=10, holds_markers=True)
        self.lines: list[Line] = []
        self.random, self.overlap = random or Random(0), overlap
        self.later: dict[str, tuple[int, int]] = {}
        self.following: dict[tuple[int, int, str], int] = {}

    def write(self, line: Line, response: Line, *, ms: int = 2) -> None:
        """A line, and so much time goes by."""
        before, behind = (self.random.random() * self.overlap for _ in "ab")
        now = self.now_ms
        self.lines.append(
            line | {"start": max(0, now - before), "end": now + behind, "response": response}
        )
        self.pass_time(ms)

    def deliver(self, marker: Marker, partition: Any, *, completes: bool = True) -> None:
        """Writes a marker, and writes it down."""
        error = "NONE"  # the leader knows the producer
        line = {
            "request": "WriteTxnMarkers",
            "partition": partition,
            "producer_id": marker.producer_id,
            "producer_epoch": marker.producer_epoch,
            "result": marker.result,
        }
        super().deliver(marker, partition, completes=completes)
        self.write(line, {"error": error})

    def init(self, name: str) -> None:
        """InitProducerId of a new client."""
        told = self.init_producer_id(name, TIMEOUT_MS)
        self.write(
            {
                "request": "InitProducerId",
                "transactional_id": name,
                "transaction_timeout_ms": TIMEOUT_MS,
            },
            told._asdict(),
        )
        if told.error == "NONE":
            self.later[name] = told.producer_id, told.producer_epoch

    def add(self, name: str, *partitions: str) -> None:
        """AddPartitionsToTxn, which clients of version 2 don't send."""
        if self.transaction_version >= 2:
            return
        error = self.add_partitions(name, *self.later[name], partitions)
        self.write(
            self._about(name, "AddPartitionsToTxn") | {"partitions": [*partitions]},
            {"error": error},
        )

    def send(self, name: str, partition: str, count: int = 1, *, back: int = 0) -> None:
        """Produce: the next batch, or one `back` in the sequence."""
        place = (*self.later[name], partition)
        asked: Line = {
            "producer_id": place[0],
            "producer_epoch": place[1],
            "count": count,
            "base_sequence": max(0, self.following.get(place, 0) - back),
        }
        told = self.produce(partition, **asked, transactional_id=name)
        if told.error == "NONE" and not back:
            self.following[place] = asked["base_sequence"] + count
        line = {"request": "Produce", "partition": partition, **asked, "transactional": True}
        self.write(line, told._asdict())

    def end(self, name: str, result: str) -> None:
        """EndTxn."""
        asked = self._about(name, "EndTxn") | {"result": result}
        told = self.end_txn(name, *self.later[name], result)
        response = told._asdict()
        if self.transaction_version < 2:
            response = {"error": told.error}
        elif told.error == "NONE":
            self.later[name] = told.producer_id, told.producer_epoch
        self.write(asked, response)

    def _about(self, name: str, request: str) -> Line:
        producer_id, epoch = self.later[name]
        return {
            "request": request,
            "transactional_id": name,
            "producer_id": producer_id,
            "producer_epoch": epoch,
        }


def steady(release: str) -> list[Line]:
    """A run in which nothing goes wrong: two clients, commits and an abort, over two partitions, a
    client that begins again, and a batch that comes again."""
    cluster = Recorded(release)
    for name in IDS:
        cluster.init(name)
    for name, result in (("a", "COMMIT"), ("b", "COMMIT"), ("a", "ABORT"), ("a", "COMMIT")):
        for partition in PARTITIONS:
            cluster.add(name, partition)
            cluster.send(name, partition)
        cluster.send(name, PARTITIONS[0], back=1)
        cluster.send(name, PARTITIONS[0], count=2)
        cluster.end(name, result)
        cluster.deliver_markers()
    cluster.init("a")
    cluster.add("a", PARTITIONS[1])
    cluster.send("a", PARTITIONS[1])
    return cluster.lines


def eventful(release: str, random: Random, steps: int) -> list[Line]:
    """A run in which clients take turns at random, with rivals, timeouts, failovers, repeats and
    markers that are late."""
    cluster = Recorded(release, random, overlap=5)
    for name in IDS:
        cluster.init(name)
    for _ in range(steps):
        name, partition = random.choice(IDS), random.choice(PARTITIONS)
        match random.choice(
            ["send"] * 4 + ["end"] * 3 + ["mark"] * 3 + ["add"] * 3 + ["init", "late", "fail"]
        ):
            case "send":
                cluster.send(
                    name, partition, random.choice([1, 2]), back=random.choice([0, 0, 0, 1])
                )
            case "end":
                cluster.end(name, random.choice(["COMMIT", "ABORT"]))
            case "add":
                cluster.add(name, *random.sample(PARTITIONS, random.choice([1, 2])))
            case "init":
                cluster.init(name)
            case "late":
                cluster.sleep(random.choice([1, TIMEOUT_MS]))
            case "fail":
                cluster.fail_over(name)()
            case _:
                for marker, part in random.sample(cluster.due(), len(cluster.due())):
                    cluster.deliver(marker, part)
                for each in cluster.to_complete():
                    cluster.complete(each)
    return cluster.lines


def without_markers(lines: Iterable[Line]) -> list[Line]:
    """What clients alone would have recorded."""
    return [line for line in lines if line["request"] != "WriteTxnMarkers"]


def judged(lines: Iterable[Line], release: str, file: Path, limit: int = 20_000) -> list[Judgement]:
    """What judge finds of each key of a history, which is written to a file."""
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    (run,) = read_runs([file])
    return [found for _, found in judge_run(run, Settings(protocol=release), limit)]


def unexplained(found: Iterable[Judgement]) -> Iterator[Judgement]:
    """Those of which no order explains all."""
    return (one for one in found if one.finding is Finding.UNEXPLAINED)
