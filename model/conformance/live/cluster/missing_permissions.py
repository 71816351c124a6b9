"""Names the permission that the user of a run lacks when an authorizer refuses a request.

Source: KafkaApis, AuthHelper; docs/conformance.md lists all that a run needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from ....wire.connection import BrokerError

_SUFFIX: Final = "AUTHORIZATION_FAILED"
_OF_CONFIGS: Final = ("DescribeConfigs", "IncrementalAlterConfigs")
_ALTERED: Final = "DESCRIBE_CONFIGS and ALTER_CONFIGS on the cluster and on __transaction_state"
_NEEDS: Final[Mapping[str, str]] = {
    "TOPIC": "CREATE, DESCRIBE, READ, WRITE and DELETE on topics with the prefix, and DESCRIBE on "
    "__consumer_offsets",
    "GROUP": "READ and DELETE on groups with the prefix",
    "TRANSACTIONAL_ID": "WRITE on transactional ids with the prefix",
    "CLUSTER": "IDEMPOTENT_WRITE on the cluster",
}
"""The permission that a user lacks, by the error in the answer."""


class MissingPermissionError(BrokerError):
    """The user lacks a permission that a run needs. The line says which."""

    def __init__(self, place: str, request: str, error: str, prefix: str) -> None:
        need = _NEEDS.get(error.removesuffix(f"_{_SUFFIX}"), "more permissions").replace(
            "the prefix", f"the prefix {prefix}"
        )
        if request in _OF_CONFIGS:
            need = f"{_ALTERED}, or a run without --alter-configs"
        super().__init__(f"{place} refuses {request} with {error}: the user needs {need}")


def refusal(response: Mapping[str, Any], request: Mapping[str, Any] | None = None) -> str | None:
    """The authorization error anywhere in a response, or None. A request for two-phase commit
    (KIP-939) has None: brokers without it give the same error as an answer."""
    if request is not None and request.get("enable2_pc"):
        return None
    for name, value in response.items():
        if isinstance(value, str):
            if value.endswith(_SUFFIX) and name.endswith("error_code"):
                return value
        elif isinstance(value, list):
            for one in cast("list[Any]", value):
                found = refusal(cast("dict[str, Any]", one)) if isinstance(one, dict) else None
                if found is not None:
                    return found
    return None
