"""What the coordinator answers to a request in a given state, or what it prepares, by release.

`coordinator_requests.json` has the cases, in groups with one source in Kafka each: states, entry,
requests, outcome.

* `ONGOING > DEAD` is a state with what is pending. "settled" are the states between transactions,
  "any" all; "anything" is all that can be pending, "a record" that without the fence, which has no
  record of its own.
* `1/5 after 4` is producer id 1 at epoch 5 after epoch 4. A client may hold epoch 8; 9 is the
  largest one, kept for the coordinator. A transaction that is open or ends has partition 0.
* A request names producer id and epoch; `new` is a producer that has none. What is added or
  verified is asked for by the client with version 1 of transactions, by a leader with version 2.
* An outcome is the answer, or the record prepared. It holds in all releases, or from each of those
  named on. "fenced" is PRODUCER_FENCED, and INVALID_PRODUCER_EPOCH before KIP-588 (2.7).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from epochfence.spec.features import RELEASED as RELEASES
from epochfence.tests.cases import Outcome, in_release, since
from epochfence.tests.spec.coordinators import VERSION_1, Coordinator

SETTLED = ("EMPTY", "COMPLETE_COMMIT", "COMPLETE_ABORT")
STATES = ("ONGOING", "PREPARE_COMMIT", "PREPARE_ABORT", *SETTLED)
RECORDS = (*STATES, "DEAD")
SETS: dict[str, tuple[str | None, ...]] = {
    "settled": SETTLED,
    "any": STATES,
    "a record": RECORDS,
    "anything": (*RECORDS, "PREPARE_EPOCH_FENCE"),
    "anything or nothing": (None, *RECORDS, "PREPARE_EPOCH_FENCE"),
}
ENTRY = re.compile(r"(?P<id>\d)/(?P<epoch>-?\d) after (?P<last>-?\d)(, (?P<more>.*))?")
MORE: dict[str, dict[str, Any]] = {
    "": {},
    "before 0": {"previous_id": 0},
    "failed fence": {"failed_fence": True},
    "no id left": {"offered_id": None},
    "partition 0": {"partitions": frozenset({0})},
}
WITH_VERSION_2 = since("4.0.0")

BEFORE_KIP_588, INVALID = ("2.0", "2.5"), "INVALID_PRODUCER_EPOCH"

Case = tuple[str, str, str, Outcome]
GROUPS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("coordinator_requests.json").read_text(encoding="utf-8")
)
CASES: list[Any] = [
    pytest.param(group, case, id=f"{group['request']}: {', '.join(case[:3])}")
    for group in GROUPS
    for case in group["cases"]
]


def releases(group: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """The releases of a group, each with the versions of transactions that it has there."""
    first = RELEASES.index(group.get("since", RELEASES[0]))
    last = RELEASES.index(group.get("until", RELEASES[-1]))
    for release in RELEASES[first : last + 1]:
        for version in (1, 2) if release in WITH_VERSION_2 else (1,):
            if version == group.get("version", version):
                yield release, version


def coordinator(release: str, version: int, state: str, pending: str | None, text: str) -> Any:
    """One whose entry is in this state, with this in it."""
    entry = ENTRY.fullmatch(text)
    assert entry is not None, text
    epoch, producer_id = int(entry["epoch"]), int(entry["id"])
    partitions = frozenset[int]() if state in SETTLED else frozenset({0})
    given: dict[str, Any] = {
        "state": state, "pending": pending, "producer_id": producer_id,
        "offered_id": producer_id + 1, "producer_epoch": epoch,
        "last_producer_epoch": int(entry["last"]), "partitions": partitions,
        "logged_epoch": epoch, "logged_partitions": partitions,
    }  # fmt: skip
    off = VERSION_1 if version == 1 and release in WITH_VERSION_2 else ()
    return Coordinator(release, *off, **given | MORE[entry["more"] or ""])


def asked(one: Coordinator, request: str, text: str, *, by_a_leader: bool) -> str:
    """The answer to a request, or what is prepared."""
    if text == "new":
        return one.init()
    numbers = [int(number) for number in re.findall(r"-?\d+", text)]
    match request:
        case "InitProducerId":
            return one.init((numbers[0], numbers[1]))
        case "EndTxn":
            return one.end(text.partition(" ")[0], *numbers)
        case _:
            return one.add_by_leader(*numbers) if by_a_leader else one.add(*numbers)


@pytest.mark.parametrize(("group", "case"), CASES)
def test_what_is_answered(group: dict[str, Any], case: Case) -> None:
    where, entry, requests, told = case
    states, _, pending = where.partition(" > ")
    by_a_leader = group["request"] == "verification"
    for release, version in releases(group):
        outcome = in_release(told, release)
        if outcome == "fenced":
            outcome = "PRODUCER_FENCED" if release not in BEFORE_KIP_588 else INVALID
        for state, under_way, request in product(
            SETS.get(states, states.split()),
            SETS.get(pending, pending.split()) or (None,),
            requests.split(" | "),
        ):
            one = coordinator(release, version, str(state), under_way, entry)
            found = asked(one, group["request"], request, by_a_leader=by_a_leader or version == 2)
            wrong = outcome.removeprefix("not ")
            assert (found == wrong) == (wrong == outcome), (release, state, request, found)


def test_a_producer_id_is_taken_before_an_end_at_the_largest_epoch_is_refused() -> None:
    for release in WITH_VERSION_2:
        one = coordinator(release, 2, "ONGOING", None, "1/9 after 4")
        assert one.end("COMMIT", 1, 9) == "UNKNOWN_SERVER_ERROR"
        assert one["offered_id"] == 3
