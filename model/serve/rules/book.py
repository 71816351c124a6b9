"""The rules that a client must follow, each with a schedule that tests it.

docs/rules.md and docs/rules.json are generated from them. `epochfence serve --rules` tests a client
on all rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from typing import Any, Final, NamedTuple

from ....language import Change, Instance, System, instantiate
from ....language.instances.instance import ending_anywhere
from ....spec.bugs import bug_of
from ....spec.bugs.bug import idempotence, transactions
from ....spec.releases.release import NEWEST
from ....spec.systems import shipped


class Wanted(Enum):
    """The outcome of a call that a rule requires."""

    OK = "ok"
    FAILS = "an error"
    ANY = "any outcome"


class Step(NamedTuple):
    """A call of a client (`a` or `b`), as its program reads it. `gives` is the answer that the
    program must print."""

    call: str
    wanted: Wanted = Wanted.OK
    by: str = "a"
    gives: str | None = None


_OK, _FAILS, _ANY = Wanted.OK, Wanted.FAILS, Wanted.ANY
INIT, BEGIN, FLUSH = Step("initTransactions"), Step("beginTransaction"), Step("flush")
COMMIT, ABORT = Step("commitTransaction"), Step("abortTransaction")
VALUES = Step("values 0")
"""The committed records of partition 0: the suite compares them with the log."""
WAIT = Step("wait 100")
"""The suite itself waits for this number of ms."""
POLL, OFFSETS, LEAVE = Step("poll"), Step("sendOffsets"), Step("leave")
INPUT: Final = "input"
"""The topic that a group reads; it has one partition. The suite's own step `append` writes to
it."""
OF_GROUP: Final = {"group.id": "workers", "input": INPUT}
"""The settings of a program that is a member of a group."""
LARGE: Final = "".join(sha256(bytes([number])).hexdigest() for number in range(64))
"""A record that brokers with SMALL_MESSAGES refuse, even if a client compresses it."""
SMALL_MESSAGES: Final = {"message.max.bytes": "1000"}
PAGE: Final = "docs/rules.md"
EXAMPLE: Final = "docs/examples/without_rows.py"


def send(value: str, partition: int = 0, by: str = "a") -> Step:
    """The call that sends a record without waiting for the answer."""
    return Step(f"send {partition} {value}", by=by)


class Without(NamedTuple):
    """A run of a shipped system without one row, named `machine.event/id`. The system is also in
    EXAMPLE."""

    row: str
    system: str
    constants: Mapping[str, int]
    release: str = "4.3"

    @property
    def declared(self) -> System:
        """The system without the row."""
        table, _, row = self.row.rpartition("/")
        return shipped(self.system) + Change("without-a-rule").table(table).without(row)

    def instance(self, *properties: str) -> Instance:
        """The run with these properties (default: all)."""
        wanted = list(properties) or None
        return ending_anywhere(
            instantiate(self.declared, self.release, self.constants, properties=wanted)
        )


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule, and its test for clients.

    Without the rule, the property `breaks` is broken in the run of `bug` (of the gallery), or in
    the run of `without` (tables without one row). A rule with neither has no property: `harmless`
    is a run without its row in which every property holds. `rows` are the rows of Kafka's client
    that follow the rule. `vector` is the broker's row that the rule relies on; its vectors are in
    the files of `epochfence vectors`. `broke` are released clients that broke the rule.

    The test makes the calls of `steps` against brokers of `release` with `faults`. `checks` are
    names in `checks.CHECKS` for the requests. `settings` are the brokers' settings, `client`
    additional ones of the program.
    """

    id: str
    text: str
    why: str
    rows: tuple[str, ...]
    source: str
    vector: str
    breaks: str = ""
    bug: str = ""
    without: Without | None = None
    harmless: Without | None = None
    broke: tuple[str, ...] = ()
    release: str = NEWEST
    steps: tuple[Step, ...] = ()
    faults: tuple[Mapping[str, Any], ...] = ()
    checks: tuple[str, ...] = ()
    is_transactional: bool = True
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    client: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def run(self) -> Instance | None:
        """The run that breaks the property without the rule."""
        if self.bug:
            return bug_of(self.bug).broken()
        return None if self.without is None else self.without.instance(self.breaks)

    @property
    def command(self) -> str:
        """The command that prints the shortest run, or an empty text."""
        if self.bug or self.without is None:
            return f"epochfence bugs {self.bug}" if self.bug else ""
        system = f"{EXAMPLE}:{self.id.replace('-', '_')}"
        constants = "".join(f" --set {name}={n}" for name, n in self.without.constants.items())
        return (
            f"epochfence check {system} --property {self.breaks} --protocol {self.without.release}"
            f"{constants} --no-deadlock"
        )


RULES: Final = (
    Rule(
        id="initialize-until-answered",
        text="Repeat InitProducerId until it is answered, with the producer id and epoch that you "
        "hold. Send no other request of a transaction before.",
        why="A repetition that names nothing gets one more epoch, and fences the client itself.",
        rows=("producer.answer lost/look-up", "producer.InitProducerIdResponse/retry"),
        source="TransactionManager.InitProducerIdHandler; KIP-360",
        breaks="BumpedOnce",
        bug="KIP-360",
        vector="transaction.InitProducerId/retry-of-bump",
        broke=("Kafka's client before 2.5",),
        steps=(INIT, BEGIN, send("t0"), FLUSH, COMMIT),
        faults=({"do": "lose_answer", "on": {"request": "InitProducerId"}},),
        checks=("initialized_first",),
    ),
    Rule(
        id="add-before-writing",
        text="Below transaction version 2, send no batch to a partition before AddPartitionsToTxn "
        "is answered NONE for it in this transaction.",
        why="No coordinator knows of the partition. Its transaction gets no marker and no timeout.",
        rows=("producer.send/to-be-added", "producer.AddPartitionsToTxnResponse/added"),
        source="TransactionManager.maybeAddPartition",
        breaks="NoHangingTransaction",
        bug="KAFKA-12671",
        vector="transaction.AddPartitionsToTxn/add",
        broke=("franz-go with EndBeginTxnUnsafe, which was withdrawn",),
        release="3.5",
        steps=(
            INIT, BEGIN, send("t0"), send("t0b", 1), FLUSH, COMMIT, BEGIN, send("t1"), FLUSH, COMMIT
        ),
        faults=({"do": "lose_answer", "on": {"request": "AddPartitionsToTxn"}},),
        checks=("added_first",),
    ),
    Rule(
        id="end-behind-batches",
        text="Send EndTxn only when each batch of the transaction is answered or given up.",
        why="The marker overtakes the batch. Behind it, the batch opens a transaction that no "
        "coordinator knows, or joins the next one.",
        rows=("producer.next request/wait-for-batches",),
        source="TransactionManager.nextRequest",
        breaks="NoHangingTransaction",
        without=Without(
            "producer.commitTransaction/wait-for-batches", "transactions",
            transactions(early_ends=1), "3.5",
        ),
        vector="partition.Produce/verify",
        steps=(INIT, BEGIN, send("t0"), COMMIT, BEGIN, send("t1"), FLUSH, COMMIT),
        faults=({"do": "hold", "on": {"request": "Produce"}, "until": {"ms": 400}},),
        checks=("ended_behind_batches",),
    ),
    Rule(
        id="failed-record-fails-commit",
        text="Don't commit a transaction that has a failed record. The commit raises, also if the "
        "application didn't look at the record's own error.",
        why="The application is told that the whole transaction is committed, and a part is lost.",
        rows=("producer.ProduceResponse/abortable-not-adjusted",),
        source="TransactionManager.handleFailedBatch",
        harmless=Without(
            "producer.ProduceResponse/abortable-not-adjusted", "transactions",
            transactions(transactions=2, faults=2, losses=1, expiries=1),
        ),
        vector="transaction.EndTxn/prepare",
        broke=("aiokafka 0.14.0", "franz-go 1.22.3", "kafkajs 2.2.4"),
        steps=(
            INIT, BEGIN, send("t0"), FLUSH, send(LARGE), FLUSH._replace(wanted=_ANY),
            COMMIT._replace(wanted=_FAILS), ABORT._replace(wanted=_ANY),
        ),
        settings=SMALL_MESSAGES,
    ),
    Rule(
        id="commit-until-answered",
        text="The outcome of an EndTxn without an answer is unknown. Repeat it with the same "
        "result until a final answer. Begin no transaction before.",
        why="The transaction may still be open. The records of the next one then join it, and "
        "share its outcome.",
        rows=("producer.answer lost/look-up", "producer.EndTxnResponse/ended"),
        source="TransactionManager.TxnRequestHandler.onComplete",
        breaks="OutcomeAsReported",
        bug="franz-go-6ecd2f9f",
        vector="transaction.EndTxn/already-complete",
        broke=("franz-go before July 2026", "kafkajs 2.2.4"),
        steps=(
            INIT, BEGIN, send("t0"), FLUSH, COMMIT, BEGIN, send("t1"), FLUSH, COMMIT, BEGIN,
            send("t2"), FLUSH, COMMIT, BEGIN, send("t3"), FLUSH, COMMIT,
        ),
        faults=(
            {"do": "lose_request", "on": {"request": "EndTxn", "nth": 2}},
            {"do": "lose_answer", "on": {"request": "EndTxn", "nth": 4}},
        ),
        checks=("same_end",),
    ),
    Rule(
        id="abort-until-answered",
        text="Repeat an abort as well until a final answer.",
        why="The records of the next transaction join the one that should be aborted.",
        rows=("producer.answer lost/look-up", "producer.EndTxnResponse/ended"),
        source="TransactionManager.TxnRequestHandler.onComplete",
        breaks="OutcomeAsReported",
        bug="franz-go-6ecd2f9f",
        vector="transaction.EndTxn/already-complete",
        broke=("franz-go before July 2026", "kafkajs 2.2.4"),
        steps=(
            INIT, BEGIN, send("t0"), FLUSH, COMMIT, BEGIN, send("t1"), FLUSH, ABORT, BEGIN,
            send("t2"), FLUSH, COMMIT,
        ),
        faults=({"do": "lose_request", "on": {"request": "EndTxn", "nth": 2}},),
        checks=("same_end",),
    ),
    Rule(
        id="find-the-coordinator-again",
        text="After NOT_COORDINATOR, look up the coordinator and send the same request. After "
        "COORDINATOR_LOAD_IN_PROGRESS, wait and send it again.",
        why="The decision may be in the log already: only a repetition learns it. A client that "
        "takes the answer for an error fails, though nobody has fenced it.",
        rows=("producer.EndTxnResponse/coordinator-moved", "producer.EndTxnResponse/retry"),
        source="TransactionManager.EndTxnHandler.handleResponse",
        breaks="NotFencedByItself",
        without=Without(
            "producer.EndTxnResponse/retry", "transactions", transactions(faults=1, failovers=1)
        ),
        vector="transaction.EndTxn/already-prepared",
        steps=(INIT, BEGIN, send("t0"), FLUSH, COMMIT, BEGIN, send("t1"), FLUSH, COMMIT),
        faults=(
            {"do": "fail_over_coordinator", "loading_ms": 300, "on": {"request": "EndTxn"}},
        ),
        checks=("same_end",),
    ),
    Rule(
        id="report-a-failed-commit",
        text="A commit that a broker refuses has failed, also if an earlier attempt got no answer. "
        "Never report it as done.",
        why="The transaction timed out and is aborted, and the application takes it for committed.",
        rows=("producer.EndTxnResponse/fenced", "producer.EndTxnResponse/fatal"),
        source="TransactionManager.EndTxnHandler.handleResponse",
        breaks="NoLostAcknowledgement",
        bug="franz-go-42b3d833",
        vector="transaction.EndTxn/commit-during-fence",
        broke=("franz-go before June 2026",),
        steps=(INIT, BEGIN, send("t0"), FLUSH, COMMIT._replace(wanted=_FAILS)),
        faults=({"do": "time_out_transaction", "on": {"request": "EndTxn"}},),
    ),
    Rule(
        id="count-attempts",
        text="End a transaction if a request of it may have arrived, also if none was answered.",
        why="The records that did arrive join the next transaction, and are committed with it.",
        rows=("producer.abortTransaction/begin-abort",),
        source="TransactionManager.beginAbort",
        breaks="OutcomeAsReported",
        bug="franz-go-de5af46a",
        vector="transaction.EndTxn/prepare",
        broke=("franz-go before June 2026",),
        steps=(INIT, BEGIN, send("t0"), WAIT, ABORT, BEGIN, send("t1"), FLUSH, COMMIT),
        faults=({"do": "hold_answer", "on": {"request": "Produce"}, "until": {"ms": 1000}},),
    ),
    Rule(
        id="wait-for-markers",
        text="CONCURRENT_TRANSACTIONS means that the transaction before is still ending. Repeat "
        "the request soon; it isn't an error of the application.",
        why="Without the wait, each transaction fails that follows another one at once.",
        rows=("producer.AddPartitionsToTxnResponse/retry-soon",),
        source="TransactionManager.AddPartitionsToTxnHandler.maybeOverrideRetryBackoffMs",
        harmless=Without(
            "producer.AddPartitionsToTxnResponse/retry-soon", "transactions",
            transactions(transactions=2, faults=1, losses=1), "3.9",
        ),
        vector="transaction.AddPartitionsToTxn/prepared",
        release="3.9",
        steps=(INIT, BEGIN, send("t0"), FLUSH, COMMIT, BEGIN, send("t1"), FLUSH, COMMIT),
        faults=({"do": "hold_markers", "on": {"request": "EndTxn"}, "until": {"ms": 700}},),
    ),
    Rule(
        id="use-version-2",
        text="Where brokers have transaction.version 2, use it: EndTxn from version 5 on, with the "
        "epoch that its answer gives.",
        why="Without an epoch for each transaction, a late EndTxn ends the next transaction.",
        rows=("producer.EndTxnResponse/ended-new-epoch",),
        source="TransactionManager.EndTxnHandler.handleResponse; KIP-890",
        breaks="OutcomeAsReported",
        bug="KIP-890c",
        vector="transaction.EndTxn/other-epoch",
        broke=("librdkafka 2.16.1", "aiokafka 0.14.0", "kafka-python 3.0.12", "sarama 1.61.1"),
        steps=(
            INIT, BEGIN, send("t0"), FLUSH, COMMIT, BEGIN, send("t1"), FLUSH, COMMIT, BEGIN,
            send("t2"), FLUSH, WAIT, ABORT._replace(wanted=_ANY),
        ),
        faults=(
            {
                "do": "duplicate", "on": {"request": "EndTxn", "nth": 2},
                "until": {"request": "Produce"},
            },
        ),
    ),
    Rule(
        id="bump-every-partition",
        text="A new epoch concerns every partition: the first batch of each one under it has "
        "sequence 0.",
        why="A leader refuses a new epoch in mid-sequence, or takes a new batch for an old one.",
        rows=("producer.drain/new-epoch",),
        source="TransactionManager.maybeUpdateProducerIdAndEpoch",
        harmless=Without(
            "producer.drain/new-epoch", "idempotence",
            {**idempotence(losses=1, refusals=1), "partitions": 2},
        ),
        vector="partition.Produce/new-epoch-mid-sequence",
        broke=("Kafka's client before 2.7.1 (KAFKA-12152)",),
        steps=(
            INIT, BEGIN, send("t0"), send("t0b", 1), FLUSH, COMMIT, BEGIN, send("t1", 1), FLUSH,
            COMMIT, BEGIN, send("t2"), FLUSH, COMMIT,
        ),
        checks=("epochs_from_0",),
    ),
    Rule(
        id="no-epoch-in-mid-transaction",
        text="Don't ask for a new epoch in the middle of a transaction. Abort it first.",
        why="InitProducerId aborts the open transaction. The client would commit the rest of it.",
        rows=("producer.ProduceResponse/abortable-partition-reset",),
        source="TransactionManager.resetSequenceForPartition",
        breaks="NoLostAcknowledgement",
        bug="librdkafka-3575",
        vector="transaction.InitProducerId/fence",
        broke=("librdkafka before 1.6.2 and 1.8.2",),
        release="2.5",
        steps=(
            INIT, BEGIN, send("t0"), FLUSH, send(LARGE), FLUSH._replace(wanted=_ANY),
            ABORT._replace(wanted=_ANY),
        ),
        settings=SMALL_MESSAGES,
        checks=("no_epoch_within",),
    ),
    Rule(
        id="close-the-gap",
        text="A batch that a leader refuses for good takes no sequence: the next batch takes its "
        "place, or a new epoch starts at 0.",
        why="The leader takes the gap for a lost batch, and refuses all that follow. The producer "
        "can't go on, though each transaction was ended as it should be.",
        rows=("producer.ProduceResponse/abortable-adjusted",),
        source="TransactionManager.adjustSequencesDueToFailedBatch",
        harmless=Without(
            "producer.ProduceResponse/abortable-adjusted", "transactions",
            transactions(transactions=2, faults=2, expiries=1),
        ),
        vector="partition.Produce/out-of-order",
        broke=("librdkafka 2.16.1", "aiokafka 0.14.0", "kafka-python 3.0.12"),
        steps=(
            INIT, BEGIN, send("t0"), FLUSH, send(LARGE), FLUSH._replace(wanted=_ANY),
            ABORT._replace(wanted=_ANY), BEGIN, send("t1"), FLUSH, COMMIT,
        ),
        settings=SMALL_MESSAGES,
    ),
    Rule(
        id="fenced-for-good",
        text="A client that another instance has fenced gives up. It asks for no new producer id.",
        why="The older instance comes back, and both write in turn.",
        rows=("producer.EndTxnResponse/fenced", "producer.InitProducerIdResponse/fenced"),
        source="TransactionManager.EndTxnHandler.handleResponse; KIP-588",
        breaks="FencedForGood",
        bug="KAFKA-18019",
        vector="transaction.InitProducerId/stale-producer",
        broke=("Kafka's client, 2.5 to 3.9",),
        steps=(
            INIT, BEGIN, send("t0"), FLUSH, COMMIT._replace(wanted=_FAILS),
            BEGIN._replace(wanted=_ANY), Step("send 0 t1", _ANY), FLUSH._replace(wanted=_ANY),
            COMMIT._replace(wanted=_FAILS),
        ),
        faults=({"do": "bump_epoch", "on": {"request": "EndTxn"}},),
    ),
    Rule(
        id="same-batch-again",
        text="Repeat a batch without an answer with the same producer id, epoch, sequence and "
        "records.",
        why="Under another sequence the leader doesn't know it again, and appends it twice.",
        rows=("producer.drain/again",),
        source="RecordAccumulator.drainBatchesForOneNode, ProducerBatch.close",
        breaks="NoDuplicate",
        without=Without("producer.drain/again", "idempotence", idempotence(faults=1, losses=1)),
        vector="partition.Produce/duplicate",
        broke=("kafkajs 2.2.4, if several sends overlap",),
        steps=(INIT, BEGIN, send("t0"), FLUSH, send("t0b"), FLUSH, COMMIT),
        faults=({"do": "lose_answer", "on": {"request": "Produce"}},),
        checks=("same_batch",),
    ),
    Rule(
        id="five-in-flight",
        text="Have at most five requests with batches in flight on a connection.",
        why="A leader remembers five batches of a producer. It doesn't know a sixth one again.",
        rows=("producer.drain/next-sequence",),
        source="ProducerConfig.postProcessAndValidateIdempotenceConfigs; KAFKA-5494",
        breaks="NoDuplicate",
        bug="KAFKA-5494",
        vector="partition.Produce/duplicate",
        broke=("Kafka's client 0.11",),
        steps=(
            send("r0"), FLUSH, *(s for n in range(1, 8) for s in (send(f"r{n}"), WAIT)), FLUSH,
        ),
        faults=(
            {"do": "lose_answer", "on": {"request": "Produce", "nth": 2}, "until": {"ms": 1500}},
        ),
        is_transactional=False,
    ),
    Rule(
        id="keep-the-order",
        text="Send batches that were refused out of order again in the order of their sequences.",
        why="The records of a partition change places.",
        rows=("producer.ProduceResponse/out-of-order-behind-another",),
        source="TransactionManager.canRetry; KAFKA-8483",
        breaks="Order",
        bug="KAFKA-8483",
        vector="partition.Produce/out-of-order",
        broke=("Kafka's client, 1.0 to 2.2",),
        steps=(send("r0"), FLUSH, *(send(f"r{number}") for number in range(1, 5)), FLUSH),
        faults=({"do": "lose_request", "on": {"request": "Produce", "nth": 2}},),
        is_transactional=False,
    ),
    Rule(
        id="bump-when-settled",
        text="Without a transactional id, take a new epoch only when no batch is without an "
        "answer.",
        why="A batch that is in the log already is sent again under the new epoch, and appended.",
        rows=("producer.ProduceResponse/refused-bumps-epoch", "producer.bump epoch/bumped"),
        source="TransactionManager.bumpIdempotentProducerEpoch; KAFKA-14034, open",
        breaks="NoDuplicate",
        bug="KAFKA-14034",
        vector="partition.Produce/append",
        broke=("Kafka's client from 2.5 on", "librdkafka 2.16.1"),
        steps=(send("r0"), FLUSH, send("r1"), send(LARGE, 1), FLUSH._replace(wanted=_ANY)),
        faults=({"do": "lose_answer", "on": {"request": "Produce", "nth": 2}},),
        settings=SMALL_MESSAGES,
        is_transactional=False,
    ),
    Rule(
        id="sequences-outlive-metadata",
        text="Keep the sequences of a partition while metadata doesn't have it.",
        why="The partition starts again at 0. Its leader takes new batches for repetitions, "
        "acknowledges them, and they are lost.",
        rows=("producer.drain/next-sequence",),
        source="librdkafka 1.9.0, release notes",
        breaks="NoLostAcknowledgement",
        bug="librdkafka-1.9.0",
        vector="partition.Produce/duplicate",
        broke=("librdkafka before 1.9.0",),
        steps=(
            send("r0", 1), FLUSH, Step("wait 500"), send("x0"), FLUSH, Step("wait 2000"),
            send("r1", 1), FLUSH, send("r2", 1), FLUSH,
        ),
        faults=(
            {
                "do": "hide_partition", "partition": "orders-1", "on": {"request": "Produce"},
                "until": {"ms": 1200},
            },
        ),
        is_transactional=False,
        client={"metadata.max.age.ms": "200"},
    ),
    Rule(
        id="filter-by-ranges",
        text="A read_committed reader leaves out the records of a producer from the first offset "
        "that the fetch lists for it up to its abort marker. It delivers no marker.",
        why="The application gets records of aborted transactions, or loses those of the next one.",
        rows=("fetcher.next batch/aborted-batch", "fetcher.next batch/abort-marker"),
        source="CompletedFetch.nextFetchedRecord",
        breaks="OnlyCommitted",
        without=Without("fetcher.next batch/aborted-batch", "reading", {}),
        vector="partition.WriteTxnMarkers/end-transaction",
        broke=("kafka-go 0.4.51",),
        steps=(
            INIT, BEGIN, send("t0"), FLUSH, ABORT, BEGIN, send("t1"), FLUSH, COMMIT, BEGIN,
            send("t2"), FLUSH, VALUES, COMMIT, VALUES,
        ),
    ),
    Rule(
        id="aborted-unsorted",
        text="The list of aborted transactions isn't sorted by their first offsets. Sort it.",
        why="The reader passes the beginning of a range before it comes to it in the list, and "
        "delivers aborted records.",
        rows=("fetcher.fetch reads/batches",),
        source="CompletedFetch.abortedTransactions, a PriorityQueue",
        breaks="FiltersAborted",
        bug="franz-go-b9b50cce",
        vector="partition.WriteTxnMarkers/end-transaction",
        broke=("franz-go before June 2026, with Redpanda's leaders", "kafkajs 2.2.4"),
        steps=(
            INIT, INIT._replace(by="b"), BEGIN, send("a0"), FLUSH, BEGIN._replace(by="b"),
            send("b0", by="b"), FLUSH._replace(by="b"), ABORT._replace(by="b"), ABORT, BEGIN,
            send("a1"), FLUSH, COMMIT, VALUES,
        ),
    ),
    Rule(
        id="offsets-of-members",
        text="Commit the offsets of a group in the transaction, with the member's id and "
        "generation, and begin at offsets that no transaction is about to change.",
        why="After a rebalance two members process the same input, and both results count.",
        rows=("producer.TxnOffsetCommit for a partition/not-a-member",),
        source="KIP-447",
        breaks="CountedOnce",
        bug="KIP-447",
        vector="transaction.AddPartitionsToTxn/add",
        broke=("Kafka's client before 2.5", "aiokafka 0.14.0", "kafkajs 2.2.4"),
        steps=(
            Step("append i0"), INIT, INIT._replace(by="b"), POLL._replace(gives="i0"), BEGIN,
            send("a0"), FLUSH, OFFSETS, COMMIT, LEAVE, POLL._replace(by="b", gives=""),
            Step("append i1"), POLL._replace(by="b", gives="i1"), BEGIN._replace(by="b"),
            send("b0", by="b"), FLUSH._replace(by="b"), OFFSETS._replace(by="b", wanted=_ANY),
            COMMIT._replace(by="b", wanted=_FAILS), ABORT._replace(by="b", wanted=_ANY),
        ),
        faults=(
            {
                "do": "hold_markers", "on": {"request": "EndTxn"},
                "until": {"request": "OffsetFetch", "client_id": "b", "ms": 500},
            },
            {"do": "expire_members", "on": {"request": "TxnOffsetCommit", "client_id": "b"}},
        ),
        client=OF_GROUP,
    ),
)  # fmt: skip
"""All rules, in the order of their numbers, which count from 1."""


def system_without(rule_id: str) -> System:
    """The system in which a client lacks the row that follows this rule. Raises ValueError if the
    rule has no such row."""
    for rule in RULES:
        if rule.id == rule_id and rule.without is not None:
            return rule.without.declared
    raise ValueError(f"no row is known without which {rule_id} breaks a property")


def number_of(rule: Rule) -> int:
    """The number of a rule."""
    return RULES.index(rule) + 1
