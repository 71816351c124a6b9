"""A small system to draw: an order, its customers, and releases that differ."""

from epochfence.language import (
    Bool,
    Channel,
    Expression,
    Key,
    Machine,
    Optional,
    Protocols,
    Row,
    System,
    Table,
    constant,
    enum,
    event,
    feature,
    if_,
    invariant,
    message,
)

CUSTOMERS = constant("CUSTOMERS", 2, 1, 4, meaning="customers")
CUSTOMER = Key("customer", CUSTOMERS)
OrderState = enum("OrderState", Draft=0, Placed=1, Paid=2, Shipped=3, Refunded=5, Held=6, Lost=9)
Error = enum("Error", NONE=0, NOT_PLACED=4, PAID_ALREADY=7)
Draft, Placed, Paid = OrderState.Draft, OrderState.Placed, OrderState.Paid
Shipped, Refunded, Held = OrderState.Shipped, OrderState.Refunded, OrderState.Held

refunds = feature("refunds", "2", sentence="What was paid can be paid back.")
express = feature("express", "1", until="3", sentence="An order can be shipped once it is paid.")
PROTOCOLS = Protocols(("1", "2", "3"), (refunds, express))

order = Machine("order", doc="An order, kept by the shop.")
state = order.state_field("state", OrderState, Draft)
pending = order.field("pending", Optional(OrderState), doc="What is being written down.")
customer = Machine("customer", CUSTOMER, doc="Somebody who orders.")
has_paid = customer.field("has_paid", Bool())

Place = message("Place", order, customer=CUSTOMER, later=Bool())
Pay = message("Pay", order, customer=CUSTOMER, fast=Bool())
PayResponse = message("PayResponse", customer, answers=Pay, error=Error)

begin, pay_back = event("begin"), event("pay back", event_doc="The shop's own choice.")
written = event("written")

customer_begins = Table(
    customer,
    begin,
    (
        Row(
            "ask",
            when=~has_paid,
            send=(
                Place(customer=Expression("const", (), 0), later=False),
                Pay(customer=Expression("const", (), 0), fast=True),
            ),
        ),
    ),
)
place = Table(
    order,
    Place,
    (
        Row("in flight already", when=pending.is_set),
        Row("hold", when=(state == Draft) & Place.later, set={pending: Held}),
        Row("place", when=state == Draft, set={pending: Placed}, source="The shop"),
        Row("too late"),
    ),
)
write = Table(
    order,
    written,
    (
        Row("release", when=pending == Held, set={pending: Placed}),
        Row("in force", when=pending.is_set, goto=Placed, set={pending: None}),
    ),
)
pay = Table(
    order,
    Pay,
    (
        Row("not placed", when=(state == Draft) | pending.is_set, reply=Error.NOT_PLACED),
        Row("paid already", when=state != Placed, reply=Error.PAID_ALREADY),
        Row(
            "pay", goto=if_(Pay.fast & express, Shipped, Paid), reply=Error.NONE, source="The till"
        ),
    ),
    response=PayResponse,
)
back = Table(
    order,
    pay_back,
    (
        Row("ship", when=(state == Paid) & ~pending.is_set, during=~refunds, goto=Shipped),
        Row("refund", when=(state == Paid) & ~pending.is_set, goto=Refunded),
    ),
)
paid = Table(customer, PayResponse, (Row("paid", set={has_paid: PayResponse.error == Error.NONE}),))

system = System(
    name="orders",
    doc="An order and its customers.",
    tables=(customer_begins, place, write, pay, back, paid),
    properties=(invariant("never_lost", state != OrderState.Lost, "No order gets lost."),),
    constants=(CUSTOMERS,),
    protocols=PROTOCOLS,
    channels=(Channel(Place), Channel(Pay, lossy=True, duplicates=1), Channel(PayResponse)),
    budgets={pay_back: 1},
    terminal=True,
)
