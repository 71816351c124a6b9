"""Tables looked at by themselves."""

from __future__ import annotations

import pytest

from epochfence.checker.solver.lint import Finding, lint
from epochfence.checker.verdict.vacuity import SETTINGS
from epochfence.language import (
    Bag,
    Bool,
    Channel,
    Int,
    Machine,
    Protocols,
    Row,
    System,
    Table,
    Unreached,
    enum,
    event,
    feature,
    make,
    message,
    put,
    record,
)
from epochfence.language.expressions import Operand
from epochfence.spec.systems import shipped

Error = enum("Error", NONE=0, REFUSED=1, LATER=2)
later = feature("later", "2", sentence="There is a further error.")
server, client = Machine("server"), Machine("client")
count = server.field("count", Int(0, 3))
heard = client.field("heard", Int(0, 1))
Ask = message("Ask", server, number=Int(0, 3))
Answer = message(
    "Answer", client, answers=Ask, error=Error, errors={Error.NONE: True, Error.LATER: later}
)
tick = event("tick")
OTHERS = (
    Table(client, Answer, rows=(Row("hear", set={heard: 1}),)),
    Table(client, tick, rows=(Row("ask", send=(Ask(number=1),)),)),
)


def findings_of(
    rows: tuple[Row, ...], protocol: str = "2", unreached: tuple[Unreached, ...] = ()
) -> list[Finding]:
    """What lint finds in a table of these rows."""
    asked = Table(server, Ask, response=Answer, rows=rows)
    system = System(
        "asked", (asked, *OTHERS), (), protocols=Protocols(("1", "2"), (later,)),
        channels=(Channel(Ask), Channel(Answer)), terminal=True, unreached=unreached,
    )  # fmt: skip
    return lint(system, protocol, [asked])


def found(*rows: Row, protocol: str = "2") -> list[tuple[str, tuple[str, ...]]]:
    """What lint says of these rows."""
    return [(item.kind, item.rows) for item in findings_of(rows, protocol)]


def test_an_example_is_written_as_in_traces() -> None:
    """It named the parts in which engines store it, as `server.all<0>?=True`."""
    box = Machine("box")
    item = record("Item", a=Int(0, 1), b=Bool())
    kept = box.field("kept", Bag(item, 2))
    row = Row("put", set={kept: put(kept, make(item, a=1, b=True))})
    system = System("boxes", (Table(box, event("put"), (row,)),), (), terminal=True)
    (finding,) = lint(system, None, system.tables)
    assert finding.kind == "range"
    assert finding.example.startswith("box.kept=[(a=")
    assert "?" not in finding.example


LOW, HIGH = Ask.number < 2, Ask.number >= 2
ALWAYS = Ask.number <= 3


def test_a_table_that_answers_everything_once() -> None:
    low = Row("low", when=LOW, reply=Error.NONE)
    assert found(low, Row("high", when=HIGH, reply=Error.NONE)) == []
    assert found(low, Row("the rest", reply=Error.NONE)) == []


def test_a_hole() -> None:
    assert found(Row("low", when=LOW, reply=Error.NONE)) == [("unanswered", ())]


def test_a_row_behind_others() -> None:
    rows = (
        Row("low", when=LOW, reply=Error.NONE),
        Row("lower", when=2 * Ask.number < 1, reply=Error.NONE),
        Row("the rest", reply=Error.NONE),
    )
    assert found(*rows) == [("unreachable", ("lower",)), ("overlap", ("low", "lower"))]


def test_a_hidden_row_that_is_declared_to_be_unreached() -> None:
    """Its own name has to be declared, and for these settings."""
    low = Row("all", when=ALWAYS, reply=Error.NONE)
    rows = (low, Row("the rest", reply=Error.NONE))

    def told(name: str, when: Operand = True) -> list[tuple[str, bool, str]]:
        found = findings_of(rows, unreached=(Unreached("at real ranges", (name,), when),))
        return [(item.kind, item.is_error, item.explained) for item in found]

    assert told("server.Ask/the rest") == [("unreachable", False, "at real ranges")]
    assert told("server.Ask/the rest", ~later) == [("unreachable", True, "")]
    assert told("server.Ask") == [("unreachable", True, "")]


def test_a_row_that_the_settings_rule_out_is_explained() -> None:
    """Not so one whose guard can't hold whatever they are."""

    def told(when: Operand) -> list[tuple[bool, str]]:
        rows = (Row("never", when=when, reply=Error.NONE), Row("all", reply=Error.NONE))
        return [(item.is_error, item.explained) for item in findings_of(rows)]

    assert told(~later & LOW) == [(False, SETTINGS)]
    assert told(LOW & HIGH) == [(True, "")]


def test_rows_that_overlap() -> None:
    rows = (
        Row("low", when=LOW, reply=Error.NONE),
        Row("not 0", when=Ask.number != 0, reply=Error.NONE),
    )
    assert found(*rows) == [("overlap", ("low", "not 0"))]


def test_an_update_out_of_range() -> None:
    assert found(Row("count", set={count: count + 1})) == [("range", ("count",))]
    assert found(Row("count", when=count < 3, set={count: count + 1}), Row("full")) == []


def test_an_error_that_the_response_does_not_have() -> None:
    assert found(Row("refuse", reply=Error.REFUSED)) == [("error", ("refuse",))]
    assert found(Row("later", reply=Error.LATER)) == []
    assert found(Row("later", reply=Error.LATER), protocol="1") == [("error", ("later",))]


@pytest.mark.parametrize(("name", "release"), [("producer-ids", "2.5"), ("producer-ids", "4.3")])
def test_small_shipped_systems_have_no_faults(name: str, release: str) -> None:
    system = shipped(name)
    kinds = {item.kind for item in lint(system, release, system.tables)}
    assert kinds <= {"overlap", "range"}


# Rows for what clients meet at real ranges alone: errors, batches of many records, and brokers of
# another release.
HIDDEN = {
    "producer.AddPartitionsToTxnResponse/unauthorized-topic",
    "producer.AddPartitionsToTxnResponse/unknown-id-fatal",
    "producer.EndTxnResponse/unknown-id-fatal",
    "producer.ProduceResponse/too-large",
    "producer.resolve sequences/order-lost-fatal",
}
HIDDEN_IN = {
    "2.5": {
        "producer.InitProducerIdResponse/unauthorized",
        "producer.AddPartitionsToTxnResponse/abortable",  # an error of 3.8 and above
    },
    "4.3": {
        "transaction.continue the fence/largest-epoch",  # it takes a producer id
    },
}


@pytest.mark.slow(10)
@pytest.mark.long
@pytest.mark.parametrize("release", ["2.5", "4.3"])
def test_of_transactions_what_is_unanswered_is_known(release: str) -> None:
    system = shipped("transactions")
    # else rows for what can't happen are hidden, or unreached for another reason
    whole = {"early_ends": 1, "records": 2, "faults": 2}
    findings = lint(system, release, system.tables, whole)
    assert not any(item.is_error for item in findings)
    hidden = {f"{x.table}/{x.rows[0]}" for x in findings if x.kind == "unreachable"}
    assert hidden == HIDDEN | HIDDEN_IN.get(release, set())
    unanswered = {item.table: item for item in findings if item.kind == "unanswered"}
    # none of them waits for an answer: they don't happen in such a state
    assert set(unanswered) == {
        "transaction.coordinator failover after a failed append",
        "producer.request overtaken",
    }
    assert all(
        isinstance(item, Finding) and item.example
        for item in findings
        if item.kind not in ("error", "unreachable")
    )
