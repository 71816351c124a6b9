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


def only_case(bootstrap: str, prefix: str) -> Case:
    """The only open transaction in topics whose names begin so."""
    cases = doctor(bootstrap).cases
    (case,) = [case for case in cases if case.partition.place.topic.startswith(prefix)]
    return case


def verdict_of(found: Diagnosis, topic: str) -> Verdict:
    """The verdict on a topic: other tests leave open transactions in other topics."""
    cases = [case for case in found.cases if case.partition.place.topic == topic]
    return Diagnosis(found.evidence, cases, []).verdict
