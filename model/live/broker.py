"""A real cluster as a system under test: requests as the oracle has them, sent as Kafka has them.

A name in a request (`a`, `t-0`, `g`) stands for one of this system's own, as does the producer id
that nobody has told, so that each system starts with nothing: with new ids, and partitions that
nothing was written to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any, Final

from ...spec.api_versions import OF_BROKERS
from ..asking import UNKNOWN_ID
from ..batches import kept
from ..broker.transaction_index import AbortedTxn
from ..broker.transaction_log import partition_for
from ..cluster import offsets_partition
from ..conformance import System
from ..records import Flag, Record, RecordBatch, encode_batch
from .answers import batches_of, identity, refusal_of
from .cluster import LiveCluster
from .connection import BrokerError
from .epochs import Skip, use_up
from .terms import Terms
from .threads import Threads

PASSING: Final = frozenset(
    ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
     "NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION",
     "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
)  # fmt: skip
"""Errors that say nothing about the request's effect."""
OFFSETS: Final = "__consumer_offsets"
PATIENCE_S: Final = 5
IDS_AT_ONCE: Final = 100
SLOWEST_LOAD_S: Final = 30
EXPIRY_CHECK_MS: Final = "producer.id.expiration.check.interval.ms"
EXPIRY_CHECKS: Final = 4
"""Idle producers are forgotten after so many intervals."""
SOON_S: Final = 0.05
_PREPARED = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
ENDS_HELD: Final = {"append", "decision", "completion"}
"""A held end stays in progress."""
_NOT_YET: Final = "COORDINATOR_LOAD_IN_PROGRESS"
_AGAIN = ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
_NOTHING: Final[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = ("", {}, {})
_numbers = count()


class NotHeld(Exception):
    """A request was answered that should have been held, by an error that says nothing about it."""


class BrokerSystem(System):
    """The adapter, for one run of requests on `cluster`.

    With `settles` an end is over before anything else is asked: its markers are written. `restarts`
    stops the brokers and starts them again; with `threads` a request can be held on its way.
    """

    prompt = False
    passing = PASSING
    requests = frozenset(
        ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "Produce",
         "EndTxn", "WriteTxnMarkers", "Fetch", "ListOffsets", "DescribeProducers",
         "DescribeTransactions")
    )  # fmt: skip

    def __init__(
        self, cluster: LiveCluster, *, settles: bool = True,
        restarts: Callable[[], None] | None = None, threads: Threads | None = None,
    ) -> None:  # fmt: skip
        self.cluster = cluster
        self.transaction_version = cluster.transaction_version
        self.settles = settles and "DescribeTransactions" in cluster.versions
        self._restarts, self._threads = restarts, threads
        self._withheld: list[int] = []
        self._refuses = False
        self._begun: set[str | None] = set()
        self._held: dict[str, tuple[Future[Mapping[str, Any]], list[int]]] = {}
        self._number = next(_numbers)
        self._places: dict[str, tuple[str, int]] = {}
        self._names: dict[tuple[str, int], str] = {}
        self._ids: list[str] = []
        self._stuck: set[str] = set()
        self.skipped: dict[str, int] = {}
        """The epochs of ids that were raised ahead, for `skip_to_epoch`."""
        self._offsets_partitions = 0
        self._terms = Terms(cluster)
        self._told = time.monotonic()
        self._latency = 0.0
        self._ahead: tuple[str, Mapping[str, Any], Mapping[str, Any]] = _NOTHING
        self._asks: dict[str, Callable[[Mapping[str, Any], int], Mapping[str, Any]]] = {
            "InitProducerId": self._init,
            "AddPartitionsToTxn": self._add,
            "AddOffsetsToTxn": self._add_offsets,
            "TxnOffsetCommit": self._commit_offsets,
            "Produce": self._produce,
            "EndTxn": self._end,
            "WriteTxnMarkers": self._write_markers,
            "Fetch": self._fetch,
            "ListOffsets": self._list_offsets,
            "DescribeProducers": self._describe_producers,
            "DescribeTransactions": self._describe,
        }

    def ask(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """See System. Raises BrokerError where the broker is gone."""
        if fields.get("producer_id", -1) == UNKNOWN_ID:
            fields = {**fields, "producer_id": UNKNOWN_ID + self._number}
        began = time.monotonic()
        if (request, fields) == self._ahead[:2]:
            told, self._ahead = self._ahead[2], _NOTHING
        elif "held_at" in fields:
            told = self._hold(request, fields)
        else:
            told = self._asks[request](fields, self._version(request, fields))
        self._latency = time.monotonic() - began
        if told.get("error") in ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"):
            self.cluster.forget_coordinators()
        return told

    def _version(self, request: str, fields: Mapping[str, Any]) -> int:
        newest = self.cluster.newest(request)
        if request == "AddPartitionsToTxn":
            newest = min(newest, OF_BROKERS - 1)  # the newest that clients send
        return fields.get("api_version", newest)

    def send_ahead(self, request: str, fields: Mapping[str, Any]) -> None:
        """Sends a request right behind the next one, before that is answered; `ask` then has the
        answer to it. Several brokers would take the two in any order: there it isn't sent."""

        if fields.get("producer_id", -1) == UNKNOWN_ID:
            fields = {**fields, "producer_id": UNKNOWN_ID + self._number}

        def ask() -> None:
            told = self._asks[request](fields, self._version(request, fields))
            self._ahead = request, fields, told

        if len(self.cluster.brokers) == 1:
            self.cluster.meanwhile = ask

    # Threads that are held --------------------------------------------------------------------

    def warm_up(self) -> None:
        """Begins a transaction, for which the broker loads what it takes: in a class that isn't
        loaded no thread can be held."""
        told = self.ask("InitProducerId", {"transactional_id": "warm"})
        who = {name: told[name] for name in ("producer_id", "producer_epoch")}
        batch = {"partition": "warm", "transactional_id": "warm", **who, "base_sequence": 0}
        self.ask("Produce", batch)
        self.ask("EndTxn", {"transactional_id": "warm", **who, "result": "ABORT"})

    def _hold(self, request: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Holds the request at the place in its fields. Returns its answer if it doesn't get
        there."""
        assert self._threads is not None
        place, left = fields["held_at"], {k: v for k, v in fields.items() if k != "held_at"}

        def ask() -> Mapping[str, Any]:
            with self.cluster.aside():
                return self._asks[request](left, self._version(request, left))

        breakpoints = self._threads.hold(place)
        pool = ThreadPoolExecutor(1)
        asked = pool.submit(ask)
        pool.shutdown(wait=False)
        if place == "completion":  # which follows the answer
            told, patience = asked.result(), PATIENCE_S
        else:
            told, patience = {}, SOON_S
        while not self._threads.held(breakpoints, patience):
            if asked.done():  # and no thread has come there
                self._threads.let_go(breakpoints)
                return asked.result()
        self._held[place] = asked, breakpoints
        return {**told, "held": place}

    def resume(self, place: str) -> Mapping[str, Any]:
        """See System. Raises NotHeld."""
        assert self._threads is not None
        if place not in self._held:
            raise NotHeld
        asked, breakpoints = self._held.pop(place)
        self._threads.let_go(breakpoints)
        told = asked.result()
        return {} if place == "completion" else told

    def cause(self, line: Mapping[str, Any]) -> None:
        """See System."""
        if "delete_records" in line:
            topic, number = self._place(line["delete_records"])
            self.cluster.delete_records(topic, number)
        elif "expire_producers" in line:
            self.cluster.altered("producer.id.expiration.ms", "1")
            time.sleep(EXPIRY_CHECKS * self.cluster.setting(EXPIRY_CHECK_MS) / 1000)
            self.cluster.restore()
        elif "withhold_ids" in line:
            self._withhold_ids(line["withhold_ids"])
        else:
            self._refuse(line["log_refuses"])

    def _withhold_ids(self, is_wanted: bool) -> None:
        """Holds the controller's thread that gives out producer ids, and takes those that the
        broker has; or lets it go on, until there are ids again."""
        assert self._threads is not None
        if is_wanted:
            self._withheld = self._threads.hold("allocation")
            self.passing = PASSING - {_NOT_YET}  # the answer: there is none
        else:
            self._threads.let_go(self._withheld)
            self._withheld, self.passing = [], PASSING
        connection = self.cluster.connection(self.cluster.coordinator(self.cluster.prefix))
        version = min(self.cluster.newest("InitProducerId"), 2)
        fields = {"transactional_id": None, "transaction_timeout": 60_000}
        until = time.monotonic() + PATIENCE_S
        has_ids = True
        while has_ids == is_wanted:
            if time.monotonic() > until:
                raise BrokerError("the broker doesn't run out of producer ids, or gets no new ones")
            wave = IDS_AT_ONCE if is_wanted else 1
            connection.send("InitProducerId", version, fields, wave)
            told = connection.receive("InitProducerId", version, wave)["error_code"]
            has_ids = told == "NONE" or (
                is_wanted and not self._threads.held(self._withheld, SOON_S)
            )

    def _refuse(self, is_wanted: bool) -> None:
        """Has the transaction log refuse records, or take them again."""
        if is_wanted:
            self.cluster.altered("max.message.bytes", "1")
        else:
            self.cluster.restore()
        self._refuses = is_wanted
        self._probe("UNKNOWN_SERVER_ERROR" if is_wanted else "NONE")

    def _probe(self, error: str) -> None:
        """Waits until the transaction log takes records, or refuses them: until InitProducerId is
        answered so."""
        until = time.monotonic() + PATIENCE_S
        name = f"{self.cluster.prefix}-probe"
        asked = {"transactional_id": name, "transaction_timeout": 60_000}
        node = self.cluster.coordinator(name)
        newest = min(self.cluster.newest("InitProducerId"), 2)
        while self.cluster.ask(node, "InitProducerId", asked, newest)["error_code"] != error:
            if time.monotonic() > until:
                raise BrokerError("the broker doesn't follow a change of its settings")
            time.sleep(0.02)

    def close(self) -> None:
        """Lets every thread go on, and sets back what was changed."""
        with suppress(BrokerError):
            if self._refuses:
                self._refuse(False)
            self.cluster.restore()
            if self._withheld:
                self._withhold_ids(False)
        for place in list(self._held):
            with suppress(BrokerError):
                self.resume(place)

    # Time and crashes -------------------------------------------------------------------------

    def sleep(self, ms: int) -> None:
        """Waits, also until transactions that have timed out by then are aborted. `elapsed_ms`
        returns the time."""
        time.sleep(ms / 1000)
        if self.settles:
            self._until(
                lambda state: state["transaction_state"] != "Ongoing" or not _is_late(state)
            )

    def elapsed_ms(self) -> int:
        """What went by since it was asked last, and the time that the last answer took once more: a
        transaction may have begun as soon as it was asked for."""
        now = time.monotonic()
        ms = (now - self._told + self._latency) * 1000
        self._told = now
        self._latency = 0.0
        return round(ms) + 1

    def settle(self) -> bool:
        """Waits until no end is in progress but one that is held; whether it did."""
        if self.settles and not self._held.keys() & ENDS_HELD:
            self._until(lambda state: state["transaction_state"] not in _PREPARED)
        return self.settles

    def _until(self, is_over: Callable[[Mapping[str, Any]], bool]) -> None:
        """Waits for each id, but for one whose end has stayed in flight before: nobody ends it."""
        for name in self._ids:
            until = time.monotonic() + PATIENCE_S
            while name not in self._stuck and not is_over(self._state(name)):
                time.sleep(0.002)
                if time.monotonic() > until:
                    self._stuck.add(name)

    def restart(self) -> None:
        """See System."""
        assert self._restarts is not None
        self._restarts()
        if self._threads is not None:
            self._threads.drop()
        self._held.clear()
        self.cluster.drop()
        until = time.monotonic() + SLOWEST_LOAD_S
        while not self._is_back() and time.monotonic() < until:
            time.sleep(0.1)

    def _is_back(self) -> bool:
        """Whether coordinators and leaders answer again."""
        for name in self._ids if self.settles else ():
            if self._state(name)["error_code"] in PASSING:
                self.cluster.forget_coordinators()
                return False
        asked = [{"partition": name} for name in self._places]
        newest = self.cluster.newest("ListOffsets")
        return all(self._list_offsets(one, newest).get("offset", -1) >= 0 for one in asked)

    def skip_to_epoch(self, transactional_id: str, producer_epoch: int) -> None:
        """See System: InitProducerId by InitProducerId."""
        if self.skipped.pop(transactional_id, None) != producer_epoch:
            use_up(self.cluster, [self.skip(transactional_id, producer_epoch)])

    def skip(self, transactional_id: str, producer_epoch: int) -> Skip:
        """The time that `use_up` takes to raise an id's epoch."""
        name = str(self._id(transactional_id))
        now = self._state(name)["producer_epoch"] if self.settles else 0
        return Skip(name, now, producer_epoch)

    # Names ------------------------------------------------------------------------------------

    def _id(self, name: str | None) -> str | None:
        if not name:
            return name
        real = f"{self.cluster.prefix}-{self._number}-{name}"
        if real not in self._ids:
            self._ids.append(real)
        return real

    def _group(self, name: str) -> str:
        real = f"{self.cluster.prefix}-{self._number}-{name}"
        if not self._offsets_partitions:
            self.cluster.group_coordinator(real)
            self._offsets_partitions = self.cluster.partitions_of(OFFSETS)
        place = OFFSETS, partition_for(real, self._offsets_partitions)
        self._names[place] = offsets_partition(name)
        return real

    def _place(self, partition: str) -> tuple[str, int]:
        if partition not in self._places:
            self._places[partition] = place = self.cluster.new_partition()
            self._names[place] = partition
        return self._places[partition]

    def _topics(self, partitions: Any, numbers: str = "partitions") -> list[dict[str, Any]]:
        found: dict[str, list[int]] = {}
        for topic, number in map(self._place, sorted(partitions)):
            found.setdefault(topic, []).append(number)
        return [{"name": topic, numbers: those} for topic, those in found.items()]

    # Requests ---------------------------------------------------------------------------------

    def _known(self, producer_id: int) -> int:
        return UNKNOWN_ID if producer_id == UNKNOWN_ID + self._number else producer_id

    def _of_coordinator(
        self, request: str, fields: Mapping[str, Any], version: int, **more: Any
    ) -> dict[str, Any]:
        name = self._id(fields["transactional_id"])
        node = self.cluster.coordinator(name or self.cluster.prefix)
        asked = {**fields, **more, "transactional_id": name}
        told = self.cluster.ask(node, request, asked, version)
        self._terms.learn(name, told)
        return told

    def _init(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        timeout = fields.get("transaction_timeout_ms", 60_000)
        asked = {"producer_id": -1, "producer_epoch": -1, **fields}
        asked["enable2_pc"] = fields.get("enable_2pc", False)
        is_new = fields["transactional_id"] not in self._begun
        self._begun.add(fields["transactional_id"])
        until = time.monotonic() + PATIENCE_S
        while True:
            told = identity(
                self._of_coordinator("InitProducerId", asked, version, transaction_timeout=timeout)
            )
            # Of an id that nobody knows it has done nothing: new producer ids are on their way.
            is_early = is_new and told["error"] == _NOT_YET and _NOT_YET in self.passing
            if not is_early or time.monotonic() > until:
                return told

    def _end(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        told = self._of_coordinator(
            "EndTxn", fields, version, committed=fields["result"] == "COMMIT"
        )
        # Before version 5 the answer is an error alone.
        return identity(told) if version >= 5 else {"error": told["error_code"]}

    def _add(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        name, topics = self._id(fields["transactional_id"]), self._topics(fields["partitions"])
        who = {key: fields[key] for key in ("producer_id", "producer_epoch")}
        asked = {f"v3_and_below_{key}": value for key, value in who.items()}
        asked |= {"v3_and_below_transactional_id": name, "v3_and_below_topics": topics}
        one = {**who, "transactional_id": name, "topics": topics}
        asked["transactions"] = [{**one, "verify_only": fields.get("verify_only", False)}]
        node = self.cluster.coordinator(name or self.cluster.prefix)
        told = self.cluster.ask(node, "AddPartitionsToTxn", asked, version)
        if version >= 4:
            if told["error_code"] != "NONE":
                return {"error": told["error_code"]}
            (of,) = told["results_by_transaction"]
            results = of["topic_results"]
        else:
            results = told["results_by_topic_v3_and_below"]
        errors = {
            self._names[topic["name"], one["partition_index"]]: one["partition_error_code"]
            for topic in results
            for one in topic["results_by_partition"]
        }
        return {"error": errors[min(errors)]}

    def _add_offsets(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        group = self._group(fields["group_id"])
        told = self._of_coordinator("AddOffsetsToTxn", fields, version, group_id=group)
        return {"error": told["error_code"]}

    def _commit_offsets(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        group = self._group(fields["group_id"])
        topic, number = self._place("t-0")
        partition = {"partition_index": number, "committed_offset": 0, "committed_metadata": ""}
        asked = {
            **fields,
            "transactional_id": self._id(fields["transactional_id"]),
            "group_id": group,
            "topics": [{"name": topic, "partitions": [partition]}],
        }
        node = self.cluster.group_coordinator(group)
        told = self.cluster.ask(node, "TxnOffsetCommit", asked, version)
        return {"error": told["topics"][0]["partitions"][0]["error_code"]}

    def _produce(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        topic, number = self._place(fields["partition"])
        records = tuple(Record(offset_delta=n, value=b"v") for n in range(fields.get("count", 1)))
        name = self._id(fields.get("transactional_id"))
        now = round(time.time() * 1000)
        batch = RecordBatch(
            base_offset=0, records=records, last_offset_delta=len(records) - 1, base_timestamp=now,
            max_timestamp=now, producer_id=fields["producer_id"],
            producer_epoch=fields["producer_epoch"], base_sequence=fields["base_sequence"],
            attributes=Flag.TRANSACTIONAL if name else Flag(0),
        )  # fmt: skip
        data = [{"index": number, "records": encode_batch(batch)}]
        asked = {
            "transactional_id": name,
            "acks": -1,
            "timeout": 20_000,
            "topic_data": [{"name": topic, "partition_data": data}],
        }
        told = self.cluster.ask(self.cluster.leader(topic, number), "Produce", asked, version)
        (one,) = told["responses"][0]["partition_responses"]
        return {"error": one["error_code"], "base_offset": one["base_offset"]}

    def _write_markers(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        topic, number = self._place(fields["partition"])
        marker = {
            "producer_id": fields["producer_id"],
            "producer_epoch": fields["producer_epoch"],
            "transaction_result": fields["result"] == "COMMIT",
            "topics": [{"name": topic, "partition_indexes": [number]}],
            "coordinator_epoch": self._terms.of(fields["producer_id"])
            + fields.get("coordinator_epoch", 0),
            "transaction_version": fields.get("transaction_version", 0),
        }
        node = self.cluster.leader(topic, number)
        told = self.cluster.ask(node, "WriteTxnMarkers", {"markers": [marker]}, version)
        return {"error": told["markers"][0]["topics"][0]["partitions"][0]["error_code"]}

    def _fetch(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        topic, number = self._place(fields["partition"])
        is_committed = fields.get("committed", True)
        partition = {
            "partition": number, "fetch_offset": fields.get("offset", 0),
            "current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
        }  # fmt: skip
        asked = {
            "replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20,
            "isolation_level": int(is_committed), "session_id": 0, "session_epoch": -1,
            "topics": [{"topic": topic, "partitions": [partition]}],
        }  # fmt: skip
        while True:
            told = self.cluster.ask(self.cluster.leader(topic, number), "Fetch", asked, version)
            (one,) = told["responses"][0]["partitions"]
            if refusal := refusal_of(one):
                return refusal
            batches = batches_of(one["records"] or b"")
            # A leader reads the last stable offset before the batches (Partition.readRecords): one
            # Beyond it a marker has come in between.
            if not (
                is_committed and batches and batches[-1].last_offset >= one["last_stable_offset"]
            ):
                break
        if is_committed:
            aborted = [
                AbortedTxn(txn["producer_id"], txn["first_offset"], 0, 0)
                for txn in one["aborted_transactions"] or ()
            ]
            batches = list(kept(batches, aborted))
        found = [
            [self._known(b.producer_id), b.base_offset, b.last_offset]
            for b in batches
            if b.kind == "data"
        ]
        return {"last_stable_offset": one["last_stable_offset"], "batches": found}

    def _list_offsets(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        topic, number = self._place(fields["partition"])
        partition = {"partition_index": number, "current_leader_epoch": -1, "timestamp": -1}
        asked = {
            "replica_id": -1,
            "isolation_level": int(fields.get("committed", True)),
            "topics": [{"name": topic, "partitions": [partition]}],
        }
        told = self.cluster.ask(self.cluster.leader(topic, number), "ListOffsets", asked, version)
        (one,) = told["topics"][0]["partitions"]
        return refusal_of(one) or {"offset": one["offset"]}

    def _describe_producers(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        topic, number = self._place(fields["partition"])
        asked = {"topics": [{"name": topic, "partition_indexes": [number]}]}
        node = self.cluster.leader(topic, number)
        told = self.cluster.ask(node, "DescribeProducers", asked, version)
        (one,) = told["topics"][0]["partitions"]
        if refusal := refusal_of(one):
            return refusal
        found = [
            [
                self._known(p["producer_id"]),
                p["producer_epoch"],
                p["last_sequence"],
                p["current_txn_start_offset"],
            ]
            for p in one["active_producers"]
        ]
        return {"producers": sorted(found, key=str)}

    def _describe(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        state = self._state(str(self._id(fields["transactional_id"])))
        if state["error_code"] != "NONE":
            return {"error": state["error_code"]}
        partitions = [
            self._names.get((topic["topic"], number), f"{topic['topic']}-{number}")
            for topic in state["topics"]
            for number in topic["partitions"]
        ]
        return {
            "error": "NONE", "state": state["transaction_state"],
            "producer_id": state["producer_id"], "producer_epoch": state["producer_epoch"],
            "transaction_timeout_ms": state["transaction_timeout"],
            "partitions": sorted(partitions),
        }  # fmt: skip

    def _state(self, name: str) -> dict[str, Any]:
        node = self.cluster.coordinator(name)
        told = self.cluster.ask(node, "DescribeTransactions", {"transactional_ids": [name]})
        (state,) = told["transaction_states"]
        return state


def _is_late(state: Mapping[str, Any]) -> bool:
    return state["transaction_start_time"] + state["transaction_timeout"] < time.time() * 1000
