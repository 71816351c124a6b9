"""A coordinator's form does what its state does, whatever it is called and in any epoch."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochfence.model.broker.transactions.transaction_metadata import NEW_ENTRY
from epochfence.model.judge.machines import canonical as forms
from epochfence.model.judge.machines.coordinator import (
    NAME,
    STEPS,
    UNSEEN,
    Coordinator,
    without_keys,
)
from epochfence.model.judge.operations import Operation, Settings, matches
from epochfence.spec.messages import EPOCH, NO_EPOCH, PRODUCER_ID
from epochfence.tests.model.judge.test_judge import RELEASES

EPOCHS = (0, 1, 2, 3, 700, forms.MIDDLE, 30_000, *range(forms.HIGHEST - 2, 32_768))
ODD = (-1, 0, 1, 500, forms.HIGHEST, 32_766, 32_767)
IDS = (8, 7, 4)
"""The ids that a coordinator may be given; the first is of nobody."""


def an_operation(random: Random, now: int, epoch: int) -> Operation:
    """A request with an epoch near this one, or an odd one."""
    near = [max(-1, min(32_767, epoch + by)) for by in (-2, -1, 0, 0, 0, 0, 1)]
    who: dict[str, Any] = {
        "producer_id": random.choice(IDS[1:]),
        "producer_epoch": random.choice(near if random.random() < 0.9 else ODD),
    }
    match random.choice(["init", "bump", "add", "end", "end"]):
        case "init":
            return Operation("InitProducerId", {"transaction_timeout_ms": 30}, now)
        case "bump":
            return Operation("InitProducerId", {"transaction_timeout_ms": 9, **who}, now)
        case "add":
            parts = random.sample(range(3), random.choice([1, 1, 2]))
            return Operation("AddPartitionsToTxn", {**who, "partitions": parts}, now)
        case _:
            return Operation("EndTxn", {**who, "result": random.choice(["COMMIT", "ABORT"])}, now)


def really(form: forms.Coordinator) -> Hashable:
    """What tells the state of a form from others, in its own names, epochs and times."""
    if form.form.entry is None:
        return None
    entry = form.form.entry.mapped(EPOCH, lambda e: e if e == NO_EPOCH else e + form.shift)
    entry = entry.mapped(PRODUCER_ID, form.names.ids.__getitem__)
    entry.put(**dict(zip(forms.TIMES, form.times, strict=True)))
    return entry.kept(UNSEEN, without_keys)


def start(random: Random, chosen: Settings) -> tuple[Coordinator, forms.Coordinator]:
    """A coordinator without an entry, or with one in some epoch, and its form."""
    # what a history begins with has each id; its partitions are numbered as they are here
    told = [Operation("EndTxn", {"producer_id": at, "producer_epoch": 0}, 0) for at in IDS[1:]]
    form: Any = forms.machine_for(told, chosen)
    assert form.names.ids == IDS
    form.names.partitions |= {at: at for at in range(3)}
    exact = Coordinator(chosen)
    if random.random() < 0.3:
        return exact, form
    entry = NEW_ENTRY._replace(
        producer_id=4,
        producer_epoch=random.choice(EPOCHS),
        txn_timeout_ms=30,
        txn_last_update_timestamp=0,
    )
    exact.coordinator.put(entry._replace(transactional_id=NAME))
    form.memory.exact.coordinator.put(entry._replace(transactional_id="numbered", producer_id=2))
    numbered = form.memory.exact.coordinator.entries.pop("numbered")
    change = form.memory.change(form.form, numbered, None)
    form = forms.Coordinator(form.names, form.memory, change.form, change.shift, form.times)
    form.times = tuple(exact.entry[name] for name in forms.TIMES) if exact.entry else ()
    return exact, form


@pytest.mark.slow(1)
@given(random=st.integers(0, 2**32).map(Random), release=st.sampled_from(RELEASES))
@settings(max_examples=25, deadline=None)
def test_a_form_does_what_its_state_does(random: Random, release: str) -> None:
    chosen = Settings(protocol=release, transactional_id_expiration_ms=100)
    exact, form = start(random, chosen)
    for now in range(10, 130, 3):
        assert really(form) == exact.key()
        epoch = -1 if exact.entry is None else exact.entry["producer_epoch"]
        operation = an_operation(random, now, epoch)
        done = list(exact.outcomes(operation, IDS))
        states = dict[Hashable, tuple[Coordinator, forms.Coordinator]]()
        for _, told in done:  # a response that was seen, or none
            seen = operation._replace(response=told)
            ids = (told["producer_id"],) if told and told.get("producer_id", -1) >= 0 else IDS
            can = {
                (after.key(), answer is not None): after
                for after, answer in exact.outcomes(operation, ids)
                if answer is None or told is None or matches(told, answer)
            }
            found = {
                (really(after), is_answered): after
                for after, is_answered in form.outcomes(form.read(seen))
            }
            missing = can.keys() - found.keys()
            assert found.keys() <= can.keys()
            assert not any(is_answered for _, is_answered in missing)
            assert told is not None or not missing
            states |= {
                key: (can[key, is_answered], after) for (key, is_answered), after in found.items()
            }
        taken = [exact.take(step, now, IDS[0]) for step in STEPS]
        form.last_answered = form.held  # a client knows the epoch
        can = {(after.key(), str(answer)): after for after, answer in filter(None, taken)}
        events = {(really(after), str(answer)): after for after, answer in form.events(now, now)}
        assert can.keys() == events.keys()
        states |= {key[0]: (can[key], after) for key, after in events.items()}
        exact, form = random.choice(list(states.values()))
