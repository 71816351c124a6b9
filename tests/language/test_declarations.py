"""Mistakes in tables, properties and systems: each raises where it is made, and says where."""

from collections.abc import Callable
from typing import Any

import pytest

from epochfence import language as lang
from epochfence.language import DeclarationError, Expression, Row, System, Table

N = lang.constant("N", 2, 1, 4)
SHELF = lang.Key("shelf", N)
LORRY = lang.Key("lorry", 2)
COLOUR = lang.enum("colour", "red", "green")
SIZE = lang.enum("size", "small", "large")
ERROR = lang.enum("error", "NONE", "FULL")
BOX = lang.record("box", weight=lang.Int(0, 9), colour=COLOUR)

depot = lang.Machine("depot")
state = depot.state_field("state", COLOUR)
x = depot.field("x", lang.Int(0, 9))
held = depot.field("held", lang.Optional(lang.Int(0, 9)))
by_shelf = depot.field("by_shelf", lang.Map(SHELF, lang.Int(0, 9)))
row = depot.field("row", lang.Sequence(BOX, 3))
few = depot.field("few", lang.Set(SHELF))
pile = depot.field("pile", lang.Bag(BOX, 3))
box = depot.field("box", BOX)
lorry = lang.Machine("lorry", LORRY)
load = lorry.field("load", lang.Int(0, 9))
stranger = lang.Machine("stranger", SHELF)
strange = stranger.field("strange", lang.Int(0, 9))

s = SHELF.variable("s")
r = LORRY.variable("r")
tick = lang.event("tick", weight=lang.Int(0, 9), shelf=SHELF)
tock = lang.event("tock", weight=lang.Int(0, 9))
ask = lang.message("ask", depot, lorry=LORRY, weight=lang.Int(0, 9))
answer = lang.message("answer", lorry, answers=ask, error=ERROR)
call = lang.message("call", lorry, lorry=LORRY, weight=lang.Int(0, 9))
FAST = lang.feature("fast", "2")
PROTOCOLS = lang.Protocols(("1", "2"), (FAST,))


def table(on: lang.Event = tick, **line: Any) -> Table:
    """A table with one row, called 'the row'."""
    return Table(depot, on, (Row("the row", **line),))


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a guard that is a number": ({"when": x + 1}, "`x \\+ 1` is number and not a condition"),
    "an enum compared with a number": ({"when": state == 1}, "`1`, number, have no common type"),
    "two enums compared": ({"when": state == SIZE.small}, "colour, and `small`, size, have no"),
    "an order of enums": ({"when": state < COLOUR.red}, "is `state`, colour and not number"),
    "an order of keys": ({"when": tick.shelf < 1}, "is `tick.shelf`, shelf and not number"),
    "arithmetic on truths": ({"when": (x == 1) + 1 == 2}, "an operand of \\+ is"),
    "a negated number": ({"when": ~x}, "an operand of ~ is `x`, 0..9 and not bool"),
    "none compared with what is never none": ({"when": x == None}, "0..9 is never none"),
    "a condition of another type": ({"when": lang.if_(x, True, False)}, "the condition of if_"),
    "branches of two types": ({"when": lang.if_(x == 1, x, state) == 1}, ", have no common type"),
    "an unknown field of a record": ({"when": box.height == 1}, r"`box` \(box\) has no height"),
    "a field of no record": ({"when": x.height == 1}, r"`x` \(0..9\) has no height"),
    "an unknown field set in a record": ({"set": {box: BOX(height=1)}}, "box has no field height"),
    "an unknown field replaced": (
        {"set": {box: lang.replace(box, height=1)}},
        "box has no field height",
    ),
    "a record's field of another type": (
        {"set": {box: BOX(weight=COLOUR.red)}},
        "box.weight is `red`, colour and not 0..9",
    ),
    "a replacement in no record": (
        {"set": {x: lang.replace(x, weight=1)}},
        "`x` is 0..9 and not a record",
    ),
    "is_set of no optional": ({"when": x.is_set}, "`x` is 0..9 and not an optional"),
    "the value of no optional": ({"when": x.value == 1}, "`x` is 0..9 and not an optional"),
    "an optional of an optional": (
        {"set": {held: lang.some(held)}},
        "optional 0..9 is not a plain value",
    ),
    "arithmetic on an optional": ({"set": {x: held + 1}}, "is `held`, optional 0..9 and not"),
    "an index of no map": ({"when": x[tick.shelf] == 1}, "`x` is 0..9: only maps and"),
    "an index of another key": (
        {"when": lang.any_of(r, by_shelf[r] == 1)},
        "the index is `r`, lorry and not shelf",
    ),
    "a quantifier over an expression": ({"when": lang.all_of(x, True)}, "which is neither a va"),
    "elements of what has none": (
        {"when": lang.all_of(lang.element("e", x), True)},
        "`x` is 0..9: it has no elements",
    ),
    "a quantified number": ({"when": lang.all_of(s, by_shelf[s])}, "the condition is `by_shelf"),
    "membership in a number": ({"when": tick.shelf.is_in(x)}, "`x` is 0..9: only a set, a seq"),
    "a member of another type": (
        {"when": lang.any_of(r, r.is_in(few))},
        "the member sought is `r`, lorry and not shelf",
    ),
    "a set that mixes types": (
        {"set": {few: lang.set_of(tick.shelf, COLOUR.red)}},
        "mixes types, at `red`",
    ),
    "a set of records": ({"when": lang.size(lang.set_of(box)) == 1}, "a set holds scalars"),
    "a set set against another": (
        {"set": {few: few | lang.set_of(COLOUR.red)}},
        "set of shelf, and ",
    ),
    "the size of a number": ({"when": lang.size(x) == 1}, "`x` is 0..9: it has no elements"),
    "appended to no sequence": ({"set": {x: lang.append(x, 1)}}, "and not a sequence"),
    "appended of another type": (
        {"set": {row: lang.append(row, 1)}},
        "the new element is `1`, number and not box",
    ),
    "inserted by no number": (
        {"set": {row: lang.insert_by(row, box, "colour")}},
        "box has no field colour that is a number",
    ),
    "inserted by an unknown field": (
        {"set": {row: lang.insert_by(row, box, "height")}},
        "box has no field height that is a number",
    ),
    "a product of two numbers": ({"when": x * x == 4}, r"`x \* x`: one of the two factors"),
    "a product with a truth": ({"when": (x == 1) * 2 == 2}, r"an operand of \* is `x == 1`"),
    "a division by what may change": ({"when": 4 // x == 2}, "the divisor must consist of literal"),
    "a division by nothing": ({"when": x // 0 == 1}, r"`x // 0` divides by 0"),
    "a rest of a negative number": ({"when": x % -2 == 1}, r"divides by -2: only 1 and more"),
    "an element before the first": ({"when": row[-1].is_set}, r"write last\(...\) for the end"),
    "a slice that ends before the end": ({"when": row[:-1] == row}, r"`row\[:-1\]`: positions"),
    "a slice of a set": ({"when": few[1:] == few}, "set of shelf and not a sequence"),
    "a place that is no number": ({"when": row[state].is_set}, "the position is `state`"),
    "the field of an element by place": ({"when": row[0].weight == 1}, "optional box"),
    "an element of a sequence set": ({"set": {row[0]: box}}, "`row` is a sequence: set it as a"),
    "a prefix of a set": ({"when": lang.is_prefix(few, row)}, "`few` is set of shelf and not a se"),
    "a prefix of another type": (
        {"when": lang.is_prefix(lang.sequence_of(1), row)},
        "have no common type",
    ),
    "sequences of two types": ({"set": {row: row + lang.sequence_of(1)}}, "have no common type"),
    "a sequence and a number": ({"set": {row: row + 1}}, "and `1`, number, have no"),
    "a largest truth": ({"when": lang.max_of(s, s == s) == 1}, "the compared value is"),
    "the first of a collection's values": (
        {"when": lang.first_of(lang.element("e", few), True).is_set},
        "of a sequence or a bag",
    ),
    "the first record": (
        {"when": lang.first_of(lang.variable("v", BOX), True).is_set},
        "first_of needs a scalar variable",
    ),
    "put into no bag": ({"set": {row: lang.put(row, box)}}, "and not a bag"),
    "kept out of a set": (
        {"set": {few: lang.keep(lang.element("e", few), True)}},
        "of a sequence or a bag",
    ),
    "each over no key": (
        {"set": {by_shelf: lang.each(lang.variable("c", COLOUR), 1)}},
        "each needs a key variable",
    ),
    "a map of another type": ({"set": {by_shelf: lang.each(s, COLOUR.red)}}, "colour by shelf"),
    "the position of a number": ({"when": lang.position(x) == 1}, "not a key nor"),
    "a free variable": ({"when": by_shelf[s] == 1}, "`s` isn't bound: neither tick nor"),
    "a free variable in an update": ({"set": {by_shelf[s]: 1}}, "`s` isn't bound: neither"),
    "a free element": ({"when": lang.element("e", row).weight == 1}, "`e` isn't bound: neither"),
    "a variable of an element's collection": (
        {
            "when": lang.any_of(
                lang.element("e", lang.those(s, by_shelf[s] == x) - lang.set_of(s)), True
            )
        },
        "`s` isn't bound: neither",
    ),
    "the next state": ({"when": lang.after(x) == 1}, "only step properties can refer to the"),
    "a parameter of another event": ({"when": tock.weight == 1}, "parameter of tock, not of tick"),
    "a field of another machine": ({"when": strange.at(tick.shelf) == 1}, "field of stranger"),
    "an update of another machine": (
        {"set": {strange.at(tick.shelf): 1}},
        "is a field of stranger, not of depot",
    ),
    "an update of an expression": ({"set": {x + 1: 1}}, "`x \\+ 1` can't be set"),
    "an update of a parameter": ({"set": {tick.weight: 1}}, "`tick.weight` can't be set"),
    "an update of an optional's value": ({"set": {held.value: 1}}, "can't be set"),
    "an update of another type": ({"set": {x: COLOUR.red}}, "`x` is 0..9: it can't be set to"),
    "an update to none": ({"set": {x: None}}, "`x` is 0..9: it can't be set to `None`"),
    "a constant outside": ({"set": {x: 10}}, "10 is outside of its type 0..9"),
    "a constant outside, in an optional": ({"set": {held: 10}}, "10 is outside of its type 0..9"),
    "a constant outside, marked": ({"set": {held: lang.some(10)}}, "10 is outside of its type"),
    "a constant outside, in a branch": (
        {"set": {x: lang.if_(x == 1, 10, x)}},
        "10 is outside of its type 0..9",
    ),
    "a constant outside, in a record": (
        {"set": {box: BOX(weight=10)}},
        "10 is outside of its type 0..9",
    ),
    "a constant outside, in a map": (
        {"set": {by_shelf: lang.updated(by_shelf, tick.shelf, 10)}},
        "10 is outside of its type",
    ),
    "a constant outside, compared": ({"when": x == 10}, "10 is outside of its type 0..9"),
    "a state of another enum": ({"goto": SIZE.small}, "`state` is colour: it can't be set to"),
    "the state set twice": ({"goto": COLOUR.red, "set": {state: COLOUR.red}}, "is set twice"),
    "a reply without a response": ({"reply": ERROR.NONE}, "a reply, but the table names no resp"),
    "a reply that answers nothing": ({"reply": call(lorry=0)}, "call is a reply, but isn't decl"),
    "an unknown field sent": (
        {"send": (call(lorry=0, height=1),)},
        "message call has no field height",
    ),
    "a field sent of another type": (
        {"send": (call(lorry=0, weight=COLOUR.red),)},
        "call.weight is 0..9: not `red`",
    ),
    "a constant sent outside": (
        {"send": (call(lorry=0, weight=10),)},
        "10 is outside of its type 0..9",
    ),
    "a message without its address": ({"send": (call(weight=1),)}, "call: its address lacks lorry"),
    "a response to another request": (
        {"send": (answer(error=ERROR.NONE),)},
        "answer: its address lacks lorry",
    ),
    "a free variable sent": ({"send": (call(lorry=r),)}, "`r` isn't bound"),
    "sent to each of a number": (
        {"send": (lang.to_each(r, x, call(lorry=r)),)},
        "`x` is 0..9 and not a condition",
    ),
    "sent to each expression": (
        {"send": (lang.to_each(x, True, call(lorry=0)),)},
        "call, to_each: `x` isn't a variable",
    ),
    "features mixed with the state": ({"during": FAST & (x == 1)}, "is not made of features alone"),
    "a number among features": ({"during": FAST & 1}, "an operand of & is `1`"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_row_names_table_and_row(mistake: str) -> None:
    line, said = MISTAKES[mistake]
    with pytest.raises(DeclarationError, match=f"table depot.tick, row 'the row': .*{said}"):
        table(**line)


ALLOWED: dict[str, dict[str, Any]] = {
    "none for an optional": {"set": {held: None}},
    "a plain value for an optional": {"set": {held: x}},
    "a plain value or none": {"set": {held: lang.if_(x == 1, x, None)}},
    "a branch beyond the range that another part takes": {"when": lang.minimum(x, 20) == 3},
    "a branch that the negated condition looks at": {
        "set": {x: lang.if_(~(lang.lift(20) < x), x, 20)}
    },
    "an empty set and sequence": {"set": {few: lang.set_of(), row: lang.sequence_of()}},
    "numbers of other ranges": {"set": {x: lang.size(row) + N}},
    "a part of a record and of a map": {"set": {box.weight: 1, by_shelf[tick.shelf]: 2}},
    "an element bound by a quantifier": {
        "when": lang.any_of(lang.element("e", row), lang.element("e", row).weight == x)
    },
    "an element of what another binds": {
        "when": lang.any_of(s, lang.any_of(lang.element("e", few - lang.set_of(s)), True))
    },
    "a key by its number": {"set": {by_shelf[0]: 1}, "when": tick.shelf == 0},
    "a feature in a guard": {"when": FAST & (x == 1), "during": ~FAST | True},
}


@pytest.mark.parametrize("line", ALLOWED.values(), ids=ALLOWED)
def test_what_is_no_mistake(line: dict[str, Any]) -> None:
    assert table(**line).rows[0].name == "the row"


def test_two_rows_of_one_name() -> None:
    with pytest.raises(DeclarationError, match=r"^table depot.tick: two rows are called 'twice'"):
        Table(depot, tick, (Row("twice", when=x == 1), Row("once"), Row("twice")))


def test_rows_that_exclude_each_other_may_share_a_name() -> None:
    """A table may say for each release what the row is, under the name that it has in all."""
    old, new = lang.feature("old", "1"), lang.feature("new", "2")
    rows = (Row("go", during=old & ~new, set={x: 1}), Row("go", during=new, set={x: 2}))
    assert Table(depot, tick, rows).rows == rows
    with pytest.raises(DeclarationError, match=r"two rows are called 'go', and no release or feat"):
        Table(depot, tick, (Row("go", during=old), Row("go", during=new)))


def test_a_goto_needs_a_state_field() -> None:
    with pytest.raises(DeclarationError, match=r"table lorry.tock, row 'r': goto, but machine"):
        Table(lorry, tock, (Row("r", goto=COLOUR.red),))


def test_a_table_s_own_condition_is_checked() -> None:
    with pytest.raises(
        DeclarationError, match=r"^table depot.tick: `x` is 0..9 and not a condition"
    ):
        Table(depot, tick, (Row("r"),), when=x)


def test_another_machine_with_a_key_is_read_at_an_instance() -> None:
    Table(depot, tick, (Row("r", when=load.at(0) == 1),), others=(lorry,))
    with pytest.raises(DeclarationError, match=r"row 'r': `load`: say which lorry with .at"):
        Table(depot, tick, (Row("r", when=load == 1),), others=(lorry,))


def test_a_single_machine_has_no_instances() -> None:
    with pytest.raises(DeclarationError, match=r"depot has one instance, without an identity"):
        _ = depot.this
    with pytest.raises(DeclarationError, match=r"row 'r': .*is `red`, colour and not lorry"):
        Table(lorry, tock, (Row("r", when=load.at(COLOUR.red) == 1),))


def test_an_unknown_parameter() -> None:
    with pytest.raises(DeclarationError, match="tick has no parameter height"):
        _ = tick.height


def test_a_reply_of_an_error_alone_stands_for_the_response() -> None:
    taken = Table(depot, ask, (Row("r", reply=ERROR.FULL),), response=answer)
    (sent,) = taken.sendings(taken.rows[0])
    assert str(sent) == "answer(lorry=ask.lorry, error=FULL)"


# Properties ---------------------------------------------------------------------------------------

PROPERTY_MISTAKES: list[tuple[Callable[..., Any], Expression, str]] = [
    (lang.invariant, x + 1, "`x \\+ 1` is number and not a condition"),
    (lang.invariant, lang.after(x) == 1, "a property of progress can't use"),
    (lang.step_property, x == 1, "a step property uses after"),
    (lang.step_property, lang.after(lang.after(x) + x) == 1, r"after\(\.\.\.\) can't be inside"),
    (lang.invariant, state == 1, "and `1`, number, have"),
    (lang.invariant, load == 1, "`load`: say which lorry with .at"),
    (lang.invariant, lorry.this == 1, "say which lorry with .at"),
    (lang.invariant, by_shelf[s] == 1, "`s` isn't bound: bind it"),
    (lang.invariant, tick.weight == 1, "`tick.weight` is a parameter of an event"),
]


@pytest.mark.parametrize(("declare", "expression", "said"), PROPERTY_MISTAKES)
def test_a_mistake_in_a_property_names_it(
    declare: Callable[..., Any], expression: Expression, said: str
) -> None:
    with pytest.raises(DeclarationError, match=f"^property Wrong: .*{said}"):
        declare("Wrong", expression, "A sentence.")


# Systems ------------------------------------------------------------------------------------------

ticking = table()
holds = lang.invariant("Holds", x <= 9, "It holds.")


def system(*tables: Table, **parts: Any) -> System:
    """A system called 'the system'."""
    given: dict[str, Any] = {"properties": (holds,), "constants": (N,), "protocols": PROTOCOLS}
    return System("the system", tables=tables or (ticking,), **(given | parts))


twin = lang.Machine("depot")
twin.field("x", lang.Int(0, 9))
UNKNOWN = lang.feature("unknown", "1")
HIDDEN = lang.constant("hidden", 1)
asking = Table(depot, ask, (Row("r", reply=ERROR.NONE),), response=answer)
answering = Table(lorry, answer, (Row("r"),))
calling = table(send=(call(lorry=0),))

SYSTEM_MISTAKES: dict[str, tuple[Callable[[], System], str]] = {
    "a feature in during": (
        lambda: system(table(during=UNKNOWN)),
        "^table depot.tick, row 'the row': unknown is not a feature of the system's protocols",
    ),
    "a feature in a guard": (
        lambda: system(table(when=UNKNOWN)),
        "^table depot.tick, row 'the row': unknown is no",
    ),
    "a feature in an update": (
        lambda: system(table(set={x: lang.if_(UNKNOWN, 1, 2)})),
        "row 'the row': unknown is no",
    ),
    "a feature in a message": (
        lambda: system(table(send=(call(lorry=0, weight=lang.if_(UNKNOWN, 1, 2)),))),
        "row 'the row': unknown is not a feature",
    ),
    "a feature in a message's condition": (
        lambda: system(table(send=(lang.to_each(r, UNKNOWN, call(lorry=r)),))),
        "row 'the row': unknown is not a feature",
    ),
    "a feature in a table's condition": (
        lambda: system(Table(depot, tick, (Row("r"),), when=UNKNOWN)),
        "^table depot.tick: unknown is not a feature",
    ),
    "a feature in a property": (
        lambda: system(properties=(lang.invariant("P", UNKNOWN, "."),)),
        "^property P: unknown is not a feature",
    ),
    "a constant of no system": (
        lambda: system(table(set={x: HIDDEN})),
        "^table depot.tick, row 'the row': hidden is not a constant of the system",
    ),
    "a constant in a property": (
        lambda: system(properties=(lang.invariant("P", x < HIDDEN, "."),)),
        "^property P: hidden is not a constant",
    ),
    "a property of a machine without a table": (
        lambda: system(properties=(lang.invariant("P", load.at(0) == 1, "."),)),
        "^property P: .* is a field of lorry, which has no table",
    ),
    "an end that is no condition": (lambda: system(terminal=x), "terminal: `x` is 0..9 and not"),
    "an end of an instance": (lambda: system(terminal=load == 1), "terminal: `load`: say which"),
    "two tables for one event": (lambda: system(ticking, table()), "two table declarations of"),
    "two machines of one name": (
        lambda: system(ticking, Table(twin, tock, (Row("r"),))),
        "two machine declarations of depot",
    ),
    "two properties of one name": (
        lambda: system(properties=(holds, holds)),
        "two property declarations of Holds",
    ),
    "two constants of one name": (
        lambda: system(constants=(N, lang.constant("N", 3))),
        "two constant declarations of N",
    ),
    "a message received without a channel": (
        lambda: system(asking, answering, channels=(lang.Channel(answer),)),
        r"system the system: ask \(table depot.ask\) has no channel",
    ),
    "a message sent without a channel": (
        lambda: system(calling),
        r"call \(table depot.tick\) has no channel",
    ),
    "bounds of a constant of no system": (
        lambda: system(bounds={"large": {HIDDEN: 2}}),
        "^system the system, bounds large: `hidden` is not a constant of the system",
    ),
    "bounds of another constant of the name": (
        lambda: system(bounds={"large": {lang.constant("N", 3): 2}}),
        "^system the system, bounds large: `N` is not a constant of the system",
    ),
    "bounds of what is not a constant": (
        lambda: system(bounds={"large": {x: 2}}),
        "large: `x` is not a constant of the system",
    ),
    "bounds out of a constant's range": (
        lambda: system(bounds={"default": {N: -1}}),
        r"^system the system, bounds default: constant N=-1 is outside 1\.\.4",
    ),
    "two channels for a message": (
        lambda: system(calling, channels=(lang.Channel(call), lang.Channel(call, 2))),
        "two channel declarations of call",
    ),
    "a budget of an event that nothing takes": (
        lambda: system(budgets={tock: 1}),
        "system the system: no table takes tock",
    ),
}


@pytest.mark.parametrize("mistake", SYSTEM_MISTAKES)
def test_a_mistake_in_a_system_is_named(mistake: str) -> None:
    make, said = SYSTEM_MISTAKES[mistake]
    with pytest.raises(DeclarationError, match=said):
        make()


def test_protocols_are_those_declared() -> None:
    with pytest.raises(DeclarationError, match="feature late: no release is called 3"):
        lang.Protocols(("1", "2"), (lang.feature("late", "3"),))
    with pytest.raises(DeclarationError, match="two features called fast"):
        lang.Protocols(("1", "2"), (FAST, lang.feature("fast", "1")))
    with pytest.raises(DeclarationError, match="need one release"):
        lang.Protocols(())
