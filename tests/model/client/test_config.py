"""A producer's settings, release by release: what holds, and which error a breach raises."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochfence.language import DeclarationError
from epochfence.model.client.config import ConfigError, resolve, resolve_broker
from epochfence.spec.releases.features import KAFKA
from epochfence.spec.settings.producer import CLIENTS, SETTINGS, STEPS
from epochfence.tests.model.client.rules import is_missed, rules

NO_TRANSACTIONS = "Cannot set a transactional.id without also enabling idempotence."
NO_RETRIES = "Must set retries to non-zero when using the idempotent producer."
NOT_ALL = (
    "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee "
    "idempotence."
)
IN_FLIGHT = (
    "Must set max.in.flight.requests.per.connection to at most 5 to use the idempotent producer."
)
DELIVERY = "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms"

UNTIL_2_3 = CLIENTS.releases[: CLIENTS.releases.index("2.4")]
IDEMPOTENT = {"enable.idempotence": "true"}
TRANSACTIONAL = {"transactional.id": "id"}
MANY = {"max.in.flight.requests.per.connection": "6"}
SHORT = {"delivery.timeout.ms": "1"}


def outcome(given: dict[str, Any], release: str) -> str | bool:
    """Whether the producer is idempotent, or why there is none."""
    try:
        found = resolve(given, release)["enable.idempotence"]
    except ConfigError as error:
        return str(error)
    assert isinstance(found, bool)
    return found


def test_a_system_s_releases_are_releases_of_settings_in_the_same_order() -> None:
    places = [CLIENTS.releases.index(release) for release in KAFKA.releases]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("release", "idempotent"),
    [("2.0", False), ("2.7", False), ("3.0.0", False), ("3.0.1", True), ("3.1.0", False),
     ("3.1.1", True), ("3.5", True), ("4.3", True)],
)  # fmt: skip
def test_who_is_idempotent_without_asking(release: str, idempotent: bool) -> None:
    assert outcome({}, release) is idempotent
    assert outcome(IDEMPOTENT, release) is True
    assert outcome(TRANSACTIONAL, release) is True
    assert outcome({"enable.idempotence": "false"}, release) is False
    assert outcome(TRANSACTIONAL | {"enable.idempotence": "false"}, release) == NO_TRANSACTIONS


@pytest.mark.parametrize(
    ("breach", "text"),
    [({"retries": "0"}, NO_RETRIES), ({"acks": "1"}, NOT_ALL), (MANY, IN_FLIGHT)],
)
def test_what_idempotence_forbids(breach: dict[str, str], text: str) -> None:
    for release in CLIENTS.releases:
        strict = text == IN_FLIGHT and release[0] in "4t"  # from 4.0 on, and the trunk
        told = (
            "To use the idempotent producer, max.in.flight.requests.per.connection must be set to "
            "at most 5. Current value is 6."
            if strict
            else text
        )
        assert outcome(IDEMPOTENT | breach, release) == told, release
        assert outcome(breach, release) == (told if strict else False), release
        since = outcome({}, release) is True  # the transactional id is looked at last
        expected = told if strict or not since else NO_TRANSACTIONS
        assert outcome(TRANSACTIONAL | breach, release) == expected, release


@pytest.mark.parametrize(
    ("release", "first"),
    [
        ("2.0", [NO_RETRIES, IN_FLIGHT, NOT_ALL]),
        ("2.1", [DELIVERY, IN_FLIGHT, NO_RETRIES, NOT_ALL]),
        ("2.5", [NO_RETRIES, NOT_ALL, DELIVERY, IN_FLIGHT]),
        ("3.6", [NO_RETRIES, NOT_ALL, IN_FLIGHT, DELIVERY]),
    ],
)
def test_of_several_errors_the_client_finds_this_one_first(release: str, first: list[str]) -> None:
    left = {NO_RETRIES: {"retries": "0"}, NOT_ALL: {"acks": "0"}, IN_FLIGHT: MANY, DELIVERY: SHORT}
    for text in first:
        together = IDEMPOTENT | {name: v for breach in left.values() for name, v in breach.items()}
        assert outcome(together, release) == text
        del left[text]


def test_delivery_timeout() -> None:
    assert "delivery.timeout.ms" not in resolve({}, "2.0")
    assert resolve({"request.timeout.ms": "200000"}, "2.1")["delivery.timeout.ms"] == 200_000
    assert resolve({"request.timeout.ms": "200000"}, "4.0.0")["delivery.timeout.ms"] == 200_005
    endless = resolve({"linger.ms": str(2**40)})
    assert (endless["linger.ms"], endless["delivery.timeout.ms"]) == (2**40, 2**31 - 1)
    with pytest.raises(ConfigError, match=re.escape(DELIVERY)):
        resolve(SHORT, "2.1")


def test_two_phase_commit() -> None:
    both = {"transaction.two.phase.commit.enable": "true", "transaction.timeout.ms": "60000"}
    with pytest.raises(ConfigError, match=r"Cannot set transaction\.timeout\.ms when"):
        resolve(both)
    assert "transaction.two.phase.commit.enable" not in resolve(both, "4.0.1")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"retries": "x"}, "Invalid value x for configuration retries: Not a number of type INT"),
        ({"retries": "1_000"}, "Not a number of type INT"),
        ({"retries": 2**31}, "Not a number of type INT"),
        ({"retries": True}, "Not a number of type INT"),
        ({"retries": -1}, "Value must be at least 0"),
        ({"retries": None}, "Invalid value null for configuration retries: Value must be non-null"),
        ({"acks": "2"}, "String must be one of: all, -1, 0, 1"),
        ({"acks": 1}, "Expected value to be a string"),
        ({"enable.idempotence": "yes"}, "Expected value to be either true or false"),
        ({"transactional.id": ""}, "String must be non-empty"),
        ({"max.in.flight.requests.per.connection": "0"}, "Value must be at least 1"),
    ],
)
def test_a_value_of_the_wrong_type_or_range(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        resolve(given)


def test_values_are_read_as_kafka_reads_them() -> None:
    found = resolve({"retries": " +7 ", "acks": " all ", "enable.idempotence": "TRUE", "x": "y"})
    assert (found["retries"], found["acks"], found["enable.idempotence"]) == (7, -1, True)
    assert "x" not in found


def test_a_transactional_id_that_is_given_as_null_counts() -> None:
    assert outcome({"transactional.id": None, "retries": 0}, "4.3") == NO_TRANSACTIONS


def test_an_unknown_release() -> None:
    with pytest.raises(DeclarationError, match=r"unknown protocol 9\.9"):
        resolve({}, "9.9")


def test_brokers() -> None:
    assert (
        resolve_broker({}, "2.0")["transaction.abort.timed.out.transaction.cleanup.interval.ms"]
        == 60_000
    )
    newest = resolve_broker(
        {},
    )
    assert newest["transaction.abort.timed.out.transaction.cleanup.interval.ms"] == 10_000
    assert newest["transaction.max.timeout.ms"] == 900_000


settings = st.fixed_dictionaries(
    {},
    optional={
        "retries": st.integers(0, 2),
        "acks": st.sampled_from(["all", "-1", "0", "1"]),
        "max.in.flight.requests.per.connection": st.integers(4, 6),
        "enable.idempotence": st.booleans(),
        "transactional.id": st.sampled_from(["id"]),
        "linger.ms": st.integers(0, 2**40),
        "request.timeout.ms": st.integers(0, 2**31 - 1),
        "delivery.timeout.ms": st.integers(0, 2**31 - 1),
    },
)


@given(settings, st.sampled_from(CLIENTS.releases))
def test_what_is_accepted_keeps_the_rules_and_what_was_given(
    given: dict[str, Any], release: str
) -> None:
    try:
        found = resolve(given, release)
    except ConfigError:
        return
    if found["enable.idempotence"]:
        assert (found["acks"], found["retries"] != 0) == (-1, True)
        assert int(found["max.in.flight.requests.per.connection"] or 0) <= 5
    assert found["enable.idempotence"] or "transactional.id" not in given
    if "delivery.timeout.ms" in found:
        least = min(int(found["linger.ms"] or 0), 2**31 - 1) + int(found["request.timeout.ms"] or 0)
        assert int(found["delivery.timeout.ms"] or 0) >= min(least, 2**31 - 1)
    for name, value in given.items():
        if name in found and name not in ("acks", "enable.idempotence"):
            assert found[name] == value


def test_each_setting_is_there_once_in_each_release() -> None:
    for release in CLIENTS.releases:
        features = CLIENTS.features_at(release)
        names = [s.name for s in SETTINGS if CLIENTS.holds(s.during, features)]
        assert len(names) == len(set(names)), release


GRID = [
    dict(pair for pairs in chosen for pair in pairs)
    for chosen in product(
        [(), [("retries", "0")], [("retries", "3")]],
        [(), [("acks", "1")]],
        [(), MANY.items()],
        [(), [("enable.idempotence", "true")], [("enable.idempotence", "false")]],
        [(), TRANSACTIONAL.items()],
        [(), SHORT.items()],
        [(), [("request.timeout.ms", "200000")]],
        [(), [("transaction.two.phase.commit.enable", "true"), ("transaction.timeout.ms", "1")]],
    )
]


@pytest.mark.slow(1)
@pytest.mark.sample(3, of="mutants: rules of settings")
@pytest.mark.parametrize(("step", "row"), rules(STEPS))
def test_a_rule_that_is_gone_is_missed(
    step: int, row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_missed("STEPS", step, row, CLIENTS, resolve, GRID, monkeypatch)


@pytest.mark.parametrize(
    ("given", "until_2_3", "since_2_4"),
    [
        ({}, "producer-3", "producer-3"),
        ({"client.id": ""}, "producer-3", ""),
        ({"client.id": "orders"}, "orders", "orders"),
        ({"transactional.id": "t"}, "producer-3", "producer-t"),
        ({"transactional.id": "t", "client.id": ""}, "producer-3", ""),
    ],
)
def test_what_a_client_is_called(given: dict[str, str], until_2_3: str, since_2_4: str) -> None:
    """ProducerConfig.maybeOverrideClientId"""
    for release in CLIENTS.releases:
        told = until_2_3 if release in UNTIL_2_3 else since_2_4
        assert resolve(given, release, number=3)["client.id"] == told, release
