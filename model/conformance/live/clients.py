"""The clients of a run: the versions that each release's client sends, and the next requests of
honest clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ....spec.releases import api_versions
from ....spec.releases.features import KAFKA, RELEASED
from ...cluster import Cluster
from ..honest_clients import Honest, sends

NAME: Final = "a"
PARTITION: Final = "t-0"
GROUP: Final = "g"
SHORT_MS: Final = 1_000
"""The short timeout of transactions, in ms; a run waits for it."""
MOST_CLIENTS: Final = 2
"""The largest number of honest clients on a way: an instance and a newer one."""
Versions = Mapping[str, tuple[int, int]]
"""The oldest and newest sent version of each request."""


def versions_of(known: Versions, as_client: str | None) -> Versions:
    """The sent versions: those of a client of this release, or all known ones."""
    if as_client is None:
        return dict(known)
    features = KAFKA.features_at(as_client)
    found: dict[str, tuple[int, int]] = {}
    for request, (low, high) in known.items():
        if request in api_versions.COUNTS:
            high = min(high, api_versions.newest(request, features))
        if low <= high:
            found[request] = (low, high)
    return found


def of_releases(versions: Versions, cluster: Cluster) -> Iterator[dict[str, int]]:
    """The versions that clients of the releases send to a cluster, the newest release first,
    without duplicates."""
    found: list[dict[str, int]] = []
    for release in reversed(RELEASED):
        sent = sends(versions_of(versions, release), cluster.transaction_version)
        if sent not in found:
            found.append(sent)
            yield sent


def honest_moves(
    clients: Sequence[Honest], releases: Sequence[Mapping[str, int]]
) -> Iterator[tuple[dict[str, Any], Honest | None]]:
    """The next requests of honest clients and of a new one, the newest client first, each with its
    sender."""
    for client in reversed(clients):
        for line in client.next([PARTITION], GROUP):
            yield line, client
    if len(clients) < MOST_CLIENTS:
        every = [Honest.new(name, sent) for name in (NAME, None) for sent in releases]
        for new in (*every, Honest.new(NAME, releases[0], timeout_ms=SHORT_MS)):
            yield new.last, new
    if clients:
        yield {"sleep_ms": SHORT_MS + 1}, None
