"""The order in which a client drains the partitions of one node into requests.

The client's model runs these rows at real ranges, for the partitions of its one node. As a system
they stand alone: with this order `idempotence` would have the same states, multiplied by the places
in it.
"""

from __future__ import annotations

from dataclasses import replace

from ....language import (
    Bool,
    Int,
    Machine,
    Map,
    Optional,
    Row,
    System,
    Table,
    any_of,
    constant,
    event,
    failure,
    feature,
    if_,
    invariant,
    leads_to,
    position,
    some,
    weak_fairness,
)
from ...messages import PARTITION, PARTITIONS
from ...releases.features import KAFKA
from ...releases.release import CLIENT

drain_index_kept = feature(
    "drain_index_kept",
    "3.3",
    parts=(CLIENT,),
    sentence="A drain begins where the one before it stopped: a batch that didn't fit goes first. "
    "Before, it began behind that partition, which could wait for ever.",
    source="KAFKA-13834, RecordAccumulator.drainBatchesForOneNode",
)
counts_first = feature(
    "counts_first",
    "2.1",
    parts=(CLIENT,),
    sentence="The index moves on before a partition is looked at. Before, only behind one at which "
    "the drain didn't stop.",
    source="RecordAccumulator.drainBatchesForOneNode",
)
MAX_REQUEST_SIZE = constant("max_request_size", 1, 1, 3, real=1_048_576, meaning="max.request.size")
STOPS = constant("stops", 1, 0, 4, meaning="partitions that wait for a sequence to be resolved")
LARGEST = constant("largest_batch", 2, 2, 4, real=2**31 - 1, meaning="size of the largest batch")
SIZE = Int(0, LARGEST, "size")
PLACE = Int(0, PARTITIONS - 1, "place")

accumulator = Machine(
    "accumulator", doc="A client's queues for the partitions that one node leads, in their order."
)
parts = accumulator.field(
    "parts", Int(0, PARTITIONS, "parts"), doc="How many partitions the node leads."
)
first = accumulator.field(
    "first",
    Map(PARTITION, SIZE),
    doc="The size of the first batch of a partition's queue. 0: there is none that may go now.",
)
stopped = accumulator.field(
    "stopped", Map(PARTITION, Bool()), doc="The batch has to wait: a sequence is unresolved."
)
drain_index = accumulator.field("drain_index", PLACE, doc="Where the next drain begins.")
at = accumulator.field("at", PLACE, doc="The partition that is visited next.")
start = accumulator.field("start", Optional(PLACE), doc="Where this drain began, if there is one.")
ready = accumulator.field("ready", Int(0, PARTITIONS), doc="The batches of the request.")
watched = accumulator.field(
    "watched", PARTITION, any_initial=True, doc="Any partition, about which progress is stated."
)
drained = accumulator.field(
    "drained", Int(0, LARGEST + MAX_REQUEST_SIZE, "size"), doc="The size of all of them."
)

p = PARTITION.variable("p")
new_record = event("append", partition=PARTITION, size=SIZE)
new_stop = event("sequence unresolved", partition=PARTITION)
resolved = event("sequence resolved", partition=PARTITION)
begin = event("drain begins")
visit = event("visit", partition=PARTITION)
send = event("request sent")

appends = Table(
    accumulator,
    on=new_record,
    when=(first[new_record.partition] == 0) & (new_record.size > 0),
    rows=(
        Row(
            "append",
            "The partition has a batch",
            set={first[new_record.partition]: new_record.size},
            source="RecordAccumulator.append",
        ),
    ),
)
stops = Table(
    accumulator,
    on=new_stop,
    when=~stopped[new_stop.partition] & (first[new_stop.partition] > 0),
    rows=(
        Row(
            "stop",
            "A batch before it has expired: nobody knows whether it was appended",
            set={stopped[new_stop.partition]: True},
            source="TransactionManager.markSequenceUnresolved",
        ),
    ),
)
resolves = Table(
    accumulator,
    on=resolved,
    when=stopped[resolved.partition],
    rows=(
        Row(
            "go-on",
            "The partition may be drained again",
            set={stopped[resolved.partition]: False},
            source="TransactionManager.maybeResolveSequences",
        ),
    ),
)
begins = Table(
    accumulator,
    on=begin,
    when=~start.is_set & (ready == 0) & any_of(p, first[p] > 0),
    rows=(
        Row(
            "begin",
            "A drain begins",
            set={start: some(drain_index), at: drain_index},
            source="RecordAccumulator.drainBatchesForOneNode",
        ),
    ),
)

following = if_(at + 1 == parts, 0, at + 1)
kept = if_(drain_index_kept, at, following)
kept_at_end = if_(drain_index_kept | ~counts_first, at, following)
ends = if_(some(following) == start, None, start)
batch = first[visit.partition]
visits = Table(
    accumulator,
    on=visit,
    when=start.is_set,
    doc="RecordAccumulator.drainBatchesForOneNode, for one partition.",
    rows=(
        Row(
            "empty",
            "The partition has no batch: the next one is visited",
            when=batch == 0,
            set={drain_index: kept, at: following, start: ends},
            source="RecordAccumulator.drainBatchesForOneNode",
        ),
        Row(
            "full",
            "The batch doesn't fit into the request: the drain ends",
            when=(ready > 0) & (drained + batch > MAX_REQUEST_SIZE),
            set={drain_index: kept_at_end, start: None},
            source="RecordAccumulator.drainBatchesForOneNode",
        ),
        Row(
            "stopped",
            "The partition waits for a sequence: the drain ends",
            when=stopped[visit.partition],
            set={drain_index: kept_at_end, start: None},
            source="RecordAccumulator.shouldStopDrainBatchesForPartition",
        ),
        Row(
            "drain",
            "The batch goes into the request, the first one however large it is",
            set={
                batch: 0,
                ready: ready + 1,
                drained: drained + batch,
                drain_index: kept,
                at: following,
                start: ends,
            },
            source="RecordAccumulator.drainBatchesForOneNode",
        ),
    ),
)
sends = Table(
    accumulator,
    on=send,
    when=~start.is_set & (ready > 0),
    rows=(
        Row(
            "send",
            "The request is sent",
            set={ready: 0, drained: 0},
            source="Sender.sendProduceRequests",
        ),
    ),
)

PROPERTIES = (
    invariant(
        "WithinRequest",
        (drained > MAX_REQUEST_SIZE).implies(ready == 1),
        "A request stays within max.request.size. A batch that is larger goes alone.",
        source="RecordAccumulator.drainBatchesForOneNode",
        failure=failure("a request has {} batches of size {} in all", ready, drained),
    ),
    invariant(
        "BatchesHaveRecords",
        ready <= drained,
        "Each batch of a request has a record.",
        source="RecordAccumulator.drainBatchesForOneNode",
        failure=failure("a request of size {} has {} batches", drained, ready),
    ),
)
PROGRESS = (
    leads_to(
        "EachIsDrained",
        first[watched] > 0,
        first[watched] == 0,
        "Each batch is drained, however many the other partitions have.",
        source="KAFKA-13834, RecordAccumulator.drainBatchesForOneNode",
        failure=failure("the batch of {} still waits", watched),
    ),
)

in_turn = replace(visits, when=visits.when & (position(visit.partition) == at))
"""The system has the partition's place; at real ranges the client's model looks it up."""
CLIENTS = replace(KAFKA.of_parts(CLIENT), features=(counts_first, drain_index_kept), settled=())

system = System(
    name="drain-order",
    doc="A client drains the partitions of one node into requests that have room for some batches.",
    tables=(appends, stops, resolves, begins, in_turn, sends),
    properties=PROPERTIES,
    progress=PROGRESS,
    fairness=weak_fairness(resolved, begin, visit, send),
    constants=(PARTITIONS, MAX_REQUEST_SIZE, LARGEST, STOPS),
    budgets={new_stop: STOPS},
    bounds={"default": {PARTITIONS: 2}, "large": {PARTITIONS: 3}},
    protocols=CLIENTS,
    initials={parts: PARTITIONS},
    terminal=True,
    reach="two partitions of a node, one batch in each queue, which fits a request or not.",
)
