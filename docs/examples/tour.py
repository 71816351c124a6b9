"""The transaction protocol, asked for the shortest run in which something happens.

A checker looks for a run that breaks a property. So each property here claims that something never
happens, and its counterexample is the shortest run in which it does: docs/tour.md draws them.
"""

from dataclasses import replace

from epochfence.language import Expression, Property, System, all_of, any_of, invariant, set_of
from epochfence.spec.client import state as client
from epochfence.spec.client.calls import application
from epochfence.spec.groups import state as groups
from epochfence.spec.leader.isolation import ending, log_entry
from epochfence.spec.leader.state import Kind
from epochfence.spec.messages import PARTITION, PRODUCER, TRANSACTION
from epochfence.spec.reading import state as reader
from epochfence.spec.systems import shipped

p, i = PARTITION.variable("p"), PRODUCER.variable("i")
t = TRANSACTION.variable("t")


def asked(name: str, *never: Property) -> System:
    """A shipped system with these properties alone."""
    return replace(
        shipped(name), name="tour", properties=never, progress=(), fairness=(), unreached=()
    )


def ended(kind: Expression, outcome: Expression) -> Expression:
    """Whether such a marker in a log ends a transaction, and the application got that outcome."""
    record = log_entry("record", p)
    marker = ending(record, p)
    by_marker = (record.txn == t) & marker.is_set & (marker.value.kind == kind)
    return any_of(t, any_of(p, any_of(record, by_marker & (application.outcome.at(t) == outcome))))


Outcome = application.Outcome
transactions = asked(
    "transactions",
    invariant(
        "NothingIsCommitted",
        ~ended(Kind.COMMIT, Outcome.COMMITTED),
        "No record is committed and reported as committed.",
    ),
    invariant(
        "NothingIsAborted",
        ~ended(Kind.ABORT, Outcome.ABORTED),
        "No record is aborted and reported as aborted.",
    ),
    invariant(
        "NobodyIsFenced",
        all_of(i, client.state.at(i) != client.FATAL_ERROR),
        "No client learns that another one has taken its place.",
    ),
)
reading = asked(
    "reading",
    invariant(
        "NothingIsSkipped",
        (reader.delivered == set_of()) | (reader.dropped == set_of()),
        "No consumer gets the records of one transaction, and drops those of another one.",
    ),
)
streams = asked(
    "exactly-once",
    invariant("NothingIsProcessed", ~groups.committed.is_set, "No input's offset is committed."),
)
