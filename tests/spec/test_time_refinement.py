"""Refinement checks of reductions of time: in a system anything may be late at any moment. The same
system with a clock that ticks does each step of its own in the one without time, and each step of
that is one of its own at some time.
"""

from __future__ import annotations

import pytest

from epochfence.checker.refinement import Refinement, refine
from epochfence.language import Expression, Row, System, Table, any_of, event, position
from epochfence.language.instances.reductions import NotOffered, Reduction
from epochfence.spec.client import state as own
from epochfence.spec.client.batches import expiry, sender
from epochfence.spec.client.batches.expiry import expire_batch
from epochfence.spec.client.state import s
from epochfence.spec.leader.state import PRODUCER_ID_EXPIRATION
from epochfence.spec.messages import LATEST, LONGEST, ProduceResponse, clock, now, producer
from epochfence.spec.producer_ids import rpc_manager
from epochfence.spec.systems import shipped
from epochfence.spec.systems.reductions.client import OF_EXPIRY
from epochfence.spec.systems.reductions.coordinator import ENTRY, ENTRY_FAULTS
from epochfence.spec.systems.reductions.leader import EXPIRED_PRODUCER, EXPIRED_QUESTION
from epochfence.spec.systems.reductions.producer_ids import MANAGERS
from epochfence.tests.spec.restricted import NO_FAULTS, restricted

RELEASES = ("2.5", "3.6", "4.0.1", "4.4")
ONE_OF_EACH = {"partitions": 1, "records": 1, "producers": 1, "transactions": 1, "faults": 1}
TRANSACTIONS = NO_FAULTS | ONE_OF_EACH
IDEMPOTENCE = {"partitions": 1, "records": 2, "faults": 1}
UNTIL_THE_END = {sender.DELIVERY_TIMEOUT: 9}
"""The time of a batch isn't over in these runs."""
TIMED_OUT, ID_EXPIRED = ENTRY[2], ENTRY_FAULTS[0]
IS_LONGEST = next(one for one in ENTRY if "two-phase commit" in one.because)
(BACKED_OFF, _), (BATCH_EXPIRED, *_) = MANAGERS, OF_EXPIRY
CHECKED = (
    TIMED_OUT,
    IS_LONGEST,
    ID_EXPIRED,
    EXPIRED_PRODUCER,
    EXPIRED_QUESTION,
    BACKED_OFF,
    BATCH_EXPIRED,
)
tick = event("tick")


def with_time(
    system: System,
    reduction: Reduction,
    release: str,
    constants: dict[str, int],
    *,
    fixed: dict[Expression, int],
    instants: int = 2,
) -> Refinement:
    """Compares the system with one that has so many instants."""
    row = Row("tick", set={now: now + 1})
    ticks = Table(clock, on=tick, when=now < instants - 1, rows=(row,))
    return refine(
        system,
        reduction,
        protocol=release,
        constants=constants,
        is_chosen=True,
        tables=(ticks,),
        fixed={LATEST: 2 * instants, **fixed},
    )


def check(found: Refinement, *, changes: bool = True) -> None:
    """Whether both systems agree, and runs take the rows that the reduction changes."""
    assert (found.mismatch, found.exhaustive) == (None, True)
    assert bool(found.taken) == changes


@pytest.mark.slow(10)
@pytest.mark.sample(2, of="engines: reductions of time")
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("reduction", "fault", "fixed"),
    [
        (TIMED_OUT, "timeouts", {}),
        (IS_LONGEST, "timeouts", {LONGEST: 1}),
        (ID_EXPIRED, "id_expiries", {}),
        (EXPIRED_PRODUCER, "producer_expiries", {PRODUCER_ID_EXPIRATION: 1}),
        (EXPIRED_QUESTION, "producer_expiries", {PRODUCER_ID_EXPIRATION: 1}),
    ],
    ids=("timeout", "longest", "id", "producer", "question"),
)
def test_brokers_do_at_some_time_what_they_may_do_at_any(
    reduction: Reduction, fault: str, fixed: dict[Expression, int], release: str
) -> None:
    system, constants = shipped("transactions"), TRANSACTIONS | {fault: 1}
    found = with_time(
        system, reduction, release, constants, fixed=fixed | UNTIL_THE_END, instants=3
    )
    # before 3.6 no leader asks a coordinator
    check(found, changes=(reduction, release) != (EXPIRED_QUESTION, "2.5"))


# The broker's manager of producer ids -------------------------------------------------------------

ONE_BROKER = {"brokers": 1, "handlers": 1}
BACKOFF: dict[Expression, int] = {rpc_manager.RETRY_BACKOFF: 1}


@pytest.mark.slow(3)
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("instants", [2, 3])
def test_a_broker_asks_again_after_its_backoff(release: str, instants: int) -> None:
    """Until then its calls fail."""
    system = shipped("producer-ids")
    found = with_time(system, BACKED_OFF, release, ONE_BROKER, fixed=BACKOFF, instants=instants)
    check(found, changes=release != "2.5")  # ZooKeeper's manager waits for no backoff


# The client's batches -----------------------------------------------------------------------------

_of_answer = own.batches[ProduceResponse.partition][ProduceResponse.record]
_older = own.batches[expire_batch.partition][s]
NEVER_SENT = NotOffered(
    producer,
    expire_batch,
    when=expiry.batch.status == own.UNSENT,
    because="A record has no effect before its batch is drained.",
)
OLDEST_FIRST = NotOffered(
    producer,
    expire_batch,
    when=any_of(s, own.is_open(_older) & (position(s) < position(expire_batch.record))),
    because="Sender.sendProducerData takes the batches of a partition in their order.",
)
NO_LATE_ERROR = NotOffered(
    producer,
    ProduceResponse,
    when=(_of_answer.status == own.SENT)
    & ~sender.is_completed
    & (now - sender.details.created_ms >= sender.DELIVERY_TIMEOUT),
    because="A batch whose time is over expires before its leader's error arrives.",
)
OF_BATCHES = (NEVER_SENT, OLDEST_FIRST, NO_LATE_ERROR)


@pytest.mark.slow(5)
@pytest.mark.sample(1, of="engines: reductions of time")
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("name", "constants"),
    [("idempotence", IDEMPOTENCE), ("transactions", TRANSACTIONS | {"expiries": 1})],
)
def test_a_batch_expires_at_some_time(name: str, constants: dict[str, int], release: str) -> None:
    system = restricted(shipped(name), *OF_BATCHES)
    check(with_time(system, BATCH_EXPIRED, release, constants, fixed={}))


@pytest.mark.parametrize(
    ("left_out", "step"),
    [
        (NEVER_SENT, "producer.batch expires/first-attempt"),
        (OLDEST_FIRST, "producer.batch expires/first-attempt"),
        (NO_LATE_ERROR, "producer.ProduceResponse/refused-bumps-epoch"),
    ],
)
def test_each_of_these_is_needed(left_out: NotOffered, step: str) -> None:
    """A system without time doesn't have these steps."""
    others = (one for one in OF_BATCHES if one is not left_out)
    system = restricted(shipped("idempotence"), *others)
    found = with_time(system, BATCH_EXPIRED, "4.4", IDEMPOTENCE, fixed={}).mismatch
    assert found is not None
    assert (found.is_of_whole, found.step) == (True, step)
