"""Reductions: a system leaves out parts of its machines, and a machine that runs alone as well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from epochfence.checker.check import check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import (
    Bool,
    Channel,
    DeclarationError,
    Int,
    Key,
    Machine,
    Map,
    Row,
    Sequence,
    System,
    Table,
    append,
    constant,
    enum,
    event,
    if_,
    instantiate,
    invariant,
    message,
    record,
    size,
)
from epochfence.language import replace as changed
from epochfence.language.changes import Change
from epochfence.language.expressions import Expression, folded, lift
from epochfence.language.instances.reductions import (
    Also,
    Before,
    Canonical,
    Chosen,
    Instead,
    LeftOut,
    Never,
    NotOffered,
    Reduced,
    Reduction,
    Settled,
    StandsFor,
)
from epochfence.model.engine.interpreter import FullState, Interpreter
from epochfence.model.machine import Machine as Driven

Status = enum("Status", "OPEN", "DONE", "LOST")
Batch = record("Batch", status=Status, tries=Int(0, 2))
PARTITION = Key("partition", 2)
p = PARTITION.variable("p")
caller = Machine("caller")
Reply = message("Reply", caller, offset=Int(0, 9))
log = Machine("log")
entries = log.field("entries", Sequence(Int(0, 1), 2))
end_offset = log.field("end_offset", Int(0, 9))
batches = log.field("batches", Map(PARTITION, Batch))
is_busy = log.field("is_busy", Bool())
write = event("write", record=Int(0, 1), partition=PARTITION, delta=Int(0, 3))
finish = event("finish", partition=PARTITION)
has_room = size(entries) < 2
wrote = Table(
    log,
    on=write,
    response=Reply,
    when=has_room,
    rows=(
        Row("large", when=write.delta > 1, set={end_offset: end_offset}),
        Row(
            "append",
            set={
                entries: append(entries, write.record),
                end_offset: end_offset + write.delta + 1,
                batches[write.partition]: changed(batches[write.partition], tries=1),
                is_busy: ~is_busy,
            },
            reply=Reply(offset=end_offset),
        ),
    ),
)
finished = Table(
    log,
    on=finish,
    rows=(
        Row(
            "done",
            set={batches[finish.partition]: changed(batches[finish.partition], status=Status.DONE)},
        ),
    ),
)
Color = enum("Color", "RED", "GREEN")
REASON: dict[str, Any] = {"because": "the test says so"}
REDUCTIONS: tuple[Reduction, ...] = (
    StandsFor(end_offset, size(entries), read_by=("Ends",), **REASON),
    StandsFor(write.delta, 0, **REASON),
    LeftOut(is_busy, **REASON),
    LeftOut(Reply, **REASON),
    Never("log.write/large", **REASON),
    NotOffered(log, finish, batches[finish.partition].status == Status.DONE, **REASON),
    Canonical(batches[p], Batch(status=Status.DONE), batches[p].status == Status.DONE, **REASON),
)
ENDS = invariant("Ends", end_offset <= 2, "The end is within the log.")


def system(*reductions: Reduction, **more: Any) -> System:
    parts: dict[str, Any] = {"properties": (ENDS,), "terminal": True} | more
    return System(name="logs", tables=(wrote, finished), reductions=reductions, **parts)


def test_a_system_leaves_out_its_reductions() -> None:
    small = system(*REDUCTIONS)
    instance = instantiate(small)
    assert [v.name for v in instance.variables] == ["log.entries", "log.batches"]
    append_table, finish_table = small.tables
    assert append_table.on.parameters == (("record", Int(0, 1)), ("partition", PARTITION))
    assert [row.id for row in append_table.rows] == ["append"]
    (row,) = append_table.rows
    assert [str(target) for target in row.set] == ["entries", "batches[write.partition]"]
    assert row.reply is None
    assert str(finish_table.guard) == "batches[finish.partition].status != DONE"
    assert str(small.properties[0].expression) == "size(entries) <= 2"
    result = check(instance)
    assert result.verdict is Verdict.HOLDS
    # Entries: 1, 2 or 4 forms. Two batches are done or not; nobody reads their tries.
    assert result.states == (1 + 2 + 4) * 4


def test_a_value_in_canonical_form_is_folded() -> None:
    small = system(*REDUCTIONS)
    (row,) = small.tables[1].rows
    (value,) = row.set.values()
    assert str(value) == "Batch(status=DONE)"


def test_a_reduced_system_may_be_changed() -> None:
    small = system(*REDUCTIONS)
    again = replace(small, name="again")
    assert again.tables == small.tables
    assert check(instantiate(again)).states == check(instantiate(small)).states


@pytest.mark.parametrize(
    ("withheld", "guard"),
    [
        (end_offset == write.record, "size(entries) != write.record"),
        (~(end_offset == write.record), "size(entries) == write.record"),
        (~((write.record == 0) & (write.delta == 0)), "write.record == 0"),
        ((write.record == 0) | (write.delta == 3), "write.record != 0"),
    ],
    ids=("a condition", "its negation", "a conjunct that folds", "a disjunct that folds"),
)
def test_an_event_is_withheld_once_in_any_form_of_its_condition(
    withheld: Expression, guard: str
) -> None:
    """A system's tables are reduced again whenever the system is copied or changed."""
    withholding = NotOffered(log, write, withheld, **REASON)
    end = StandsFor(end_offset, size(entries), read_by=("Ends",), **REASON)
    delta = StandsFor(write.delta, 0, **REASON)
    small = system(end, delta, withholding, LeftOut(Reply, **REASON))
    expected = small.tables[0].guard
    assert str(expected) == f"(size(entries) < 2) & ({guard})"
    idle = small + Change("idle").table("log.write").only_when(~is_busy)
    for again in (replace(small, name="again"), replace(idle, name="again")):
        assert small.tables[0].withheld == again.tables[0].withheld == {withholding}
    assert replace(small, name="again").tables[0].guard is expected
    assert idle.tables[0].guard is (expected & ~is_busy)


def test_rows_stand_in_the_place_of_another() -> None:
    reductions = (
        LeftOut(Reply, **REASON),
        Instead("log.write/large", (Row("huge", when=write.delta > 2),), **REASON),
    )
    small = system(*reductions, properties=())
    assert [row.id for row in small.tables[0].rows] == ["huge", "append"]
    assert [row.id for row in replace(small, name="again").tables[0].rows] == ["huge", "append"]
    with pytest.raises(DeclarationError, match=r"`log\.write/large` is reduced twice"):
        system(*reductions, Never("log.write/large", **REASON))


def test_rows_stand_before_another_and_have_more() -> None:
    reductions = (
        LeftOut(Reply, **REASON),
        Before("log.write/append", (Row("first", when=size(entries) == 0),), **REASON),
        Also("log.write/append", set={is_busy: True}, **REASON),
    )
    small = system(*reductions, properties=())
    again = replace(small, name="again")
    for rows in (small.tables[0].rows, again.tables[0].rows):
        assert [row.id for row in rows] == ["large", "first", "append"]
        assert rows[2].set[is_busy] is True or str(rows[2].set[is_busy]) == "True"
    for twice in (
        Before("log.write/append", (Row("second"),), **REASON),
        Also("log.write/append", set={is_busy: False}, **REASON),
    ):
        with pytest.raises(DeclarationError, match=r"`log\.write/append` is reduced twice"):
            system(*reductions, twice, properties=())
    with pytest.raises(DeclarationError, match=r"no table has the row 'log\.write/other'"):
        system(Also("log.write/other", set={is_busy: True}, **REASON))
    with pytest.raises(DeclarationError, match="give set= or send="):
        Also("log.write/append", **REASON)


def test_a_row_settles_fields_once_it_makes_the_condition_true() -> None:
    light = Machine("light")
    color = light.state_field("color", Color)
    count = light.field("count", Int(0, 3))
    phase = light.field("phase", Int(0, 3))
    on, maybe = event("on"), event("maybe", number=Int(0, 1))
    tables = (
        Table(light, on, (Row("turn", goto=Color.GREEN, set={count: 3, phase: 2}),)),
        Table(light, maybe, (Row("turn", goto=if_(maybe.number == 0, Color.GREEN, Color.RED)),)),
    )
    green = Settled({count: 0}, when=color == Color.GREEN, **REASON)
    second = Settled({count: 1, phase: 1}, when=(phase == 2) & (color == Color.GREEN), **REASON)
    small = System("lights", tables, (), terminal=True, reductions=(green, second))
    (settled,), (kept,) = (table.rows for table in small.tables)
    assert {str(of): str(value) for of, value in settled.set.items()} == {
        "count": "0",
        "phase": "1",
    }
    assert not kept.set
    other = Machine("other").field("number", Int(0, 1))
    for of, when, error in (
        ({}, True, "at least one field"),
        ({count + 1: 0}, True, "isn't a field"),
        ({count: 0, other: 1}, True, "fields of light and other"),
    ):
        with pytest.raises(DeclarationError, match=error):
            Reduced((Settled(of, when, **REASON),))


def test_another_expression_stands_for_one_that_is_replaced() -> None:
    small = system(
        StandsFor(has_room, size(entries) < 1, **REASON), LeftOut(Reply, **REASON), properties=()
    )
    assert str(small.tables[0].guard) == "size(entries) < 1"


def test_a_machine_alone_leaves_out_its_reductions() -> None:
    driven = Driven((wrote,), reductions=(LeftOut(entries, because="history"),
                    StandsFor(has_room, True, because="history")))  # fmt: skip
    outcome = driven.handle("write", record=0, partition=0, delta=1)
    assert (outcome.row, outcome.sent[0].offset, [*driven.state]) == (
        "append",
        0,
        ["end_offset", "batches", "is_busy"],
    )
    assert driven["end_offset"] == 2


def test_fields_of_a_message_are_left_out_wherever_it_is() -> None:
    server = Machine("server")
    seen = server.field("seen", Int(0, 3))
    Ask = message("Ask", server, number=Int(0, 3), size=Int(0, 3))
    ask = event("ask", number=Int(0, 3))
    client = Machine("client")
    count = client.field("count", Int(0, 1))
    tables = (
        Table(
            client,
            on=ask,
            when=count == 0,
            rows=(Row("ask", set={count: 1}, send=(Ask(number=ask.number, size=ask.number),)),),
        ),
        Table(server, on=Ask, rows=(Row("see", set={seen: Ask.number}),)),
    )
    small = System(
        "asked",
        tables,
        (),
        channels=(Channel(Ask),),
        terminal=True,
        reductions=(StandsFor(Ask.size, 0, because="nobody reads it"),),
    )
    assert [name for name, _ in small.channels[0].message.parameters] == ["number"]
    assert check(instantiate(small)).states == 1 + 4 + 1  # nobody reads `seen`


def test_a_message_is_left_out_where_a_condition_holds_of_its_fields() -> None:
    small = system(
        LeftOut(Reply, when=Reply.offset > 0, **REASON),
        Canonical(Reply.offset, 9, when=~(is_busy == (Reply.offset == 0)), **REASON),
        channels=(Channel(Reply),),
    )
    (sent,) = small.tables[0].sendings(small.tables[0].rows[1])
    assert str(sent.when) == "~(0 < end_offset)"
    ((name, value),) = sent.fields
    assert (name, str(value)) == ("offset", "if(is_busy == (end_offset == 0), end_offset, 9)")
    twice = Change("twice").table("log.write").also("append", send=(Reply(offset=1),))
    again, other = (small + twice).tables[0].sendings((small + twice).tables[0].rows[1])
    assert (again, str(other.when)) == (sent, "~(0 < 1)")


ERRORS = constant("errors", 2, 1, 3, real=3)
Error = enum("Error", NONE=0, BUSY=5, LOST=-1, enum_size=ERRORS)
server = Machine("server")
last_error = server.field("last_error", Error)
fail = event("fail", error=Error)
failed = Table(
    server,
    on=fail,
    rows=(
        Row(
            "lost",
            when=(fail.error == Error.LOST) | (fail.error == Error.BUSY),
            set={last_error: fail.error},
        ),
        Row("other"),
    ),
)


KNOWN = invariant("Known", last_error.is_in(*(getattr(Error, n) for n in Error.names)), "It's one.")


def test_a_system_has_the_first_members_of_an_enum() -> None:
    def states(size: int) -> int:
        small = System("failing", (failed,), (KNOWN,), fixed={ERRORS: size}, terminal=True)
        return check(instantiate(small)).states

    assert [states(size) for size in (1, 2, 3)] == [1, 2, 3]
    assert Driven((failed,)).handle("fail", error="LOST").row == "lost"


def test_a_comparison_with_a_member_that_is_left_out_is_false() -> None:
    small = System(
        "failing",
        (failed,),
        (KNOWN,),
        fixed={ERRORS: 2},
        terminal=True,
        reductions=(LeftOut(Error, because="the server answers with the first ones"),),
    )
    assert str(small.tables[0].rows[0].guard) == "fail.error == BUSY"
    assert check(instantiate(small)).states == 2


clock = Machine("clock")
now = clock.field("now", Int(0, 3), 0)
retrying = Machine("retrying")
deadline = retrying.field("deadline", Int(0, 3), 0)
fail, retry = event("fail"), event("retry")
is_over = now >= deadline
FAILED = Table(retrying, on=fail, when=deadline == 0, rows=(Row("fail", set={deadline: 2}),))
RETRIED = Table(
    retrying,
    on=retry,
    others=(clock,),
    rows=(Row("retry", when=is_over, set={deadline: 0}), Row("wait")),
)


def retries(*reductions: Reduction) -> System:
    return System("retries", (FAILED, RETRIED), (), terminal=True, reductions=reductions)


def test_the_environment_chooses_whether_a_condition_holds() -> None:
    """While it may. Elsewhere the condition holds."""
    small = retries(Chosen(is_over, retry, "is_over", when=deadline > 0, **REASON))
    machine = Interpreter(instantiate(small))
    labels = machine.instance.row_names

    def retried(state: FullState) -> dict[str, FullState | None]:
        taken = (step for step in machine.steps(state) if step.action.table == "retrying.retry")
        return {labels[step.row]: step.state for step in taken}

    (start,) = machine.initial_states()
    assert retried(start) == {"retrying.retry/retry": start}
    (failed,) = {step.state for step in machine.steps(start)} - {start}
    assert failed is not None
    assert retried(failed) == {"retrying.retry/retry": start, "retrying.retry/wait": failed}
    assert check(instantiate(small)).states == 2


def test_a_condition_that_is_chosen_is_so_in_a_changed_system() -> None:
    small = retries(Chosen(is_over, retry, "is_over", when=deadline > 0, **REASON))
    change = Change("waits", "It waits.").table("retrying.retry")
    (_, table) = (small + change.also("wait", set={deadline: 3})).tables
    assert table.on.parameters == (("is_over", Bool()),)
    assert str(table.guard) == str(small.tables[1].guard)


@pytest.mark.parametrize(
    ("reduction", "error"),
    [
        (lambda: Chosen(now + 1, retry, "is_over", **REASON), "`now \\+ 1` isn't a condition"),
        (lambda: Chosen(is_over, write, "delta", **REASON), "write already has a delta"),
        (lambda: Chosen(is_over, retry, "_over", **REASON), "can't be called _over"),
        (lambda: Chosen(is_over, fail, "is_over", **REASON), "no table on fail reads `deadline <="),
    ],
)
def test_a_choice_that_does_not_fit_is_refused(
    reduction: Callable[[], Reduction], error: str
) -> None:
    with pytest.raises(DeclarationError, match=error):
        retries(reduction())


def test_one_event_chooses() -> None:
    """Tables on another would read a parameter that they lack."""
    woken = Table(retrying, event("wake"), (Row("wake", when=is_over),), others=(clock,))
    with pytest.raises(DeclarationError, match="tables on wake read `deadline <= now`, too"):
        System(
            "retries",
            (FAILED, RETRIED, woken),
            (),
            reductions=(Chosen(is_over, retry, "is_over", **REASON),),
        )


@pytest.mark.parametrize(
    ("reductions", "error"),
    [
        ((Never("log.write/larger", **REASON),), "no table has the row 'log.write/larger'"),
        (
            (LeftOut(is_busy, **REASON), LeftOut(is_busy, **REASON)),
            "`is_busy` is reduced twice: leave one of them out",
        ),
        (
            (NotOffered(log, event("sleep"), True, **REASON),),
            "log has no table on sleep",
        ),
        (
            (StandsFor(end_offset, size(entries), **REASON),),
            r"property Ends reads `end_offset`.*the test says so.*read_by=\('Ends',\)",
        ),
        ((LeftOut(entries, **REASON),), "`entries` is left out of logs by a reduction"),
        ((Never(("log.write/large", "log.write/append"), **REASON),), "remove all of its rows"),
    ],
)
def test_a_reduction_that_does_not_fit_is_refused(
    reductions: tuple[Reduction, ...], error: str
) -> None:
    with pytest.raises(DeclarationError, match=error) as raised:
        system(*reductions)
    assert raised.value.place is not None
    assert raised.value.place.file == __file__


def test_a_reduction_needs_a_reason() -> None:
    with pytest.raises(DeclarationError, match="LeftOut: give the reason with because="):
        LeftOut(is_busy, because="")
    with pytest.raises(DeclarationError, match="`is_busy` isn't a message"):
        LeftOut(is_busy, when=has_room, **REASON)
    with pytest.raises(DeclarationError, match="isn't a field, a parameter or a message"):
        LeftOut(has_room, **REASON)
    with pytest.raises(DeclarationError, match="neither a field, its element"):
        Canonical(has_room, True, **REASON)


def test_a_value_equals_itself() -> None:
    """So that a restriction that a reduction fulfils is none."""
    value = Machine("once").field("value", Int(0, 3))
    assert folded(value == value) is lift(True)
    assert folded(~(value != value)) is lift(True)
