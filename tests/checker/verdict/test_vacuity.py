"""Results report each property that nothing tested: rows, messages, premises, settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings

from epochfence import language as lang
from epochfence.checker.check import Options, check
from epochfence.checker.verdict.probes import probes
from epochfence.checker.verdict.result import Verdict
from epochfence.checker.verdict.static_vacuity import foreseen
from epochfence.language import (
    Channel,
    DeclarationError,
    Instance,
    Machine,
    Property,
    Protocols,
    Row,
    System,
    Table,
    Unreached,
    after,
    all_of,
    element,
    event,
    instantiate,
    invariant,
    message,
    size,
    step_property,
)
from epochfence.language.declaration.places import Place
from epochfence.language.systems import Reached
from epochfence.tests.checker.drawn_systems import instances
from epochfence.tests.checker.plain_search import search

NODES = lang.constant("nodes", 2, 1, 3)
SPARE = lang.constant("spare", 0, 0, 3)
NODE = lang.Key("node", NODES)
fast = lang.feature("fast", "2")
State = lang.enum("State", "IDLE", "ASKING", "ELECTED", "LOST")

server = Machine("server", NODE)
state = server.state_field("state", State)
log = server.field("log", lang.Sequence(lang.Int(0, 1), 1))
never_set = server.field("never_set", lang.Bool())
judge = Machine("judge")
granted = judge.field("granted", lang.Int(0, 9))
flag = judge.field("flag", lang.Bool())

ask = event("ask")
crash = event("crash")
Vote = message("Vote", judge, node=NODE)
Granted = message("Granted", server, answers=Vote)
i = NODE.variable("i")
me = server.this

ASK = Table(
    server,
    ask,
    when=state == State.IDLE,
    rows=(Row("ask", goto=State.ASKING, send=(Vote(node=me),)),),
)
VOTE = Table(
    judge, Vote, response=Granted, rows=(Row("grant", set={granted: granted + 1}, reply=Granted()),)
)
ELECT = Table(server, Granted, rows=(Row("elected", goto=State.ELECTED),))
CHANNELS = (Channel(Vote), Channel(Granted))
FEW = invariant("Few", granted <= NODES, "No more is granted than there are servers.")


UNCHECKED = Place("<here>", 1)
"""The place of a table with rows that hide each other, which a declaration refuses."""


def system(*tables: Table, properties: Any = (FEW,), **parts: Any) -> Instance:
    """Servers that ask a judge for a vote; tables given replace those of their names."""
    every = {table.name: table for table in (ASK, VOTE, ELECT)}
    every |= {table.name: table for table in tables}
    protocol, values = parts.pop("protocol", None), parts.pop("values", None)
    given: dict[str, Any] = {
        "constants": (NODES,),
        "channels": CHANNELS,
        "terminal": True,
        "protocols": Protocols(("1", "2"), (fast,)),
    } | parts
    return instantiate(
        System("votes", tuple(every.values()), tuple(properties), **given), protocol, values
    )


def lines_of(instance: Instance, **options: Any) -> list[str]:
    """What qualifies the verdict: that all holds, or where all does so vacuously, inconclusive."""
    result = check(instance, Options(**options))
    empty = len(result.untested) == len(result.properties) > 0
    assert result.verdict is (Verdict.INCONCLUSIVE if empty else Verdict.HOLDS)
    return [str(item) for item in result.unexplained]


def could_say_more(*properties: Property) -> list[str]:
    """The notes on properties that hold, where a stronger one would hold as well."""
    result = check(system(properties=properties))
    assert result.verdict is Verdict.HOLDS
    assert not result.vacuous
    return result.notes


# Rows, events, messages ---------------------------------------------------------------------------


def test_nothing_is_told_of_a_run_that_takes_and_meets_everything() -> None:
    assert lines_of(system()) == []


def test_a_row_that_is_never_taken() -> None:
    late = Table(
        judge, Vote, response=Granted, rows=(Row("too late", when=granted > 5), *VOTE.rows)
    )
    assert lines_of(system(late)) == ["judge.Vote/too late is never taken"]


def test_an_event_that_never_happens() -> None:
    table = Table(server, crash, when=state == State.LOST, rows=(Row("stop", goto=State.IDLE),))
    assert lines_of(system(table)) == ["server.crash never happens"]


def test_a_message_that_is_never_sent_and_what_waits_for_it() -> None:
    silent = Table(judge, Vote, response=Granted, rows=(Row("grant", set={granted: granted + 1}),))
    lost = Table(server, lang.lost(Granted), rows=(Row("ask again", goto=State.IDLE),))
    found = check(system(silent, lost)).unexplained
    assert [str(item) for item in found] == ["Granted is never sent"]
    assert found[0].rows == ("server.Granted/elected", "server.lost Granted/ask again")


def test_a_message_that_is_sent_to_where_nobody_is_waiting_for_it() -> None:
    deaf = Table(server, Granted, when=state == State.LOST, rows=ELECT.rows)
    assert lines_of(system(deaf)) == ["Granted is sent, but server never takes it"]


def test_a_message_that_no_table_takes() -> None:
    instance = instantiate(
        System("votes", (ASK, VOTE), (FEW,), constants=(NODES,), channels=CHANNELS, terminal=True)
    )
    assert lines_of(instance) == ["Granted is sent, but no table takes it"]


def test_a_message_sent_to_each_of_nobody_is_never_sent() -> None:
    nobody = Table(server, ask, when=state == State.IDLE, rows=(
        Row("ask", goto=State.ASKING, send=(lang.to_each(i, state == State.LOST, Vote(node=i)),)),
    ))  # fmt: skip
    assert lines_of(system(nobody)) == ["Vote is never sent", "Granted is never sent"]


# Premises -----------------------------------------------------------------------------------------

LOST = state.at(i) == State.LOST
ELECTED = state.at(i) == State.ELECTED
item = element("item", log.at(i))

PREMISES = {
    "under a quantifier": (all_of(i, LOST.implies(granted > 0)), "state.at(i) == LOST"),
    "in a conjunction": (
        (granted <= 9) & all_of(i, ELECTED.implies(granted > 0) & LOST.implies(granted > 0)),
        "state.at(i) == LOST",
    ),
    "in a consequent": (all_of(i, ELECTED.implies((granted > 5).implies(~ELECTED))), "5 < granted"),
    "written as a disjunction": (all_of(i, ~LOST | (granted > 0)), "state.at(i) == LOST"),
}


@pytest.mark.parametrize("case", PREMISES)
def test_a_premise_that_is_never_true(case: str) -> None:
    expression, shown = PREMISES[case]
    holds = invariant("Holds", expression, "It holds.")
    expected = [f"Holds holds vacuously: its premise is never true in any state: {shown}"]
    for slicing in (True, False):
        assert lines_of(system(properties=(FEW, holds)), slicing=slicing) == expected


def test_a_premise_of_steps() -> None:
    appears = ~LOST & after(LOST)
    elected = ~ELECTED & after(ELECTED)

    def of(premise: lang.Expression) -> list[str]:
        holds = step_property("Step", all_of(i, premise.implies(after(granted) > 0)), "It holds.")
        return lines_of(system(properties=(FEW, holds)))

    assert of(elected) == []
    assert of(appears) == [
        "Step holds vacuously: its premise is never true in any state: "
        "(state.at(i) != LOST) & after(state.at(i) == LOST)"
    ]


def test_a_premise_met_in_the_last_states_alone() -> None:
    holds = invariant("Holds", (granted == 2).implies(granted > 0), "It holds.")
    assert lines_of(system(properties=(holds,))) == []
    assert len(lines_of(system(properties=(holds,), values={"nodes": 1}))) == 1


LOOSE: tuple[tuple[lang.Expression, list[str]], ...] = (
    (granted <= 2, []),
    (granted < 3, []),
    (granted < 4, ["is weaker than needed: granted < 4 never reaches its bound"]),
    (~(granted > 3), []),  # a negated comparison is left as it is
    (lang.any_of(i, granted <= 2), ["says any_of, but all_of holds too: granted <= 2"]),
    (lang.any_of(i, (state.at(i) != State.ELECTED) | (granted == 2)), []),
    ((granted == 0) | (granted > 0), []),
    (
        (granted == 0) | (granted > 0) | (state.at(0) == State.LOST),
        ["also holds without the alternative state.at(0) == LOST"],
    ),
    (
        ~all_of(i, (granted == 9) & (state.at(i) == State.LOST)),
        ["says any_of, but all_of holds too: ~((granted == 9) & (state.at(i) == LOST))"],
    ),
)


@pytest.mark.parametrize(("condition", "expected"), LOOSE, ids=[str(c) for c, _ in LOOSE])
def test_a_property_that_could_say_more(condition: lang.Expression, expected: list[str]) -> None:
    assert could_say_more(invariant("P", condition, "It holds.")) == [f"P {e}" for e in expected]


def test_what_an_alternative_says_more_loosely_than_it_could() -> None:
    some = lang.any_of(i, after(state.at(i)) != State.LOST)
    either = step_property("P", (granted == 9) | (some & (after(granted) <= 2)), "It holds.")
    assert could_say_more(either) == [
        "P also holds without the alternative granted == 9",
        "P says any_of, but all_of holds too: after(state.at(i)) != LOST",
    ]


def test_what_is_compared_with_itself() -> None:
    same = step_property("P", (after(granted) == granted) | (granted == granted), "It holds.")
    assert "P compares granted with itself" in could_say_more(same)
    constants = invariant("Q", (granted <= NODES) & (lang.lift(NODES) == 2), "It holds.")
    assert could_say_more(constants) == []


def test_a_premise_of_steps_with_which_no_step_begins() -> None:
    ended = all_of(i, ELECTED)
    stays = step_property("Stays", ended.implies(after(granted) == granted), "It stays.")
    assert lines_of(system(properties=(FEW, stays))) == [
        "Stays holds vacuously: its premise is never true at the start of a step: "
        "all(i in node: state.at(i) == ELECTED)"
    ]
    first = step_property("First", (~ended).implies(after(granted) >= granted), "It grows.")
    assert lines_of(system(properties=(FEW, first))) == []


# What terminal accepts ----------------------------------------------------------------------------

ENDED = all_of(i, ELECTED)
UNREPORTED = "isn't reported as a deadlock"
GOES_ON = (
    "terminal is true in states where a run can continue, for example by {}; a run stuck there "
)
TERMINALS: tuple[tuple[lang.Expression, list[str]], ...] = (
    (ENDED, []),
    (ENDED & (granted == 2), []),
    (granted == 2, [GOES_ON.format("server.Granted") + f"{UNREPORTED}: granted == 2"]),
    (granted >= 1, [
        "terminal is weaker than needed: 1 <= granted never reaches its bound",
        GOES_ON.format("server.ask") + "isn't reported as a deadlock: 1 <= granted",
    ]),
    (lang.any_of(i, ELECTED), [
        "terminal says any_of, but all_of holds too: state.at(i) == ELECTED",
        GOES_ON.format("server.ask") + f"{UNREPORTED}: any(i in node: state.at(i) == ELECTED)",
    ]),
    (all_of(i, ELECTED | LOST), [
        "terminal also holds without the alternative state.at(i) == LOST",
    ]),
    (all_of(i, (~LOST).implies(ELECTED)), []),
    (ENDED & all_of(i, ~lang.any_of(lang.in_flight("m", Vote, node=i), True)), []),
    (ENDED & all_of(i, all_of(item, item <= 5)), []),
    (ENDED & all_of(i, LOST.implies((granted == 1) | (granted == 2))), [
        "terminal has a premise that is never true at the end of a run: state.at(i) == LOST",
    ]),
)  # fmt: skip


@pytest.mark.parametrize(("ends", "expected"), TERMINALS, ids=[str(c) for c, _ in TERMINALS])
def test_what_terminal_accepts_beyond_ends(ends: lang.Expression, expected: list[str]) -> None:
    instance = system(terminal=ends)
    for options in (Options(), Options(symmetry=False, slicing=False)):
        assert check(instance, options).notes == expected
    assert check(instance, Options(deadlock=False)).notes == []


def test_a_terminal_of_runs_that_never_end() -> None:
    again = Table(server, crash, when=state == State.ELECTED, rows=(Row("over", goto=State.IDLE),))
    few = Table(judge, Vote, response=Granted, rows=(Row("grant", reply=Granted()),))
    free = invariant("Free", all_of(i, ~LOST), "Nobody is lost.")
    instance = system(again, few, terminal=ENDED, properties=(free,))
    assert check(instance).notes == ["terminal is never true at the end of a run"]


def test_faults_and_losses_are_no_way_to_go_on() -> None:
    breaks = Table(server, crash, when=state == State.ELECTED, rows=(Row("break"),))
    lost = Table(server, lang.lost(Granted), rows=(Row("ask again", send=(Vote(node=me),)),))
    for budgets in ({crash: 1, lang.lost(Granted): 0}, {(crash, lang.lost(Granted)): 1}):
        instance = system(breaks, lost, terminal=ENDED, budgets=budgets)
        assert not [x for x in check(instance).notes if "go on" in x]


def test_a_property_of_constants_alone_is_vacuous_whatever_they_are() -> None:
    of_constants = invariant("P", lang.lift(NODES) >= 1, "It holds.")
    assert lines_of(system(properties=(FEW, of_constants))) == [
        "P can't be broken: no change by a row can make it false"
    ]


def test_a_premise_that_excludes_itself_is_vacuous_whatever_constants_say() -> None:
    never = (granted == 1) & ~(granted == 1)
    holds = invariant("P", never.implies(granted <= NODES), "It holds.")
    [said] = lines_of(system(properties=(FEW, holds)))
    assert said.startswith("P can't be broken")


def test_a_quantifier_over_what_is_always_empty() -> None:
    holds = invariant("Items", all_of(i, all_of(item, item == granted)), "It holds.")
    assert lines_of(system(properties=(FEW, holds))) == [
        "Items can't be broken: no change by a row can make it false"
    ]

    def growing(when: lang.Expression) -> list[str]:
        row = Row("note", set={log: lang.append(log, 0)})
        grows = Table(server, crash, when=(size(log) == 0) & when, rows=(row,))
        small = invariant("Items", all_of(i, all_of(item, item <= size(log.at(i)))), "It holds.")
        return lines_of(system(grows, properties=(FEW, small)))

    assert growing(state == State.ELECTED) == []
    assert growing(state == State.LOST)[1:] == ["Items holds vacuously: log.at(i) is always empty"]


def test_a_property_that_nothing_can_break() -> None:
    untouched = invariant("Untouched", all_of(i, ~never_set.at(i)), "It is never set.")
    by_type = invariant("ByType", granted >= 0, "Numbers begin with 0.")
    of_steps = step_property("Kept", all_of(i, after(never_set.at(i)) == never_set.at(i)), "Kept.")
    what = "can't be broken: no change by a row can make it false"
    found = lines_of(system(properties=(FEW, untouched, by_type, of_steps)))
    assert found == [f"{name} {what}" for name in ("Untouched", "ByType", "Kept")]


# Runs ---------------------------------------------------------------------------------------------


def test_a_run_without_steps_and_one_without_properties() -> None:
    still = Table(server, ask, when=state == State.LOST, rows=ASK.rows)
    only_initial = "the run takes no step: only the initial states are reachable"
    assert lines_of(system(still)) == [only_initial]
    assert lines_of(system(properties=())) == ["the run checks no property"]


def test_a_run_of_no_states_holds_nothing() -> None:
    whole = check(system())
    assert (whole.verdict, whole.seen_whole) == (Verdict.HOLDS, True)
    none = replace(whole, states=0)
    assert (none.verdict, none.seen_whole) == (Verdict.INCONCLUSIVE, False)
    assert none.reason == "no state was explored"
    assert [p.verdict for p in none.properties] == ["unknown"]


def test_strict_makes_what_is_vacuous_inconclusive() -> None:
    holds = invariant("Holds", all_of(i, LOST.implies(granted > 0)), "It holds.")
    result = check(system(properties=(FEW, holds)), Options(strict=True))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.as_json()["exit_code"] == 20
    assert check(system(), Options(strict=True)).verdict is Verdict.HOLDS


# What is known ------------------------------------------------------------------------------------


def explained(instance: Instance) -> dict[str, str]:
    """What is vacuous for a known reason."""
    return {str(item): item.explained for item in check(instance).vacuous if item.explained}


def test_what_the_release_or_a_constant_rules_out_is_told_apart() -> None:
    some = Table(judge, Vote, response=Granted, rows=(
        Row("fast", when=fast, set={granted: granted + 1}), Row("spare", when=SPARE > 0),
        Row("grant", set={granted: granted + 1}, reply=Granted()),
    ))  # fmt: skip
    old = system(some, protocol="1", constants=(NODES, SPARE))
    assert lines_of(old) == []
    assert set(explained(old)) == {
        "judge.Vote/fast is never taken",
        "judge.Vote/spare is never taken",
    }
    new = system(some, protocol="2", constants=(NODES, SPARE))
    assert "judge.Vote/grant is never taken" in explained(new)


def test_rows_behind_one_that_a_release_always_takes_are_told_apart() -> None:
    count = {granted: granted + 1}
    some = Table(judge, Vote, response=Granted, rows=(
        Row("before", set=count, reply=Granted(), during=~fast),
        Row("from 2 on", set=count, reply=Granted()),
    ))  # fmt: skip
    assert lines_of(system(some, protocol="1")) == []
    assert explained(system(some, protocol="1")).keys() == {"judge.Vote/from 2 on is never taken"}
    rows = (*VOTE.rows, Row("hidden"))
    plain = Table(judge, Vote, response=Granted, rows=rows, declared=UNCHECKED)
    assert lines_of(system(plain, protocol="1")) == ["judge.Vote/hidden is never taken"]


def test_a_row_of_another_release_rules_out_none_that_has_its_name() -> None:
    never = Row("refuse", when=granted > 3, during=~fast, reply=Granted())
    granted_at_1 = Row("grant", when=~fast, set={granted: granted + 1}, reply=Granted())
    at_2 = (Row("refuse", during=fast), Row("grant at 2", during=fast, reply=Granted()))
    rows = (never, granted_at_1, *at_2)
    vote = Table(judge, Vote, response=Granted, rows=rows, declared=UNCHECKED)
    assert "judge.Vote/refuse is never taken" in lines_of(system(vote, protocol="1"))


def test_a_property_of_what_only_another_release_writes_is_told_apart() -> None:
    table = Table(judge, Vote, response=Granted, rows=(
        Row("grant", set={granted: granted + 1, flag: True}, reply=Granted(), during=fast),
        Row("grant before", set={granted: granted + 1}, reply=Granted()),
    ))  # fmt: skip
    kept = step_property("Kept", flag.implies(after(flag)), "It stays.")
    what = "Kept can't be broken: no change by a row can make it false"
    assert explained(system(table, protocol="1", properties=(FEW, kept))).keys() == {what}
    of_none = system(properties=(FEW, kept))
    assert lines_of(of_none) == [what]


def test_what_nobody_sends_at_this_release_is_told_apart() -> None:
    silent = Table(judge, Vote, response=Granted, rows=(
        Row("grant", set={granted: granted + 1}, reply=Granted(), during=~fast),
        Row("grant in silence", set={granted: granted + 1}),
    ))  # fmt: skip
    assert list(explained(system(silent, protocol="1"))) == [
        "judge.Vote/grant in silence is never taken"
    ]
    assert lines_of(system(silent, protocol="2")) == []
    assert list(explained(system(silent, protocol="2"))) == ["Granted is never sent"]


def test_what_a_budget_of_0_rules_out_is_told_apart() -> None:
    stops = Table(server, crash, rows=(Row("stop", goto=State.IDLE),))
    instance = system(stops, constants=(NODES, SPARE), budgets={crash: SPARE})
    assert explained(instance).keys() == {"server.crash never happens"}
    assert lines_of(instance) == []


def test_what_a_system_declares_to_be_unreached() -> None:
    late = Table(
        judge, Vote, response=Granted, rows=(Row("too late", when=granted > 1), *VOTE.rows)
    )
    holds = invariant("Holds", (granted > 2).implies(granted > 1), "It holds.")
    known = Unreached("three servers reach it (nodes=3)", ("judge.Vote/too late",), NODES < 3)
    also = Unreached("no judge grants so much", ("Holds",))

    def declared(nodes: int) -> Instance:
        return system(
            late, properties=(FEW, holds), unreached=(known, also), values={"nodes": nodes}
        )

    two = declared(2)
    assert lines_of(two) == []
    assert set(explained(two).values()) == {known.why, also.why}
    three = check(declared(3))
    assert three.unexplained == []
    assert three.notes == []


def test_recorded_runs_say_why_a_row_is_not_taken() -> None:
    late = Table(
        judge,
        Vote,
        response=Granted,
        rows=(Row("too late", when=granted > lang.if_(fast, 1, 2)), *VOTE.rows),
    )
    row = frozenset({"judge.Vote/too late"})

    def of(nodes: int, *runs: Reached, protocol: str = "2") -> list[str]:
        instance = system(late, reached=runs, values={"nodes": nodes}, protocol=protocol)
        assert lines_of(instance) == [] or runs[0].constants == {"nodes": nodes}
        return list(explained(instance).values())

    name = system().system.name
    larger = Reached(name, "2", {"nodes": 3}, row)
    elsewhere = Reached("other", "2", {}, row)
    assert of(2, larger) == ["other settings: a run with nodes=3 takes it"]
    assert of(2, elsewhere) == ["another system: a run of other takes it"]
    assert of(2, larger, elsewhere) == ["another system: a run of other takes it"]
    assert of(2, larger, protocol="1")[:1] == ["other settings: a run in 2 with nodes=3 takes it"]
    assert of(2, Reached(name, "2", {"nodes": 2}, row), elsewhere) == []  # it should be taken


def test_recorded_runs_say_why_an_event_never_happens() -> None:
    stops = Table(
        server,
        crash,
        when=state == State.LOST,
        rows=(Row("late", when=state == State.LOST, goto=State.IDLE), Row("stop")),
    )
    name = system().system.name
    runs = (Reached(name, "2", {"nodes": 3}, frozenset({"server.crash/stop"})),)
    found = explained(system(stops, reached=runs))
    assert found == {"server.crash never happens": "other settings: a run with nodes=3 takes it"}
    happens = replace(stops, when=state == State.ELECTED)
    assert lines_of(system(happens, reached=runs, budgets={crash: 1}, properties=())) == [
        "the run checks no property",
        "server.crash/late is never taken",
    ]


def test_recorded_runs_say_why_a_premise_is_never_met() -> None:
    holds = invariant("Holds", (granted > 2).implies(granted > 1), "It holds.")
    name = system().system.name

    def of(system_name: str, nodes: int) -> list[str]:
        run = Reached(system_name, "2", {"nodes": nodes}, frozenset(), frozenset({"Holds"}))
        return list(explained(system(properties=(FEW, holds), reached=(run,))).values())

    assert of(name, 3) == ["a run with nodes=3 meets it"]
    assert of(name, 2) == []  # it should be met
    assert of("other", 3) == []  # its Holds may be another property


def test_a_row_that_is_declared_to_be_unreached_and_is_taken() -> None:
    wrong = Unreached("no reason", ("judge.Vote/grant",))
    notes = check(system(unreached=(wrong,))).notes
    assert notes == ["judge.Vote/grant is declared unreached, but a run takes it"]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (
            Unreached("?", ("judge.Vote/gone",)),
            "no row, table or property is called judge.Vote/gone",
        ),
        (Unreached("?", ("judge.Vote",), granted > 0), "not made of constants and features alone"),
    ],
    ids=["unknown", "of the state"],
)
def test_a_wrong_declaration_of_what_is_unreached(wrong: Unreached, error: str) -> None:
    with pytest.raises(DeclarationError, match=error):
        system(unreached=(wrong,))


# Without a run ------------------------------------------------------------------------------------


def foretold(instance: Instance) -> list[str]:
    """What shows of every run without one."""
    return [str(item) for item in foreseen(instance) if not item.explained]


SILENT = Table(judge, Vote, response=Granted, rows=(Row("grant", set={granted: granted + 1}),))
UNTOUCHED = invariant("Untouched", all_of(i, ~never_set.at(i)), "It is never set.")
STOPS = Row("stop", goto=State.IDLE)
NO_RUN = {
    "nothing": (system(), []),
    "an event in a state that no row leads to": (
        system(Table(server, crash, when=state == State.LOST, rows=(STOPS,))),
        ["server.crash never happens"],
    ),
    "a message that nobody sends, and what waits for it": (
        system(SILENT), ["Granted is never sent"],
    ),
    "a message for a machine that is never in that state": (
        system(Table(server, Granted, when=state == State.LOST, rows=ELECT.rows)),
        ["Granted is sent, but server never takes it"],
    ),
    "a row behind a number that is never reached": (
        system(Table(judge, Vote, response=Granted, rows=(
            Row("odd", when=lang.lift(2) * granted > 18), *VOTE.rows))),
        ["judge.Vote/odd is never taken"],
    ),
    "what only a row that is never taken leads to": (
        system(
            Table(server, ask, when=state == State.IDLE, rows=(
                Row("lose", when=never_set, goto=State.LOST), *ASK.rows)),
            Table(server, crash, when=state == State.LOST, rows=(STOPS,)),
        ),
        ["server.crash never happens", "server.ask/lose is never taken"],
    ),
    "a property of what no row writes": (
        system(properties=(FEW, UNTOUCHED)),
        ["Untouched can't be broken: no change by a row can make it false"],
    ),
    "a premise that no value meets": (
        system(properties=(FEW, invariant("Safe", all_of(i, LOST.implies(granted > 0)), "Safe."))),
        ["Safe holds vacuously: its premise is never true in any state: state.at(i) == LOST"],
    ),
    "a premise that no step meets": (
        system(properties=(FEW, step_property(
            "Step", all_of(i, (~LOST & after(LOST)).implies(after(granted) > 0)), "It holds."))),
        ["Step holds vacuously: its premise is never true in any state: "
         "(state.at(i) != LOST) & after(state.at(i) == LOST)"],
    ),
    "a quantifier over what is always empty": (
        system(
            Table(server, crash, when=(size(log) == 0) & (state == State.LOST),
                  rows=(Row("note", set={log: lang.append(log, 0)}),)),
            properties=(FEW, invariant(
                "Items", all_of(i, all_of(item, item == granted)), "It holds.")),
        ),
        ["server.crash never happens",
         "Items holds vacuously: log.at(i) is always empty"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_RUN)
def test_what_shows_without_a_run(case: str) -> None:
    instance, expected = NO_RUN[case]
    assert foretold(instance) == expected


@pytest.mark.slow(1)
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(instances())
def test_what_shows_without_a_run_is_so_in_each(instance: Instance) -> None:
    try:
        reference = search(instance, 400)
    except ValueError:
        reject()
    unmet = {probe.about for probe in probes(instance) if probe not in reference.met}
    counts = dict(zip(instance.row_names, reference.taken, strict=True))
    for found in foreseen(instance):
        assert not any(counts[row] for row in found.rows)
        if found.kind == "property":
            assert found.subject not in reference.broken
        elif found.kind in ("premise", "message") and "no table" not in found.what:
            assert found.subject in unmet or found.rows


def test_of_one_machine_only_what_its_tables_wait_for() -> None:
    instance = system(SILENT, properties=(FEW, UNTOUCHED))
    (votes,) = (table for table in instance.system.tables if table.machine is judge)
    assert foreseen(instance, (votes,)) == []
    others = [table for table in instance.system.tables if table.machine is server]
    assert [str(item) for item in foreseen(instance, others)] == ["Granted is never sent"]
