"""What a person reads of a result."""

from __future__ import annotations

import re
from io import StringIO

from rich.console import Console

from epochfence import language as lang
from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.output import summary
from epochfence.checker.output.report import MOST_VACUOUS, print_unexplained
from epochfence.checker.solver.bound import Bounded, bound
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.language import Machine, Row, System, Table, event, instantiate, invariant
from epochfence.tests.cli.test_cli import ROOT
from epochfence.tests.systems.counter import Ticker

LEASE = str(ROOT / "docs" / "examples" / "lease.py")
NODES = lang.constant("nodes", 2, 1, 3)
NODE = lang.Key("node", NODES)
counter = Machine("counter")
x = counter.field("x", lang.Int(0, 3))
y = counter.field("y", lang.Map(NODE, lang.Int(0, 3)), any_initial=True)
n = NODE.variable("n")
plain = Ticker(name="plain")
z = plain.x
unseen = plain.machine.field("unseen", lang.Int(0, 1))
unheard = plain.machine.field("unheard", lang.Int(0, 1))


def told(result: Result | Bounded, *, coverage: bool = False, resume: str | None = None) -> str:
    """The whole of what is printed."""
    out = StringIO()
    console = Console(file=out, width=100, highlight=False)
    if isinstance(result, Result):
        summary.tell(result, console, coverage=coverage, resume=resume)
    else:
        summary.print_bounded(result, console)
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
        assert "  x = 2, not below y[n] + 2" in "\n".join(lines)


def test_a_counterexample_from_the_only_initial_state_does_not() -> None:
    shown = told(check(plain.instance(plain.below(2))))
    assert "begins" not in shown
    assert "  counting, protocol 1" in shown.splitlines()


def test_what_is_left_out_is_counted_in_english() -> None:
    def of(*fields: lang.Expression) -> str:
        row = Row("up", set={z: z + 1, **{each: 1 - each for each in fields}})
        return told(check(plain.instance(plain.below(3), to=2, rows=(row,))))

    assert "1 part of the state that nothing reads was left out" in of(unseen)
    assert "2 parts of the state that nothing reads were left out" in of(unseen, unheard)


def test_a_property_without_a_case_is_counted_apart() -> None:
    below = plain.below(3, "Below")
    far = invariant("Far", (z == 3).implies(z > 3), "Nobody gets to 3.")
    shown = told(check(plain.instance(below, far, to=2)))
    assert "\n  1 property holds: Below\n  1 holds vacuously: Far\n" in shown
    first = "1 of 2 properties holds in every state within the bounds (exhaustive)"
    ends = "terminal=True: a run may end anywhere. (exit 0, HOLDS) HOLDS, but: "
    verdict = f"{first}; Far (no known reason) holds vacuously; {ends}"
    assert shown.replace(" \n", " ").replace("\n", " ").startswith(verdict)


def test_what_holds_vacuously_alone_is_inconclusive() -> None:
    far = invariant("Far", (z == 3).implies(z > 3), "Nobody gets to 3.")
    known = lang.Unreached("z is never 3", ("Far",))
    result = check(plain.instance(far, to=2, unreached=(known,)))
    assert (result.verdict, [item.verdict for item in result.properties]) == (
        Verdict.INCONCLUSIVE,
        ["holds"],
    )
    first, *_ = told(result).splitlines()
    assert first == "Inconclusive: Far (z is never 3) holds vacuously (exit 20, INCONCLUSIVE)"


def test_a_property_of_which_a_part_has_a_case_doesnt_hold_vacuously() -> None:
    halves = invariant("Halves", (z <= 2) & (z == 3).implies(z > 3), "z stays low, and low.")
    nested = invariant("Nested", (z == 1).implies((z < 2) & (z == 3).implies(z > 3)), "Twice.")
    for part in (halves, nested):
        result = check(plain.instance(part, to=2))
        assert (result.verdict, result.untested) == (Verdict.HOLDS, {})
        assert [item.subject for item in result.vacuous] == [part.name]


def counting(*, after: int) -> System:
    """A system with a row that nothing takes, and one that is known not to be."""
    rows = (
        Row("up", when=z < 2, set={z: z + 1}),
        Row("[known]", when=z == 3, set={z: 1}),
        Row("far", when=z > 2, set={z: 0}),
    )
    known = lang.Unreached("z is never 3: as is easy to see", ("plain.tick/[known]",))
    return plain.system(plain.below(after + 1, "Below"), rows=rows, unreached=(known,))


def test_what_no_run_takes_is_counted_by_reason_and_listed_on_demand() -> None:
    result = check(instantiate(counting(after=2)))
    lines = told(result).splitlines()
    assert lines[0].startswith("Every property holds in every state")
    assert lines[1] == "anywhere. (exit 0, HOLDS)"
    assert lines[2] == "HOLDS, but: plain.tick/far is never taken."
    checked, not_checked = lines.index("Checked"), lines.index("Not checked")
    assert checked < lines.index("  1 of 3 rows are taken") < not_checked
    assert "    1 z is never 3" in lines[not_checked:]
    assert "[known]" not in told(result)
    listed = told(result, coverage=True)
    assert "z is never 3 (1)\n  plain.tick/[known]: as is easy to see\n" in listed
    assert "no known reason (1)\n  plain.tick/far\n" in listed
    heads = r"rows taken +times +first at depth"
    assert re.search(rf"\n\n{heads} *\nplain\.tick/up +2 +1 *\n", listed)


def test_a_search_that_ended_early_says_what_it_did_not_take() -> None:
    listed = told(check(instantiate(counting(after=0))), coverage=True)
    assert listed.startswith("Below doesn't hold after 1 step. (x is small.) (exit 12, BROKEN)\n")
    untaken = "not taken before the search ended (2)\n  plain.tick/[known]\n  plain.tick/far\n"
    assert untaken in listed


def test_an_interrupted_run_ends_in_a_line() -> None:
    def after_some(_: object, left: list[int] = [9]) -> None:  # noqa: B006
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    instance = instantiate(load_system(LEASE), "2")
    result = check(instance, Options(), after_some)
    whole = sum(result.levels[:-1])
    (line,) = told(result, resume="a-run").splitlines()
    assert line.startswith("Interrupted after level ")
    assert "; every property holds within " in line
    assert f" ({whole:,} states)" in line
    assert line.endswith("; continue with --resume a-run (exit 130, INTERRUPTED)")
    (line,) = told(result).splitlines()
    assert "without --checkpoint DIR it can't be continued" in line


def test_what_is_switched_otherwise_than_in_the_release_is_told() -> None:
    lease = load_system(LEASE)
    for without, of in (((), "protocol 2; "), (("fencing",), "protocol 2, without fencing; ")):
        shown = told(check(instantiate(lease, "2", switch_off=without)))
        assert f"\n  lease, {of}" in shown


def test_of_many_things_that_never_happen_a_few_are_named() -> None:
    out = StringIO()
    console = Console(file=out, width=200, color_system=None)
    print_unexplained([f"row {n} is never taken" for n in range(20)], console, "--coverage")
    named = out.getvalue()
    assert named.count("is never taken") == MOST_VACUOUS
    assert named.endswith(f"; and {20 - MOST_VACUOUS} more (--coverage lists them).\n")
