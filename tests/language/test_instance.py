"""A system settled: constants, protocol and features; network and budgets as variables."""

from typing import Any

import pytest

from epochfence import language as lang
from epochfence.checker.check import check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import (
    DeclarationError,
    Instance,
    Protocols,
    Row,
    System,
    Table,
    feature,
)
from epochfence.model.engine.interpreter import FullState, Interpreter
from epochfence.spec.releases.features import KAFKA
from epochfence.spec.systems import shipped
from epochfence.tests.checker.plain_search import search

N = lang.constant("N", 2, 1, 4)
SHELF = lang.Key("shelf", N)
FAST, SLOW = lang.feature("fast", "2"), lang.feature("slow", "1", until="2")
PROTOCOLS = lang.Protocols(("1", "2", "3"), (FAST, SLOW))

depot = lang.Machine("depot")
x = depot.field("x", lang.Int(0, N), N)
worker = lang.Machine("worker", SHELF)
count = worker.field("count", lang.Int(0, 9), N - 1)
lamp = worker.field("lamp", lang.Bool(), any_initial=True)
s = SHELF.variable("s")
ask = lang.message("ask", worker, shelf=SHELF, n=lang.Int(0, 1))
answer = lang.message("answer", depot, answers=ask, n=lang.Int(0, 1))
tick = lang.event("tick")
send = lang.event("send", s)
below = lang.invariant("Below", x <= N, "It is.")
never = lang.invariant("Never", x < 0, "It never is.")

ticking = Table(
    depot, tick, (Row("fast", during=FAST, set={x: 0}), Row("slow", during=SLOW, set={x: 1}))
)
sending = Table(depot, send, (Row("ask", send=(ask(shelf=s, n=1),)),))
asked = Table(
    worker,
    ask,
    (Row("answer", when=ask.n == 1, set={count: count + 1}, reply=answer(n=ask.n)),),
    response=answer,
)
answered = Table(depot, answer, (Row("take", set={x: answer.n}),))


def system(*tables: Table, **parts: Any) -> System:
    """A system of these tables."""
    given: dict[str, Any] = {
        "properties": (below, never),
        "constants": (N,),
        "protocols": PROTOCOLS,
        "terminal": True,
    }
    return System("store", tables=tables or (ticking,), **(given | parts))


def variables(instance: Instance) -> dict[str, str]:
    """The variables' names and types in words."""
    return {v.name: str(v.type) for v in instance.variables}


def steps(instance: Instance, state: FullState | None = None) -> list[tuple[str, dict[str, Any]]]:
    """The rows that can be taken in a state (an initial one), and what they change."""
    machine = Interpreter(instance)
    before = next(iter(machine.initial_states())) if state is None else state
    found: list[tuple[str, dict[str, Any]]] = []
    for step in machine.steps(before):
        assert step.state is not None
        pairs = zip(machine.names, before, step.state, strict=True)
        found.append((instance.row_names[step.row], {n: b for n, a, b in pairs if a != b}))
    return found


# Constants, protocols, features, properties -------------------------------------------------------


def test_constants_take_their_defaults_or_what_is_given() -> None:
    assert lang.instantiate(system()).constants == {"N": 2}
    assert lang.instantiate(system(), constants={"N": 3}).constants == {"N": 3}


def test_bounds_by_name_lie_above_the_defaults_and_below_what_is_given() -> None:
    other = lang.constant("M", 5)
    named = system(constants=(N, other), bounds={"default": {N: 1}, "large": {other: 9}})
    for bounds, given, expected in (
        ("default", {}, {"N": 1, "M": 5}),
        ("large", {}, {"N": 1, "M": 9}),
        ("large", {"N": 4}, {"N": 4, "M": 9}),
    ):
        assert lang.instantiate(named, constants=given, bounds=bounds).constants == expected
    assert lang.instantiate(named).constants == {"N": 1, "M": 5}
    with pytest.raises(
        DeclarationError, match=r"store has no bounds called huge \(choose one of default"
    ):
        lang.instantiate(named, bounds="huge")


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({"K": 1}, r"store has no constant K \(choose one of N\)"),
        ({"N": 5}, r"constant N=5 is outside 1\.\.4"),
        ({"N": 0}, r"constant N=0 is outside 1\.\.4"),
    ],
)
def test_a_wrong_constant(constants: dict[str, int], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        lang.instantiate(system(), constants=constants)


def test_a_type_whose_bound_is_no_constant_of_the_system() -> None:
    other = lang.Machine("other")
    other.field("y", lang.Int(0, lang.constant("M", 2)))
    table = Table(other, tick, (Row("r"),))
    with pytest.raises(DeclarationError, match="constant M has no value here"):
        lang.instantiate(system(ticking, table))


@pytest.mark.parametrize(
    ("protocol", "row"),
    [("1", "slow"), ("2", "fast"), ("3", "fast"), (None, "fast")],
)
def test_rows_exist_in_the_protocols_of_their_features(protocol: str | None, row: str) -> None:
    instance = lang.instantiate(system(), protocol)
    assert instance.row_names == (f"depot.tick/{row}",)
    assert instance.protocol == (protocol or "3")


@pytest.mark.parametrize(
    ("release", "declared"),
    [
        ("3.4.1", "3.4"),
        ("2.8.2", "2.8"),
        ("4.0", "4.0.0"),
        ("4.0.2", "4.0.1"),
        ("4.2.1", "4.2"),
        ("4.2.3", "4.2.2"),
        ("4.3.0", "4.3"),
        ("4.3.2", "4.3.1"),
        ("4.4.0", "4.4"),
    ],
)
def test_a_release_between_two_does_what_the_one_before_it_does(
    release: str, declared: str
) -> None:
    assert KAFKA.features_at(release) == KAFKA.features_at(declared)


@pytest.mark.parametrize("release", ["0.10", "4.4.1", "5.0", "4.0-2025", "3.x", ""])
def test_other_releases_are_refused(release: str) -> None:
    said = f"unknown protocol {release}: (did you mean|choose one of) "
    with pytest.raises(DeclarationError, match=said):
        KAFKA.features_at(release)


@pytest.mark.parametrize(
    ("given", "taken"),
    [("3.99", "3.9"), ("4.0.2+client=3.99", "4.0.2+client=3.9"), ("4", "4.0.0"), ("2.9", "2.8")],
)
def test_a_number_that_is_no_release_is_the_release_before_it(given: str, taken: str) -> None:
    with pytest.warns(UserWarning, match=r"^[\d.]+ isn't a release; taken as [\d.]+$"):
        assert KAFKA.released(given) == taken


def test_an_instance_names_the_release_that_it_is_of() -> None:
    with pytest.warns(UserWarning, match="taken as 3.9"):
        assert lang.instantiate(shipped("producer-ids"), "3.99").protocol == "3.9"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("release", [*KAFKA.releases, "2.2", "2.2.1", "3.1", "3.9.1", "4.0.2"])
def test_releases_and_their_patches_are_taken_without_a_word(release: str) -> None:
    assert KAFKA.released(release) == release


PARTS = ("client", "server")
OURS = lang.feature("ours", "2", parts=("client",))
AGREED = lang.feature("agreed", "2", parts=PARTS)
LATER = lang.feature("later", "3")
MIXED = lang.Protocols(("1", "2", "3"), (OURS, AGREED, LATER), unreleased=("3",), parts=PARTS)


@pytest.mark.parametrize(
    ("protocol", "features"),
    [
        ("1", set[str]()),
        ("2", {"ours", "agreed"}),
        ("1+client=2", {"ours"}),
        ("2+client=1", set[str]()),
        ("2+server=1", {"ours"}),
        ("3+client=2+server=2", {"ours", "agreed"}),
        ("3", {"ours", "agreed", "later"}),
    ],
)
def test_a_part_may_be_of_a_release_of_its_own(protocol: str, features: set[str]) -> None:
    """A feature of several parts is there where all of them have it."""
    assert MIXED.features_at(protocol) == features


def test_a_part_that_a_system_leaves_out_agrees_to_everything() -> None:
    assert MIXED.of_parts("client").features_at("1+client=2") == {"ours", "agreed"}


def test_a_patch_of_an_earlier_line_has_a_backport() -> None:
    mended = feature("mended", "4", backports=("2.1.1",), until="5")
    protocols = Protocols(("2.1", "2.1.1", "2.1.3", "2.2", "3", "4", "5"), (mended,))
    has = [at for at in protocols.releases if "mended" in protocols.features_at(at)]
    assert has == ["2.1.1", "2.1.3", "4"]
    assert "mended" in protocols.features_at("2.1.2")


@pytest.mark.parametrize(
    ("since", "backport", "says"),
    [
        ("3", "4", "the backport 4 must come before `since`"),
        (None, "2", "the backport 2 must come before `since`"),
        ("3", "2.9", "no release is called 2.9"),
    ],
)
def test_no_such_backport(since: str | None, backport: str, says: str) -> None:
    with pytest.raises(DeclarationError, match=says):
        Protocols(("2", "3", "4"), (feature("mended", since, backports=(backport,)),))


def test_what_is_not_out_is_not_the_newest() -> None:
    assert MIXED.newest == "2"
    assert MIXED.mixed("2", {"client": "1", "server": "2"}) == "2+client=1"


@pytest.mark.parametrize(
    ("protocol", "says"),
    [
        ("2+client", r"write RELEASE\+PART=RELEASE, not client"),
        ("2+client=1+client=2", r"2\+client=1\+client=2 gives client two releases"),
        ("2+broker=1", r"no part is called broker \(choose one of client, server\)"),
        ("2+client=9", "unknown protocol 9: choose one of 1, 2, 3"),
        ("9+client=1", "unknown protocol 9"),
    ],
)
def test_no_such_mixture(protocol: str, says: str) -> None:
    with pytest.raises(lang.DeclarationError, match=says):
        MIXED.features_at(protocol)


def test_single_features_are_switched() -> None:
    both = lang.instantiate(system(), "1", switch_on=["fast"])
    assert both.row_names == ("depot.tick/fast", "depot.tick/slow")
    none = lang.instantiate(system(), "1", switch_off=["slow"])
    assert none.row_names == ()


def test_unknown_protocols_features_and_properties() -> None:
    with pytest.raises(DeclarationError, match="unknown protocol 4: choose one of 1, 2, 3"):
        lang.instantiate(system(), "4")
    with pytest.raises(DeclarationError, match="no feature of store is called steady"):
        lang.instantiate(system(), switch_off=["steady"])
    with pytest.raises(DeclarationError, match=r"Sometimes \(choose one of Below, Never\)"):
        lang.instantiate(system(), properties=["Sometimes"])


def test_the_named_properties_alone_are_taken() -> None:
    chosen = lang.instantiate(system(), properties=["Never"]).properties
    assert [item.name for item in chosen] == ["Never"]


def test_features_and_constants_are_settled_in_expressions() -> None:
    chosen = lang.invariant("Chosen", lang.if_(FAST, x <= N, x < 0), "Either.")
    for protocol, wanted in (("1", "if(False, x <= 3, x < 0)"), ("2", "if(True, x <= 3, x < 0)")):
        instance = lang.instantiate(system(properties=(chosen,)), protocol, {"N": 3})
        assert str(instance.properties[0].expression) == wanted


# Initial states -----------------------------------------------------------------------------------


def test_initial_values_are_of_constants_and_may_be_any() -> None:
    light = Table(worker, tick, (Row("r"),))
    instance = lang.instantiate(system(light, properties=()), constants={"N": 3})
    states = set(instance.initial_states())
    assert len(states) == 2**3
    assert {counts for counts, _ in states} == {(2, 2, 2)}


def test_an_initial_value_is_in_its_range() -> None:
    other = lang.Machine("other")
    other.field("y", lang.Int(0, N), 3)
    beside = system(ticking, Table(other, tick, (Row("r"),)))
    assert lang.instantiate(beside, constants={"N": 3})
    with pytest.raises(DeclarationError, match=r"other.y is 0\.\.N: its first value can't be 3"):
        lang.instantiate(beside)


# Network ------------------------------------------------------------------------------------------

net = (lang.Channel(ask, N - 1), lang.Channel(answer))


def test_channels_are_bags_by_address() -> None:
    instance = lang.instantiate(system(sending, asked, answered, channels=net))
    assert variables(instance) == {
        "depot.x": "0..N",
        "worker.count": "0..9 by shelf",
        "worker.lamp": "bool by shelf",
        "network.ask": "bag of ask up to 1 by shelf",
        "network.answer": "bag of answer up to 1 by shelf",
    }


def test_a_request_is_sent_taken_and_answered() -> None:
    instance = lang.instantiate(system(sending, asked, answered, channels=net))
    machine = Interpreter(instance)
    state = next(iter(machine.initial_states()))
    for row, changed in (
        ("depot.send/ask", {"network.ask": (((1,),), ())}),
        (
            "worker.ask/answer",
            {"network.ask": ((), ()), "network.answer": (((1,),), ()), "worker.count": (2, 1)},
        ),
        ("depot.answer/take", {"network.answer": ((), ()), "depot.x": 1}),
    ):
        found = steps(instance, state)
        at = [name for name, _ in found].index(row)
        assert found[at][1] == changed
        following = list(machine.steps(state))[at].state
        assert following is not None
        state = following


def test_a_row_waits_for_room_in_the_channel() -> None:
    instance = lang.instantiate(system(sending, asked, answered, channels=net), constants={"N": 1})
    with_room = lang.instantiate(
        system(sending, asked, answered, channels=(lang.Channel(ask, N), lang.Channel(answer))),
        constants={"N": 1},
    )
    assert steps(instance) == []
    assert [row for row, _ in steps(with_room)] == ["depot.send/ask"]


def test_a_full_channel_of_answers_holds_the_request_back() -> None:
    again = lang.event("again", s)
    one = Table(depot, again, (Row("r", send=(ask(shelf=s, n=1),)),))
    instance = lang.instantiate(
        system(one, asked, answered, channels=(lang.Channel(ask, 2), lang.Channel(answer))),
        constants={"N": 1},
    )
    full = (1, (0,), (False,), (((1,),),), (((1,),),))
    rows = [row for row, _ in steps(instance, full)]
    assert "worker.ask/answer" not in rows
    assert "depot.answer/take" in rows


def test_equal_messages_are_taken_once() -> None:
    quiet = Table(worker, ask, (Row("take"),))
    instance = lang.instantiate(
        system(sending, quiet, channels=(lang.Channel(ask, 2),)), constants={"N": 1}
    )
    state = (1, (0,), (False,), (((0,), (1,)),))
    assert [row for row, _ in steps(instance, state)] == ["worker.ask/take"] * 2
    state = (1, (0,), (False,), (((1,), (1,)),))
    assert steps(instance, state) == [("worker.ask/take", {"network.ask": (((1,),),)})]


def test_messages_are_lost_without_bound_and_doubled_within_one() -> None:
    quiet = Table(worker, ask, (Row("take"),))
    channel = lang.Channel(ask, 2, lossy=True, duplicates=N - 1)
    instance = lang.instantiate(system(sending, quiet, channels=(channel,)))
    assert variables(instance)["budget.duplicate ask"] == "0..1"
    one = (1, (0, 0), (False, False), (((1,),), ()), 0)
    rows = dict(steps(instance, one))
    assert rows["network.ask/lost"] == {"network.ask": ((), ())}
    assert rows["network.ask again/duplicated"] == {
        "network.ask": (((1,), (1,)), ()),
        "budget.duplicate ask": 1,
    }
    spent = (*one[:-1], 1)
    assert "network.ask again/duplicated" not in dict(steps(instance, spent))
    full = (*one[:3], (((1,), (1,)), ()), 0)
    assert "network.ask again/duplicated" not in dict(steps(instance, full))


def test_an_ordered_channel_gives_up_its_first_message_alone() -> None:
    held_up = lang.in_transit("held up", ask)
    again = Table(worker, held_up, (Row("on", send=(ask(shelf=worker.this, n=held_up.n),)),))
    quiet = Table(worker, ask, (Row("take", when=ask.n == 1), Row("see")))
    channel = lang.Channel(ask, 3, ordered=True, lossy=True)
    instance = lang.instantiate(
        system(sending, quiet, again, channels=(channel,)), constants={"N": 1}
    )
    assert variables(instance)["network.ask"] == "sequence of ask up to 3 by shelf"
    state = (1, (0,), (False,), (((1,), (0,)),))
    assert steps(instance, state) == [
        ("depot.send/ask", {"network.ask": (((1,), (0,), (1,)),)}),
        ("worker.ask/take", {"network.ask": (((0,),),)}),
        ("worker.held up ask/on", {"network.ask": (((0,), (1,)),)}),
        ("network.ask/lost", {"network.ask": (((0,),),)}),
    ]
    assert [row for row, _ in steps(instance, (1, (0,), (False,), ((),)))] == ["depot.send/ask"]


def test_a_channel_may_have_no_capacity() -> None:
    quiet = Table(worker, ask, (Row("take"),))
    for ordered in (False, True):
        channel = lang.Channel(ask, N - 1, ordered)
        one = system(sending, quiet, channels=(channel,), properties=(below,))
        instance = lang.instantiate(one, constants={"N": 1})
        assert check(instance).transitions == 0
        assert steps(instance) == []


def test_a_feature_of_no_release_is_only_switched_on() -> None:
    never_yet = lang.feature("never_yet", None)
    row = Row("idea", during=never_yet, set={x: 0})
    protocols = lang.Protocols(("1", "2"), (never_yet,))
    planned = system(Table(depot, tick, (row,)), protocols=protocols)
    assert [steps(lang.instantiate(planned, release)) for release in ("1", "2")] == [[], []]
    on = lang.instantiate(planned, switch_on=("never_yet",))
    assert steps(on) == [("depot.tick/idea", {"depot.x": 0})]


def test_a_machine_hears_of_what_is_lost() -> None:
    loss = lang.lost(ask)
    noted = Table(worker, loss, (Row("note", when=loss.n == 1, set={lamp: True}),))
    quiet = Table(worker, ask, (Row("take"),))
    instance = lang.instantiate(system(sending, quiet, noted, channels=(lang.Channel(ask),)))
    state = (1, (0, 0), (False, False), ((), ((1,),)))
    assert dict(steps(instance, state))["worker.lost ask/note"] == {
        "worker.lamp": (False, True),
        "network.ask": ((), ()),
    }


def test_a_message_goes_to_each_of_some() -> None:
    everyone = Table(
        depot,
        tick,
        (Row("all", send=(lang.to_each(s, count.at(s) == 0, ask(shelf=s)),)),),
        others=(worker,),
    )
    quiet = Table(worker, ask, (Row("take"),))
    instance = lang.instantiate(
        system(everyone, quiet, channels=(lang.Channel(ask),)), constants={"N": 3}
    )
    state = (1, (0, 1, 0), (False,) * 3, ((), (), ()))
    assert steps(instance, state) == [("depot.tick/all", {"network.ask": (((0,),), (), ((0,),))})]
    partly_full = (*state[:3], (((0,),), (), ()))
    assert dict(steps(instance, partly_full)).keys() == {"worker.ask/take"}


# Budgets ------------------------------------------------------------------------------------------


def test_a_budget_bounds_an_event() -> None:
    up = lang.event("up")
    table = Table(worker, up, (Row("r", set={count: count + 1}),))
    instance = lang.instantiate(system(table, budgets={up: N + 1}, properties=()))
    assert variables(instance)["budget.up"] == "0..3"
    found = search(instance)
    # four initial states (any lamps), and two counters that share three steps
    assert found.states == 4 * (1 + 2 + 3 + 4)
    assert found.out_of_range is None


def test_a_budget_s_event_is_not_taken_by_a_later_row_when_it_is_spent() -> None:
    up = lang.event("up")
    table = Table(depot, up, (Row("down", when=x > 0, set={x: x - 1}), Row("else")))
    instance = lang.instantiate(system(table, budgets={up: 1}))
    assert search(instance).taken == [1, 0]


@pytest.mark.parametrize("parts", [{"budgets": {tick: -1}}, {"budgets": {tick: N - 3}}])
def test_a_budget_below_nothing(parts: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError, match="below 0"):
        lang.instantiate(system(**parts))


# Names of rows do not meddle with those of quantifiers --------------------------------------------


def test_an_event_s_parameter_is_not_bound_by_a_quantifier_of_its_name() -> None:
    flags = lang.Machine("flags")
    flag = flags.field("flag", lang.Map(SHELF, lang.Bool()))
    raise_ = lang.event("raise", shelf=SHELF)
    k = SHELF.variable("shelf")
    alone = lang.all_of(k, (k == raise_.shelf) | ~flag[k])
    table = Table(flags, raise_, (Row("r", when=alone, set={flag[raise_.shelf]: True}),))
    # one flag at a time, whichever comes first
    assert search(lang.instantiate(system(table, properties=()), constants={"N": 3})).states == 4


def test_an_instance_is_not_bound_by_a_quantifier_of_its_machine_s_name() -> None:
    k = SHELF.variable("worker")
    alone = lang.all_of(k, (k == worker.this) | ~lamp.at(k))
    table = Table(worker, tick, (Row("r", when=alone & ~lamp, set={lamp: True}),))
    instance = lang.instantiate(system(table, properties=()), constants={"N": 2})
    dark = ((1, 1), (False, False))
    assert len(steps(instance, dark)) == 2
    assert steps(instance, ((1, 1), (True, False))) == []


def test_a_message_s_address_is_not_bound_by_a_quantifier_of_its_name() -> None:
    k = SHELF.variable("shelf")
    alone = lang.count_of(k, k == ask.shelf) == 1
    table = Table(worker, ask, (Row("r", when=alone),))
    instance = lang.instantiate(system(sending, table, channels=(lang.Channel(ask),)))
    state = (1, (0, 0), (False, False), ((), ((1,),)))
    assert "worker.ask/r" in dict(steps(instance, state))


def test_a_message_to_each_has_no_quantifier_of_its_variable_inside() -> None:
    ask_n = lang.count_of(s, s == s)
    with pytest.raises(lang.DeclarationError, match="binds s a second time: choose another name"):
        Table(depot, tick, (Row("all", send=(lang.to_each(s, ask_n == N, ask(shelf=s)),)),))


def test_a_constant_may_be_settled_beyond_what_it_is_compared_with() -> None:
    """No literal may be so (it would be a slip), but another value of the constant is in range."""
    most = lang.constant("most", 3, 0, 5)
    level = lang.Machine("tank")
    full, open_ = level.field("full", lang.Int(0, 1)), level.field("open", lang.Bool())
    rows = (Row("fill", when=full < 1, set={full: full + 1}), Row("turn", set={open_: ~open_}))
    never = lang.invariant("NeverMost", ~((full == most) & open_), "It is never so full.")
    system = System("tank", (Table(level, tick, rows),), (never,), constants=(most,), terminal=True)
    verdicts = {n: check(lang.instantiate(system, constants={"most": n})).verdict for n in (1, 3)}
    assert verdicts == {1: Verdict.BROKEN, 3: Verdict.HOLDS}
