"""Declarations of progress and fairness that are refused, each in a line that says what to do."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from epochfence import language as declared
from epochfence.cli import app
from epochfence.language import DeclarationError

lang: Any = declared  # type checkers refuse some of these as well
KEY = lang.Key("client", 2)
client = lang.Machine("client", KEY)
x = client.field("x", lang.Int(0, 3))
tick, tock = lang.event("tick"), lang.event("tock")
i, j = KEY.variable("i"), KEY.variable("j")
TABLE = lang.Table(client, tick, (lang.Row("count", when=x < 3, set={x: x + 1}),))
ONE, TWO = x.at(i) == 1, x.at(i) == 2
GOOD = lang.leads_to("Goes", ONE, TWO, "It goes.", each=(i,))
HOLDS = lang.invariant("P", lang.all_of(i, x.at(i) <= 3), "It is small.")


def system(**changed: Any) -> Any:
    return lang.System(**{"name": "s", "tables": (TABLE,), "properties": (HOLDS,), **changed})


MISTAKES: dict[str, Callable[[], Any]] = {
    "`i` isn't bound: bind it with all_of": lambda: lang.leads_to("P", ONE, TWO, "P."),
    "each: `j` is not a variable of premise or goal": lambda: lang.leads_to(
        "P", ONE, TWO, "P.", each=(i, j)
    ),
    "or a property of progress can't use after": lambda: lang.leads_to(
        "P", ONE, lang.after(x.at(i)) == 2, "P.", each=(i,)
    ),
    "its premise is its goal": lambda: lang.leads_to("P", ONE, ONE, "P.", each=(i,)),
    "binds i a second time": lambda: lang.leads_to("P", ONE, lang.any_of(i, TWO), "P.", each=(i,)),
    "and not a condition": lambda: lang.always_possible("P", lang.sum_of(i, x.at(i)), "P."),
    "each is one variable alone": lambda: lang.leads_to("P", ONE, TWO, "P.", each=i),
    "put it into progress=": lambda: system(properties=(GOOD,)),
    "put it into properties=": lambda: system(progress=(HOLDS,), properties=()),
    "two property declarations of Goes": lambda: system(progress=(GOOD, GOOD)),
    "fairness: no table takes tock": lambda: system(fairness=lang.weak_fairness(tock)),
    "tick has no row 'cuont' (did you mean count? choose one of count)": lambda: system(
        fairness=lang.strong_fairness(tick, rows=("cuont",))
    ),
    "two fairness declarations of weak fairness of tick": lambda: system(
        fairness=lang.weak_fairness(tick, tick)
    ),
    "fairness: tick has a budget, as faults have": lambda: system(
        fairness=lang.weak_fairness(tick), budgets={tick: 1}
    ),
    "fairness: tock has a budget": lambda: system(
        tables=(TABLE, lang.Table(client, tock, (lang.Row("go"),))),
        fairness=lang.strong_fairness(tock),
        budgets={(tick, tock): 1},
    ),
    "name an event or a message": lambda: lang.weak_fairness(),
    "rows= needs one event, and these are 2": lambda: lang.weak_fairness(
        tick, tock, rows=("count",)
    ),
    "is not an event": lambda: lang.strong_fairness((tick,)),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_refused_in_a_clear_line(line: str) -> None:
    with pytest.raises(DeclarationError, match=re.escape(line)) as refused:
        MISTAKES[line]()
    assert "\n" not in str(refused.value)


def test_what_is_well_formed_is_taken() -> None:
    made = system(
        progress=(GOOD,),
        fairness=lang.weak_fairness(tick) + lang.strong_fairness(tick, rows=("count",)),
    )
    assert [item.name for item in made.fairness] == [
        "weak fairness of tick",
        "strong fairness of tick [count]",
    ]
    assert lang.instantiate(made).progress == ()
    assert [x.name for x in lang.instantiate(made, progress=True).progress] == ["Goes"]
    assert [x.name for x in lang.instantiate(made, properties=["Goes"]).progress] == ["Goes"]
    assert lang.instantiate(made, properties=["Goes"]).properties == ()


@pytest.mark.parametrize(
    "command",
    ["check {} --engine spark", "bound {} --depth 2"],
)
def test_engines_that_cannot_look_for_it_refuse_it(command: str) -> None:
    words = command.format("docs/examples/retry.py").split()
    ended = CliRunner().invoke(app, [*words, "--property", "Answered"])
    assert ended.exit_code == 2
    assert "Answered" in ended.stderr
    assert len(ended.stderr.splitlines()) <= 2
