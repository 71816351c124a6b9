"""Properties may look at what is in flight; rows may not."""

from __future__ import annotations

import pytest

from epochfence.language import (
    Channel,
    DeclarationError,
    Int,
    Key,
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
    instantiate,
    invariant,
    lift,
    message,
)
from epochfence.model.engine.interpreter import Interpreter

CLIENTS = constant("clients", 2, 1, 3)
CLIENT = Key("client", CLIENTS)
service, client = Machine("service"), Machine("client", CLIENT)
asked = client.field("asked", Int(0, 1))
heard = service.field("heard", Int(0, 1))
Ask = message("Ask", service, client=CLIENT, number=Int(0, 3))
ask = event("ask")
c = CLIENT.variable("c")
m = in_flight("m", Ask, c)

SENDS = Ask(client=client.this, number=2)
ASKS = Table(client, ask, (Row("ask", when=asked == 0, set={asked: 1}, send=(SENDS,)),))
HEARS = Table(service, Ask, (Row("hear", set={heard: 1}),))
OF_WHO_ASKED = invariant(
    "OfWhoAsked",
    all_of(c, all_of(m, (asked.at(c) == 1) & (m.number == 2)) & (count_of(m, lift(True)) <= 1)),
    "What is in flight is of a client that has asked.",
)
NOTHING = invariant("Nothing", ~any_of(c, any_of(m, lift(True))), "Nothing is in flight.")


def test_a_property_sees_the_messages_of_an_address() -> None:
    system = System(
        "asking",
        (ASKS, HEARS),
        (OF_WHO_ASKED, NOTHING),
        constants=(CLIENTS,),
        channels=(Channel(Ask),),
        terminal=True,
    )
    instance = instantiate(system)
    machine = Interpreter(instance)
    of_who_asked, nothing = (item.expression for item in instance.properties)
    (start,) = machine.initial_states()
    (first, _) = [step.state for step in machine.steps(start)]
    assert first is not None
    assert machine.holds(of_who_asked, start)
    assert machine.holds(nothing, start)
    assert machine.holds(of_who_asked, first)
    assert not machine.holds(nothing, first)


def test_it_is_refused_with_another_address_and_in_rows() -> None:
    with pytest.raises(DeclarationError, match=r"the address of Ask is \(client\)"):
        in_flight("m", Ask)
    with pytest.raises(DeclarationError, match="only properties can use in_flight"):
        Table(client, ask, (Row("ask", when=any_of(in_flight("m", Ask, client.this), lift(True))),))
