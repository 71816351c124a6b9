"""Injected faults of the cluster itself, with the protocol's own steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ...cluster import Cluster
from ...engine.errors import ModelError
from ..handlers.metadata import Nodes
from .faults import OF_GROUPS, Fault

_TRIES: Final = 3
"""The number of a rival's InitProducerId: the first one fences and aborts, the next one gets the
epoch."""


class Actions:
    """Faults of a cluster. Each action returns None if the fault happened, else the reason why it
    didn't.

    `rivals` sends InitProducerId for an id, with a timeout in ms, and returns the error. `later`
    runs a coroutine in the background. `wake` is called when logs may have grown.
    """

    def __init__(
        self, cluster: Cluster, nodes: Nodes, rivals: Callable[[str, int], str],
        later: Callable[[Coroutine[Any, Any, None]], None], wake: Callable[[], None],
    ) -> None:  # fmt: skip
        self._cluster, self._nodes, self._rivals = cluster, nodes, rivals
        self._later, self._wake = later, wake
        self._act: dict[str, Callable[[Fault, str], str | None]] = {
            "fail_over_coordinator": self.fail_over_coordinator,
            "time_out_transaction": self.time_out_transaction,
            "bump_epoch": self.bump_epoch,
            "skip_to_epoch": self.skip_to_epoch,
            "expire_producer": self.expire_producer,
            "expire_members": self.expire_members,
        }

    def act(self, fault: Fault, subject: str | None) -> None:
        """Applies a fault to the cluster. The subject is a transactional id or a group."""
        is_of_group = fault.do in OF_GROUPS
        what = "group" if is_of_group else "transactional id"
        there = self._cluster.groups.groups if is_of_group else self._cluster.coordinator.entries
        if subject is None:
            failed = f"no {what} is named: give the fault one"
        elif subject not in there:
            failed = f"no {what} is called {subject}"
        else:
            failed = self._act[fault.do](fault, subject)
        if failed is None:
            fault.fired += 1
        fault.failed = failed
        self._wake()

    def fail_over_coordinator(self, fault: Fault, transactional_id: str) -> str | None:
        """Moves the id to another broker, if there is one, which loads the log first."""
        self._nodes.move(transactional_id)
        end = self._cluster.fail_over(transactional_id)
        if not fault.loading_ms:
            end()
            return None

        async def load() -> None:
            await asyncio.sleep(fault.loading_ms / 1000)
            end()
            self._wake()

        self._later(load())
        return None

    def time_out_transaction(self, _: Fault, transactional_id: str) -> str | None:
        """Aborts the id's transaction as if it were older than its timeout."""
        done = self._cluster.time_out(transactional_id)
        return None if done else f"{transactional_id} has no transaction to time out"

    def bump_epoch(self, _: Fault, transactional_id: str) -> str | None:
        """Sends a rival's InitProducerId for the id until it gets an epoch."""
        timeout_ms = self._cluster.coordinator.entries[transactional_id]["txn_timeout_ms"]
        error = ""
        for _try in range(_TRIES):
            error = self._rivals(transactional_id, timeout_ms)
            if error == "NONE":
                return None
        return f"the rival gets {error}"

    def skip_to_epoch(self, fault: Fault, transactional_id: str) -> str | None:
        """Raises the id's epoch to the fault's, as repeated InitProducerId requests would."""
        try:
            self._cluster.skip_to_epoch(transactional_id, fault.producer_epoch or 0)
        except ModelError as error:
            return str(error)
        return None

    def expire_producer(self, _: Fault, transactional_id: str) -> str | None:
        """Makes the leaders forget the id's producer, as after producer.id.expiration.ms."""
        producer_id = self._cluster.coordinator.entries[transactional_id]["producer_id"]
        done = [leader.expire_producer(producer_id) for leader in self._cluster.leaders.values()]
        return None if any(done) else f"no leader knows producer id {producer_id}, or may forget it"

    def expire_members(self, _: Fault, group_id: str) -> str | None:
        """Removes the group's members, as after session.timeout.ms."""
        groups = self._cluster.groups
        members = groups.groups[group_id].members
        before = set(members)
        for member in members.values():
            member.seen_ms = groups.now_ms - member.session_ms - 1
        groups.expire()
        return None if before - members.keys() else f"{group_id} has no member that could expire"
