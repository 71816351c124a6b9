"""`transactions+librdkafka`: is it enough that an EndTxn with an unknown outcome is fatal?"""

from __future__ import annotations

import pytest

from epochfence.checker.check import check
from epochfence.checker.named_systems import load_system
from epochfence.checker.verdict.result import Result
from epochfence.language import instantiate
from epochfence.language.instances.instance import ending_anywhere
from epochfence.spec.bugs.bug import transactions

RULE, IN_ORDER = "unknown_end_fatal", "markers_in_order"


def run(name: str, *on: str, **kinds: int) -> Result:
    """The verdict about a property of a client of version 1 at brokers of 4.4."""
    constants = transactions(transactions=2, faults=1, **(kinds or {"delays": 1}))
    return check(
        ending_anywhere(
            instantiate(
                load_system("transactions+librdkafka"), "4.4", constants, switch_on=on,
                switch_off=("transaction_version_2",), properties=[name],
            )
        )
    )  # fmt: skip


def rows(result: Result) -> list[str]:
    """The counterexample as events and rows; empty where the property holds."""
    steps = () if result.trace is None else result.trace.steps
    return [f"{step.action.partition('(')[0]}/{step.row}" for step in steps]


@pytest.mark.parametrize(
    ("on", "length", "late"),
    [
        ((IN_ORDER,), 33, "request overtaken/end-again"),
        ((RULE, IN_ORDER), 0, ""),
        ((RULE,), 29, "marker overtaken/send-again"),
    ],
)
def test_it_is_enough_but_for_a_late_marker(on: tuple[str, ...], length: int, late: str) -> None:
    found = rows(run("OutcomeAsReported", *on))
    assert len(found) == length
    assert not late or late in found


@pytest.mark.parametrize(
    ("kinds", "event"),
    [({"delays": 1}, "request overtaken"), ({"losses": 1}, "lost EndTxn")],
)
def test_its_price_is_a_client_that_nobody_has_fenced(kinds: dict[str, int], event: str) -> None:
    assert rows(run("NotFencedByItself", RULE, **kinds))[-1] == f"{event}/unknown-end-fatal"
    assert not rows(run("NotFencedByItself", **kinds))
