"""What doctor says of a broker."""

from __future__ import annotations

from epochfence.model.doctor.diagnosis import Case, Diagnosis
from epochfence.model.doctor.evidence import Verdict
from epochfence.model.doctor.examination import examine
from epochfence.model.doctor.live import Cluster

PATIENCE_MS = 1_000


def doctor(bootstrap: str, patience_ms: int = PATIENCE_MS) -> Diagnosis:
    """What is wrong with a broker, where nothing is waited for longer."""
    with Cluster(bootstrap) as cluster:
        return examine(cluster, patience_ms)


def cases_of(found: Diagnosis, topic: str) -> list[Case]:
    """The open transactions in a topic: other tests leave some in other topics."""
    return [case for case in found.cases if case.partition.place.topic == topic]


def only_case(bootstrap: str, topic: str) -> Case:
    """The only open transaction in a topic."""
    (case,) = cases_of(doctor(bootstrap), topic)
    return case


def verdict_of(found: Diagnosis, topic: str) -> Verdict:
    """The verdict on a topic."""
    return Diagnosis(found.evidence, cases_of(found, topic), []).verdict
