"""Settings of consumers and brokers, release by release: what holds, and which error is raised.

`tests/brokers/test_settings.py` holds them against Kafka's own classes.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from epochfence.model.client.config import ConfigError, resolve_broker, resolve_consumer
from epochfence.spec.settings.broker import BROKER_SETTINGS, BROKERS
from epochfence.spec.settings.consumer import CONSUMER_SETTINGS, CONSUMER_STEPS, CONSUMERS
from epochfence.tests.model.client.rules import is_missed, rules

RELEASES = CONSUMERS.releases
GROUP = {"group.id": "g"}


def since(release: str, first: str) -> bool:
    """Whether a release is another one or comes after it."""
    return RELEASES.index(release) >= RELEASES.index(first)


def outcome(given: dict[str, Any], release: str) -> str:
    """What becomes of a consumer: nothing, or the class of the error and its text."""
    try:
        resolve_consumer(given, release)
    except ConfigError as error:
        return f"{error.name}: {error}"
    return ""


def test_defaults_by_release() -> None:
    for release in RELEASES:
        found = resolve_consumer(GROUP, release)
        assert found["session.timeout.ms"] == (45_000 if since(release, "3.0.0") else 10_000)
        assert found["request.timeout.ms"] == (30_000 if since(release, "2.0.0") else 305_000)
        assert ("default.api.timeout.ms" in found) is since(release, "2.0.0")
        assert ("group.instance.id" in found) is since(release, "2.3")
        assert ("group.protocol" in found) is since(release, "3.7")
        assert found["isolation.level"] == "read_uncommitted"
        assert (found["enable.auto.commit"], found["auto.offset.reset"]) == (True, "latest")
        assert (found["max.poll.records"], found["max.poll.interval.ms"]) == (500, 300_000)


def test_a_consumer_without_group_commits_nothing_by_itself() -> None:
    text = "enable.auto.commit cannot be set to true when default group id (null) is used."
    for release in RELEASES:
        found = resolve_consumer({}, release)
        has_default = not since(release, "2.3")
        assert found["group.id"] == ("" if has_default else None)
        assert found["enable.auto.commit"] is has_default
        asked = outcome({"enable.auto.commit": "true"}, release)
        assert asked == ("" if has_default else f"InvalidConfigurationException: {text}")
        assert outcome({"enable.auto.commit": "false"}, release) == ""
        assert outcome({"enable.auto.commit": "true", **GROUP}, release) == ""


def test_an_empty_group() -> None:
    text = "The configured group.id should not be an empty string or whitespace."
    refused = f"InvalidGroupIdException: {text}"
    for release in RELEASES:
        told = outcome({"group.id": ""}, release)
        assert told == (refused if since(release, "4.0.0") else "")
        told = outcome({"group.id": "", "group.protocol": "consumer"}, release)
        assert told == (refused if since(release, "3.7") else "")


@pytest.mark.parametrize(
    ("name", "since_2_3", "since_3_0", "since_3_4"),
    [
        ("", "must be non-empty string", "is illegal, it can't be empty", None),
        (".", 'cannot be "." or ".."', 'cannot be "." or ".."', "is invalid: '.' is not allowed"),
        ("a" * 250, f"can't be longer than 249 characters: {'a' * 250}",
         "is illegal, it can't be longer than 249 characters, Group instance id: " + "a" * 250,
         f"is invalid: the length of '{'a' * 250}' is longer than the max allowed length 249"),
        ("a b", "\"a b\" is illegal, it contains a character other than ASCII alphanumerics, '.', "
         "'_' and '-'", "\"a b\" is illegal, it contains a character other than ASCII "
         "alphanumerics, '.', '_' and '-'", "is invalid: 'a b' contains one or more characters "
         "other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)  # fmt: skip
def test_a_group_instance_needs_a_legal_name(
    name: str, since_2_3: str, since_3_0: str, since_3_4: str | None
) -> None:
    for release in RELEASES:
        told = since_3_4 if since(release, "3.4") else since_3_0
        told = told if since(release, "3.0.0") else since_2_3
        expected = f"InvalidConfigurationException: Group instance id {told}"
        if not since(release, "2.3"):
            expected = ""
        elif not name and since(release, "3.3"):
            expected = "ConfigException: Invalid value  for configuration group.instance.id: "
            expected += "String must be non-empty"
        for more in ({}, {"client.id": "c"}):
            given = {"group.instance.id": name, **GROUP, **more}
            assert outcome(given, release) == expected, release
    assert outcome({"group.instance.id": "a" * 249, **GROUP}, CONSUMERS.newest) == ""


def test_heartbeats_come_more_often_than_a_session_ends() -> None:
    text = "IllegalArgumentException: Heartbeat must be set lower than the session timeout"
    for release in RELEASES:
        for given in ({"heartbeat.interval.ms": "45000"}, {"session.timeout.ms": "3000"}):
            assert outcome({**GROUP, **given}, release) == text
            alone = outcome(given, release)
            assert alone == ("" if since(release, "2.3") else text)
        assert outcome({"session.timeout.ms": "3001", **GROUP}, release) == ""


def test_a_request_outlasts_a_session_before_2_0() -> None:
    text = "request.timeout.ms should be greater than session.timeout.ms and fetch.max.wait.ms"
    for release in RELEASES:
        refused = "" if since(release, "2.0.0") else f"ConfigException: {text}"
        assert outcome({"request.timeout.ms": "10000", **GROUP}, release) == refused
        assert outcome({"fetch.max.wait.ms": "305000", **GROUP}, release) == refused
        assert outcome({"request.timeout.ms": "10001", **GROUP}, release) == ""


def test_who_assigns_partitions() -> None:
    assignor = {"group.remote.assignor": "range", **GROUP}
    session = {"session.timeout.ms": "9000", "heartbeat.interval.ms": "100", **GROUP}
    text = "cannot be set when group.protocol="
    for release in RELEASES:
        told = outcome(assignor, release)
        refused = f"ConfigException: group.remote.assignor {text}CLASSIC"
        assert told == (refused if since(release, "3.9") else "")
        assert outcome(assignor | {"group.protocol": "CONSUMER"}, release) == ""
        told = outcome(session | {"group.protocol": "consumer"}, release)
        refused = f"ConfigException: heartbeat.interval.ms, session.timeout.ms {text}CONSUMER"
        assert told == (refused if since(release, "4.0.0") else "")
        assert outcome(session, release) == ""


@pytest.mark.parametrize(
    ("given", "until_2_3", "until_2_5", "later"),
    [
        ({}, "consumer-3", "consumer-3", "consumer-null-3"),
        ({"client.id": ""}, "consumer-3", "consumer-3", "consumer-null-3"),
        ({"client.id": "c"}, "c", "c", "c"),
        (GROUP, "consumer-3", "consumer-g-3", "consumer-g-3"),
        ({"group.instance.id": "i", **GROUP}, "consumer-3", "consumer-g-i", "consumer-g-i"),
    ],
)
def test_what_a_consumer_is_called(
    given: dict[str, str], until_2_3: str, until_2_5: str, later: str
) -> None:
    for release in RELEASES:
        told = until_2_5 if since(release, "2.4") else until_2_3
        told = later if since(release, "2.6") else told
        if told == "consumer-null-3" and resolve_consumer(given, release)["group.id"] == "":
            told = "consumer--3"
        assert resolve_consumer(given, release, number=3)["client.id"] == told, release


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"isolation.level": "serializable"},
         "Invalid value serializable for configuration isolation.level: String must be one of: "
         "read_committed, read_uncommitted"),
        ({"max.poll.records": "0"},
         "Invalid value 0 for configuration max.poll.records: Value must be at least 1"),
        ({"group.protocol": "share"},
         "Invalid value share for configuration group.protocol: String must be one of (case "
         "insensitive): CONSUMER, CLASSIC"),
    ],
)  # fmt: skip
def test_values_out_of_range(given: dict[str, str], text: str) -> None:
    assert outcome(given, CONSUMERS.newest) == f"ConfigException: {text}"


def test_a_consumer_may_begin_so_long_ago_from_4_0_on() -> None:
    for release in RELEASES:
        told = outcome({"auto.offset.reset": "by_duration:PT1H"}, release)
        assert (told == "") is since(release, "4.0.0")
        refused = outcome({"auto.offset.reset": "by_duration:-PT1H"}, release)
        assert refused.startswith("ConfigException: Invalid value by_duration:-PT1H for ")


def test_brokers() -> None:
    newest = resolve_broker({})
    assert (newest["min.insync.replicas"], newest["unclean.leader.election.enable"]) == (1, False)
    assert newest["replica.lag.time.max.ms"] == 30_000
    assert resolve_broker({}, "2.4")["replica.lag.time.max.ms"] == 10_000
    assert resolve_broker({"min.insync.replicas": "2"})["min.insync.replicas"] == 2
    assert "producer.id.expiration.ms" not in resolve_broker({}, "3.3")
    for given, text in (
        ({"min.insync.replicas": "0"}, "min.insync.replicas: Value must be at least 1"),
        ({"unclean.leader.election.enable": "maybe"}, "Expected value to be either true or false"),
        ({"transaction.max.timeout.ms": "0"}, "Value must be at least 1"),
        ({"transaction.state.log.replication.factor": "40000"}, "Not a number of type SHORT"),
        ({"transactional.id.expiration.ms": "1h"}, "Not a number of type INT"),
    ):
        with pytest.raises(ConfigError, match=text):
            resolve_broker(given)


def test_each_setting_is_there_once_in_each_release() -> None:
    for settings, protocols in ((CONSUMER_SETTINGS, CONSUMERS), (BROKER_SETTINGS, BROKERS)):
        for release in protocols.releases:
            features = protocols.features_at(release)
            names = [s.name for s in settings if protocols.holds(s.during, features)]
            assert len(names) == len(set(names)), release


GRID = [
    {name: value for name, value in chosen if value is not None}
    for chosen in product(
        [("group.id", value) for value in (None, "", "g")],
        [("enable.auto.commit", value) for value in (None, "true")],
        [("group.instance.id", value) for value in (None, "a b")],
        [("client.id", value) for value in (None, "c")],
        [("heartbeat.interval.ms", value) for value in (None, "60000")],
        [("group.protocol", value) for value in (None, "consumer")],
        [("group.remote.assignor", value) for value in (None, "range")],
        [("request.timeout.ms", value) for value in (None, "9000")],
    )
]


@pytest.mark.slow(2)
@pytest.mark.sample(2, of="mutants: rules of a consumer's settings")
@pytest.mark.parametrize(("step", "row"), rules(CONSUMER_STEPS))
def test_a_rule_that_is_gone_is_missed(
    step: int, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_missed("CONSUMER_STEPS", step, row, CONSUMERS, resolve_consumer, GRID, monkeypatch)
