"""An error is explained only where a broker of the release may answer so."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import pytest

from epochfence.model.judge.histories import operation_of
from epochfence.model.judge.judge import Finding, begin, decided, judge
from epochfence.model.judge.machines.canonical import machine_for
from epochfence.model.judge.machines.unjudged_answers import from_around
from epochfence.model.judge.operations import Operation, Settings
from epochfence.model.judge.search import Budget, Search
from epochfence.spec.broker_errors import BROKER_ERRORS
from epochfence.spec.errors import Errors
from epochfence.tests.model.judge.honest import PARTITIONS, Recorded

ERRORS = [name for name, code in Errors.members if code >= -1 and name != "NONE"]
RELEASES = ("0.11.0.0", "2.5", "3.6", "4.3")


@cache
def honest(release: str) -> dict[str, list[Operation]]:
    """An honest history, by requests: the operations of a key up to the last one of this kind."""
    cluster = Recorded(release)
    cluster.init("a")
    cluster.init("a")
    for result in ("COMMIT", "ABORT"):
        cluster.add("a", PARTITIONS[0])
        cluster.send("a", PARTITIONS[0])
        cluster.send("a", PARTITIONS[0])
        cluster.end("a", result)
        cluster.deliver_markers()
    keys: dict[str, list[Operation]] = {}
    found: dict[str, list[Operation]] = {}
    for number, line in enumerate(cluster.lines, 1):
        key, operation = operation_of("honest", number, dict(line))
        keys.setdefault(key, []).append(operation)
        found[operation.request] = [*keys[key]]
    return found


def explained(request: str, release: str, error: str) -> bool:
    """Whether an honest history passes with this error in its last answer."""
    *before, last = honest(release)[request]
    changed = last._replace(response={"error": error})
    whole = [*before, changed]
    carried = begin(whole, Settings(protocol=release))
    asked = dict(enumerate(decided(operation, carried) for operation in whole))
    return Search(asked, carried.ways, Budget(20_000)).finds()


def errors(request: str, release: str) -> frozenset[str]:
    """The errors that a broker of the release is declared to answer a request with."""
    machine = machine_for(honest(release)[request], Settings(protocol=release))
    return machine.errors(request)


@pytest.mark.slow(1)
@pytest.mark.parametrize("release", RELEASES)
def test_of_all_errors_those_pass_that_are_declared(release: str) -> None:
    for request in honest(release):
        passes = {error for error in ERRORS if explained(request, release, error)}
        around = from_around(request, release)
        assert around <= passes <= errors(request, release), request


def test_an_error_that_no_broker_gives_is_said_to_be_one() -> None:
    *before, last = honest("3.6")["Produce"]
    changed = last._replace(response={"error": "VOTER_NOT_FOUND"})
    found = judge([*before, changed], Settings(protocol="3.6"))
    assert found.finding is Finding.UNEXPLAINED
    assert found.against == "No broker of this release answers Produce with VOTER_NOT_FOUND."


def test_an_error_of_a_later_release_is_none_of_this_one() -> None:
    def of(error: str, releases: Iterable[str]) -> list[bool]:
        return [error in errors("Produce", release) for release in releases]

    assert of("TRANSACTION_ABORTABLE", ("2.5", "3.7", "3.8", "4.3")) == [False, False, True, True]
    assert of("UNKNOWN_TOPIC_ID", ("3.6", "4.0.1", "4.1")) == [False, False, True]
    assert of("CLUSTER_AUTHORIZATION_FAILED", ("2.7", "2.8")) == [True, False]
    assert of("UNSUPPORTED_FOR_MESSAGE_FORMAT", ("3.9", "4.0.0")) == [True, False]
    assert of("NETWORK_EXCEPTION", ("3.5", "3.6", "3.7")) == [False, True, False]


# Errors.java of these releases
LAST_CODES = {"0.11.0.2": 55, "1.1": 71, "2.5": 88, "3.9": 127, "4.0.1": 129, "4.3": 133}


@pytest.mark.parametrize("release", LAST_CODES)
def test_a_broker_answers_with_codes_of_its_release(release: str) -> None:
    codes = dict(Errors.members)
    for request in BROKER_ERRORS:
        for error in from_around(request, release):
            assert codes[error] <= LAST_CODES[release], (request, error)
