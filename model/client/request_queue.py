"""A client's queue of requests to coordinators, ordered by priority.

The rows of `spec.client.transactions.queue` and `spec.client.transactions.requests` decide the next
request and its outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...spec.client.transactions import queue
from ...spec.client.transactions import transaction_manager as manager
from ..engine.machine import Machine
from .requests import CallResult, Request


class RequestQueue:
    """The waiting requests of a client in sending order. `machine` is the client's machine.

    `offsets` are a group's offsets whose TxnOffsetCommit hasn't succeeded yet.
    """

    def __init__(
        self,
        machine: Machine,
        transactional_id: str | None,
        transaction_timeout_ms: int,
        retry_backoff_ms: int,
    ) -> None:
        self.machine, self.transactional_id = machine, transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.retry_backoff_ms = retry_backoff_ms
        self.waiting: list[Request] = []
        self.offsets: dict[Any, Any] = {}

    @property
    def producer_id(self) -> int:
        """The client's producer id; -1: none."""
        return self.machine["producer_id"] if self.machine["producer_epoch"] >= 0 else -1

    @property
    def version(self) -> int:
        """The transaction version of requests."""
        return 2 if self.machine.value(manager.adds_implicitly) else 0

    def request(self, api: str, result: CallResult, /, **fields: Any) -> Request:
        """A request with the common fields."""
        named: dict[str, Any] = {
            "producer_id": self.producer_id,
            "producer_epoch": self.machine["producer_epoch"],
            "transactional_id": self.transactional_id,
            "transaction_version": self.version,
        }
        return Request(api, queue.PRIORITIES[api], result, self.retry_backoff_ms, named | fields)

    def init(self, *, is_bump: bool = False) -> Request:
        """InitProducerId. `is_bump`: it asks for a new epoch after the end of a transaction."""
        timeout = 2**31 - 1 if self.transactional_id is None else self.transaction_timeout_ms
        request = self.request("INIT_PRODUCER_ID", CallResult(), transaction_timeout_ms=timeout)
        if is_bump:
            request.is_bump, request.priority = True, queue.BUMP_PRIORITY
        else:
            request.fields |= {"producer_id": -1, "producer_epoch": -1}
        return request

    def offsets_request(
        self, result: CallResult, offsets: Mapping[Any, int], group: Mapping[str, Any]
    ) -> Request:
        """TxnOffsetCommit with these offsets and all waiting ones."""
        self.offsets.update(offsets)
        member: dict[str, Any] = {"generation": -1, "member_id": "", "group_instance_id": None}
        return self.request(
            "TXN_OFFSET_COMMIT", result, offsets=dict(self.offsets), **{**member, **group}
        )

    def add(self, request: Request) -> Request:
        """Adds a request after those of its priority."""
        at = next(
            (i for i, r in enumerate(self.waiting) if r.priority > request.priority),
            len(self.waiting),
        )
        self.waiting.insert(at, request)
        return request

    def retry(self, request: Request, reaction: Any) -> None:
        """Adds a request again, after a lookup of its coordinator if the reaction asks for it."""
        if reaction.step == "LOOK_UP":
            self.look_up_for(request)
        request.is_retry, request.backoff_ms = True, reaction.backoff_ms
        self.add(request)

    def look_up_for(self, request: Request) -> None:
        """Adds a FindCoordinator for a request's coordinator."""
        kind, key = "TRANSACTION", self.transactional_id
        if request.api == "TXN_OFFSET_COMMIT":
            kind, key = "GROUP", request.fields["group_id"]
        self.add(self.request("FIND_COORDINATOR", CallResult(), key_type=kind, key=key))

    def ask_for_partitions(self) -> None:
        """Adds AddPartitionsToTxn for new partitions of the transaction, if there are any."""
        if self.machine.attempt("ask for partitions") is not None:
            partitions = self.machine["adding"]
            self.add(self.request("ADD_PARTITIONS_TO_TXN", CallResult(), partitions=partitions))
