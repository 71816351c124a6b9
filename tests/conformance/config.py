"""The operations of config.json, on the public functions of `epochfence.model.client.config`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from epochfence.model.client.config import ConfigError, resolve, resolve_broker
from epochfence.tests.conformance.draft import RELEASE

Step = Mapping[str, Any]
Result = dict[str, Any]


def _producer_config(step: Step) -> Result:
    try:
        return {"values": resolve(step["props"], RELEASE)}
    except ConfigError:
        return {"raises": "CONFIG"}


def _broker_defaults(_: Step) -> Result:
    return {"values": resolve_broker({}, RELEASE)}


OPERATIONS: dict[str, Callable[[Step], Result]] = {
    "producer_config": _producer_config,
    "broker_defaults": _broker_defaults,
}
