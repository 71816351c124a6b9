"""Which systems have a row, and that a reason is given for each that none has."""

from functools import cache

import pytest

from epochfence import language as lang
from epochfence.language import Row, System, Table
from epochfence.spec.systems import SHIPPED, shipped
from epochfence.spec.systems.coverage.declared_rows import (
    Place,
    declared_tables,
    places,
    print_rows,
)
from epochfence.spec.systems.coverage.unexplored_rows import UNEXPLORED, Unexplored

machine = lang.Machine("machine")
x = machine.field("x", lang.Int(0, 3))
proposed = lang.feature("proposed", None, sentence="Some day.")
gone = lang.feature("gone", None, sentence="Never.")
RELEASES = lang.Protocols(("1",), (proposed,)).settling({gone: False})
up = Table(
    machine,
    lang.event("up"),
    (
        Row("by one", when=x < 2, set={x: x + 1}),
        Row("at last", set={x: 3}, during=proposed),
        Row("ever", set={x: 0}, during=gone),
    ),
)
down = Table(machine, lang.event("down"), (Row("by one", when=x > 0, set={x: x - 1}),))
SYSTEM = System("mine", (up,), (), protocols=RELEASES)


@cache
def every_place() -> list[Place]:
    """Where the rows of `spec/` are explored."""
    return list(places(declared_tables(), map(shipped, SHIPPED)))


def test_a_row_is_in_the_systems_that_have_it_in_some_release() -> None:
    why = (Unexplored("of itself", ("machine.down",)), Unexplored("of none", ("machine.up",)))
    found = list(places([up, down], [SYSTEM], why))
    assert found == [
        Place("machine.down/by one", (), ("of itself",)),
        Place("machine.up/by one", ("mine",), ()),
        Place("machine.up/at last", ("mine",), ()),
        Place("machine.up/ever", (), ("of none",)),
    ]
    assert list(print_rows(found)) == [
        "machine.down/by one: in no system: of itself",
        "machine.up/by one: mine",
        "machine.up/at last: mine",
        "machine.up/ever: in no system: of none",
        "4 rows, 2 in no system.",
    ]


def test_a_feature_that_is_assumed_holds_unless_it_is_switched_off() -> None:
    protocols = lang.Protocols(("1",), (gone,)).assuming(proposed)
    assert protocols.features_at("1") == {"proposed"}
    assert [info.name for info in protocols.infos] == ["gone", "proposed"]
    without = Table(machine, lang.event("down"), (Row("ever", during=~proposed, set={x: 0}),))
    system = System("assumed", (without,), (), protocols=protocols)
    assert [place.systems for place in places([without], [system], ())] == [("assumed",)]
    settled = lang.instantiate(system, switch_off=("proposed",))
    assert [row.id for action in settled.actions for row in action.rows] == ["ever"]


@pytest.mark.slow(1)
def test_tables_of_systems_are_among_them() -> None:
    assert next(places([], [SYSTEM], ())).name == "machine.up/by one"
    found = {place.name for place in every_place()}
    for system in map(shipped, SHIPPED):
        assert {table.label(row) for table in system.tables for row in table.rows} <= found


@pytest.mark.slow(2)
def test_a_row_that_no_system_has_is_listed_with_one_reason() -> None:
    assert [place for place in every_place() if not place.systems and len(place.reasons) != 1] == []


@pytest.mark.parametrize("name", [name for each in UNEXPLORED for name in each.names])
def test_what_is_listed_is_in_no_system(name: str) -> None:
    of_it = [
        place
        for place in every_place()
        if name in (place.name, place.name.partition("/")[0], place.name.partition(".")[0])
    ]
    assert of_it != []
    assert [place.name for place in of_it if place.systems] == []
