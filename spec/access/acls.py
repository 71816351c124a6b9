"""Authorization by a table of ACLs: functions, as an authorizer only looks things up.

Source: AclAuthorizer, StandardAuthorizer; KIP-290 for prefixes, KIP-679 for any resource of a type.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

OPERATIONS: Final = (
    "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "TWO_PHASE_COMMIT",
)  # fmt: skip
"""The operations that requests of producers, consumers and brokers need (AclOperation)."""
RESOURCES: Final = ("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID")
CLUSTER_NAME: Final = "kafka-cluster"
ANYTHING: Final = "*"
ANYBODY: Final = "User:*"
_IMPLIED_BY: Final = {
    "DESCRIBE": ("READ", "WRITE", "DELETE", "ALTER"),
    "DESCRIBE_CONFIGS": ("ALTER_CONFIGS",),
}


class Acl(NamedTuple):
    """One line of the table: a principal (`User:alice`, or `User:*` for anybody) may carry out an
    operation on resources of a type, or may not.

    `name` is that of the resource, `*` for every one, or (PREFIXED) how its name begins.
    """

    principal: str
    operation: str
    resource: str
    name: str
    permission: str = "ALLOW"
    pattern: str = "LITERAL"

    @property
    def is_for_all(self) -> bool:
        """Whether it is about every resource of its type."""
        return self.pattern == "LITERAL" and self.name == ANYTHING

    def is_about(self, resource: str, name: str) -> bool:
        """Whether it is about a resource, whoever asks."""
        if self.resource != resource:
            return False
        if self.pattern == "PREFIXED":
            return name.startswith(self.name)
        return self.name in (name, ANYTHING)

    def is_for(self, principal: str, operations: Collection[str]) -> bool:
        """Whether it is about one of these operations of a principal's."""
        return self.principal in (principal, ANYBODY) and (
            self.operation == "ALL" or self.operation in operations
        )


class Acls(NamedTuple):
    """The table, who may do everything (`super.users`), and whether everybody may do what no line
    is about (`allow.everyone.if.no.acl.found`)."""

    lines: tuple[Acl, ...] = ()
    super_users: frozenset[str] = frozenset()
    allow_everyone: bool = False

    def allow(self, principal: str, operation: str, resource: str, name: str) -> bool:
        """Whether a principal may carry out an operation on a resource. A line that denies goes
        before all that allow; whoever may do something to a resource may describe it.

        AclAuthorizer.authorizeAction
        """
        if principal in self.super_users:
            return True
        lines = [acl for acl in self.lines if acl.is_about(resource, name)]
        if not lines:
            return self.allow_everyone
        if _some(lines, "DENY", principal, (operation,)):
            return False
        enough = (operation, *_IMPLIED_BY.get(operation, ()))
        return _some(lines, "ALLOW", principal, enough)

    def allow_any(self, principal: str, operation: str, resource: str) -> bool:
        """Whether a principal may carry out an operation on some resource of a type, be there one
        or not: a line allows it, and none that denies is about all that this one is about.

        AclAuthorizer.authorizeByResourceType
        """
        if principal in self.super_users:
            return True
        lines = [
            acl
            for acl in self.lines
            if acl.resource == resource and acl.is_for(principal, (operation,))
        ]
        denied = [acl for acl in lines if acl.permission == "DENY"]
        if any(acl.is_for_all for acl in denied):
            return False
        if self.allow_everyone:
            return True
        allowed = (acl for acl in lines if acl.permission == "ALLOW")
        return any(
            acl.is_for_all or not any(_covers(line, acl) for line in denied) for acl in allowed
        )


def _some(
    lines: Iterable[Acl], permission: str, principal: str, operations: Collection[str]
) -> bool:
    return any(acl.permission == permission and acl.is_for(principal, operations) for acl in lines)


def _covers(line: Acl, other: Acl) -> bool:
    """Whether a line is about all that another one of its resource type is about."""
    if line.pattern == "PREFIXED":
        return other.name.startswith(line.name)
    return other.pattern == "LITERAL" and line.name == other.name
