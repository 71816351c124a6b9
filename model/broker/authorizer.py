"""A broker's authorizer: which requests a principal may send, by a table of ACLs.

The rows are those of `spec.access.authorization`, and those of `spec.access.acls` for ACLs.
"""

from __future__ import annotations

from typing import Any

from ...spec.access.acls import CLUSTER_NAME, OPERATIONS, RESOURCES, Acl, Acls
from ...spec.access.authorization import ANY_TOPIC, AUTHORIZERS, CHECKS, NEEDS, TABLES
from ..engine.errors import ModelError, refusal, text
from ..engine.machine import Machine

_CHOICES = {
    "operation": OPERATIONS,
    "resource": RESOURCES,
    "permission": ("ALLOW", "DENY"),
    "pattern": ("LITERAL", "PREFIXED"),
}


class Authorizer:
    """The authorizer of a broker of the release `protocol` (default: the newest), with its ACLs.

    Raises ModelError for a line that is not an ACL, or that the release doesn't know.
    """

    def __init__(self, acls: Acls, protocol: str | None = None) -> None:
        self._machine = Machine(TABLES, AUTHORIZERS, protocol=protocol)
        unknown = {value for value, name in NEEDS.items() if name not in self._machine.features}
        for line in acls.lines:
            _check(line)
            for value in unknown & {line.operation, line.pattern}:
                raise ModelError(f"{self._machine.protocol} has no ACL with {value}")
        self.acls = acls

    def ask(
        self, request: str, principal: str, *, transactional_id: str | None = None,
        group_id: str | None = None, topic: str | None = None, **said: Any,
    ) -> str:  # fmt: skip
        """The error of a request, or NONE if the principal may send it. Resources that aren't given
        aren't checked. `said` are the request's other parameters."""
        names = {
            "TRANSACTIONAL_ID": transactional_id,
            "GROUP": group_id,
            "TOPIC": topic,
            "CLUSTER": CLUSTER_NAME,
        }
        may: dict[str, bool] = {}
        for parameter in self._machine.fields_of(request):
            if parameter == ANY_TOPIC:
                may[parameter] = self.acls.allow_any(principal, "WRITE", "TOPIC")
            elif parameter in CHECKS:
                operation, resource = CHECKS[parameter]
                name = names[resource]
                may[parameter] = name is not None and self.acls.allow(
                    principal, operation, resource, name
                )
        return str(self._machine.handle(request, **may, **said).reply.error)


def _check(line: Acl) -> None:
    for field, value in line._asdict().items():
        text(field, value)
        if field in _CHOICES and value not in _CHOICES[field]:
            raise refusal(field, f"one of {', '.join(_CHOICES[field])}", value, of_type=True)
