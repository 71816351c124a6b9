"""What only runs at real ranges have: members of an enum, fields and messages. A system under check
leaves them out, and a machine that is driven has them."""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.checker.check import check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import (
    DeclarationError,
    Expression,
    Int,
    Machine,
    Optional,
    Row,
    System,
    Table,
    constant,
    enum,
    event,
    if_,
    instantiate,
    invariant,
    lift,
    message,
    some,
)
from epochfence.language.tables import bounded_view
from epochfence.model.engine.errors import OutOfRangeError
from epochfence.model.machine import Machine as Driven

Code = enum("Code", "FINE", "BUSY", only_real={"ODD": 7})
caller = Machine("caller")
Told = message("Told", caller, code=Code, only_real=True)
server = Machine("server")
last = server.field("last", Code)
why = server.field("why", Optional(Code), only_real=True)
served = server.field("served", Int(0, 2))
serve = event("serve", code=Code)


def table(read: bool = False) -> Table:
    return Table(
        server,
        on=serve,
        when=(why == None) if read else True,
        rows=(
            Row(
                "odd", when=serve.code == Code.ODD, set={why: some(serve.code)},
                reply=Told(code=serve.code),
            ),
            Row(
                "known", set={last: serve.code, why: None, served: if_(served < 2, served + 1, 2)},
                reply=Told(code=serve.code),
            ),
        ),
    )  # fmt: skip


def system(on_serve: Table) -> System:
    return System(
        name="served", tables=(on_serve,),
        properties=(invariant("Known", last.is_in(Code.FINE, Code.BUSY), "Of what there is."),),
    )  # fmt: skip


def test_a_system_leaves_them_out() -> None:
    under_check = system(table())
    instance = instantiate(under_check)
    assert [variable.name for variable in instance.variables] == ["server.last", "server.served"]
    odd, known = under_check.tables[0].rows
    assert (odd.guard.same_as(lift(False)), list(known.set)) == (True, [last, served])
    result = check(instance)
    assert (result.verdict, result.states) == (Verdict.HOLDS, 5)
    assert dict(result.rows) == {"server.serve/odd": 0, "server.serve/known": 10}


def test_a_driven_machine_has_them() -> None:
    driven = Driven((table(),))
    outcome = driven.handle("serve", code="ODD")
    assert (outcome.row, outcome.sent[0].code, driven["why"]) == ("odd", "ODD", "ODD")
    with pytest.raises(OutOfRangeError, match="FINE, BUSY, ODD"):
        driven.handle("serve", code="NONE")


def test_nothing_under_check_reads_them() -> None:
    with pytest.raises(DeclarationError, match=r"`why`.* real ranges alone"):
        system(table(read=True))


ask = event("ask", code=Code).at_real_ranges(
    times=(Int(0, 9), 1), last=(Code, last), size=(Int(0, 9), lift(1) + 1)
)
Answer = message("Answer", caller, code=Code).at_real_ranges(times=(Int(0, 9), 0))


def asked() -> Table:
    return Table(
        server, on=ask, response=Answer,
        rows=(
            Row(
                "as often", when=served + ask.times + ask.size <= 6,
                set={served: served + ask.times, last: ask.code},
                reply=Answer(code=ask.last, times=ask.times),
            ),
        ),
    )  # fmt: skip


def test_a_parameter_of_real_ranges_stands_for_something_in_a_bounded_run() -> None:
    driven = Driven((asked(),))
    answer = driven.handle("ask", code="BUSY", times=2, last="ODD", size=0).reply
    assert (answer.code, answer.times, driven["served"]) == ("ODD", 2, 2)
    assert list(driven.fields_of("ask")) == ["code", "times", "last", "size"]
    with pytest.raises(OutOfRangeError, match="times"):
        driven.handle("ask", code="BUSY", times=10, last="FINE", size=0)
    under_check = bounded_view(asked())
    assert under_check.on.parameters == (("code", Code),)
    (row,) = under_check.rows
    assert row.guard.same_as(served + 1 + (lift(1) + 1) <= 6)
    (sent,) = under_check.sendings(row)
    assert [(name, str(value)) for name, value in sent.fields] == [("code", "last")]
    bounded = Driven((under_check,), bounded=True)
    assert bounded.handle("ask", code="BUSY").reply == ("FINE",)


@pytest.mark.parametrize(
    "further", [{"code": (Code, Code.FINE)}, {"times": (Int(0, 9), True)}, {"name": (Code, last)}]
)
def test_a_parameter_that_can_not_be_there(further: Any) -> None:
    with pytest.raises(DeclarationError, match="event ask"):
        ask.at_real_ranges(**further)


# A system that has them nevertheless -----------------------------------------------------------

MORE = constant("more", 0, 0, 1, real=1)
Signal = enum("Signal", "STOP", "GO", only_real={"SLOW": 7, "DARK": 9}, further=MORE)
crossing = Machine("crossing")
shown = crossing.field("shown", Signal)
before = crossing.field("before", Optional(Signal), only_real=True)
waiting = crossing.field("waiting", Int(0, 1), only_real=True, only_bounded=True)
switch = event("switch", to=Signal)
switched = Table(
    crossing,
    on=switch,
    bounded_when=switch.to != shown,
    rows=(
        Row("as before", when=before == some(switch.to), only_real=True, set={waiting: 1}),
        Row("at once", only_bounded=True, set={shown: switch.to}),
        Row("remembered", set={shown: switch.to, before: some(shown)}, only_real=True),
    ),
)  # fmt: skip


def crossing_system(*real: Expression) -> System:
    return System(
        "crossing", (switched,), (), constants=(MORE,), real=real, terminal=True,
        bounds={"all": {MORE: 1}},
    )  # fmt: skip


def test_a_system_may_name_fields_of_real_ranges_and_has_their_rows() -> None:
    small, whole = crossing_system(), crossing_system(before, waiting)
    assert [row.id for row in small.tables[0].rows] == ["at once"]
    assert [row.id for row in whole.tables[0].rows] == ["as before", "remembered"]
    assert (str(small.tables[0].guard), str(whole.tables[0].guard)) == (
        "switch.to != shown", "True",
    )  # fmt: skip
    assert [info.name for info in small.fields_of(crossing)] == ["shown"]
    assert [info.name for info in whole.fields_of(crossing)] == ["shown", "before", "waiting"]
    assert (check(instantiate(small)).states, check(instantiate(whole)).states) == (2, 5)


def test_members_of_real_ranges_come_in_with_a_constant() -> None:
    small = crossing_system()
    found = [check(instantiate(small, bounds=bounds)).states for bounds in ("default", "all")]
    assert found == [2, 3]
    assert Signal.bounded_names() == ("STOP", "GO")
    assert Signal.bounded_names({"more": 1}) == ("STOP", "GO", "SLOW")


def test_what_is_both_is_in_no_driven_machine() -> None:
    driven = Driven((switched,))
    assert (driven.handle("switch", to="DARK").row, driven["shown"]) == ("remembered", "DARK")
    assert driven.handle("switch", to="STOP").row == "as before"
    assert [*driven.state] == ["shown", "before"]
