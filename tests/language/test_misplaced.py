"""What stands in place of an expression, a number or a thing by name: one line where it is made."""

from collections.abc import Callable
from typing import Any

import pytest

from epochfence import language as declared
from epochfence.language import DeclarationError

lang: Any = declared  # type checkers refuse most of these as well
KEY = lang.Key("client", 2)
client = lang.Machine("client", KEY)
x = client.field("x", lang.Int(0, 3))
many = client.field("many", lang.Set(KEY))
log = client.field("log", lang.Sequence(lang.Int(0, 3), 2))
alone = lang.Machine("alone")
y = alone.field("y", lang.Int(0, 3))
tick = lang.event("tick")
N = lang.constant("N", 2)
F = lang.feature("F", "1")
i = KEY.variable("i")
row = lang.Row("r")
Ask = lang.message("Ask", alone, client=KEY)


def _table(rows: tuple[Any, ...] = (row,), **changed: Any) -> Any:
    return lang.Table(client, tick, rows, **changed)


def _row(**changed: Any) -> Any:
    return _table((lang.Row("r", **changed),))


def _system(**changed: Any) -> Any:
    given: dict[str, Any] = {
        "name": "s",
        "tables": (_table(), lang.Table(alone, Ask, (row,))),
        "properties": (),
        "channels": (lang.Channel(Ask),),
        "constants": (N,),
        **changed,
    }
    return declared.instantiate(lang.System(**given))


def _holds(expression: Any) -> Any:
    return lang.invariant("P", expression, "...")


def _use(name: str, *given: Any) -> Any:
    return getattr(lang, name)(*given)


PLACES: dict[str, Callable[[Any], Any]] = {
    "table.when": lambda v: _table(when=v),
    "table.response": lambda v: _table(response=v),
    "row.when": lambda v: _row(when=v),
    "row.during": lambda v: _row(during=v),
    "row.set target": lambda v: _row(set={v: 1}),
    "row.set value": lambda v: _row(set={x: v}),
    "row.reply": lambda v: _row(reply=v),
    "row.drop": lambda v: _row(drop=(v,)),
    "row.source": lambda v: _row(source=v),
    "channel": lambda v: _system(channels=(lang.Channel(v),)),
    "channel.capacity": lambda v: _system(channels=(lang.Channel(Ask, capacity=v),)),
    "channel.ordered": lambda v: _system(channels=(lang.Channel(Ask, ordered=v),)),
    "channel.lossy": lambda v: _system(channels=(lang.Channel(Ask, lossy=v),)),
    "channel.duplicates": lambda v: _system(channels=(lang.Channel(Ask, duplicates=v),)),
    "budget": lambda v: _system(budgets={tick: v}),
    "budget of": lambda v: _system(budgets={v: 1}),
    "budget of two": lambda v: _system(budgets={(tick, v): 1}),
    "fixed": lambda v: _system(constants=(), fixed={N: v}),
    "fixed constant": lambda v: _system(fixed={v: 1}),
    "bounds": lambda v: _system(bounds={"a": v}),
    "bound": lambda v: _system(bounds={"a": {N: v}}),
    "bound constant": lambda v: _system(bounds={"a": {v: 1}}),
    "bounds by name": lambda v: _system(bounds={v: {N: 1}}),
    "terminal": lambda v: _system(terminal=v),
    "protocols": lambda v: _system(protocols=v),
    "constants": lambda v: _system(constants=(v,)),
    "reach": lambda v: _system(reach=v),
    "unreached": lambda v: _system(unreached=(v,)),
    "unreached.when": lambda v: _system(unreached=(lang.Unreached("w", (), when=v),)),
    "refusals": lambda v: _system(refusals=(v,)),
    "refusals.when": lambda v: _system(refusals=(lang.Refusal("w", v),)),
    "features": lambda v: lang.Protocols(("1",), (v,)),
    "settled": lambda v: lang.Protocols(("1",)).settling({v: True}),
    "settled truth": lambda v: lang.Protocols(("1",)).settling({F: v}),
    "property": _holds,
    "known bug": lambda v: lang.invariant("P", y <= 3, "...", known_bug=v),
    "mended by": lambda v: lang.KnownBug("w", (v,)),
    "bug during": lambda v: lang.KnownBug("w", (F,), during=v),
    "to_each": lambda v: _row(send=(lang.to_each(v, True, Ask(client=i)),)),
    "to_each.when": lambda v: _row(send=(lang.to_each(i, v, Ask(client=i)),)),
    "to_each.sending": lambda v: _row(send=(lang.to_each(i, True, v),)),
    "to_others": lambda v: lang.to_others(v),
    "dropping": lambda v: lang.dropping(v),
    "lost": lambda v: lang.lost(v),
    "in_flight": lambda v: lang.in_flight("m", v),
    "errors": lambda v: lang.message("M", alone, errors=v),
    "error": lambda v: lang.message("M", alone, errors={v: True}),
    "answers": lambda v: lang.message("M", alone, answers=v),
    "constant": lambda v: lang.constant("C", v, -(10**50), 10**50),
    "constant.low": lambda v: lang.constant("C", 10**41, v, 10**50),
    "constant.real": lambda v: lang.constant("C", 1, real=v),
    "enum": lambda v: lang.enum("E", a=v),
    "enum_size": lambda v: lang.enum("E", "A", enum_size=v),
    "variable": lambda v: lang.variable("v", v),
    "element": lambda v: _holds(lang.all_of(lang.element("v", v), y <= 3)),
    "at": lambda v: _holds(x.at(v) <= 3),
    "make": lambda v: lang.make(v),
    "majority": lambda v: _holds(lang.majority(v, KEY)),
    "majority of": lambda v: _holds(lang.majority(many.at(i), v)),
    "if_": lambda v: _holds(lang.if_(v, True, False)),
    "implies": lambda v: _holds((y <= 3).implies(v)),
    "is_prefix": lambda v: _holds(lang.is_prefix(log.at(0), v)),
    "updated": lambda v: _holds(lang.updated(v, 1, 1)),
    "replace": lambda v: _holds(lang.replace(v, a=1)),
    **{
        f"{name} bound": lambda v, name=name: _holds(_use(name, v, y <= 3) == 1)
        for name in ("all_of", "any_of", "count_of", "each", "those", "keep", "max_of", "min_of")
    },
    **{
        f"{name} body": lambda v, name=name: _holds(_use(name, i, v))
        for name in ("all_of", "any_of", "count_of", "those", "first_of")
    },
    **{
        name: lambda v, name=name: _holds(_use(name, v) == _use(name, v))
        for name in ("size", "after", "first", "last", "without_first", "position")
    },
}
WRONG: dict[str, Any] = {
    "a text": "x", "a fraction": 1.5, "a tuple": (1,), "a type": lang.Bool(),
    "a class": lang.Bool, "a machine": alone, "a function": lambda: True,
}  # fmt: skip
FITS = {
    ("row.source", "a text"),
    ("reach", "a text"),
    ("bounds by name", "a text"),
    ("variable", "a type"),
}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_misplaced_is_refused_where_it_stands(place: str) -> None:
    for what, thing in WRONG.items():
        if (place, what) in FITS:
            PLACES[place](thing)
            continue
        with pytest.raises(DeclarationError) as refused:
            PLACES[place](thing)
        assert "\n" not in str(refused.value)


OTHER = lang.Key("client", 3)
TWINS: dict[str, tuple[Callable[[], Any], str]] = {
    "keys": (
        lambda: lang.Machine("m").field("f", lang.Set(OTHER)), "key types are called client"),
    "enums": (
        lambda: lang.Machine("m").field(
            "f", lang.record("R", a=lang.enum("E", "A"), b=lang.Optional(lang.enum("E", "B")))),
        "enum types are called E"),
    "records": (
        lambda: lang.Machine("m").field("f", lang.Bag(
            lang.record("R", a=lang.record("R", b=lang.Bool())), 1)),
        "record types are called R"),
    "keys of a quantifier": (
        lambda: lang.all_of(OTHER.variable("o"), True), "key types are called client"),
    "constants": (lambda: y <= lang.constant("N", 3), "`N` isn't the constant with this name"),
    "features": (lambda: lang.feature("F", None), "`F` isn't the feature with this name"),
}  # fmt: skip


@pytest.mark.parametrize("what", TWINS)
def test_one_name_is_one_thing(what: str) -> None:
    """Traces, `--set` and `--with` go by names: two things of one name would be taken for one."""
    make, said = TWINS[what]
    protocols = lang.Protocols(("1",), (F,))
    made = make()
    if made.op == "field":
        machine = lang.Machine("m")
        machine.field("f", made.data.type)
        two = (lang.Table(machine, tick, (row,)), lang.Table(alone, Ask, (row,)))
        changed: dict[str, Any] = {"tables": (*two, _table())}
    else:
        changed = {"properties": (_holds(made),)}
    with pytest.raises(
        DeclarationError, match=f"{said}.*: declare it once, or choose another name"
    ):
        _system(protocols=protocols, **changed)


def test_a_table_takes_what_a_row_takes_as_its_condition() -> None:
    for given in (True, False, x < 3):
        assert _table(when=given).guard is _row(when=given).rows[0].guard
    with pytest.raises(
        DeclarationError, match=r"^table client.tick: `7` is .* and not a condition$"
    ):
        _table(when=7)


def test_a_constant_and_a_field_of_one_name_are_told_where_both_are_meant() -> None:
    """`minimum(moves + 1, moves)` says nothing: which of the two is the constant?"""
    shadow = lang.constant("y", 3)
    message = "`y < y` has a constant and a field that are both called y.*: rename one of them"
    with pytest.raises(DeclarationError, match=message):
        _system(constants=(N, shadow), properties=(_holds(y < shadow),))
