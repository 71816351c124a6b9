"""The errors that a broker answers a request with before or beside those of its machines.

The rows of coordinators, leaders and authorizers have their own errors. Here are the rest: topics
that aren't there, records that a log refuses, replicas that lag, and versions. An error that
neither these rows nor those of the machines have is one that no broker of the release returns.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .releases.release import RELEASES, is_between


class BrokerError(NamedTuple):
    """An error, the place in Kafka that it comes from, the first release that has it there and the
    first that no longer does."""

    error: str
    source: str
    since: str = RELEASES[0]
    before: str | None = None

    def is_in(self, release: str) -> bool:
        """Whether brokers of a release answer so."""
        return is_between(release, self.since, self.before)


ANY: Final = (BrokerError("UNKNOWN_SERVER_ERROR", "KafkaApis.handle, Errors.forException"),)
"""To any request: a broker's own failure."""

_APIS = "KafkaApis.handleProduceRequest"
_LOCAL = "ReplicaManager.appendToLocalLog"
_VALIDATE = "LogValidator.validateMessagesAndAssignOffsets"
_VERIFY = "AddPartitionsToTxnManager.AddPartitionsToTxnHandler.onComplete"
_VERSION = "KafkaApis.ensureInterBrokerVersion"

APPENDED: Final = (
    BrokerError("NOT_LEADER_OR_FOLLOWER", "ReplicaManager.getPartitionOrError, Partition"),
    BrokerError("UNKNOWN_TOPIC_OR_PARTITION", "ReplicaManager.getPartitionOrError"),
    BrokerError("KAFKA_STORAGE_ERROR", "ReplicaManager.getPartitionOrError", since="1.0"),
    BrokerError("NOT_ENOUGH_REPLICAS", "Partition.appendRecordsToLeader"),
    BrokerError("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "Partition.checkEnoughReplicasReachOffset"),
    BrokerError("REQUEST_TIMED_OUT", "DelayedProduce"),
    BrokerError("MESSAGE_TOO_LARGE", "UnifiedLog.analyzeAndValidateRecords"),
    BrokerError("RECORD_LIST_TOO_LARGE", "UnifiedLog.append"),
)
"""Of a leader that appends a batch, whoever sends it."""

_STORED = "GroupMetadataManager.storeOffsets, CoordinatorOperationExceptionHelper"
_GROUPS = "OffsetMetadataManager, KIP-848"
_COMMITTED: Final = (
    *ANY,
    BrokerError("UNKNOWN_TOPIC_OR_PARTITION", "KafkaApis.handleOffsetCommitRequest"),
    BrokerError("OFFSET_METADATA_TOO_LARGE", "GroupMetadataManager.validateOffsetMetadataLength"),
    BrokerError("INVALID_COMMIT_OFFSET_SIZE", _STORED, before="4.0.0"),
    BrokerError("REQUEST_TIMED_OUT", _STORED, before="4.0.0"),
    BrokerError("COORDINATOR_NOT_AVAILABLE", _STORED),
    BrokerError("NOT_COORDINATOR", _STORED),
    BrokerError("COORDINATOR_LOAD_IN_PROGRESS", _STORED, since="2.0.0"),
)
"""Of a group's coordinator that commits an offset."""

BROKER_ERRORS: Final[dict[str, tuple[BrokerError, ...]]] = {
    "Produce": (
        *ANY,
        *APPENDED,
        BrokerError("UNKNOWN_TOPIC_ID", f"{_APIS}, KIP-516", since="4.1"),
        BrokerError("INVALID_REQUIRED_ACKS", "ReplicaManager.appendRecords"),
        BrokerError("INVALID_TOPIC_EXCEPTION", _LOCAL),
        BrokerError("CORRUPT_MESSAGE", f"UnifiedLog.analyzeAndValidateRecords, {_VALIDATE}"),
        BrokerError("INVALID_TIMESTAMP", _VALIDATE),
        BrokerError("INVALID_RECORD", f"{_VALIDATE}, ProduceRequest.validateRecords", since="2.4"),
        BrokerError("UNSUPPORTED_FOR_MESSAGE_FORMAT", _VALIDATE, before="4.0.0"),
        BrokerError("UNSUPPORTED_COMPRESSION_TYPE", "ProduceRequest.validateRecords", since="2.1"),
        # the leader asks the coordinator, and passes on what has gone wrong there
        BrokerError("OPERATION_NOT_ATTEMPTED", _VERIFY, since="3.6"),
        BrokerError("NETWORK_EXCEPTION", _VERIFY, since="3.6", before="3.7"),
        BrokerError("SASL_AUTHENTICATION_FAILED", _VERIFY, since="3.6"),
        BrokerError("UNSUPPORTED_SASL_MECHANISM", _VERIFY, since="3.6"),
        BrokerError("ILLEGAL_SASL_STATE", _VERIFY, since="3.6"),
    ),
    "WriteTxnMarkers": (
        *ANY,
        *APPENDED,
        BrokerError("UNSUPPORTED_VERSION", _VERSION, before="4.0.0"),
        BrokerError(
            "UNSUPPORTED_FOR_MESSAGE_FORMAT",
            "KafkaApis.handleWriteTxnMarkersRequest",
            before="4.0.0",
        ),
    ),
    "InitProducerId": (
        *ANY,
        BrokerError(
            "REQUEST_TIMED_OUT",
            "RPCProducerIdManager.generateProducerId",
            since="3.0",
            before="3.3",
        ),
        BrokerError(
            "COORDINATOR_LOAD_IN_PROGRESS", "RPCProducerIdManager.generateProducerId", since="3.3"
        ),
    ),
    "AddPartitionsToTxn": (
        *ANY,
        BrokerError("UNKNOWN_TOPIC_OR_PARTITION", "KafkaApis.handleAddPartitionsToTxnRequest"),
        BrokerError("OPERATION_NOT_ATTEMPTED", "KafkaApis.handleAddPartitionsToTxnRequest"),
        BrokerError("UNSUPPORTED_VERSION", _VERSION, before="4.0.0"),
    ),
    "AddOffsetsToTxn": (*ANY, BrokerError("UNSUPPORTED_VERSION", _VERSION, before="4.0.0")),
    "EndTxn": (*ANY, BrokerError("UNSUPPORTED_VERSION", _VERSION, before="4.0.0")),
    "TxnOffsetCommit": (
        *_COMMITTED,
        BrokerError("UNSUPPORTED_VERSION", _VERSION, before="4.0.0"),
        BrokerError("OPERATION_NOT_ATTEMPTED", _VERIFY, since="3.7"),
        BrokerError("SASL_AUTHENTICATION_FAILED", _VERIFY, since="3.7"),
        BrokerError("UNSUPPORTED_SASL_MECHANISM", _VERIFY, since="3.7"),
        BrokerError("ILLEGAL_SASL_STATE", _VERIFY, since="3.7"),
        BrokerError(
            "UNKNOWN_TOPIC_ID", "KafkaApis.handleTxnOffsetCommitRequest, KIP-1319", since="4.4"
        ),
        BrokerError("STALE_MEMBER_EPOCH", f"{_GROUPS}, KIP-1319", since="4.4"),
    ),
    "OffsetCommit": (
        *_COMMITTED,
        BrokerError("UNKNOWN_TOPIC_ID", "KafkaApis.handleOffsetCommitRequest", since="4.1"),
        BrokerError("STALE_MEMBER_EPOCH", _GROUPS, since="3.7"),
        BrokerError("UNSUPPORTED_VERSION", _VERSION, since="2.3", before="4.0.0"),
    ),
    "OffsetFetch": (
        *ANY,
        BrokerError("UNKNOWN_TOPIC_OR_PARTITION", "KafkaApis.handleOffsetFetchRequest"),
        BrokerError("COORDINATOR_NOT_AVAILABLE", "GroupCoordinator.validateGroupStatus"),
        BrokerError("NOT_COORDINATOR", "GroupCoordinator.validateGroupStatus"),
        BrokerError("UNKNOWN_TOPIC_ID", "KafkaApis.handleOffsetFetchRequest", since="4.1"),
        BrokerError("UNKNOWN_MEMBER_ID", _GROUPS, since="3.7"),
        BrokerError("STALE_MEMBER_EPOCH", _GROUPS, since="3.7"),
        BrokerError("GROUP_ID_NOT_FOUND", _GROUPS, since="3.7"),
    ),
}
"""By requests. Errors of authorizers are in `authorization`, those of a coordinator that isn't the
right one, is loading or can't append in `coordinator.ownership`."""
