"""The layouts of `__consumer_offsets` for groups whose partitions the broker assigns, declared as
in `schema`.

Consumer groups (KIP-848), share groups (KIP-932) and streams groups (KIP-1071) have the same kinds
of records: the group, its members, the target assignment, and each member's present assignment. A
missing tag has the default; null is written.

Source: ConsumerGroup*Value.json, ShareGroup*Value.json and StreamsGroup*Value.json of Kafka 4.3.
For the field `state`: MemberState of each kind of group.
"""

from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from .schema import INT8, INT16, INT32, INT64, STRING, Layout

BYTES = {"kafka_type": "bytes"}
UINT16 = {"kafka_type": "uint16"}
TOPIC_ID = {"kafka_type": "uuid"}
STATE = INT8 | {
    "names": {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS", 127: "UNKNOWN"}
}
TASK_STATE = INT8 | {
    "names": {1: "STABLE", 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS", 127: "UNKNOWN"}
}


class Flexible(Layout):
    """A layout with tagged fields."""

    __slots__ = ()
    __flexible__: ClassVar[bool] = True


# All kinds of groups ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentMetadata(Flexible):
    """The epoch and time of a group's target assignment. The timestamp exists from 4.3 on."""

    assignment_epoch: int = field(metadata=INT32)
    assignment_timestamp: int = field(metadata=INT64 | {"tag": 0}, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions(Flexible):
    """Partitions of a topic."""

    topic_id: UUID | None = field(metadata=TOPIC_ID)
    partitions: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentMember(Flexible):
    """The target assignment of a member of a consumer group or share group."""

    topic_partitions: tuple[TopicPartitions, ...]


# Consumer groups ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadata(Flexible):
    """A consumer group. The hash of its topics' metadata exists from 4.1 on."""

    epoch: int = field(metadata=INT32)
    metadata_hash: int = field(metadata=INT64 | {"tag": 0}, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRacks(Flexible):
    """The racks of a partition's replicas."""

    partition: int = field(metadata=INT32)
    racks: tuple[str, ...] = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata(Flexible):
    """A topic that a group's members subscribe to."""

    topic_id: UUID | None = field(metadata=TOPIC_ID)
    topic_name: str = field(metadata=STRING)
    num_partitions: int = field(metadata=INT32)
    partition_metadata: tuple[PartitionRacks, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadata(Flexible):
    """The topics of a consumer group, up to 4.0; later its metadata hash replaces them."""

    topics: tuple[TopicMetadata, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol(Flexible):
    """A protocol of a member that joins as members of classic groups do."""

    name: str = field(metadata=STRING)
    metadata: bytes = field(metadata=BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata(Flexible):
    """Fields of a member that joins as members of classic groups do."""

    session_timeout_ms: int = field(metadata=INT32)
    supported_protocols: tuple[ClassicProtocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadata(Flexible):
    """A member of a consumer group, and its subscription."""

    instance_id: str | None = field(metadata=STRING)
    rack_id: str | None = field(metadata=STRING)
    client_id: str = field(metadata=STRING)
    client_host: str = field(metadata=STRING)
    subscribed_topic_names: tuple[str, ...] = field(metadata=STRING)
    subscribed_topic_regex: str | None = field(metadata=STRING)
    rebalance_timeout_ms: int = field(metadata=INT32)
    server_assignor: str | None = field(metadata=STRING)
    classic_member_metadata: ClassicMemberMetadata | None = field(
        metadata={"tag": 0},
        default=ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedPartitions(TopicPartitions):
    """Partitions of a topic that a member has; from 4.3 on with the group epochs of their
    assignment."""

    assignment_epochs: tuple[int, ...] | None = field(metadata=INT32 | {"tag": 0}, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignment(Flexible):
    """The present assignment of a member of a consumer group, and the partitions that it still has
    to give up."""

    member_epoch: int = field(metadata=INT32)
    previous_member_epoch: int = field(metadata=INT32)
    state: int = field(metadata=STATE)
    assigned_partitions: tuple[AssignedPartitions, ...]
    partitions_pending_revocation: tuple[AssignedPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpression(Flexible):
    """The topics that match a regular expression."""

    topics: tuple[str, ...] = field(metadata=STRING)
    version: int = field(metadata=INT64)
    timestamp: int = field(metadata=INT64)


# Share groups -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMetadata(Flexible):
    """A share group."""

    epoch: int = field(metadata=INT32)
    metadata_hash: int = field(metadata=INT64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMemberMetadata(Flexible):
    """A member of a share group, and its subscription."""

    rack_id: str | None = field(metadata=STRING)
    client_id: str = field(metadata=STRING)
    client_host: str = field(metadata=STRING)
    subscribed_topic_names: tuple[str, ...] = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupCurrentMemberAssignment(Flexible):
    """The present assignment of a member of a share group."""

    member_epoch: int = field(metadata=INT32)
    previous_member_epoch: int = field(metadata=INT32)
    state: int = field(metadata=STATE)
    assigned_partitions: tuple[TopicPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopic(Flexible):
    """A topic, by both of its names."""

    topic_id: UUID | None = field(metadata=TOPIC_ID)
    topic_name: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopicPartitions(NamedTopic):
    """Partitions of a topic, with the topic's name."""

    partitions: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupStatePartitionMetadata(Flexible):
    """The partitions for which a share group has a state or initializes one."""

    initializing_topics: tuple[NamedTopicPartitions, ...]
    initialized_topics: tuple[NamedTopicPartitions, ...]
    deleting_topics: tuple[NamedTopic, ...]


# Streams groups -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValue(Flexible):
    """A key and its value, as of a setting."""

    key: str = field(metadata=STRING)
    value: str = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMetadata(Flexible):
    """A streams group."""

    epoch: int = field(metadata=INT32)
    metadata_hash: int = field(metadata=INT64)
    validated_topology_epoch: int = field(metadata=INT32 | {"tag": 0}, default=-1)
    last_assignment_configs: tuple[KeyValue, ...] | None = field(metadata={"tag": 1}, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Flexible):
    """The address at which an application of Kafka Streams answers queries."""

    host: str = field(metadata=STRING)
    port: int = field(metadata=UINT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMemberMetadata(Flexible):
    """A member of a streams group: an instance of an application of Kafka Streams."""

    instance_id: str | None = field(metadata=STRING)
    rack_id: str | None = field(metadata=STRING)
    client_id: str = field(metadata=STRING)
    client_host: str = field(metadata=STRING)
    rebalance_timeout_ms: int = field(metadata=INT32)
    topology_epoch: int = field(metadata=INT32)
    process_id: str = field(metadata=STRING)
    user_endpoint: Endpoint | None
    client_tags: tuple[KeyValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskIds(Flexible):
    """Tasks: partitions of a subtopology."""

    subtopology_id: str = field(metadata=STRING)
    partitions: tuple[int, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTargetAssignmentMember(Flexible):
    """The target assignment of a member of a streams group."""

    active_tasks: tuple[TaskIds, ...]
    standby_tasks: tuple[TaskIds, ...]
    warmup_tasks: tuple[TaskIds, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTaskIds(TaskIds):
    """A member's tasks, with the group epochs of their assignment."""

    assignment_epochs: tuple[int, ...] | None = field(metadata=INT32 | {"tag": 0}, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupCurrentMemberAssignment(Flexible):
    """The present assignment of a member of a streams group, and the partitions that it still has
    to give up."""

    member_epoch: int = field(metadata=INT32)
    previous_member_epoch: int = field(metadata=INT32)
    state: int = field(metadata=TASK_STATE)
    active_tasks: tuple[AssignedTaskIds, ...]
    standby_tasks: tuple[AssignedTaskIds, ...]
    warmup_tasks: tuple[AssignedTaskIds, ...]
    active_tasks_pending_revocation: tuple[AssignedTaskIds, ...]
    standby_tasks_pending_revocation: tuple[AssignedTaskIds, ...]
    warmup_tasks_pending_revocation: tuple[AssignedTaskIds, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic(Flexible):
    """A topic that a subtopology needs; a replication factor of 0 is the broker's default."""

    name: str = field(metadata=STRING)
    partitions: int = field(metadata=INT32)
    replication_factor: int = field(metadata=INT16)
    topic_configs: tuple[KeyValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopartitionGroup(Flexible):
    """Topics of a subtopology that must have the same number of partitions, by their indices in its
    lists."""

    source_topics: tuple[int, ...] = field(metadata=INT16)
    source_topic_regex: tuple[int, ...] = field(metadata=INT16)
    repartition_source_topics: tuple[int, ...] = field(metadata=INT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology(Flexible):
    """A part of a topology that runs on its own."""

    subtopology_id: str = field(metadata=STRING)
    source_topics: tuple[str, ...] = field(metadata=STRING)
    source_topic_regex: tuple[str, ...] = field(metadata=STRING)
    state_changelog_topics: tuple[InternalTopic, ...]
    repartition_sink_topics: tuple[str, ...] = field(metadata=STRING)
    repartition_source_topics: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTopology(Flexible):
    """The topology of a streams group."""

    epoch: int = field(metadata=INT32)
    subtopologies: tuple[Subtopology, ...]
