"""Injected faults that act on the cluster, by the protocol's own steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ...cluster import Cluster
from ...engine.errors import ModelError
from ..handlers.metadata import Nodes
from .faults import OF_GROUPS, Fault

_TRIES: Final = 3
"""A rival's InitProducerId first fences and aborts, and gets its epoch when it asks again."""


class Actions:
    """Faults of a cluster. Each action says None where it came about, else why it didn't.

    `rivals` sends InitProducerId for an id, with a timeout in ms; `later` has work done beside the
    requests; `wake` is called when logs may have grown.
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
        """Applies a fault to the cluster; its subject is a transactional id or a group."""
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
        """Another broker coordinates the id, where there is one, and loads its log first."""
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
        """The id's transaction is older than its timeout, and is aborted."""
        done = self._cluster.time_out(transactional_id)
        return None if done else f"{transactional_id} has no transaction to time out"

    def bump_epoch(self, _: Fault, transactional_id: str) -> str | None:
        """A rival asks for the id: InitProducerId, until it has its epoch."""
        timeout_ms = self._cluster.coordinator.entries[transactional_id]["txn_timeout_ms"]
        told = ""
        for _try in range(_TRIES):
            told = self._rivals(transactional_id, timeout_ms)
            if told == "NONE":
                return None
        return f"the rival is told {told}"

    def skip_to_epoch(self, fault: Fault, transactional_id: str) -> str | None:
        """Brings the id's epoch to this one, as so many InitProducerId would."""
        try:
            self._cluster.skip_to_epoch(transactional_id, fault.producer_epoch or 0)
        except ModelError as error:
            return str(error)
        return None

    def expire_producer(self, _: Fault, transactional_id: str) -> str | None:
        """The leaders forget the id's producer, as after producer.id.expiration.ms."""
        producer_id = self._cluster.coordinator.entries[transactional_id]["producer_id"]
        done = [leader.expire_producer(producer_id) for leader in self._cluster.leaders.values()]
        return None if any(done) else f"no leader knows producer id {producer_id}, or may forget it"

    def expire_members(self, _: Fault, group_id: str) -> str | None:
        """The group loses its members, as after session.timeout.ms."""
        groups = self._cluster.groups
        members = groups.groups[group_id].members
        before = set(members)
        for member in members.values():
            member.seen_ms = groups.now_ms - member.session_ms - 1
        groups.expire()
        return None if before - members.keys() else f"{group_id} has no member that could expire"
