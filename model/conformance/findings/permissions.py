"""Finding 15: a user may not read the topic whose offsets a transaction commits."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from ...serve.proxy import Proxy
from ...wire.connection import Connection
from ..live.cluster.cluster import LiveCluster, addresses
from .brokers import A, Brokers, InconclusiveError, Observation, must, wait_until

_TOPIC, _GROUP, _TRANSACTIONAL_ID = 2, 3, 5
_READ, _WRITE = 3, 4
_LITERAL, _ALLOW, _ANY = 3, 3, 1
_GROUP_REFUSED: Final = "GroupAuthorizationException"


@contextmanager
def _allowed(
    cluster: LiveCluster, user: str, may: tuple[tuple[int, str, int], ...]
) -> Generator[None]:
    """Gives a user permissions, and removes them at the end. A permission is a resource type, a
    name and an operation."""
    whose = {"principal": f"User:{user}", "host": "*", "permission_type": _ALLOW}
    given: list[dict[str, Any]] = [
        {"resource_type": kind, "resource_name": name, "resource_pattern_type": _LITERAL,
         "operation": operation, **whose}
        for kind, name, operation in may
    ]  # fmt: skip
    answer = cluster.ask(cluster.controller, "CreateAcls", {"creations": given}, 2)["results"]
    refused = [one["error_code"] for one in answer if one["error_code"] != "NONE"]
    if refused:
        raise InconclusiveError(f"the brokers refuse CreateAcls: {refused[0]}")
    try:
        yield
    finally:
        filters = [
            {
                "resource_type_filter": one["resource_type"],
                "resource_name_filter": one["resource_name"],
                "pattern_type_filter": _LITERAL,
                "principal_filter": one["principal"],
                "host_filter": "*",
                "operation": one["operation"],
                "permission_type": _ALLOW,
            }
            for one in given
        ]
        cluster.ask(cluster.controller, "DeleteAcls", {"filters": filters}, 2)


def unreadable_topic(brokers: Brokers) -> Observation:
    """Finding 15."""
    user = brokers.user
    if user is None or user.username is None:
        raise InconclusiveError("the finding needs a user with SASL: give --user-config")
    with brokers.cluster() as cluster, brokers.topic(cluster) as topic:
        name = f"{cluster.prefix}-reader"
        may = ((_TRANSACTIONAL_ID, name, _WRITE), (_GROUP, name, _READ), (_TOPIC, topic, _WRITE))
        with (
            _allowed(cluster, user.username, may),
            Proxy(brokers.bootstrap, how=user) as proxy,
        ):
            brokers.say(f"{user.username} may write a topic, but not read it")
            wait_until(lambda: _may_ask(brokers, name), "the permissions don't arrive")
            with brokers.producer(
                proxy, topic, transactional_id=name, max_block_ms=10_000
            ) as producer:
                must(producer, "initTransactions")
                refused = _GROUP_REFUSED
                while refused == _GROUP_REFUSED:  # the broker learns the permission later
                    for call in ("beginTransaction", "send"):
                        must(producer, call, 0, A)
                    refused = producer.do("sendOffsetsToTransaction", 0, name)
                    if refused == _GROUP_REFUSED:
                        must(producer, "abortTransaction")
                if refused == "ok":
                    raise InconclusiveError(f"{user.username} may read the topic")
                brokers.say(f"sendOffsetsToTransaction() throws {refused}")
                found = producer.do("abortTransaction")
    return Observation("abortTransaction(): ok", f"abortTransaction(): {found}", found != "ok")


def _may_ask(brokers: Brokers, name: str) -> bool:
    """Whether the user may find the coordinator of a transactional id."""
    assert brokers.user is not None
    (place, *_) = addresses(brokers.bootstrap)
    own = Connection(*place, brokers.user)
    try:
        answer = own.ask("FindCoordinator", 1, {"key": name, "key_type": 1})
        return answer["error_code"] == "NONE"
    finally:
        own.close()
