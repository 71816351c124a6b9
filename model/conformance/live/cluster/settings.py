"""The settings of brokers: those that must have the tables' value, and those that a run changes for
a moment."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Protocol

from .....spec.settings.broker import BROKER_SETTINGS
from ....wire.connection import BrokerError
from ..answers import only
from .missing_permissions import MissingPermissionError

TRANSACTION_VERSION: Final = "transaction.version"
_UPGRADE, _SAFE_DOWNGRADE = 1, 2
PATIENCE_S: Final = 10
_TOPIC, _BROKER, _TOPIC_CONFIG = 2, 4, 1
LOG: Final = "__transaction_state"
ALTERED: Final[Mapping[str, tuple[int, str]]] = {
    "max.message.bytes": (_TOPIC, LOG),
    "producer.id.expiration.ms": (_BROKER, ""),
}
"""The settings that a run changes for a moment, each with its kind of resource and the resource's
name. Settings of all brokers count as unset before."""
KNOWN: Final = {
    each.name: str(each.default).lower()
    for each in BROKER_SETTINGS
    if each.name
    in (
        "transaction.max.timeout.ms",
        "transaction.partition.verification.enable",
        "transaction.two.phase.commit.enable",
    )
}
"""Broker settings for which the tables assume Kafka's default."""


class NotToldError(BrokerError):
    """A broker doesn't tell its settings."""


class Brokers(Protocol):
    """The part of a cluster that settings use: broker ids and requests."""

    any: int
    controller: int

    @property
    def place(self) -> str: ...
    @property
    def brokers(self) -> Iterable[int]: ...
    @property
    def versions(self) -> Collection[str]: ...
    @property
    def transaction_version(self) -> int: ...
    def ask(self, node: int, name: str, fields: Mapping[str, Any]) -> dict[str, Any]: ...
    def level_at(self, node: int) -> int: ...


class Settings:
    """The settings of a cluster's brokers and of its transaction log."""

    def __init__(self, cluster: Brokers) -> None:
        self._cluster = cluster
        self._restores: list[tuple[str, str | None]] = []
        self._level: int | None = None

    @property
    def _place(self) -> str:
        return self._cluster.place

    def check(self) -> None:
        """Raises BrokerError if a broker's setting differs from the tables' value. Does nothing
        without the permission."""
        for node in self._cluster.brokers if "DescribeConfigs" in self._cluster.versions else ():
            try:
                answer = self._described_settings(_BROKER, str(node), [*KNOWN])
            except MissingPermissionError:
                return
            for name, config in answer.items():
                if config["value"] != KNOWN[name]:
                    raise BrokerError(
                        f"broker {node} has {name}={config['value']}, but the tables assume "
                        f"{KNOWN[name]}: use brokers with this value"
                    )

    def value(self, name: str) -> int:
        """A broker's setting."""
        return int(self._described_setting(_BROKER, str(self._cluster.any), name)["value"])

    def _described_setting(self, kind: int, of: str, name: str) -> dict[str, Any]:
        answer = self._described_settings(kind, of, [name])
        if name not in answer:
            raise BrokerError(f"{self._place} doesn't report {name}")
        return answer[name]

    def _described_settings(
        self, kind: int, of: str, names: list[str]
    ) -> dict[str, dict[str, Any]]:
        """The existing settings among `names`. A broker is asked for its own settings."""
        node = int(of) if kind == _BROKER else self._cluster.controller
        resource = {"resource_type": kind, "resource_name": of, "configuration_keys": names}
        answer = self._cluster.ask(node, "DescribeConfigs", {"resources": [resource]})
        result = only("DescribeConfigs", answer["results"])
        if result["error_code"] != "NONE":
            raise NotToldError(
                f"{self._place} doesn't report {', '.join(names)}: {result['error_code']}"
            )
        return {config["name"]: config for config in result["configs"] or ()}

    def altered(self, name: str, value: str) -> None:
        """Changes one of `ALTERED` for a moment, until `restore`."""
        kind, of = ALTERED[name]
        known = self._described_setting(kind, of, name) if kind == _TOPIC else None
        is_own = known is not None and known["config_source"] == _TOPIC_CONFIG
        self._restores.append((name, known["value"] if known is not None and is_own else None))
        self._set(name, value)

    def restore(self) -> None:
        """Restores changed settings."""
        while self._restores:
            self._set(*self._restores[-1])
            self._restores.pop()

    def alter_features(self, level: int) -> None:
        """Sets transaction.version to this level until `restore_features`, and waits for all
        brokers. Raises BrokerError."""
        now = self._cluster.transaction_version if self._level is None else self._level
        if level == now:
            return
        kind = _UPGRADE if level > now else _SAFE_DOWNGRADE
        update = {"feature": TRANSACTION_VERSION, "max_version_level": level, "upgrade_type": kind}
        body = {"timeout": 1000 * PATIENCE_S, "feature_updates": [update], "validate_only": False}
        answer = self._cluster.ask(self._cluster.controller, "UpdateFeatures", body)
        for one in (answer, *(answer.get("results") or ())):
            if one["error_code"] != "NONE":
                raise BrokerError(f"{self._place}: {TRANSACTION_VERSION}: {one['error_code']}")
        self._level, until = level, time.monotonic() + PATIENCE_S
        while any(self._cluster.level_at(node) != level for node in self._cluster.brokers):
            if time.monotonic() > until:
                raise BrokerError(f"{self._place} doesn't follow a change of {TRANSACTION_VERSION}")
            time.sleep(0.02)

    def restore_features(self) -> None:
        """Restores transaction.version."""
        self.alter_features(self._cluster.transaction_version)

    def _set(self, name: str, value: str | None) -> None:
        kind, of = ALTERED[name]
        config = {"name": name, "value": value, "config_operation": int(value is None)}
        resource = {"resource_type": kind, "resource_name": of, "configs": [config]}
        answer = self._cluster.ask(
            self._cluster.controller, "IncrementalAlterConfigs", {"resources": [resource]}
        )
        response = only("IncrementalAlterConfigs", answer["responses"])
        if response["error_code"] != "NONE":
            raise BrokerError(f"{self._place}: {name}: {response['error_code']}")
