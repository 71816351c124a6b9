"""The explorer and the plain search find the same properties vacuous."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, reject, settings

from epochfence import language as lang
from epochfence.checker.check import Options, check
from epochfence.checker.named_systems import load_system
from epochfence.checker.prepare import prepare
from epochfence.checker.verdict import vacuity
from epochfence.checker.verdict.probes import probes
from epochfence.checker.verdict.result import Result, Verdict
from epochfence.checker.verdict.vacuity import vacuities
from epochfence.language import (
    Instance,
    Row,
    System,
    Table,
    instantiate,
)
from epochfence.tests.checker.drawn_systems import instances
from epochfence.tests.checker.plain_search import Reference, search
from epochfence.tests.checker.verdict.test_vacuity import lines_of


def as_found(result: Result) -> set[tuple[str, str, str]]:
    """What a result tells."""
    notes = [] if result.vacuous else [x for x in result.notes if not x.startswith("symmetry not")]
    return {(x.kind, str(x), x.explained) for x in result.vacuous} | {
        ("note", note, "") for note in notes
    }


def as_searched(instance: Instance, reference: Reference) -> set[tuple[str, str, str]]:
    """What the plain search's rows and probes come to."""
    unmet = [probe for probe in probes(instance) if probe not in reference.met]
    unbreakable = prepare(instance).unbreakable
    found = vacuities(instance, reference.taken, unmet, unbreakable)
    met = [probe for probe in probes(instance) if probe in reference.met]
    notes = [] if found else vacuity.could_say_more(met, unmet)
    return {(x.kind, str(x), x.explained) for x in found} | {("note", note, "") for note in notes}


@pytest.mark.slow(8)
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(instances())
def test_the_explorer_tells_what_the_plain_search_tells(instance: Instance) -> None:
    try:
        reference = search(instance, 400)
    except ValueError:
        reject()
    if reference.broken or reference.deadlock or reference.out_of_range:
        reject()
    wanted = as_searched(instance, reference)
    for options in (Options(), Options(symmetry=False, slicing=False), Options(threads=2)):
        assert as_found(check(instance, options)) == wanted


def test_the_lease_agrees_with_the_plain_search() -> None:
    instance = instantiate(load_system("docs/examples/lease.py"), "1", {"leases": 1})
    assert as_found(check(instance)) == as_searched(instance, search(instance))


def test_a_bound_beyond_a_field_s_type_is_no_error() -> None:
    tank = lang.Machine("tank")
    level = tank.field("level", lang.Int(0, 1))
    fill = Table(tank, lang.event("fill"), (Row("fill", set={level: 1}),))
    below = lang.invariant("Below", level <= 5, "It is never so full.")
    instance = lang.instantiate(System("tank", (fill,), (below,), terminal=True))
    assert check(instance).verdict is Verdict.HOLDS
    assert lines_of(instance) == ["Below can't be broken: no change by a row can make it false"]
