"""Inputs for `diff --protocols A B FILE.jsonl` and for replays: requests as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from epochfence.cli.exits import in_a_line
from epochfence.model import Cluster
from epochfence.model.conformance.session import System, replay
from epochfence.model.engine.errors import ModelError
from epochfence.model.requests import answer, read
from epochfence.spec.releases.features import KAFKA
from epochfence.tests.fuzz.harness import REFUSED, Case, Ended, Surface, caught, command
from epochfence.tests.fuzz.mutations import (
    changed_lines,
    changed_object,
    mutated,
    rearranged,
    unreadable,
)

FILE = "requests.jsonl"
IDS = ("orders", "é", "")


class Oracle(System):
    """Kafka itself as the system under test: it never disagrees with itself."""

    def __init__(self, protocol: str) -> None:
        self.kafka = Cluster(protocol=protocol)

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return answer(self.kafka, {"request": request, **fields})

    def sleep(self, ms: int) -> None:
        answer(self.kafka, {"sleep_ms": ms})

    def restart(self) -> None:
        answer(self.kafka, {"restart": True})


def request(random: Random) -> dict[str, Any]:
    """A request that some run could have."""
    producer = {
        "producer_id": random.choice((0, 0, 0, 1, 7)),
        "producer_epoch": random.randrange(4),
    }
    transactional = {"transactional_id": random.choice(IDS)}
    match random.randrange(8):
        case 0:
            return {"request": "InitProducerId", **transactional}
        case 1:
            partitions = random.choice((["t-0"], ["t-0", "t-1"], []))
            partitions = {"partitions": partitions}
            return {"request": "AddPartitionsToTxn", **transactional, **producer, **partitions}
        case 2 | 3:
            sequence = {"base_sequence": random.choice((0, 0, 1, 3, 2**31 - 1))}
            more = random.choice(({}, {"count": random.choice((1, 3))}))
            belongs = random.choice(({}, transactional))
            return {"request": "Produce", "partition": "t-0", **producer, **sequence, **more,
                    **belongs}  # fmt: skip
        case 4:
            result = {"result": random.choice(("COMMIT", "ABORT"))}
            return {"request": "EndTxn", **transactional, **producer, **result}
        case 5:
            return {"request": "Fetch", "partition": "t-0"}
        case 6:
            return {"sleep_ms": random.choice((0, 1, 60_001, 2**40))}
        case _:
            return {"restart": True}


def generate(random: Random) -> Case:
    """A trace, and a command that runs it."""
    lines = [json.dumps(request(random)).encode() for _ in range(random.randint(1, 12))]
    if random.random() < 0.6:
        lines.insert(
            0, json.dumps({"request": "InitProducerId", "transactional_id": "orders"}).encode()
        )
    bound = exactly = None
    match random.randrange(8):
        case 0 | 1:
            exactly = 0
        case 2:
            lines, bound = changed_lines(random, lines, unreadable), REFUSED
        case 3:
            lines = rearranged(random, lines)
        case 4:
            lines = mutated(random, b"\n".join(lines)).split(b"\n")
        case _:
            lines = changed_lines(random, lines, changed_object)
    releases = [random.choice(KAFKA.releases) for _ in range(2)]
    words = random.choice((("diff", "--protocols", *releases, FILE), ("replay", releases[0])))
    return Case(words, {FILE: b"\n".join(lines) + b"\n"}, bound=bound, exactly=exactly, place=FILE)


def run(case: Case, folder: Path) -> Ended:
    """The command, or a replay against Kafka itself."""
    if case.words[0] == "diff":
        return command(case, folder)
    told = ""

    def replayed() -> None:
        nonlocal told
        try:
            trace = case.files[FILE].decode()
        except UnicodeDecodeError:
            told = f"epochfence: {FILE}: not UTF-8 text\n"
            raise SystemExit(REFUSED) from None
        try:
            replay(read(trace), Oracle(case.words[1]), case.words[1])
        except ModelError as error:
            told = f"epochfence: {in_a_line(f'{FILE}: {error}')}\n"
            raise SystemExit(REFUSED) from None

    ended = caught(replayed)
    return Ended(ended.code, told, ended.error)


SURFACE = Surface("requests", generate, run, weight=2)
