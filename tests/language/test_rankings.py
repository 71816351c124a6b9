"""Declarations of rankings that are refused, each in a line that says what to do."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from epochfence import language as declared
from epochfence.checker.ground import ground
from epochfence.language import DeclarationError

lang: Any = declared  # type checkers refuse some of these as well
KEY = lang.Key("client", 2)
client = lang.Machine("client", KEY)
x = client.field("x", lang.Int(0, 3))
tick = lang.event("tick")
i, j = KEY.variable("i"), KEY.variable("j")
TABLE = lang.Table(client, tick, (lang.Row("count", when=x < 3, set={x: x + 1}),))
GOES = lang.leads_to("Goes", x.at(i) == 1, x.at(i) == 2, "It goes.", each=(i,))
CAN = lang.always_possible("Can", lang.all_of(i, x.at(i) == 3), "It can.")
HOLDS = lang.invariant("P", lang.all_of(i, x.at(i) <= 3), "It is small.")
HELPS = (lang.helps(tick, i == j, each=(j,)),)


def system(*rankings: Any, **changed: Any) -> Any:
    parts: dict[str, Any] = {
        "name": "s",
        "tables": (TABLE,),
        "properties": (HOLDS,),
        "progress": (GOES, CAN),
        "rankings": rankings,
    }
    return lang.System(**{**parts, **changed})


def grounded(*helpful: Any) -> Any:
    made = system(lang.ranking("Goes", (3 - x.at(i),), helpful))
    return ground(lang.instantiate(made, progress=True, rankings=True))


MISTAKES: dict[str, Callable[[], Any]] = {
    "helps: `1` is not an Event": lambda: lang.helps(1),
    "helps tick: `x.at(i)` is 0..3 and not a condition": lambda: lang.helps(tick, x.at(i)),
    "helps tick: `x`: say which client with .at()": lambda: lang.helps(tick, x == 1),
    "helps tick, each is one variable alone": lambda: lang.helps(tick, each=i),
    "helps tick, each: `x.at(i)` is not a variable": lambda: lang.helps(tick, each=(x.at(i),)),
    "refers to the next state": lambda: lang.ranking("Goes", (lang.after(x.at(i)),), HELPS),
    "a ranking is called 1: write a name": lambda: lang.ranking(1, (), HELPS),
    "ranking of Goes, rank is one number alone": lambda: lang.ranking("Goes", x.at(i), HELPS),
    "ranking of Goes: an operand of <= or >= is `set_of(i)`": lambda: lang.ranking(
        "Goes", (lang.set_of(i),), HELPS
    ),
    "without helpful events a run may stop": lambda: lang.ranking("Goes", (), ()),
    "ranking of Goes, helpful holds Event 'tick', which is not a helps(...)": lambda: lang.ranking(
        "Goes", (), (tick,)
    ),
    "system s, rankings: Can isn't a leads-to": lambda: system(lang.ranking("Can", (), HELPS)),
    "two ranking declarations of Goes": lambda: system(
        lang.ranking("Goes", (), HELPS), lang.ranking("Goes", (0,), HELPS)
    ),
    "helps tick, each: it is of client": lambda: grounded(lang.helps(tick, each=(i, j))),
    "ranking of Goes: `j` is not bound here": lambda: grounded(lang.helps(tick, x.at(j) == 1)),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_refused_in_a_clear_line(line: str) -> None:
    with pytest.raises(DeclarationError, match=re.escape(line)) as refused:
        MISTAKES[line]()
    assert "\n" not in str(refused.value)


def test_only_proofs_read_rankings() -> None:
    made = system(lang.ranking("Goes", (3 - x.at(i),), HELPS))
    assert lang.instantiate(made, progress=True).rankings == ()
    (found,) = lang.instantiate(made, progress=True, rankings=True).rankings
    assert found.name == "Goes"
    assert lang.instantiate(made, properties=["P"], rankings=True).rankings == ()
    assert len(ground(lang.instantiate(made, progress=True, rankings=True)).rankings) == 2


def test_a_ranking_of_what_is_left_out_is_left_out() -> None:
    made = system(lang.ranking("Goes", (), HELPS), progress=(CAN,))
    assert made.rankings == ()
