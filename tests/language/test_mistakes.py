"""Slips that Python itself lets through: each is one line with its place and what to write."""

from collections.abc import Callable
from typing import Any

import pytest

from epochfence import language as declared
from epochfence.language import DeclarationError

lang: Any = declared  # type checkers refuse most of these as well
KEY = lang.Key("client", 2)
client = lang.Machine("client", KEY)
x = client.field("x", lang.Int(0, 3))
ok = client.field("ok", lang.Bool())
many = client.field("many", lang.Set(KEY))
alone = lang.Machine("alone")
tick = lang.event("tick")
N = lang.constant("N", 2)
i = KEY.variable("i")
row = lang.Row("r")
table = lang.Table(client, tick, (row,))
holds = lang.invariant("P", lang.all_of(i, x.at(i) <= 3), "...")
Ask = lang.message("Ask", alone, client=KEY)
there = alone.field("there", lang.Int(0, 3))
n = lang.Key("node", lang.constant("NODES", 2, 1, 4)).variable("n")
E = lang.enum("E", "NONE", "BAD")
fast = lang.feature("fast", "2")
FAST = lang.message("M", alone, errors={E.BAD: fast}, error=E)


def _system(**changed: Any) -> Any:
    return lang.System(**{"name": "s", "tables": (table,), "properties": (holds,), **changed})


def _twice() -> Any:
    other = lang.Machine("client", KEY)
    stale = other.field("x", lang.Bool())
    return lang.Table(client, tick, (lang.Row("r", set={stale: True}),))


def _both() -> Any:
    chosen = lang.event("pass", i)
    return lang.Table(client, chosen, (lang.Row("r", when=lang.any_of(i, ok.at(i))),))


def _stranger() -> Any:
    other = lang.Machine("other")
    given = other.field("given", lang.Set(KEY))
    return lang.Table(other, tick, (lang.Row("r", set={given: lang.set_of(client.this)}),))


COLLECTIONS: tuple[tuple[str, Callable[[Any], Any], Any], ...] = (
    ("system s, tables", lambda given: _system(tables=given), table),
    ("system s, properties", lambda given: _system(properties=given), holds),
    ("system s, lemmas", lambda given: _system(lemmas=given, properties=()), holds),
    ("system s, constants", lambda given: _system(constants=given), N),
    ("system s, interchangeable", lambda given: _system(interchangeable=given), KEY),
    ("table client.tick, rows", lambda given: lang.Table(client, tick, given), row),
    (
        "table client.tick, others",
        lambda given: lang.Table(client, tick, (row,), others=given),
        alone,
    ),
    ("row 'r', send", lambda given: lang.Row("r", send=given), Ask(client=0)),
    ("protocols, releases", lambda given: lang.Protocols(given), "1"),
    ("message M, carried", lambda given: lang.message("M", alone, carried=given, k=KEY), "k"),
)


@pytest.mark.parametrize(("where", "make", "one"), COLLECTIONS, ids=[c[0] for c in COLLECTIONS])
def test_every_collection_is_a_tuple(where: str, make: Callable[[Any], Any], one: Any) -> None:
    wrong: tuple[tuple[Any, str], ...] = (
        (one, "alone: put a comma behind it|is the text"),
        ("text", "is the text 'text'|alone: put a comma"),
        ({"a"}, "has no order"),
        ({"a": 1}, "has no order"),
        ((item for item in (one,)), "can be read only once: write tuple"),
        (iter([one]), "can be read only once"),
        (7, "is `7`: write a tuple of each"),
        (None, "is `None`: write a tuple"),
        (((one,),), r"holds a tuple: put \* before it"),
        ((7,), "holds `7`, which is no"),
    )
    for given, said in wrong:
        with pytest.raises(DeclarationError, match=rf"^{where} .*({said})"):
            make(given)
    assert make([one]) is not None  # a list is as good as a tuple
    assert make((one,)) is not None


MISTAKES: tuple[tuple[Callable[[], Any], str], ...] = (
    (lambda: _system(properties=(row,)), "properties holds Row 'r', which is not a property"),
    (lambda: _system(tables=(tick,)), "tables holds Event 'tick', which is not a table"),
    (lambda: _system(budgets=(tick, 1)), "system s, budgets is .*: write {event: number}"),
    (lambda: _system(fixed=[N]), "system s, fixed is .*: write {constant: number}"),
    (lambda: lang.Row("r", set={x}), "row 'r', set is .*: write {field: value}"),
    (lambda: lang.Row(x), "a row is called `?x`?: write a name in quotes"),
    (lambda: lang.Table(tick, client, (row,)), "machine: Event 'tick' is not a Machine"),
    (lambda: lang.Table(client, "tick", (row,)), "a table's event: `'tick'` is not an Event"),
    (lambda: lang.event(1), "an event is called 1: write a name in quotes"),
    (lambda: lang.event(""), "an event is called ''"),
    (lambda: lang.event("e", KEY), "event e holds Key 'client', which is not a variable"),
    (lambda: lang.event("e", k=lang.Bool), r"parameter k: Bool lacks its brackets: write Bool\("),
    (lambda: lang.Machine(KEY), "a machine is called"),
    (lambda: lang.Machine("m", 3), "machine m, key: `3` is not a Key"),
    (lambda: alone.field("f", lang.Bool), r"alone, field f: Bool lacks its brackets"),
    (lambda: alone.field("f", 3), "alone, field f: `3` is not a type"),
    (lambda: alone.field(3, lang.Bool()), "alone: a field is called 3"),
    (lambda: lang.Key(3, 3), "a key is called 3"),
    (lambda: lang.Key("k", "3"), "Key k: `'3'` is not a whole number or Expression"),
    (lambda: lang.Int(0, 2.5), "`2.5` is not a whole number or Expression"),
    (lambda: lang.Set(lang.Bool), "Set: Bool lacks its brackets"),
    (lambda: lang.Map("k", lang.Bool()), "Map: `'k'` is not a Key"),
    (lambda: lang.Optional(3), "Optional: `3` is not a type"),
    (lambda: lang.record("R", a=3), "record R, field a: `3` is not a type"),
    (lambda: lang.enum("E", "name"), "enum E: a member can't be called name"),
    (lambda: lang.enum("E", ("A", "B")), "enum E: a member is called"),
    (lambda: lang.enum("E", "A", "A"), "enum E: give at least one member, and no name twice"),
    (lambda: lang.constant("C", 2.0), "constant C: `2.0` is not a whole number"),
    (lambda: lang.constant(3, 3), "a constant is called 3"),
    (lambda: lang.invariant("P", True, "..."), "property P: `True` is not an Expression"),
    (lambda: lang.invariant("P", "...", x), "property P: `'...'` is not an Expression"),
    (lambda: lang.invariant(x <= 3, "P", "..."), "a property is called"),
    (_twice, "row 'r': `x` is a field of another machine that is called client too"),
    (_stranger, r"table other.tick, row 'r': `client.this` is not an instance here"),
    (
        _both,
        r"row 'r': `any\(i in client: ok.at\(i\)\)` binds i a second time: choose another name",
    ),
    (lambda: lang.invariant("P", lang.all_of(i, lang.any_of(i, ok.at(i))), "..."),
     "property P: .* binds i a second time inside"),
    (lambda: lang.invariant(
        "P", lang.all_of(i, lang.those(lang.variable("i", lang.Bool()), ok.at(i)) == {}), "..."),
     "neither an expression|a second time"),
    (lambda: lang.Table(client, tick, ()), "table client.tick: it has no rows"),
    (lambda: there.at(i), r"`there`.at\(i\): none of its fields needs an instance"),
    (lambda: x.at(i).at(0), r"`x.at\(i\)`.at\(0\): none of its fields needs an instance"),
    (lambda: lang.Table(client, tick, (lang.Row("r", send=(Ask(client=2),)),)),
     "row 'r': Ask.client: there is no client 2: they are 0..1"),
    (lambda: lang.invariant("P", x.at(2) <= 3, "..."), "there is no client 2: they are 0..1"),
    (lambda: lang.invariant("P", lang.any_of(n, n == 4), "..."),
     "`n == 4`: there is no node 4: they are 0..3, with the largest `NODES`"),
    (lambda: lang.message("M", alone, errors={E.BAD: x > 2}, error=E),
     "message M, errors: `2 < x` is not made of features alone"),
    (lambda: lang.message("M", alone, errors={E.BAD: 3}, error=E), "M, errors: .* not bool"),
    (lambda: lang.message("M", alone, errors={N: fast}, error=E),
     "message M, errors: `N` can't be in a field called error: use that field's values"),
    (lambda: lang.message("M", alone, errors={E.BAD: fast}),
     "message M, errors: `BAD` can't be in a field called error: the message has no such"),
    (lambda: _system(channels=(lang.Channel(FAST),)), "M, errors: fast is not a feature of s"),
    (lambda: lang.KnownBug("...", (fast,), x > 2), "not made of features alone"),
    (lambda: _system(properties=(lang.invariant(
        "P", lang.all_of(i, x.at(i) <= 3), "...", known_bug=lang.KnownBug("...", (fast,))),)),
     "property P, known_bug: fast is not a feature of s"),
)  # fmt: skip


@pytest.mark.parametrize(("make", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_mistake_is_told_where_it_is_made(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        make()


@pytest.mark.parametrize("name", ["client", "member"])
@pytest.mark.parametrize("as_variable", [False, True])
def test_no_parameter_is_called_as_the_instance_itself(name: str, as_variable: bool) -> None:
    """It was taken for it, so that a row about another instance was never taken."""
    machine = lang.Machine("member", KEY)
    mine = machine.field("mine", lang.Bool())
    passes = (
        lang.event("pass", KEY.variable(name)) if as_variable else lang.event("pass", **{name: KEY})
    )
    with pytest.raises(
        DeclarationError,
        match=rf"parameter {name} of pass isn't the member .* call it other_{name}",
    ):
        lang.Table(machine, passes, (lang.Row("r", set={mine: True}),))
    other = lang.event("pass", **{f"other_{name}": KEY})
    given = getattr(other, f"other_{name}")
    made = lang.Table(
        machine, other, (lang.Row("r", when=given != machine.this, set={mine: True}),)
    )
    action = declared.instantiate(lang.System("s", (made,), ())).actions[0]
    assert len({*action.bounds}) == 2


HUGE: tuple[tuple[Any, str], ...] = (
    (lang.Set(lang.Int(0, 10**9)), "1,000,000,001 of them for big.f: use smaller bounds"),
    (lang.Sequence(lang.Int(0, 1), 10**6), "1,000,000 of them for big.f"),
    (lang.Map(lang.Key("k", 10**9), lang.Bool()), "1,000,000,000 of them for big.f"),
    (
        lang.Map(lang.Key("k", 10**6), lang.Map(lang.Key("l", 10**6), lang.Bool())),
        "1,000,000,000,000 of them for big.f",
    ),
)


@pytest.mark.parametrize(("kind", "said"), HUGE, ids=[said for _, said in HUGE])
def test_a_state_that_nothing_could_hold_is_refused_at_once(kind: Any, said: str) -> None:
    machine = lang.Machine("big")
    machine.field("f", kind)
    system = lang.System("s", (lang.Table(machine, tick, (row,)),), ())
    with pytest.raises(DeclarationError, match=f"more than 100,000 numbers, {said}"):
        declared.instantiate(system)


def test_values_are_gone_through_up_to_a_limit() -> None:
    machine = lang.Machine("big")
    machine.field("f", lang.Int(0, 10**9), any_initial=True)
    system = lang.System("s", (lang.Table(machine, tick, (row,)),), ())
    with pytest.raises(DeclarationError, match=r"has 1,000,000,001 values, and the limit"):
        declared.instantiate(system)
