"""What a system offers, as a person reads it."""

from io import StringIO

from rich.console import Console

from epochfence import language as lang
from epochfence.cli.views.catalogue import describe
from epochfence.language import Row, System, Table

N = lang.constant("N", 2, 1, 3, meaning="how far it counts [in steps]")
FAST = lang.feature("fast", "2", until="3", sentence="It runs [not walks].")
machine = lang.Machine("machine")
x = machine.field("x", lang.Int(0, N))
table = Table(machine, lang.event("up"), (Row("up", when=x < N, set={x: x + 1}),))


def told(system: System) -> str:
    """The description, in 100 columns."""
    console = Console(file=StringIO(), width=100)
    describe(system, console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_system_is_described_with_all_that_can_be_chosen() -> None:
    small = lang.invariant("Small", x <= N, "x is at most N [of the constants].")
    text = told(
        System(
            "mine", (table,), (small,), doc="It counts [up].", constants=(N,), reach="All [of it].",
            protocols=lang.Protocols(("1", "2", "3"), (FAST,)),
        )
    )  # fmt: skip
    lines = [line.split() for line in text.splitlines()]
    assert "mine: It counts [up]." in text
    assert "Default bounds: All [of it]." in text
    assert "Protocols: 1, 2, 3 (default 3)" in text
    assert ["fast", "2", "3", "It", "runs", "[not", "walks]."] in lines
    assert ["N", "2", "1..3", "how", "far", "it", "counts", "[in", "steps]"] in lines
    assert ["Small", "invariant"] in [line[:2] for line in lines]
    assert "x is at most N [of the constants]." in text
    assert max(map(len, text.splitlines())) <= 100


def test_bounds_stand_beside_the_defaults() -> None:
    other = lang.constant("M", 5, 1, 9)
    bounds = {"default": {N: 1}, "large": {N: 3, other: 9}}
    text = told(System("mine", (table,), (), constants=(N, other), bounds=bounds))
    lines = [line.split() for line in text.splitlines()]
    assert ["constant", "default", "large", "range", "meaning"] in lines
    assert ["N", "1", "3", "1..3", "how", "far", "it", "counts", "[in", "steps]"] in lines
    assert ["M", "5", "9", "1..9"] in lines


def test_what_there_is_none_of_has_no_table() -> None:
    text = told(System("mine", (table,), (), constants=(N,)))
    assert "feature" not in text
    assert "property" not in text
