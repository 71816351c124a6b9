"""Clients that take numbers from a store, each a higher one."""

from __future__ import annotations

from epochfence.language import (
    Expression,
    Int,
    Key,
    Machine,
    Property,
    Row,
    System,
    Table,
    all_of,
    constant,
    event,
    invariant,
)

CLIENTS, LIMIT = constant("clients", 3, 1, 5), constant("limit", 3, 1, 9)
CLIENT = Key("client", CLIENTS)
store, client = Machine("store"), Machine("client", CLIENT)
newest = store.field("newest", Int(0, LIMIT))
held = client.field("held", Int(0, LIMIT))
a, b = CLIENT.variable("a"), CLIENT.variable("b")
take = event("take")
APART = invariant(
    "Apart",
    all_of(a, all_of(b, (a != b).implies((held.at(a) != held.at(b)) | (held.at(a) == 0)))),
    "No two hold the same number.",
)
BELOW = invariant("Below", all_of(a, held.at(a) <= newest), "What is held was given out.")


def tickets(when: Expression | bool, *properties: Property, more: tuple[Table, ...] = ()) -> System:
    """The system, in which a client takes a number if `when` holds, with `more` tables."""
    row = Row("take", when=when, set={newest: newest + 1, held: newest + 1})
    return System(
        "tickets",
        (Table(client, take, (row,), others=(store,)), *more),
        properties or (APART, BELOW),
        constants=(CLIENTS, LIMIT),
        terminal=True,
        interchangeable=(CLIENT,),
    )
