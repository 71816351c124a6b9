"""Clients on their own."""

from __future__ import annotations

from dataclasses import replace

from epochfence.spec import messages as kafka
from epochfence.spec.client import producer
from epochfence.spec.client.batches import epochs as epoch_bump
from epochfence.spec.client.batches import expiry, sender
from epochfence.spec.client.calls import calls
from epochfence.spec.client.transactions import failures, requests
from epochfence.spec.systems import shipped
from epochfence.spec.systems.reductions.client import BATCHES, OF_ACCUMULATOR, OF_MESSAGES
from epochfence.spec.systems.reductions.coordinator import ADD_PARTITIONS
from epochfence.spec.systems.reductions.leader import ERRORS, PRODUCE
from epochfence.spec.systems.reductions.requests import REQUESTS
from epochfence.tests.spec.alone import BARE, Alone

BOUNDS = {
    "partitions": 2, "records": 3, "in_flight": 3, "producer_ids": 3, "largest_epoch": 5,
    "largest_sequence": 7, "faults": 6,
}  # fmt: skip
_TRANSACTIONS, _IDEMPOTENCE = shipped("transactions"), shipped("idempotence")
TRANSACTIONAL = replace(
    _TRANSACTIONS,
    name="transactional client",
    tables=producer.TABLES + sender.TABLES + expiry.TABLES,
    reductions=(*ERRORS, *PRODUCE, *ADD_PARTITIONS, *BATCHES, *REQUESTS),
    **BARE,
    budgets={producer.FAULTY_EVENTS + sender.FAULTY_EVENTS + expiry.FAULTY_EVENTS: kafka.FAULTS},
    terminal=False,
)
IDEMPOTENT = replace(
    _IDEMPOTENCE,
    name="idempotent client",
    tables=sender.TABLES + expiry.TABLES + epoch_bump.TABLES,
    reductions=(*ERRORS, *PRODUCE, *BATCHES),
    **BARE,
    budgets={sender.FAULTY_EVENTS + expiry.FAULTY_EVENTS + epoch_bump.FAULTY_EVENTS: kafka.FAULTS},
    terminal=False,
)


_CALLS, _EXACTLY_ONCE = shipped("calls"), shipped("exactly-once")
WITH_A_QUEUE = replace(
    _CALLS,
    name="client with a queue",
    tables=(*calls.TABLES, calls.aborted_at_close, *requests.TABLES, *failures.TABLES),
    reductions=(*OF_ACCUMULATOR, *OF_MESSAGES),  # a test brings about any event
    **BARE,
    terminal=False,
)
WITH_A_QUEUE_BOUNDS = {"oldest_version": 0, "oldest_transaction_version": 0}
OF_A_GROUP_BOUNDS = {"producers": 1, "transactions": 2, "faults": 1}
OF_A_GROUP = replace(
    _EXACTLY_ONCE,
    name="client of a group",
    tables=tuple(table for table in _EXACTLY_ONCE.tables if table.machine is kafka.producer),
    **BARE,
    budgets={(producer.crash,): kafka.FAULTS},
    interchangeable=(),
    terminal=False,
)


class Client(Alone):
    """A client without transactional id."""

    machine = "producer"
    system = IDEMPOTENT
    bounds = BOUNDS | {"first_epoch": 1}


class TransactionalClient(Client):
    """A client with a transactional id."""

    system = TRANSACTIONAL
    bounds = BOUNDS | {"producers": 1, "transactions": 2, "early_ends": 1}


class QueuingClient(Client):
    """A client with a transactional id and the queue of its requests."""

    system = WITH_A_QUEUE
    bounds = WITH_A_QUEUE_BOUNDS


class GroupClient(Client):
    """A client with a transactional id, of an instance that consumes and produces."""

    system = OF_A_GROUP
    bounds = OF_A_GROUP_BOUNDS
