"""Requests as lines of JSON, answered by a cluster in memory: one file, run on any release.

    {"request": "InitProducerId", "transactional_id": "a", "transaction_timeout_ms": 60000}
    {"request": "AddPartitionsToTxn", "transactional_id": "a", "producer_id": 0,
     "producer_epoch": 0, "partitions": ["t-0"]}
    {"request": "Produce", "partition": "t-0", "transactional_id": "a", "producer_id": 0,
     "producer_epoch": 0, "base_sequence": 0, "count": 3}
    {"request": "EndTxn", "transactional_id": "a", "producer_id": 0, "producer_epoch": 0,
     "result": "COMMIT"}
    {"request": "Fetch", "partition": "t-0"}
    {"sleep_ms": 60001}
    {"restart": true}
    {"skip_to_epoch": 32765, "transactional_id": "a"}

Time goes by; the brokers stop and start again; an id without a transaction comes to an epoch, as if
by so many InitProducerId. Without a transactional id a Produce is idempotent only. Numbers are the
writer's: a trace says the same to each release, whatever that answered before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from .cluster import Cluster
from .errors import MissingField, ModelError, UnknownEvent, UnknownField

Answer = dict[str, Any]
Line = Mapping[str, Any]


def _init(cluster: Cluster, fields: dict[str, Any]) -> Answer:
    expected = (fields.pop("producer_id", -1), fields.pop("producer_epoch", -1))
    given = None if expected == (-1, -1) else expected
    return cluster.init_producer_id(**fields, expected=given)._asdict()


def _fetch(cluster: Cluster, fields: dict[str, Any]) -> Answer:
    batches = cluster.fetch(**fields)
    found = [[batch.producer_id, batch.base_offset, batch.last_offset] for batch in batches]
    leader = cluster.leader(fields["partition"])
    return {"last_stable_offset": leader.last_stable_offset, "batches": found}


# Of each request the fields that it takes, those that it may do without, and what answers it.
_REQUESTS: dict[
    str, tuple[tuple[str, ...], tuple[str, ...], Callable[[Cluster, dict[str, Any]], Answer]]
] = {
    "InitProducerId": (
        ("transactional_id",),
        ("transaction_timeout_ms", "producer_id", "producer_epoch"),
        _init,
    ),
    "AddPartitionsToTxn": (
        ("transactional_id", "producer_id", "producer_epoch", "partitions"),
        (),
        lambda cluster, fields: {"error": cluster.add_partitions(**fields)},
    ),
    "Produce": (
        ("partition", "producer_id", "producer_epoch", "base_sequence"),
        ("count", "transactional_id", "transaction_version"),
        lambda cluster, fields: cluster.produce(**fields)._asdict(),
    ),
    "EndTxn": (
        ("transactional_id", "producer_id", "producer_epoch", "result"),
        ("transaction_version",),
        lambda cluster, fields: cluster.end_txn(**fields)._asdict(),
    ),
    "Fetch": (("partition",), ("offset", "committed"), _fetch),
}


def read(text: str) -> list[Line]:
    """The requests of a trace. Raises ModelError that names the line."""
    requests: list[Line] = []
    for at, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            request = json.loads(line)
        except ValueError as error:
            raise ModelError(f"line {at}: no JSON: {error}") from None
        if not isinstance(request, dict):
            raise ModelError(f"line {at}: an object is needed, with `request` or `sleep_ms`")
        requests.append(request)  # type: ignore[reportUnknownArgumentType]
    return requests


def run(requests: Iterable[Line], protocol: str | None = None) -> list[Answer]:
    """What a cluster of a release answers to each request.

    Raises ModelError, which names the request by its place, for what no request is.
    """
    cluster = Cluster(protocol=protocol)
    answers: list[Answer] = []
    for at, request in enumerate(requests, 1):
        try:
            answers.append(answer(cluster, request))
        except ModelError as error:
            raise type(error)(f"request {at}: {error}", error.field) from None
    return answers


class Difference(NamedTuple):
    """A request, by its place, that two releases answer differently."""

    place: int
    request: str
    before: Answer
    after: Answer


def difference(requests: Iterable[Line], before: str, after: str) -> list[Difference]:
    """The requests that two releases answer differently."""
    asked = list(requests)
    answers = zip(asked, run(asked, before), run(asked, after), strict=True)
    return [
        Difference(place, str(request.get("request", "sleep")), first, second)
        for place, (request, first, second) in enumerate(answers, 1)
        if first != second
    ]


def answer(cluster: Cluster, request: Line) -> Answer:
    """What the cluster answers to one line; nothing to what isn't a request.

    Raises ModelError for what no line is.
    """
    fields = dict(request)
    if "sleep_ms" in fields:
        cluster.sleep(fields["sleep_ms"])
        return {}
    if "restart" in fields:
        cluster.restart()
        return {}
    if "skip_to_epoch" in fields:
        if "transactional_id" not in fields:
            raise MissingField("skip_to_epoch lacks its field transactional_id", "transactional_id")
        cluster.skip_to_epoch(fields["transactional_id"], fields["skip_to_epoch"])
        return {}
    name = fields.pop("request", None)
    if name not in _REQUESTS:
        raise UnknownEvent(f"no request is called {name}: take one of {', '.join(_REQUESTS)}")
    needed, optional, answered = _REQUESTS[name]
    for field in fields:
        if field not in (*needed, *optional):
            raise UnknownField(f"{name} has no field {field}", field)
    for field in needed:
        if field not in fields:
            raise MissingField(f"{name} lacks its field {field}", field)
    return answered(cluster, fields)
