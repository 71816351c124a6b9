"""Requests as lines of JSON, which a cluster in memory answers. A file runs on any release.

    {"request": "InitProducerId", "transactional_id": "a", "transaction_timeout_ms": 60000}
    {"request": "AddPartitionsToTxn", "transactional_id": "a", "producer_id": 0,
     "producer_epoch": 0, "partitions": ["t-0"]}
    {"request": "Produce", "partition": "t-0", "transactional_id": "a", "producer_id": 0,
     "producer_epoch": 0, "base_sequence": 0, "count": 3}
    {"request": "EndTxn", "transactional_id": "a", "producer_id": 0, "producer_epoch": 0,
     "result": "COMMIT"}
    {"request": "AddOffsetsToTxn", "transactional_id": "a", "producer_id": 0,
     "producer_epoch": 0, "group_id": "g"}
    {"request": "TxnOffsetCommit", "transactional_id": "a", "producer_id": 0,
     "producer_epoch": 0, "group_id": "g"}
    {"request": "WriteTxnMarkers", "partition": "t-0", "producer_id": 0, "producer_epoch": 0,
     "result": "ABORT", "coordinator_epoch": 0}
    {"request": "Fetch", "partition": "t-0"}
    {"request": "ListOffsets", "partition": "t-0"}
    {"request": "DescribeProducers", "partition": "t-0"}
    {"request": "DescribeTransactions", "transactional_id": "a"}
    {"request": "JoinGroup", "group_id": "g", "member_id": "m"}
    {"request": "SyncGroup", "group_id": "g", "member_id": "m", "generation_id": 1}
    {"request": "Heartbeat", "group_id": "g", "member_id": "m", "generation_id": 1}
    {"request": "LeaveGroup", "group_id": "g", "member_id": "m"}
    {"request": "OffsetCommit", "group_id": "g", "partition": "t-0", "offset": 3}
    {"request": "OffsetFetch", "group_id": "g", "partition": "t-0", "require_stable": true}
    {"sleep_ms": 60001}
    {"restart": true}
    {"acls": [{"principal": "User:alice", "operation": "WRITE", "resource": "TOPIC", "name": "t"}]}
    {"skip_to_epoch": 32765, "transactional_id": "a"}

The thread of a request with `held_at` is held at that place until a line releases it (see
`Cluster.hold`):

    {"request": "InitProducerId", "transactional_id": "a", "held_at": "fence"}
    {"release": "fence"}

Lines that cause faults, by broker settings or by requests of others:

    {"log_refuses": true}
    {"withhold_ids": true}
    {"expire_producers": true}
    {"delete_records": "t-0"}
    {"transaction_version": 0}

`sleep_ms` moves the clock. `restart` restarts the brokers. `acls` replaces the table of ACLs; a
request's sender is its `principal` (without one, the cluster itself). `skip_to_epoch` raises the
epoch of an id without a transaction, as repeated InitProducerId requests would. Without a
transactional id a Produce is only idempotent. Each request that changes something may have an
`api_version` (default: that of a client of the release). The writer chooses all numbers: a trace
sends the same requests to each release, regardless of the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

from ..language.declaration.arguments import one_of
from ..spec.access.acls import Acl, Acls
from ..spec.releases.api_versions import LARGEST
from ..strict_json import NotJsonError, read_json
from .broker.transactions.coordinator import ThreadHeldError
from .client.accumulator import topic_of
from .cluster import OF_BATCHES, Cluster
from .engine.errors import (
    MissingFieldError,
    ModelError,
    UnknownEventError,
    UnknownFieldError,
    refusal,
    text,
    whole,
)
from .engine.machine import Taken, watched
from .engine.reasons import reasons

LONGEST_SLEEP_MS = 2**53
LARGEST_EPOCH = 2**15 - 1
Answer = dict[str, Any]
Line = Mapping[str, Any]


def text_of(fields: Line) -> str:
    """Fields with their values, as text."""
    return ", ".join(f"{name} {value}" for name, value in fields.items())


HELD_AT: Mapping[str, tuple[str, ...]] = {
    "InitProducerId": ("append", "fence", "decision"),
    "AddPartitionsToTxn": ("append",),
    "AddOffsetsToTxn": ("append",),
    "EndTxn": ("append", "decision", "completion"),
    "Produce": OF_BATCHES,
    "TxnOffsetCommit": OF_BATCHES,
}
"""For each request: the places at which its thread can be held."""


def _held(cluster: Cluster, request: str, place: str, answered: Callable[[], Answer]) -> Answer:
    """The answer to a request with `held_at`: `{"held": place}` if its thread is held there."""
    if place in cluster.held():
        raise refusal("held_at", "a place where no thread is held", place, of_type=True)
    cluster.hold(place, request)
    try:
        response = answered()
    except ThreadHeldError:
        return {"held": place}
    finally:
        cluster.not_held(place)
    return response | {"held": place} if place in cluster.held() else response


def _released(cluster: Cluster, place: str) -> Answer:
    request, response = cluster.release(place)
    if response is None:
        return {}
    if request in ("InitProducerId", "EndTxn"):
        if response.producer_epoch == -1:
            return {"error": response.error, "producer_id": -1, "producer_epoch": -1}
        return {
            name: getattr(response, name) for name in ("error", "producer_id", "producer_epoch")
        }
    if request == "Produce":
        return response._asdict()
    return {"error": response.error}


def _init(cluster: Cluster, fields: dict[str, Any]) -> Answer:
    expected = (fields.pop("producer_id", -1), fields.pop("producer_epoch", -1))
    given = None if expected == (-1, -1) else expected
    return cluster.init_producer_id(**fields, expected=given)._asdict()


def _of_topic(
    use: str, answered: Callable[[Cluster, dict[str, Any]], Answer]
) -> Callable[[Cluster, dict[str, Any]], Answer]:
    """The answer to a request about a partition, after the check of the topic's permission."""

    def checked(cluster: Cluster, fields: dict[str, Any]) -> Answer:
        left = dict(fields)
        principal = left.pop("principal", None)
        error = cluster.use_of(principal, topic_of(left["partition"]), use)
        return answered(cluster, left) if error == "NONE" else {"error": error}

    return checked


def _fetch(cluster: Cluster, fields: dict[str, Any]) -> Answer:
    batches = cluster.fetch(**fields)
    found = [[batch.producer_id, batch.base_offset, batch.last_offset] for batch in batches]
    leader = cluster.leader(fields["partition"])
    stable = leader.stable_offset_for(fields.get("committed", True))
    return {"last_stable_offset": stable, "batches": found}


def _list_offsets(cluster: Cluster, fields: dict[str, Any]) -> Answer:
    leader = cluster.leader(fields["partition"])
    is_committed = fields.get("committed", True)
    return {"offset": leader.last_stable_offset if is_committed else leader.high_watermark}


def _describe_producers(cluster: Cluster, fields: dict[str, Any]) -> Answer:
    """DescribeProducers: id, epoch, last sequence and transaction start of each producer."""
    found: list[list[int]] = []
    for producer_id, entry in sorted(cluster.leader(fields["partition"]).producers.items()):
        last = entry.batch_metadata[-1].last_sequence if entry.batch_metadata else -1
        opened = entry.current_txn_first_offset
        found.append([producer_id, entry.producer_epoch, last, -1 if opened is None else opened])
    return {"producers": found}


def _describe_transactions(cluster: Cluster, fields: dict[str, Any]) -> Answer:
    name = fields["transactional_id"]
    error = cluster.may_describe(fields.get("principal"), name)
    if error != "NONE":
        return {"error": error}
    error, entry = cluster.coordinator.describe(name)
    if entry is None:
        return {"error": error}
    return {
        "error": error,
        "state": entry.state,
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
        "transaction_timeout_ms": entry.txn_timeout_ms,
        "partitions": sorted(entry.partitions),
    }


def _offsets(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with `offsets`: the offset (default: 0) by partition."""
    left = dict(fields)
    offset = left.pop("offset", 0)
    return left | {"offsets": {left.pop("partition"): offset}}


def _commit_offsets(cluster: Cluster, fields: dict[str, Any]) -> Answer:
    if "partition" not in fields and "offset" in fields:
        raise MissingFieldError(
            "TxnOffsetCommit has an offset and lacks its partition", "partition"
        )
    given = _offsets(fields) if "partition" in fields else fields
    return {"error": cluster.commit_offsets(**given)}


def _commit_group_offsets(cluster: Cluster, fields: dict[str, Any]) -> Answer:
    return {"error": cluster.commit_group_offsets(**_offsets(fields))}


def _fetch_offset(cluster: Cluster, fields: dict[str, Any]) -> Answer:
    found = cluster.fetch_offset(**fields)
    return {"error": found.error, "offset": found.offset}


def _join_group(cluster: Cluster, fields: dict[str, Any]) -> Answer:
    joined = cluster.join_group(**fields)
    wanted = ("error", "generation_id", "member_id", "leader", "protocol_name", "waits")
    return {name: getattr(joined, name) for name in wanted}


def _sync_group(cluster: Cluster, fields: dict[str, Any]) -> Answer:
    synced = cluster.sync_group(**fields)
    return {"error": synced.error, "waits": synced.waits}


# For each request: its fields, its optional fields, and the function that answers it.
_REQUESTS: dict[
    str, tuple[tuple[str, ...], tuple[str, ...], Callable[[Cluster, dict[str, Any]], Answer]]
] = {
    "InitProducerId": (
        ("transactional_id",),
        (
            "transaction_timeout_ms",
            "producer_id",
            "producer_epoch",
            "enable_2pc",
            "keep_prepared_txn",
            "api_version",
        ),
        _init,
    ),
    "AddPartitionsToTxn": (
        ("transactional_id", "producer_id", "producer_epoch", "partitions"),
        ("api_version", "verify_only"),
        lambda cluster, fields: {"error": cluster.add_partitions(**fields)},
    ),
    "AddOffsetsToTxn": (
        ("transactional_id", "producer_id", "producer_epoch", "group_id"),
        ("api_version",),
        lambda cluster, fields: {"error": cluster.add_offsets(**fields)},
    ),
    "TxnOffsetCommit": (
        ("transactional_id", "producer_id", "producer_epoch", "group_id"),
        (
            "topic",
            "partition",
            "offset",
            "generation_id",
            "member_id",
            "group_instance_id",
            "api_version",
        ),
        _commit_offsets,
    ),
    "OffsetCommit": (
        ("group_id", "partition"),
        ("offset", "generation_id", "member_id", "group_instance_id", "api_version"),
        _commit_group_offsets,
    ),
    "OffsetFetch": (("group_id", "partition"), ("require_stable",), _fetch_offset),
    "JoinGroup": (
        ("group_id",),
        ("member_id", "group_instance_id", "session_timeout_ms", "protocols", "api_version"),
        _join_group,
    ),
    "SyncGroup": (
        ("group_id", "member_id", "generation_id"),
        ("group_instance_id",),
        _sync_group,
    ),
    "Heartbeat": (
        ("group_id", "member_id", "generation_id"),
        ("group_instance_id",),
        lambda cluster, fields: {"error": cluster.heartbeat(**fields)},
    ),
    "LeaveGroup": (
        ("group_id",),
        ("member_id", "group_instance_id"),
        lambda cluster, fields: {"error": cluster.leave_group(**fields)},
    ),
    "WriteTxnMarkers": (
        ("partition", "producer_id", "producer_epoch", "result"),
        ("coordinator_epoch", "transaction_version", "api_version"),
        lambda cluster, fields: {"error": cluster.write_marker(**fields)},
    ),
    "Produce": (
        ("partition", "producer_id", "producer_epoch", "base_sequence"),
        ("count", "transactional_id", "api_version"),
        lambda cluster, fields: cluster.produce(**fields)._asdict(),
    ),
    "EndTxn": (
        ("transactional_id", "producer_id", "producer_epoch", "result"),
        ("api_version",),
        lambda cluster, fields: cluster.end_txn(**fields)._asdict(),
    ),
    "Fetch": (("partition",), ("offset", "committed"), _of_topic("READ", _fetch)),
    "ListOffsets": (("partition",), ("committed",), _of_topic("DESCRIBE", _list_offsets)),
    "DescribeProducers": (("partition",), (), _of_topic("READ", _describe_producers)),
    "DescribeTransactions": (("transactional_id",), (), _describe_transactions),
}


def read(trace: str) -> list[Line]:
    """The requests of a trace. Raises ModelError with the line of an error, and for a trace without
    requests."""
    requests: list[Line] = []
    for at, line in enumerate(trace.split("\n"), 1):
        if not line.strip():
            continue
        try:
            request = read_json(line.encode())
        except NotJsonError as error:
            raise ModelError(f"line {at}: {error}") from None
        if not isinstance(request, dict):
            raise ModelError(f"line {at}: an object is needed, with `request` or `sleep_ms`")
        requests.append(request)  # type: ignore[reportUnknownArgumentType]
    if not requests:
        raise ModelError("it has no request")
    return requests


def run(requests: Iterable[Line], protocol: str | None = None) -> list[Answer]:
    """The answers of a cluster of a release to each request.

    Raises ModelError for a wrong request, with its place.
    """
    cluster = Cluster(protocol=protocol)
    return [_answer_at(at, cluster, request) for at, request in enumerate(requests, 1)]


def _answer_at(place: int, cluster: Cluster, request: Line) -> Answer:
    try:
        return answer(cluster, request)
    except ModelError as error:
        raise type(error)(f"request {place}: {error}", error.field) from None


class Difference(NamedTuple):
    """A request, with its place, that two releases answer differently. Each answer has its reasons:
    its row, and the conditions that exclude the other answer (see `model.engine.reasons`)."""

    place: int
    request: str
    before: Answer
    after: Answer
    before_reasons: list[str]
    after_reasons: list[str]


def difference(requests: Iterable[Line], before: str, after: str) -> list[Difference]:
    """The requests that two releases answer differently. Raises as `run`."""
    clusters = Cluster(protocol=before), Cluster(protocol=after)
    found: list[Difference] = []
    for place, request in enumerate(requests, 1):
        sides: list[tuple[Answer, list[Taken]]] = []
        for cluster in clusters:
            with watched() as taken:
                sides.append((_answer_at(place, cluster, request), taken))
        (first, by_first), (second, by_second) = sides
        if first != second:
            name = str(request["request"])  # other lines have no answer
            errors = first.get("error"), second.get("error")
            why = [
                [] if mine is None else reasons(taken, name, mine, other)
                for taken, mine, other in ((by_first, *errors), (by_second, *errors[::-1]))
            ]
            found.append(Difference(place, name, first, second, *why))
    return found


def answer(cluster: Cluster, request: Line) -> Answer:
    """The cluster's answer to one line; empty for a line that isn't a request.

    Raises ModelError for a wrong line.
    """
    return checked(request)(cluster)


def checked(line: Line) -> Callable[[Cluster], Answer]:
    """The function that executes a line on a cluster. Raises ModelError for a wrong line."""
    fields = dict(line)
    name = fields.pop("request", None)
    if name is None:
        return _happens(fields)
    if not isinstance(name, str) or name not in _REQUESTS:
        raise UnknownEventError(f"no request is called {name}: {one_of(str(name), _REQUESTS)}")
    needed, optional, answered = _REQUESTS[name]
    place = fields.pop("held_at", None)
    if place is not None and place not in HELD_AT.get(name, ()):
        places = " or ".join(HELD_AT.get(name, ())) or f"no place: {name} isn't held"
        raise refusal("held_at", places, place, of_type=True)
    for field in fields:
        if field not in (*needed, *optional, "principal"):
            raise UnknownFieldError(f"{name} has no field {field}", field)
    for field in needed:
        if field not in fields:
            raise MissingFieldError(f"{name} lacks its field {field}", field)
    for field, value in fields.items():
        if field in _READ:
            _READ[field](field, value)
    if place is not None:
        return lambda cluster: _held(cluster, name, place, lambda: answered(cluster, fields))
    return lambda cluster: answered(cluster, fields)


def _name(field: str, value: Any) -> None:
    if value is not None:  # of a client without a transactional id
        text(field, value)


def _names(field: str, value: Any) -> None:
    if not isinstance(value, (list, tuple, set, frozenset)):
        raise refusal(field, "a list of names", value, of_type=False)
    for name in value:  # type: ignore[reportUnknownVariableType]
        text(field, name)


def _truth(field: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise refusal(field, "true or false", value, of_type=False)


def _ms(field: str, value: Any) -> None:
    whole(field, value, -(2**31), 2**31 - 1)


def _version(field: str, value: Any) -> None:
    whole(field, value, 0, LARGEST)


def _id(field: str, value: Any) -> None:
    if type(value) is not int:
        raise refusal(field, "a whole number", value, of_type=False)


# Numbers that no row checks first. Rows check the other numbers.
_READ: dict[str, Callable[[str, Any], object]] = {
    "transactional_id": _name, "transaction_timeout_ms": _ms, "partition": text,
    "partitions": _names, "committed": _truth, "producer_id": _id, "api_version": _version,
    "group_id": text, "verify_only": _truth, "transaction_version": _version, "principal": text,
    "topic": text, "enable_2pc": _truth, "keep_prepared_txn": _truth, "member_id": text,
    "group_instance_id": _name, "require_stable": _truth, "protocols": _names,
    "session_timeout_ms": _ms, "generation_id": _ms, "offset": _id,
}  # fmt: skip


def _happens(fields: dict[str, Any]) -> Callable[[Cluster], Answer]:
    """The function that executes a line that isn't a request."""
    match fields:
        case {"sleep_ms": ms, **others}:
            _no_others("sleep_ms", others)
            time = whole("sleep_ms", ms, 0, LONGEST_SLEEP_MS)
            return lambda cluster: _nothing(cluster.sleep(time))
        case {"restart": is_wanted, **others}:
            _no_others("restart", others)
            if is_wanted is not True:
                raise refusal("restart", "true", is_wanted, of_type=False)
            return lambda cluster: _nothing(cluster.restart())
        case {"log_refuses": refuses, **others}:
            _no_others("log_refuses", others)
            _truth("log_refuses", refuses)
            return lambda cluster: _nothing(cluster.log_refuses(refuses))
        case {"withhold_ids": withheld, **others}:
            _no_others("withhold_ids", others)
            _truth("withhold_ids", withheld)
            return lambda cluster: _nothing(cluster.withhold_ids(withheld))
        case {"transaction_version": level, **others}:
            _no_others("transaction_version", others)
            to_level = whole("transaction_version", level, 0, 2)
            return lambda cluster: _nothing(cluster.update_features(transaction_version=to_level))
        case {"expire_producers": True, **others}:
            _no_others("expire_producers", others)
            return lambda cluster: _nothing(cluster.expire_producers())
        case {"delete_records": partition, **others}:
            _no_others("delete_records", others)
            of = text("delete_records", partition)
            return lambda cluster: _nothing(cluster.delete_records(of))
        case {"release": place, **others}:
            _no_others("release", others)
            where = text("release", place)
            return lambda cluster: _released(cluster, where)
        case {"acls": lines, **others}:
            acls = _acls(lines, others)
            return lambda cluster: _nothing(setattr(cluster, "acls", acls))
        case {"skip_to_epoch": epoch, "transactional_id": name, **others}:
            _no_others("skip_to_epoch", others)
            skipping = text("transactional_id", name)
            to = whole("skip_to_epoch", epoch, 0, LARGEST_EPOCH)
            return lambda cluster: _nothing(cluster.skip_to_epoch(skipping, to))
        case {"skip_to_epoch": _}:
            raise MissingFieldError(
                "skip_to_epoch lacks its field transactional_id", "transactional_id"
            )
        case _:
            raise UnknownEventError(f"a line has request or one of {', '.join(_HAPPENINGS)}")


_HAPPENINGS = (
    "sleep_ms", "restart", "release", "acls", "skip_to_epoch", "log_refuses", "withhold_ids",
    "expire_producers", "delete_records", "transaction_version",
)  # fmt: skip


def acls_of(line: Any) -> Acls:
    """The table of ACLs in a line `{"acls": [...]}`. Raises ModelError."""
    match line:
        case {"acls": lines, **others}:
            return _acls(lines, others)
        case _:
            raise MissingFieldError("a table of ACLs is an object with acls, a list", "acls")


def acls_line(acls: Acls) -> dict[str, Any]:
    """The line with a table of ACLs."""
    return {
        "acls": [acl._asdict() for acl in acls.lines],
        "super_users": sorted(acls.super_users),
        "allow_everyone": acls.allow_everyone,
    }


def _acls(lines: Any, others: dict[str, Any]) -> Acls:
    """The table of ACLs in a line. Raises ModelError for a wrong table. The ACLs' values are
    checked when the table is set."""
    if not isinstance(lines, list):
        raise refusal("acls", "a list of ACLs", lines, of_type=False)
    supers, everyone = others.pop("super_users", []), others.pop("allow_everyone", False)
    _no_others("acls", others)
    _names("super_users", supers)
    _truth("allow_everyone", everyone)
    found: list[Acl] = []
    for line in lines:  # type: ignore[reportUnknownVariableType]
        if not isinstance(line, dict):
            raise refusal("acls", "a list of objects", line, of_type=False)
        given = cast("dict[str, Any]", line)
        for field in given:
            if field not in Acl._fields:
                raise UnknownFieldError(f"an ACL has no field {field}", field)
        for field in Acl._fields:
            if field not in given and field not in Acl._field_defaults:
                raise MissingFieldError(f"an ACL lacks its field {field}", field)
        found.append(Acl(**given))
    return Acls(tuple(found), frozenset(supers), everyone)


def _nothing(_: None) -> Answer:
    return {}


def _no_others(name: str, others: dict[str, Any]) -> None:
    for field in others:
        raise UnknownFieldError(f"{name} has no field {field}", field)
