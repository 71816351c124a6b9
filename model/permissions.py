"""Checks requests of a principal against a cluster's ACLs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..spec.access.acls import Acls
from ..spec.releases import api_versions
from .broker.authorizer import Authorizer
from .broker.transactions.coordinator import each_once
from .client.accumulator import topic_of

REFUSED_WITH_OTHERS = "OPERATION_NOT_ATTEMPTED"
"""The answer for an allowed partition when another one is refused."""


class Permissions:
    """The checks of a cluster at its authorizer, if it has one. `protocol` is the release.

    Each method returns the error of a refusal, or NONE. Requests without a principal are the
    cluster's own and are never refused.
    """

    protocol: str
    _authorizer: Authorizer | None = None

    @property
    def acls(self) -> Acls | None:
        """The table of ACLs; None: no authorizer. Raises ModelError for a line that isn't an
        ACL."""
        return None if self._authorizer is None else self._authorizer.acls

    @acls.setter
    def acls(self, acls: Acls | None) -> None:
        self._authorizer = None if acls is None else Authorizer(acls, self.protocol)

    def authorize(self, principal: str | None, request: str, **about: Any) -> str:
        """Whether a principal may send a request (an event of `spec.authorization`) about a
        `transactional_id`, `group_id` or `topic`."""
        if principal is None or self._authorizer is None:
            return "NONE"
        return self._authorizer.ask(request, principal, **about)

    def allows(self, principal: str | None, operation: str, resource: str, name: str) -> bool:
        """Whether a principal may carry out an operation on a resource, by the ACLs alone."""
        acls = self.acls
        return principal is None or acls is None or acls.allow(principal, operation, resource, name)

    def use_of(self, principal: str | None, topic: Any, use: str) -> str:
        """Whether a principal may use a topic for `use` (WRITE, READ, DESCRIBE or DELETE)."""
        return self.authorize(principal, "a topic is asked for", topic=topic, use=use)

    def use_of_group(self, principal: str | None, group_id: str, use: str) -> str:
        """Whether a principal may use a consumer group for `use` (READ, DESCRIBE or DELETE)."""
        return self.authorize(principal, "a group is asked for", group_id=group_id, use=use)

    def may_create(self, principal: str | None, topic: str, *, by_metadata: bool) -> str:
        """Whether a principal may create a topic with CreateTopics, or (`by_metadata`) with
        Metadata."""
        about = {"topic": topic, "by_metadata": by_metadata}
        return self.authorize(principal, "a topic is to be made", **about)

    def may_find(self, principal: str | None, key: str, *, of_group: bool) -> str:
        """Whether a principal may find the coordinator of a group or of a transactional id."""
        about = {"group_id" if of_group else "transactional_id": key, "of_group": of_group}
        return self.authorize(principal, "FindCoordinator asks", **about)

    def may_describe(self, principal: str | None, transactional_id: str) -> str:
        """Whether a principal may see the state of a transactional id."""
        return self.authorize(
            principal, "DescribeTransactions asks", transactional_id=transactional_id
        )

    def may_produce(
        self, principal: str | None, transactional_id: str | None, *, is_transactional: bool,
        is_idempotent: bool,
    ) -> str:  # fmt: skip
        """Whether a principal may send such batches; the topics are checked separately."""
        return self.authorize(
            principal,
            "Produce asks",
            transactional_id=transactional_id,
            transactional=is_transactional,
            idempotent=is_idempotent,
        )

    def may_commit_offsets(
        self, principal: str | None, transactional_id: str | None, group_id: str
    ) -> str:
        """Whether a principal may commit a group's offsets in a transaction."""
        about = {"transactional_id": transactional_id, "group_id": group_id}
        return self.authorize(principal, "TxnOffsetCommit asks", **about)

    def may_write_markers(self, principal: str | None) -> str:
        """Whether a principal may send WriteTxnMarkers."""
        return self.authorize(principal, "WriteTxnMarkers asks")

    def may_add(
        self, principal: str | None, transactional_id: str | None, api_version: int | None
    ) -> str:
        """Whether a principal may send an AddPartitionsToTxn; the topics are checked separately."""
        return self.authorize(
            principal,
            "AddPartitionsToTxn asks",
            transactional_id=transactional_id,
            from_broker=api_versions.is_from_broker(api_version),
        )

    def unauthorized(
        self,
        principal: str | None,
        transactional_id: str | None,
        partitions: Iterable[Any],
        api_version: int | None,
    ) -> dict[Any, str]:
        """The errors of a refused AddPartitionsToTxn, by partition; empty if it isn't refused.
        Topics in another broker's request aren't checked."""
        wanted = sorted(each_once(partitions), key=str)
        is_from_broker = api_versions.is_from_broker(api_version)
        refusal = self.may_add(principal, transactional_id, api_version)
        if refusal != "NONE":
            return dict.fromkeys(wanted, refusal)
        errors: dict[Any, str] = {}
        for partition in () if is_from_broker else wanted:
            errors[partition] = self.use_of(principal, topic_of(partition), "WRITE")
        if set(errors.values()) <= {"NONE"}:
            return {}
        return {
            partition: REFUSED_WITH_OTHERS if error == "NONE" else error
            for partition, error in errors.items()
        }
