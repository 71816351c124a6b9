"""Answers DescribeConfigs, AlterConfigs and IncrementalAlterConfigs for topics and brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....spec.access.acls import CLUSTER_NAME
from ...cluster import Cluster
from ...wire.listener import Answer, Request
from ..settings import ABOUT, BROKER, BROKERS_NAME, DEFAULT, OF_BROKER, Setting, Settings
from .partitions import Partitions

_TOPIC, _BROKER = 2, 4
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
"""The operations of IncrementalAlterConfigs (AlterConfigOp.OpType)."""
_ErrorAndMessage = tuple[str, str | None]


class ConfigApis:
    """Brokers' answers about their settings and topics' settings. Settings of brokers can't be
    changed."""

    def __init__(self, cluster: Cluster, partitions: Partitions, settings: Settings) -> None:
        self._may, self._partitions, self._settings = cluster, partitions, settings
        self.answers: Mapping[str, Callable[[Request], Answer]] = {
            "DescribeConfigs": self.describe,
            "AlterConfigs": self.alter,
            "IncrementalAlterConfigs": self.alter,
        }

    def _refusal(
        self, request: Request, resource: Mapping[str, Any], operation: str
    ) -> _ErrorAndMessage:
        """The error of a request about the settings of a resource, or NONE, and its message."""
        kind, name = resource["resource_type"], resource["resource_name"]
        if kind == _TOPIC:
            if not self._may.allows(request.principal, operation, "TOPIC", name):
                return "TOPIC_AUTHORIZATION_FAILED", None
            if name in self._partitions.topics:
                return "NONE", None
            is_describing = operation == "DESCRIBE_CONFIGS"
            wrong = is_describing and not self._partitions.is_name(name)
            return "INVALID_TOPIC_EXCEPTION" if wrong else "UNKNOWN_TOPIC_OR_PARTITION", None
        if kind != _BROKER:
            return "INVALID_REQUEST", f"Unsupported resource type: {kind}"
        if not self._may.allows(request.principal, operation, "CLUSTER", CLUSTER_NAME):
            return "CLUSTER_AUTHORIZATION_FAILED", None
        if name not in ("", str(request.node)):
            why = f"Unexpected broker id, expected {request.node} or empty string, but received"
            return "INVALID_REQUEST", f"{why} {name}"
        return "NONE", None

    def describe(self, request: Request) -> Answer:
        """DescribeConfigs. For a broker the answer has the settings that the server uses."""
        answer: list[dict[str, Any]] = []
        has_synonyms = request.fields.get("include_synonyms", False)
        has_documentation = request.fields.get("include_documentation", False)
        for resource in request.fields["resources"]:
            error, why = self._refusal(request, resource, "DESCRIBE_CONFIGS")
            kind, name = resource["resource_type"], resource["resource_name"]
            configs: list[dict[str, Any]] = []
            if error == "NONE":
                wanted = resource["configuration_keys"]
                known = self._settings.of_topics if kind == _TOPIC else BROKER
                configs = [
                    self._entry(kind, name, key, setting, has_synonyms, has_documentation)
                    for key, setting in known.items()
                    if not wanted or key in wanted
                ]
            answer.append(
                {"error_code": error, "error_message": why, "resource_type": kind,
                 "resource_name": name, "configs": configs}
            )  # fmt: skip
        return Answer({"results": answer})

    def _entry(
        self,
        kind: int,
        resource: str,
        name: str,
        setting: Setting,
        has_synonyms: bool,
        has_documentation: bool,
    ) -> dict[str, Any]:
        """The entry of a setting in the answer."""
        if kind == _TOPIC:
            value = self._settings.topic(resource, name)
            source = self._settings.source(resource, name)
        else:
            value = self._settings.broker(name)
            source = OF_BROKER if name in self._settings.given else DEFAULT
        synonyms = [{"name": name, "value": value, "source": source}] if has_synonyms else []
        return {
            "name": name, "value": value, "read_only": kind == _BROKER, "config_source": source,
            "is_default": source == DEFAULT, "is_sensitive": False, "synonyms": synonyms,
            "config_type": setting.number,
            "documentation": ABOUT.get(BROKERS_NAME.get(name, name)) if has_documentation else None,
        }  # fmt: skip

    def alter(self, request: Request) -> Answer:
        """AlterConfigs, which replaces all settings of a topic, and IncrementalAlterConfigs."""
        answer: list[dict[str, Any]] = []
        for resource in request.fields["resources"]:
            error, why = self._refusal(request, resource, "ALTER_CONFIGS")
            if error == "NONE":
                error, why = self._altered(request, resource)
            answer.append(
                {
                    "error_code": error,
                    "error_message": why,
                    "resource_type": resource["resource_type"],
                    "resource_name": resource["resource_name"],
                }
            )
        return Answer({"responses": answer})

    def _altered(self, request: Request, resource: Mapping[str, Any]) -> _ErrorAndMessage:
        name, given = resource["resource_name"], resource["configs"]
        if resource["resource_type"] == _BROKER:
            return "INVALID_REQUEST", "brokers in memory take their settings from --broker-config"
        if len({each["name"] for each in given}) < len(given):
            return "INVALID_REQUEST", "Error due to duplicate config keys"
        for each in given:
            if each["value"] is None and each.get("config_operation") != _DELETE:
                return "INVALID_REQUEST", f"Null value not supported for : {each['name']}"
        if request.name == "AlterConfigs":
            values: dict[str, str | None] = {each["name"]: each["value"] for each in given}
        else:
            values = dict(self._settings.own(name))
            for each in given:
                error = self._change(name, values, each)
                if error is not None:
                    return "INVALID_CONFIG", error
        if (why := self._settings.wrong(values)) is not None:
            return "INVALID_CONFIG", why
        if not request.fields["validate_only"]:
            self._settings.set(name, {key: str(value) for key, value in values.items()})
        return "NONE", None

    def _change(
        self, topic: str, values: dict[str, str | None], change: Mapping[str, Any]
    ) -> str | None:
        """Makes one change of IncrementalAlterConfigs. Returns the error message, or None."""
        name, operation = change["name"], change["config_operation"]
        setting = self._settings.of_topics.get(name)
        if operation == _DELETE:
            values.pop(name, None)
        elif setting is None:
            return f"Unknown topic config name: {name}"
        elif operation == _SET:
            values[name] = change["value"]
        elif operation in (_APPEND, _SUBTRACT) and setting.kind == "list":
            there = [each for each in self._settings.topic(topic, name).split(",") if each]
            more = [each for each in (change["value"] or "").split(",") if each]
            kept = [each for each in there if operation == _APPEND or each not in more]
            added = [each for each in more if operation == _APPEND and each not in there]
            values[name] = ",".join((*kept, *added))
        else:
            word = "APPEND" if operation == _APPEND else "SUBTRACT"
            return f"Can't {word} to key {name} because its type is not LIST."
        return None
