"""What a person reads of a result."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from epochfence import language as lang
from epochfence.checker import report
from epochfence.checker.check import check
from epochfence.checker.solver.bound import Bounded, bound
from epochfence.checker.verdict import Result
from epochfence.language import Machine, Row, System, Table, event, instantiate, invariant

NODES = lang.constant("nodes", 2, 1, 3)
NODE = lang.Key("node", NODES)
counter = Machine("counter")
x = counter.field("x", lang.Int(0, 3))
y = counter.field("y", lang.Map(NODE, lang.Int(0, 3)), any_initial=True)
n = NODE.variable("n")
plain = Machine("plain")
z = plain.field("z", lang.Int(0, 3))
unseen = plain.field("unseen", lang.Int(0, 1))
unheard = plain.field("unheard", lang.Int(0, 1))


def told(result: Result | Bounded) -> str:
    """The whole of what is printed."""
    out = StringIO()
    console = Console(file=out, width=100, highlight=False)
    if isinstance(result, Result):
        report.tell(result, console)
    else:
        report.tell_bounded(result, console)
    return out.getvalue()


def test_a_counterexample_shows_with_which_of_its_initial_states_it_begins() -> None:
    small = invariant("Below", lang.all_of(n, x < y[n] + 2), "x stays below y + 2.")
    ticking = Table(counter, event("tick"), (Row("up", set={x: x + 1}),), when=x < 3)
    system = System("counting", (ticking,), (small,), constants=(NODES,), terminal=True)
    instance = instantiate(system)
    for result in (check(instance), bound(instance, 3)):
        assert result.trace is not None
        assert result.trace.chosen == ("counter.y",)
        shown = dict(result.trace.initial)["counter.y"]
        lines = told(result).splitlines()
        (first,) = (at for at, line in enumerate(lines) if line.startswith("begins with "))
        assert lines[first] == f"begins with counter.y: {shown}"
        assert lines[first + 2].startswith("1 ")
        assert "  x >= y[n] + 2" in "\n".join(lines)


def test_a_counterexample_from_the_only_initial_state_does_not() -> None:
    one = System("one", (Table(plain, event("tick"), (Row("up", set={z: z + 1}),)),),
                 (invariant("Below", z < 2, "z stays below 2."),), terminal=True)  # fmt: skip
    shown = told(check(instantiate(one)))
    assert "begins" not in shown
    assert shown.splitlines()[0] == "one, protocol 1"


def test_what_is_left_out_is_counted_in_english() -> None:
    small = invariant("Below", z <= 2, "z stays below 3.")

    def of(*fields: lang.Expression) -> str:
        row = Row("up", set={z: z + 1, **{each: 1 - each for each in fields}})
        ticking = Table(plain, event("tick"), (row,), when=z < 2)
        return told(check(instantiate(System("one", (ticking,), (small,), terminal=True))))

    assert "1 part of the state that nothing looks at was left out" in of(unseen)
    assert "2 parts of the state that nothing looks at were left out" in of(unseen, unheard)
