"""How many instances are enough: found from the declaration, and refused where instances meet."""

from __future__ import annotations

import pytest

from epochfence.checker.solver.unbounded.instances import cutoff
from epochfence.language import (
    Expression,
    Property,
    after,
    all_of,
    all_true,
    any_of,
    count_of,
    invariant,
    step_property,
)
from epochfence.spec.messages import PARTITION, PRODUCER
from epochfence.spec.producer_ids.state import BROKER
from epochfence.spec.releases.features import NEWEST
from epochfence.spec.systems.idempotence import system as idempotence
from epochfence.spec.systems.producer_ids import system as producer_ids
from epochfence.spec.systems.transactions import system as transactions
from epochfence.tests.systems.tickets import (
    CLIENT,
    a,
    b,
    held,
    newest,
    tickets,
)

SETTLED = ("bump_when_settled", "idempotent_starts_at_0", "renumbered_under_new_id")


@pytest.mark.slow(10)
@pytest.mark.long
@pytest.mark.parametrize(("release", "on"), [("4.3", ()), ("2.7", ("block_current_once_written",))])
def test_three_brokers_are_enough_for_any_number(release: str, on: tuple[str, ...]) -> None:
    """A block is given to one broker, and no two brokers have an id in common."""
    names = ["HandedOutOnce", *(lemma.name for lemma in producer_ids.lemmas)]
    few = {"largest_producer_id": 2}
    found = cutoff(producer_ids, BROKER, names, release, few, switch_on=on)
    assert (found.acting, found.mentioned, found.objections) == (1, 2, ())
    assert found.instances == 3


@pytest.mark.slow(10)
@pytest.mark.long
@pytest.mark.parametrize("release", ["2.5", NEWEST])
def test_three_clients_are_enough_for_any_number(release: str) -> None:
    """One client acts, and two hold epochs, or one has sent a batch and another asks to commit."""
    names = ["OneLiveEpoch", "OneHolder", "WhoWaits", "CommitAsked", "BatchesOfHolder"]
    one = {"partitions": 1, "transactions": 1}
    found = cutoff(transactions, PRODUCER, names, release, one)
    assert (found.acting, found.mentioned, found.objections) == (1, 2, ())


def test_who_looks_at_no_other_needs_few() -> None:
    found = cutoff(tickets(held == 0), CLIENT, ["Apart", "Below"])
    assert (found.instances, found.objections) == (3, ())
    assert cutoff(tickets(held == 0), CLIENT, ["Below"]).instances == 2


@pytest.mark.parametrize(
    ("when", "objection"),
    [
        (count_of(b, held.at(b) == 0) > 1, "depends on several at once"),
        (all_of(b, held.at(b) <= newest), ""),
    ],
)
def test_a_step_that_looks_at_several_others_is_refused(when: Expression, objection: str) -> None:
    found = cutoff(tickets(when), CLIENT, ["Apart", "Below"])
    assert bool(found.objections) == bool(objection)
    assert all(objection in text for text in found.objections[:1])


def test_a_step_that_needs_some_instance_acts_for_it() -> None:
    """It is the one that takes it, or one more."""
    free = any_of(b, held.at(b) == 0)
    found = cutoff(tickets(free), CLIENT, ["Apart", "Below"])
    assert (found.acting, found.mentioned, found.objections) == (2, 2, ())
    two = any_of(a, any_of(b, (a != b) & (held.at(a) == held.at(b))))
    assert cutoff(tickets(two), CLIENT, ["Below"]).objections


@pytest.mark.slow(3)
def test_two_partitions_are_enough_for_an_idempotent_client() -> None:
    """It takes a new epoch for whichever partition needs one, and each is by itself."""
    names = [item.name for item in (*idempotence.properties, *idempotence.lemmas)]
    found = cutoff(idempotence, PARTITION, names, None, {"records": 2}, switch_on=SETTLED)
    assert (found.acting, found.mentioned, found.objections) == (1, 1, ())


@pytest.mark.parametrize("more", [(), (newest < 3,), (newest < 3, held.at(b) <= 3)])
def test_that_none_is_so_says_something_of_each(more: tuple[Expression, ...]) -> None:
    """Of each by itself, and beside it of what the condition is put before."""
    some = any_of(a, held.at(a) > 3)
    item = invariant("NoneAbove", all_of(b, all_true(*more, some).implies(newest > 3)), "It was.")
    found = cutoff(tickets(held == 0, item), CLIENT, ["NoneAbove"])
    mentioned = 2 if len(more) == 2 else 1
    assert (found.acting, found.mentioned, found.objections) == (1, mentioned, ())


def test_a_property_of_all_at_once_is_refused() -> None:
    total = invariant("Few", count_of(a, held.at(a) > 0) <= newest, "No more than were given out.")
    assert cutoff(tickets(held == 0, total), CLIENT, ["Few"]).objections


FORWARD = step_property(
    "Forward", all_of(a, after(held.at(a)) >= held.at(a)), "What is held only grows."
)
LARGEST = step_property(
    "Largest", count_of(a, held.at(a) > after(newest)) == 0, "Nobody is ahead of the store."
)


@pytest.mark.parametrize(
    ("item", "instances", "is_refused"),
    [(FORWARD, 2, False), (LARGEST, None, True)],
    ids=lambda value: str(value)[:20],
)
def test_a_property_of_steps_counts_whom_it_tells_of(
    item: Property, instances: int | None, is_refused: bool
) -> None:
    """Numbers are in their ranges, which mentions one."""
    found = cutoff(tickets(held == 0, item), CLIENT, [item.name])
    assert bool(found.objections) == is_refused
    assert instances is None or found.instances == instances
