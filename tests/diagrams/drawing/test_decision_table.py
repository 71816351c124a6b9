"""Decision tables: every part of a row can be read in them."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from markdown import markdown

from epochfence.checker.named_systems import load_system
from epochfence.diagrams.drawing.decision_table import CODE_WIDTH, Seen, code, decision_table, plain
from epochfence.diagrams.notation import readable
from epochfence.language import (
    Bool,
    Expression,
    Int,
    Key,
    Machine,
    Map,
    Message,
    Row,
    Sequence,
    Table,
    all_of,
    any_of,
    element,
    enum,
    event,
    feature,
    if_,
    lift,
    to_each,
)
from epochfence.spec.systems import SHIPPED, shipped

ORDERS = load_system(str(Path(__file__).parents[1] / "orders.py"))
TABLES = {table.name: table for table in ORDERS.tables}


def shown(table: Table) -> str:
    """The table as a reader sees it."""
    html = markdown(decision_table(table, ORDERS.protocols), extensions=["fenced_code"])
    text = re.sub(r"<[^>]+>", "", html.replace("<br>", "\n").replace("<br />", "\n"))
    return unescape(text)


def releases(table: Table, happens: tuple[str, ...] | None = None) -> list[str]:
    """What is said of releases, row by row."""
    text = decision_table(table, ORDERS.protocols, happens=happens)
    return re.findall(r"^<small>(.*?)(?: ·|</small>)", text, re.MULTILINE)


def test_a_row_is_shown_whole() -> None:
    text = shown(TABLES["order.Pay"])
    for part in (
        "not placed",
        "(state == Draft) | pending.is_set",
        "PayResponse(error=NOT_PLACED)",
        "otherwise",
        "goto if(request.fast & express, Shipped, Paid)",
        "The till",
    ):
        assert part in text


def test_the_releases_of_a_row_are_shown() -> None:
    not_refunds = " where `~refunds`"
    # in 1 the first row has the second one's condition
    assert releases(TABLES["order.pay back"]) == ["1", "2–3"]
    assert releases(TABLES["order.Pay"]) == ["all", "all", "all"]
    # a row is there only where its event can happen
    assert releases(TABLES["order.pay back"], ("2",)) == [f"none{not_refunds}", "2"]


def test_of_a_row_that_is_known_only_what_is_more_is_told() -> None:
    place = TABLES["order.Place"]
    waits, hold, places, late = place.rows
    pending = next(iter(hold.set))
    more = replace(hold, goto=pending.value)
    other = replace(places, set={pending: None})
    rows = (waits, more, other, replace(late, when=pending.is_set))
    protocols = ORDERS.protocols
    text = decision_table(replace(place, rows=rows), protocols, seen=Seen("orders", place))
    known, held, placed, last = text.split("**")[2::2]
    assert "as in orders</small>" in known
    assert "text" not in known  # the picture has nothing more of it
    assert "as in orders, and:</small>" in held
    assert "goto pending.value" in held
    assert "pending =" not in held
    for part in (placed, last):  # another effect, another condition: whole
        assert "as in" not in part
    assert "pending = None" in placed
    assert "when" in last
    assert "as in" not in decision_table(replace(place, rows=rows), protocols)


def test_what_constants_decide_is_not_shown() -> None:
    place = TABLES["order.Place"]
    ((pending, held),) = place.rows[1].set.items()
    asked = lift(True) & pending.is_set & (lift(2) == 2)
    row = replace(place.rows[1], when=asked, set={pending: if_(lift(True), held, pending)})
    text = decision_table(replace(place, rows=(row,)), ORDERS.protocols)
    assert "when  pending.is_set\npending = Held\n" in text


def test_what_releases_do_not_say_is_shown_with_them() -> None:
    mine = feature("mine", None, sentence="A setting.")
    both = tuple(ORDERS.protocols.settling({mine: there}) for there in (True, False))
    pay_back = TABLES["order.pay back"]
    rows = tuple(replace(row, during=row.during & mine) for row in pay_back.rows)
    text = decision_table(replace(pay_back, rows=rows), *both)
    assert text.count("where `mine`") == len(rows)
    assert "where" not in decision_table(replace(pay_back, rows=rows), both[0])


def test_the_first_row_without_a_condition_is_always_taken() -> None:
    ask = TABLES["customer.begin"]
    always = replace(ask, rows=(replace(ask.rows[0], when=True),))
    assert "always" in shown(always)
    pay_back = TABLES["order.pay back"]
    ship, refund = pay_back.rows
    text = shown(replace(pay_back, rows=(ship, replace(refund, when=True))))
    assert "otherwise" in text


def test_a_row_that_does_nothing_says_so() -> None:
    assert "nothing changes" in shown(TABLES["order.Place"])


def alterations() -> list[tuple[str, Row, Row | None]]:
    rows = [(table.name, row) for table in ORDERS.tables for row in table.rows]
    out: list[tuple[str, Row, Row | None]] = [
        (name, row, None) for name, row in rows if len(TABLES[name].rows) > 1
    ]
    for name, row in rows:
        out.append((name, row, replace(row, name=f"{row.name}, again")))
        out.append((name, row, replace(row, when=row.guard & (row.guard == False))))
        out.append((name, row, replace(row, source="Elsewhere")))
        if row.goto is not None:
            out.append((name, row, replace(row, goto=None)))
        if row.set:
            out.append((name, row, replace(row, set={})))
        if row.reply is not None:
            out.append((name, row, replace(row, reply=None)))
        if row.send:
            out.append((name, row, replace(row, send=row.send[1:])))
    return out


@pytest.mark.parametrize(("name", "row", "other"), alterations())
def test_every_alteration_of_a_row_can_be_seen(name: str, row: Row, other: Row | None) -> None:
    table = TABLES[name]
    rows = tuple(new for r in table.rows for new in ((other,) if r is row else (r,)) if new)
    assert shown(replace(table, rows=rows)) != shown(table)


def test_markdown_leaves_code_and_names_as_they_are() -> None:
    text = r"a | b * c_d * _e_ ~f~ [g](h) <i> & `j` \k #l &amp;"
    html = markdown(f"| a |\n| --- |\n| {plain(text)} |\n| {code([text])} |", extensions=["tables"])
    assert html.count("<td>") == 2
    assert not re.search(r"<(em|strong|a|i|del)\b", html)


def test_code_in_text_is_code_but_for_a_bar_that_would_end_a_cell() -> None:
    assert plain("`a_` of *b*") == "`a_` of &#42;b&#42;"
    assert "`" not in plain("`a | b`")


# Expressions over several lines ----------------------------------------------------------------

PLACE = Key("place", 2)
Color = enum("Color", "RED", "GREEN", "BLUE")
m = Machine("m")
color = m.state_field("color", Color)
flag, other_flag = m.field("flag", Bool()), m.field("another_flag", Bool())
count = m.field("count", Map(PLACE, Int(0, 5)))
k = PLACE.variable("k")


def test_what_is_short_stays_on_a_line() -> None:
    assert readable(~(color != Color.RED)) == ["color == RED"]
    assert readable(if_(flag, count[k], count[k])) == [readable(count[k])[0]]
    assert readable(if_(flag, lift(True), lift(False))) == ["flag"]
    assert readable(if_(flag, lift(False), lift(True))) == ["~flag"]
    assert readable(flag & flag) == ["flag"]
    assert readable(flag & ~other_flag) == ["flag & ~another_flag"]
    assert readable(color.is_in(Color.RED, Color.BLUE)) == ["color in set_of(RED, BLUE)"]
    assert readable((color == Color.RED) | flag) == ["(color == RED) | flag"]


def test_a_wide_condition_has_a_line_for_each_part() -> None:
    inner = flag | ~other_flag | (count[k] > 2)
    wide = (color == Color.RED) & inner & all_of(k, count[k] == 0)
    assert readable(wide, 30) == [
        "  (color == RED)",
        "& (  flag",
        "   | ~another_flag",
        "   | (2 < count[k]))",
        "& all(k in place:",
        "      count[k] == 0)",
    ]
    assert readable(if_(wide, Color.RED, color), 30)[-2:] == ["   RED,", "   color)"]
    assert readable(~inner, 20) == ["  ~flag", "& another_flag", "& (count[k] <= 2)"]


@pytest.mark.parametrize(
    ("condition", "printed"),
    [
        (~(flag & ~other_flag), "~flag | another_flag"),
        (~(flag | other_flag), "~(flag | another_flag)"),
        (~(count[k] < 3), "3 <= count[k]"),
        (~color.is_in(Color.RED, Color.BLUE), "color not in set_of(RED, BLUE)"),
        ((color != Color.RED) & (color != Color.BLUE), "color not in set_of(RED, BLUE)"),
        (if_(~flag, Color.RED, color), "if(flag, color, RED)"),
        (if_(flag & ~other_flag, lift(-1), lift(-1)), "-1"),
    ],
)
def test_a_negation_is_printed_where_it_is_needed(condition: Expression, printed: str) -> None:
    assert " ".join(readable(condition)) == printed


def test_the_parts_of_a_wide_condition_are_all_there() -> None:
    wide = (color == Color.RED) & (flag | other_flag) & ~(count[k] == 3) & (count[k] < 5)
    for width in range(5, 80):
        words = re.findall(r"\w+", " ".join(readable(wide, width)))
        assert sorted(words) == sorted(re.findall(r"\w+", str(wide)))


def test_a_message_to_each_names_whom_and_under_which_condition() -> None:
    pay = TABLES["customer.PayResponse"]
    place = TABLES["order.Place"].on
    assert isinstance(place, Message)
    customer = next(m for m in ORDERS.machines if m.name == "customer").key
    assert customer is not None
    each = customer.variable("each")
    row = Row(
        "tell",
        send=(to_each(each, pay.machine.fields["has_paid"].expression, place(customer=each)),),
    )
    text = shown(Table(pay.machine, event("tell all"), (row,)))
    assert "send Place(customer=each)\n     to each each\n     where has_paid" in text


def test_a_reply_leaves_out_what_it_repeats() -> None:
    pay = TABLES["order.Pay"]
    assert pay.response is not None
    error = pay.rows[0].reply
    assert isinstance(error, Expression)
    full = pay.response(customer=pay.on.customer, error=error)
    row = replace(pay.rows[0], reply=full)
    assert "\nreply PayResponse(error=NOT_PLACED)\n" in shown(replace(pay, rows=(row,)))


def test_no_line_of_a_row_is_wider_than_a_page() -> None:
    """What is nested deeply may stick out, but by a name, not by a formula."""
    tables = {table.name: table for name in SHIPPED for table in shipped(name).tables}
    shown = (
        line
        for table in tables.values()
        if table.machine.name in ("partition", "replica")
        for row in table.rows
        for value in (row.guard, *(value for _, value in table.updates(row)))
        for line in readable(value, CODE_WIDTH)
    )
    assert max(map(len, shown)) < CODE_WIDTH + 40


def test_what_picks_and_ranges_is_broken_over_lines() -> None:
    log = Machine("log")
    entries = log.field("entries", Sequence(Int(0, 9), 9))
    end = log.field("end", Int(0, 9))
    entry = element("entry", entries[end : if_(end == 3, end, 7)])
    wide = any_of(entry, entry == end)
    assert readable(wide, 38) == [
        "any(entry in entries[",
        "                 end:",
        "                 if(end == 3, end, 7)]:",
        "    entry == end)",
    ]
