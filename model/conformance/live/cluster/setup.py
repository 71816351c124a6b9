"""The start of a run: finds the requests that a cluster refuses or doesn't answer, and makes the
cluster create its internal topics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .....spec.releases.api_versions import OF_BROKERS
from ....wire.connection import BrokerError, NoAnswerError
from .cluster import PARTITIONS, PATIENCE_S, SOON, LiveCluster
from .missing_permissions import MissingPermissionError
from .settings import LOG, NotToldError


def begin(cluster: LiveCluster) -> None:
    """Checks a cluster's settings, and prepares it. Raises BrokerError."""
    try:
        cluster.settings.check()
    except NotToldError as error:
        cluster.leave_out("DescribeConfigs", str(error))
    except NoAnswerError as error:
        cluster.leave_out(error.request, error.what)
        _keep(cluster, error)
    warm_up(cluster)


def warm_up(cluster: LiveCluster) -> None:
    """Prepares a cluster. Skips the requests that the user may not send (`without`) and optional
    requests that get no answer (`unusable`). `silences` has all requests without an answer. Raises
    BrokerError."""
    _leave_out(cluster)
    try:
        _give_out_ids(cluster)
    except NoAnswerError as error:
        _keep(cluster, error)


def _keep(cluster: LiveCluster, error: NoAnswerError) -> None:
    """Notes that a request got no answer, and continues."""
    cluster.silences.append(error)
    cluster.revive()


def _give_out_ids(cluster: LiveCluster) -> None:
    for number in range(2 * PARTITIONS):
        name = f"{cluster.prefix}-{number}"
        body = {"transactional_id": name, "transaction_timeout": 60_000}
        body |= {"producer_id": -1, "producer_epoch": -1}
        until = time.monotonic() + PATIENCE_S
        while _error(cluster, name, body) in SOON:
            if time.monotonic() > until:
                raise BrokerError(f"{cluster.place} hands out no producer id")
            time.sleep(0.05)
            cluster.forget_places()


def _error(cluster: LiveCluster, name: str, fields: Mapping[str, Any]) -> str:
    return cluster.ask(cluster.coordinator(name), "InitProducerId", fields)["error_code"]


def _leave_out(cluster: LiveCluster) -> None:
    """Skips requests that only brokers may send (markers and verifications), if the user may not.
    It tries them with an unknown topic and id: they have no effect."""
    nowhere, who = f"{cluster.prefix}-nowhere", {"producer_id": 0, "producer_epoch": 0}
    marker = {**who, "topics": [{"name": nowhere, "partition_indexes": [0]}]}
    question = {
        **who,
        "transactional_id": nowhere,
        "verify_only": True,
        "topics": [{"name": nowhere, "partitions": [0]}],
    }
    log = {"topics": [{"name": LOG}], "allow_auto_topic_creation": False}
    _try(cluster, "WriteTxnMarkers", {"markers": [marker]})
    if "WriteTxnMarkers" in cluster.versions:
        _try(cluster, "Metadata", log, of="WriteTxnMarkers")
    low, high = cluster.versions.get("AddPartitionsToTxn", (0, 0))
    if high >= OF_BROKERS:
        _try(
            cluster,
            "AddPartitionsToTxn",
            {"transactions": [question]},
            left=(low, OF_BROKERS - 1),
            called=f"AddPartitionsToTxn of version {OF_BROKERS} on",
        )
    producers = {"topics": [{"name": nowhere, "partition_indexes": [0]}]}
    _try(cluster, "DescribeProducers", producers)
    _try(cluster, "DescribeTransactions", {"transactional_ids": [nowhere]})


def _try(
    cluster: LiveCluster, name: str, fields: Mapping[str, Any], *, of: str | None = None,
    left: tuple[int, int] | None = None, called: str | None = None,
) -> None:  # fmt: skip
    """Sends a request without effect. If it is refused or gets no answer, skips `of` (None: the
    request itself), except for its versions `left`."""
    if name not in cluster.versions:
        return
    of = of or name
    try:
        cluster.ask(cluster.controller, name, fields)
        return
    except MissingPermissionError:
        cluster.without.append(called or of)
    except NoAnswerError as error:
        _keep(cluster, error)
        cluster.unusable[of] = error.what
    del cluster.versions[of]
    if left is not None and left[0] <= left[1]:
        cluster.versions[of] = left
