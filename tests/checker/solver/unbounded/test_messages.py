"""How many messages in flight are enough: found for what is proved, and refused where it counts."""

from __future__ import annotations

import pytest

from epochfence.checker.solver.proofs.page import CASES
from epochfence.checker.solver.unbounded.messages import enough_in_flight, with_capacity
from epochfence.checker.solver.unbounded.numbers import lifted
from epochfence.language import (
    Channel,
    Expression,
    Int,
    Machine,
    Row,
    System,
    Table,
    all_of,
    any_of,
    constant,
    count_of,
    event,
    in_flight,
    invariant,
    message,
)
from epochfence.spec.client.batches.epochs import DelayedProduce
from epochfence.spec.systems.idempotence import system as idempotence

FAULTS = constant("faults", 2, 0, 3)
server = Machine("server")
seen = server.field("seen", Int(0, 3))
Ask = message("Ask", server, number=Int(0, 3))
send = event("send")
m, n = in_flight("m", Ask), in_flight("n", Ask)


def asking(expression: Expression) -> System:
    """Questions to a server, of which at most as many are in flight as there are faults."""
    client = Machine("client")
    counted = client.field("counted", Int(0, 3))
    tables = (
        Table(client, send, (Row("ask", when=counted < 3, set={counted: counted + 1},
                                 send=(Ask(number=counted),)),)),
        Table(server, Ask, (Row("see", set={seen: Ask.number}),)),
    )  # fmt: skip
    return System(
        "asking",
        tables,
        (invariant("Said", expression, "It is so."),),
        constants=(FAULTS,),
        channels=(Channel(Ask, FAULTS),),
        terminal=True,
    )


@pytest.mark.parametrize(
    ("expression", "enough"),
    [
        (seen <= 3, 1),
        (all_of(m, m.number >= 0), 2),
        (all_of(m, m.number >= 0) & all_of(n, n.number <= 3), 2),
        (all_of(m, m.number > 3) | all_of(n, n.number <= 3), 3),
        (all_of(m, all_of(n, (m.number == n.number) | (seen <= 3))), 3),
        (~any_of(m, m.number > 3), 2),
        (any_of(m, m.number == seen), None),
        (~all_of(m, m.number == seen), None),
        (count_of(m, m.number == seen) <= 1, None),
        ((seen == 0) | (count_of(m, m.number == seen) <= 1), None),
    ],
    ids=str,
)
def test_what_says_something_of_every_message_needs_few(
    expression: Expression, enough: int | None
) -> None:
    assert enough_in_flight(asking(expression), Ask, ["Said"]) == enough


def test_room_for_messages_is_a_number() -> None:
    """Where the faults are how many messages may be late, they can't be left open."""
    system = asking(all_of(m, m.number >= 0))
    assert not lifted(system).open
    changed = with_capacity(system, Ask, 2).channels
    assert [(item.message, item.capacity) for item in changed] == [(Ask, 2)]


def test_three_late_requests_are_enough_for_an_idempotent_client() -> None:
    names = [item.name for item in (*idempotence.properties, *idempotence.lemmas)]
    (case,) = (case for case in CASES if case.in_flight is not None)
    assert case.in_flight == (DelayedProduce, 3)
    assert enough_in_flight(idempotence, DelayedProduce, names) == 3
    assert enough_in_flight(idempotence, DelayedProduce, ["OneMessage"]) == 1
    system = with_capacity(idempotence, DelayedProduce, 3)
    left_open = lifted(system, switch_on=case.switch_on).open
    assert {constant.name for constant in left_open} == {"largest_epoch", "faults"}
