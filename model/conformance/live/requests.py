"""Translates the oracle's requests to Kafka's, for one run on a real cluster, and Kafka's answers
to the oracle's.

Each name in a request (`a`, `t-0`, `g`) is replaced by a name of the run, as is the unknown
producer id. Each run starts with new ids and empty partitions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

from ....spec.releases.api_versions import OF_BROKERS
from ....spec.releases.broker_versions import BY_NAME
from ...batches import kept
from ...broker.transaction_index import AbortedTxn
from ...broker.transactions.transaction_log import partition_for
from ...cluster import offsets_partition
from ...records import Flag, Record, RecordBatch, encode_batch
from ..simulated_clients import UNKNOWN_ID
from .answers import batches_of, identity, misshapen, only, part_of, refusal_of
from .cluster.cluster import LiveCluster
from .cluster.coordinator_epochs import Terms

OFFSETS: Final = "__consumer_offsets"
PATIENCE_S: Final = 5
NOT_YET: Final = "COORDINATOR_LOAD_IN_PROGRESS"
READS: Final = 10
"""The number of reads of a partition while its records go beyond the last stable offset."""
BEYOND: Final = "beyond_last_stable_offset"
_numbers = count()


class Requests:
    """The requests of one run on `cluster`. `ids` are its transactional ids so far, `places` its
    partitions."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.cluster = cluster
        self.number = next(_numbers)
        self.ids: list[str] = []
        self.places: dict[str, tuple[str, int]] = {}
        self.waits_for_ids = True
        """Whether InitProducerId is repeated while there is no producer id."""
        self._names: dict[tuple[str, int], str] = {}
        self._begun: set[str | None] = set()
        self._offsets_partitions: int | None = None
        self._terms = Terms(cluster)
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
        """The answer to a request. Raises BrokerError, and NoAnswerError of its kinds."""
        return self._asks[request](fields, self._version(request, fields))

    def own(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields, with the run's own value for the unknown producer id."""
        if fields.get("producer_id", -1) == UNKNOWN_ID:
            return {**fields, "producer_id": UNKNOWN_ID + self.number}
        return fields

    def _version(self, request: str, fields: Mapping[str, Any]) -> int:
        newest = self.cluster.newest(request)
        if request == "AddPartitionsToTxn":
            newest = min(newest, OF_BROKERS - 1)  # the newest version that clients send
        return fields.get("api_version", newest)

    # Names ------------------------------------------------------------------------------------

    def id_of(self, name: str | None) -> str | None:
        """The run's transactional id for a name."""
        if not name:
            return name
        real = f"{self.cluster.prefix}-{self.number}-{name}"
        if real not in self.ids:
            self.ids.append(real)
        return real

    def _group(self, name: str) -> str:
        real = f"{self.cluster.prefix}-{self.number}-{name}"
        if not self._offsets_partitions:
            self.cluster.group_coordinator(real)
            self._offsets_partitions = self.cluster.partitions_of(OFFSETS)
        if self._offsets_partitions:  # otherwise the cluster keeps offsets elsewhere
            place = OFFSETS, partition_for(real, self._offsets_partitions)
            self._names[place] = offsets_partition(name)
        return real

    def place(self, partition: str) -> tuple[str, int]:
        """The run's topic and partition number for a name."""
        if partition not in self.places:
            self.places[partition] = place = self.cluster.new_partition()
            self._names[place] = partition
        return self.places[partition]

    def _topics(self, partitions: Any, numbers: str = "partitions") -> list[dict[str, Any]]:
        found: dict[str, list[int]] = {}
        for topic, number in map(self.place, sorted(partitions)):
            found.setdefault(topic, []).append(number)
        return [{"name": topic, numbers: those} for topic, those in found.items()]

    # Requests ---------------------------------------------------------------------------------

    def _known(self, producer_id: int) -> int:
        return UNKNOWN_ID if producer_id == UNKNOWN_ID + self.number else producer_id

    def _of_coordinator(
        self, request: str, fields: Mapping[str, Any], version: int, **more: Any
    ) -> dict[str, Any]:
        name = self.id_of(fields["transactional_id"])
        node = self.cluster.coordinator(name or self.cluster.prefix)
        body = {**fields, **more, "transactional_id": name}
        answer = self.cluster.ask(node, request, body, version)
        self._terms.learn(name, answer)
        return answer

    def _init(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        timeout = fields.get("transaction_timeout_ms", 60_000)
        body = {"producer_id": -1, "producer_epoch": -1, **fields}
        body["enable2_pc"] = fields.get("enable_2pc", False)
        is_new = fields["transactional_id"] not in self._begun
        self._begun.add(fields["transactional_id"])
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = identity(
                self._of_coordinator("InitProducerId", body, version, transaction_timeout=timeout)
            )
            # For an unknown id it has no effect: new producer ids are on their way.
            is_early = is_new and answer["error"] == NOT_YET and self.waits_for_ids
            if not is_early or time.monotonic() > until:
                return answer

    def _end(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        answer = self._of_coordinator(
            "EndTxn", fields, version, committed=fields["result"] == "COMMIT"
        )
        # Before version 5 the answer is only an error.
        return identity(answer) if version >= 5 else {"error": answer["error_code"]}

    def _add(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        name, topics = self.id_of(fields["transactional_id"]), self._topics(fields["partitions"])
        who = {key: fields[key] for key in ("producer_id", "producer_epoch")}
        body = {f"v3_and_below_{key}": value for key, value in who.items()}
        body |= {"v3_and_below_transactional_id": name, "v3_and_below_topics": topics}
        one = {**who, "transactional_id": name, "topics": topics}
        body["transactions"] = [{**one, "verify_only": fields.get("verify_only", False)}]
        node = self.cluster.coordinator(name or self.cluster.prefix)
        answer = self.cluster.ask(node, "AddPartitionsToTxn", body, version)
        if version >= 4:
            if answer["error_code"] != "NONE":
                return {"error": answer["error_code"]}
            of = only("AddPartitionsToTxn", answer["results_by_transaction"], transactional_id=name)
            results = of["topic_results"]
        else:
            results = answer["results_by_topic_v3_and_below"]
        errors = {
            (topic["name"], one["partition_index"]): one["partition_error_code"]
            for topic in results or ()
            for one in topic["results_by_partition"] or ()
        }
        wanted = {self.place(partition): partition for partition in fields["partitions"]}
        if errors.keys() != wanted.keys():
            raise misshapen("AddPartitionsToTxn", "the partitions that were asked for")
        return {"error": errors[min(errors, key=lambda place: wanted[place])]}

    def _add_offsets(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        group = self._group(fields["group_id"])
        answer = self._of_coordinator("AddOffsetsToTxn", fields, version, group_id=group)
        return {"error": answer["error_code"]}

    def _commit_offsets(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        group = self._group(fields["group_id"])
        topic, number = self.place("t-0")
        partition = {"partition_index": number, "committed_offset": 0, "committed_metadata": ""}
        body = {
            **fields,
            "transactional_id": self.id_of(fields["transactional_id"]),
            "group_id": group,
        }
        which: dict[str, Any] = {"name": topic}
        if version > BY_NAME["TxnOffsetCommit"]:
            which = {"topic_id": self.cluster.topic_id(topic)}
        body["topics"] = [which | {"partitions": [partition]}]
        node = self.cluster.group_coordinator(group)
        answer = self.cluster.ask(node, "TxnOffsetCommit", body, version)
        one = part_of("TxnOffsetCommit", answer["topics"], which, partition_index=number)
        return {"error": one["error_code"]}

    def _produce(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        topic, number = self.place(fields["partition"])
        records = tuple(Record(offset_delta=n, value=b"v") for n in range(fields.get("count", 1)))
        name = self.id_of(fields.get("transactional_id"))
        now = round(time.time() * 1000)
        batch = RecordBatch(
            base_offset=0, records=records, last_offset_delta=len(records) - 1, base_timestamp=now,
            max_timestamp=now, producer_id=fields["producer_id"],
            producer_epoch=fields["producer_epoch"], base_sequence=fields["base_sequence"],
            attributes=Flag.TRANSACTIONAL if name else Flag(0),
        )  # fmt: skip
        data = [{"index": number, "records": encode_batch(batch)}]
        body = {
            "transactional_id": name,
            "acks": -1,
            "timeout": 20_000,
            "topic_data": [{"name": topic, "partition_data": data}],
        }
        answer = self.cluster.ask(self.cluster.leader(topic, number), "Produce", body, version)
        one = part_of(
            "Produce", answer["responses"], {"name": topic}, "partition_responses", index=number
        )
        return {"error": one["error_code"], "base_offset": one["base_offset"]}

    def _write_markers(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        topic, number = self.place(fields["partition"])
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
        answer = self.cluster.ask(node, "WriteTxnMarkers", {"markers": [marker]}, version)
        of = only("WriteTxnMarkers", answer["markers"], producer_id=fields["producer_id"])
        one = part_of("WriteTxnMarkers", of["topics"], {"name": topic}, partition_index=number)
        return {"error": one["error_code"]}

    def _fetch(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        topic, number = self.place(fields["partition"])
        is_committed = fields.get("committed", True)
        partition = {
            "partition": number,
            "fetch_offset": fields.get("offset", 0),
            "current_leader_epoch": -1,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1 << 20,
        }
        body = {
            "replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20,
            "isolation_level": int(is_committed), "session_id": 0, "session_epoch": -1,
            "topics": [{"topic": topic, "partitions": [partition]}],
        }  # fmt: skip
        at = 0
        while True:
            at += 1
            answer = self.cluster.ask(self.cluster.leader(topic, number), "Fetch", body, version)
            if refusal := refusal_of(answer):
                return refusal
            one = part_of("Fetch", answer["responses"], {"topic": topic}, partition_index=number)
            if refusal := refusal_of(one):
                return refusal
            batches = batches_of("Fetch", one["records"] or b"")
            # A leader reads the last stable offset before the batches (Partition.readRecords): one
            # beyond it means that a marker has come in between, which doesn't go on for ever.
            stable = one["last_stable_offset"]
            beyond = [b for b in batches if b.last_offset >= stable] if is_committed else []
            if not beyond or at == READS:
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
        read: dict[str, Any] = {"last_stable_offset": stable, "batches": found}
        if beyond:
            read[BEYOND] = [[b.base_offset, b.last_offset] for b in beyond]
        return read

    def _list_offsets(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        topic, number = self.place(fields["partition"])
        partition = {"partition_index": number, "current_leader_epoch": -1, "timestamp": -1}
        body = {
            "replica_id": -1,
            "isolation_level": int(fields.get("committed", True)),
            "topics": [{"name": topic, "partitions": [partition]}],
        }
        answer = self.cluster.ask(self.cluster.leader(topic, number), "ListOffsets", body, version)
        one = part_of("ListOffsets", answer["topics"], {"name": topic}, partition_index=number)
        return refusal_of(one) or {"offset": one["offset"]}

    def _describe_producers(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        topic, number = self.place(fields["partition"])
        body = {"topics": [{"name": topic, "partition_indexes": [number]}]}
        node = self.cluster.leader(topic, number)
        answer = self.cluster.ask(node, "DescribeProducers", body, version)
        one = part_of(
            "DescribeProducers", answer["topics"], {"name": topic}, partition_index=number
        )
        if refusal := refusal_of(one):
            return refusal
        found = [
            [
                self._known(p["producer_id"]),
                p["producer_epoch"],
                p["last_sequence"],
                p["current_txn_start_offset"],
            ]
            for p in one["active_producers"] or ()
        ]
        return {"producers": sorted(found, key=str)}

    def _describe(self, fields: Mapping[str, Any], version: int) -> Mapping[str, Any]:
        state = self.state(str(self.id_of(fields["transactional_id"])))
        if state["error_code"] != "NONE":
            return {"error": state["error_code"]}
        partitions = [
            self._names.get((topic["topic"], number), f"{topic['topic']}-{number}")
            for topic in state["topics"] or ()
            for number in topic["partitions"] or ()
        ]
        found = {
            "error": "NONE",
            "state": state["transaction_state"],
            "producer_id": state["producer_id"],
            "producer_epoch": state["producer_epoch"],
            "transaction_timeout_ms": state["transaction_timeout"],
        }
        if self._offsets_partitions == 0:  # a group's offsets are in none of its partitions
            return found
        return {**found, "partitions": sorted(partitions)}

    def state(self, name: str) -> dict[str, Any]:
        """The state of a transactional id, by its full name."""
        node = self.cluster.coordinator(name)
        answer = self.cluster.ask(node, "DescribeTransactions", {"transactional_ids": [name]})
        return only("DescribeTransactions", answer["transaction_states"], transactional_id=name)
