"""An application's view: what is planted into a sound one is found."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from epochfence.model.judge.application.anomalies import find_anomalies

few = settings(max_examples=10, deadline=None)
seeds = st.integers(0, 2**32).map(Random)


Lines = list[dict[str, Any]]


def sound_application(random: Random) -> tuple[Lines, Lines]:
    """The answers to one producer in some transactions, and what was then read."""
    told, reads = Lines(), Lines()
    for txn in range(6):
        outcome = ("committed", "committed", "aborted", "unknown")[txn % 4]
        committed = outcome == "committed" or (outcome == "unknown" and random.random() < 0.5)
        for at in range(4):
            where = {"partition": f"orders-{at % 2}", "record": f"{txn}.{at}"}
            send = {"event": "send", "producer": "p", "transaction": f"t{txn}", **where}
            told.append(send | {"outcome": "acknowledged"})
            if committed:
                read = {"event": "read", "consumer": "c", "offset": len(reads), **where}
                reads.append(read)
        told.append({"event": "end", "transaction": f"t{txn}", "outcome": outcome})
    ends = [{"event": "caught_up", "consumer": "c", "partition": f"orders-{n}"} for n in (0, 1)]
    return told, reads + ends


def names(lines: Lines) -> set[str]:
    view = find_anomalies(("f", n, x) for n, x in enumerate(lines))
    return {anomaly.name for anomaly in view.anomalies}


@given(random=seeds)
@few
def test_an_application_sees_what_is_planted(random: Random) -> None:
    told, seen = sound_application(random)
    assert names(told + seen) == set()
    reads = [line for line in seen if line["event"] == "read"]
    one = random.choice(reads[:8])
    two = next(r for r in reads if r["partition"] == one["partition"] and r is not one)
    swapped = {id(one): one | {"offset": two["offset"]}, id(two): two | {"offset": one["offset"]}}
    aborted = {"partition": "orders-0", "record": "2.0", "offset": 99}
    planted = {
        "DUPLICATE": [*seen, one | {"offset": 99}],
        "LOSS": [line for line in seen if line is not one],
        "ORDER_BREAK": [swapped.get(id(line), line) for line in seen],
        "ABORTED_READ": [*seen, {"event": "read", "consumer": "c", **aborted}],
        "TORN_TRANSACTION": [line for line in seen if line is not one],
        "PHANTOM": [*seen, one | {"offset": 99, "record": "nobody's"}],
        "CONFLICT": [*seen, one | {"record": two["record"]}],
    }
    for name, lines in planted.items():
        assert name in names(told + lines), name
