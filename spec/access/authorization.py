"""The ACL that each request needs, and the error for a principal without it.

A broker authorizes a request before all other checks. An event's parameters carry the request's
fields and the principal's permissions (`CHECKS`); the caller looks each permission up in a table of
ACLs (`acls`). A request is authorized again for each topic that it names.

Source: KafkaApis of the releases.
"""

from __future__ import annotations

from typing import Final

from ...language import (
    Bool,
    Machine,
    Protocols,
    Row,
    Table,
    enum,
    event,
    feature,
    message,
)
from ..messages import Errors
from ..releases.release import RELEASES, TRUNK, UNCHANGED

# Releases -----------------------------------------------------------------------------------------

unauthorized_error = feature(
    "unauthorized_error",
    "1.0",
    sentence="A client gets an authorization error for any topic that it may not use. Before, a "
    "topic that it may not describe was unknown.",
    source="KAFKA-5547",
)
prefixed_acls = feature(
    "prefixed_acls", "2.0.0", sentence="An ACL may be for a prefix of names.", source="KIP-290"
)
create_by_topic = feature(
    "create_by_topic",
    "2.0.0",
    sentence="CREATE on a topic is enough to create it. Before, it took CREATE on the cluster.",
    source="KIP-277",
)
idempotent_by_topic = feature(
    "idempotent_by_topic",
    "2.8",
    sentence="WRITE on any topic is enough to write idempotently, and Produce doesn't check it. "
    "Before, InitProducerId and Produce needed IDEMPOTENT_WRITE on the cluster.",
    source="KIP-679",
)
markers_by_admins = feature(
    "markers_by_admins",
    "3.8",
    sentence="ALTER on the cluster is enough for WriteTxnMarkers, too.",
    source="KAFKA-16513, KafkaApis.handleWriteTxnMarkersRequest",
)
two_phase_commit_acl = feature(
    "two_phase_commit_acl",
    "4.1",
    sentence="A transaction without timeout needs TWO_PHASE_COMMIT on its id.",
    source="KIP-939",
)
AUTHORIZERS = Protocols(
    RELEASES,
    (
        unauthorized_error, prefixed_acls, create_by_topic, idempotent_by_topic, markers_by_admins,
        two_phase_commit_acl,
    ),
    unreleased=(TRUNK,), unchanged=UNCHANGED,
)  # fmt: skip

# Permissions --------------------------------------------------------------------------------------

CHECKS: Final = {
    "may_write_id": ("WRITE", "TRANSACTIONAL_ID"),
    "may_describe_id": ("DESCRIBE", "TRANSACTIONAL_ID"),
    "may_commit_in_two_phases": ("TWO_PHASE_COMMIT", "TRANSACTIONAL_ID"),
    "may_read_group": ("READ", "GROUP"),
    "may_describe_group": ("DESCRIBE", "GROUP"),
    "may_delete_group": ("DELETE", "GROUP"),
    "may_write_topic": ("WRITE", "TOPIC"),
    "may_read_topic": ("READ", "TOPIC"),
    "may_describe_topic": ("DESCRIBE", "TOPIC"),
    "may_create_topic": ("CREATE", "TOPIC"),
    "may_delete_topic": ("DELETE", "TOPIC"),
    "may_write_idempotently": ("IDEMPOTENT_WRITE", "CLUSTER"),
    "may_create_any_topic": ("CREATE", "CLUSTER"),
    "may_act_for_cluster": ("CLUSTER_ACTION", "CLUSTER"),
    "may_alter_cluster": ("ALTER", "CLUSTER"),
}
"""The operation and the type of resource of each parameter."""
NEEDS: Final = {
    "PREFIXED": prefixed_acls.data.name,
    "TWO_PHASE_COMMIT": two_phase_commit_acl.data.name,
}
"""Features that allow an ACL to say more, by release."""
ANY_TOPIC: Final = "may_write_any_topic"
"""The parameter for WRITE on some topic."""

authorizer = Machine("authorizer", doc="A broker's authorization of requests.")
asker = Machine("asker", doc="The client that sent the request.")
AuthorizationResponse = message("AuthorizationResponse", asker, error=Errors)

# Requests to coordinators -------------------------------------------------------------------------

init_producer_id = event(
    "InitProducerId asks",
    has_id=Bool(),
    enable_2pc=Bool(),
    may_write_id=Bool(),
    may_commit_in_two_phases=Bool(),
    may_write_idempotently=Bool(),
    may_write_any_topic=Bool(),
)
init_asks = Table(
    authorizer,
    on=init_producer_id,
    response=AuthorizationResponse,
    source="KafkaApis.handleInitProducerIdRequest",
    rows=(
        Row(
            "transactional-id",
            "The principal may not write with the transactional id",
            when=init_producer_id.has_id & ~init_producer_id.may_write_id,
            reply=Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        Row(
            "two-phase-commit",
            "The principal may not use two-phase commit",
            when=init_producer_id.has_id
            & init_producer_id.enable_2pc
            & ~init_producer_id.may_commit_in_two_phases,
            reply=Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            during=two_phase_commit_acl,
        ),
        Row(
            "idempotent-write",
            "The principal may not write idempotently",
            when=~init_producer_id.has_id & ~init_producer_id.may_write_idempotently,
            reply=Errors.CLUSTER_AUTHORIZATION_FAILED,
            during=~idempotent_by_topic,
        ),
        Row(
            "idempotent-write-or-any-topic",
            "The principal may neither write idempotently nor write to any topic",
            when=~init_producer_id.has_id
            & ~init_producer_id.may_write_idempotently
            & ~init_producer_id.may_write_any_topic,
            reply=Errors.CLUSTER_AUTHORIZATION_FAILED,
            during=idempotent_by_topic,
        ),
        Row("authorized", "The request is let through", reply=Errors.NONE),
    ),
)

add_partitions_to_txn = event(
    "AddPartitionsToTxn asks",
    from_broker=Bool(),
    may_write_id=Bool(),
    may_act_for_cluster=Bool(),
    event_doc="From version 4 on, brokers send it.",
)
add_asks = Table(
    authorizer,
    on=add_partitions_to_txn,
    response=AuthorizationResponse,
    source="KafkaApis.handleAddPartitionsToTxnRequest",
    rows=(
        Row(
            "cluster-action",
            "The principal of version 4 is no broker",
            when=add_partitions_to_txn.from_broker & ~add_partitions_to_txn.may_act_for_cluster,
            reply=Errors.CLUSTER_AUTHORIZATION_FAILED,
        ),
        Row(
            "transactional-id",
            "The principal may not write with the transactional id",
            when=~add_partitions_to_txn.from_broker & ~add_partitions_to_txn.may_write_id,
            reply=Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        Row("authorized", "The request is let through", reply=Errors.NONE),
    ),
)

end_txn = event("EndTxn asks", may_write_id=Bool())
end_asks = Table(
    authorizer,
    on=end_txn,
    response=AuthorizationResponse,
    source="KafkaApis.handleEndTxnRequest",
    rows=(
        Row(
            "transactional-id",
            "The principal may not write with the transactional id",
            when=~end_txn.may_write_id,
            reply=Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        Row("authorized", "The request is let through", reply=Errors.NONE),
    ),
)

describe_transactions = event("DescribeTransactions asks", may_describe_id=Bool())
describe_asks = Table(
    authorizer,
    on=describe_transactions,
    response=AuthorizationResponse,
    source="KafkaApis.handleDescribeTransactionsRequest",
    rows=(
        Row(
            "transactional-id",
            "The principal may not describe the transactional id",
            when=~describe_transactions.may_describe_id,
            reply=Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        Row("authorized", "The request is let through", reply=Errors.NONE),
    ),
)

add_offsets_to_txn = event("AddOffsetsToTxn asks", may_write_id=Bool(), may_read_group=Bool())
add_offsets_asks = Table(
    authorizer,
    on=add_offsets_to_txn,
    response=AuthorizationResponse,
    source="KafkaApis.handleAddOffsetsToTxnRequest",
    rows=(
        Row(
            "transactional-id",
            "The principal may not write with the transactional id",
            when=~add_offsets_to_txn.may_write_id,
            reply=Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        Row(
            "group",
            "The principal may not read the group's offsets",
            when=~add_offsets_to_txn.may_read_group,
            reply=Errors.GROUP_AUTHORIZATION_FAILED,
        ),
        Row("authorized", "The request is let through", reply=Errors.NONE),
    ),
)

txn_offset_commit = event("TxnOffsetCommit asks", may_write_id=Bool(), may_read_group=Bool())
commit_asks = Table(
    authorizer,
    on=txn_offset_commit,
    response=AuthorizationResponse,
    source="KafkaApis.handleTxnOffsetCommitRequest",
    rows=(
        Row(
            "transactional-id",
            "The principal may not write with the transactional id",
            when=~txn_offset_commit.may_write_id,
            reply=Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        Row(
            "group",
            "The principal may not read the group's offsets",
            when=~txn_offset_commit.may_read_group,
            reply=Errors.GROUP_AUTHORIZATION_FAILED,
        ),
        Row("authorized", "The request is let through", reply=Errors.NONE),
    ),
)

find_coordinator = event(
    "FindCoordinator asks", of_group=Bool(), may_describe_id=Bool(), may_describe_group=Bool()
)
find_asks = Table(
    authorizer,
    on=find_coordinator,
    response=AuthorizationResponse,
    source="KafkaApis.handleFindCoordinatorRequest",
    rows=(
        Row(
            "group",
            "The principal may not describe the group",
            when=find_coordinator.of_group & ~find_coordinator.may_describe_group,
            reply=Errors.GROUP_AUTHORIZATION_FAILED,
        ),
        Row(
            "transactional-id",
            "The principal may not describe the transactional id",
            when=~find_coordinator.of_group & ~find_coordinator.may_describe_id,
            reply=Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        Row("authorized", "The request is let through", reply=Errors.NONE),
    ),
)

GroupUse = enum("GroupUse", "READ", "DESCRIBE", "DELETE")
use_group = event(
    "a group is asked for",
    use=GroupUse,
    may_read_group=Bool(),
    may_describe_group=Bool(),
    may_delete_group=Bool(),
)
group_asks = Table(
    authorizer,
    on=use_group,
    response=AuthorizationResponse,
    rows=(
        Row(
            "read",
            "The principal may not be a member of the group, nor commit its offsets",
            when=(use_group.use == GroupUse.READ) & ~use_group.may_read_group,
            reply=Errors.GROUP_AUTHORIZATION_FAILED,
            source="KafkaApis.handleJoinGroupRequest, handleSyncGroupRequest, "
            "handleHeartbeatRequest, handleLeaveGroupRequest, handleOffsetCommitRequest",
        ),
        Row(
            "describe",
            "The principal may not describe the group",
            when=(use_group.use == GroupUse.DESCRIBE) & ~use_group.may_describe_group,
            reply=Errors.GROUP_AUTHORIZATION_FAILED,
            source="KafkaApis.handleOffsetFetchRequest",
        ),
        Row(
            "delete",
            "The principal may not delete the group",
            when=(use_group.use == GroupUse.DELETE) & ~use_group.may_delete_group,
            reply=Errors.GROUP_AUTHORIZATION_FAILED,
            source="KafkaApis.handleDeleteGroupsRequest",
        ),
        Row(
            "authorized",
            "The request is let through",
            reply=Errors.NONE,
            source="AuthHelper.authorize",
        ),
    ),
)

# Requests to leaders ------------------------------------------------------------------------------

produce = event(
    "Produce asks",
    transactional=Bool(),
    idempotent=Bool(),
    may_write_id=Bool(),
    may_write_idempotently=Bool(),
)
produce_asks = Table(
    authorizer,
    on=produce,
    response=AuthorizationResponse,
    source="KafkaApis.handleProduceRequest",
    rows=(
        Row(
            "transactional-id",
            "The principal may not write with the transactional id",
            when=produce.transactional & ~produce.may_write_id,
            reply=Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        Row(
            "idempotent-write",
            "The principal may not write idempotently",
            when=~produce.transactional & produce.idempotent & ~produce.may_write_idempotently,
            reply=Errors.CLUSTER_AUTHORIZATION_FAILED,
            during=~idempotent_by_topic,
        ),
        Row("authorized", "The request is let through", reply=Errors.NONE),
    ),
)

write_txn_markers = event(
    "WriteTxnMarkers asks", may_act_for_cluster=Bool(), may_alter_cluster=Bool()
)
markers_ask = Table(
    authorizer,
    on=write_txn_markers,
    response=AuthorizationResponse,
    source="KafkaApis.handleWriteTxnMarkersRequest",
    rows=(
        Row(
            "cluster-action",
            "The principal is no broker",
            when=~write_txn_markers.may_act_for_cluster,
            reply=Errors.CLUSTER_AUTHORIZATION_FAILED,
            during=~markers_by_admins,
        ),
        Row(
            "cluster-action-or-alter",
            "The principal is neither a broker nor an administrator",
            when=~write_txn_markers.may_act_for_cluster & ~write_txn_markers.may_alter_cluster,
            reply=Errors.CLUSTER_AUTHORIZATION_FAILED,
            during=markers_by_admins,
        ),
        Row("authorized", "The request is let through", reply=Errors.NONE),
    ),
)

# Topics -------------------------------------------------------------------------------------------

TopicUse = enum("TopicUse", "READ", "WRITE", "DESCRIBE", "DELETE")
use_topic = event(
    "a topic is asked for",
    use=TopicUse,
    may_read_topic=Bool(),
    may_write_topic=Bool(),
    may_describe_topic=Bool(),
    may_delete_topic=Bool(),
)
topic_asks = Table(
    authorizer,
    on=use_topic,
    response=AuthorizationResponse,
    rows=(
        Row(
            "unknown-topic",
            "Before 1.0 a topic that the principal may not describe is unknown",
            when=~use_topic.may_describe_topic,
            reply=Errors.UNKNOWN_TOPIC_OR_PARTITION,
            during=~unauthorized_error,
            source="KAFKA-5547, KafkaApis",
        ),
        Row(
            "read",
            "The principal may not read the topic",
            when=(use_topic.use == TopicUse.READ) & ~use_topic.may_read_topic,
            reply=Errors.TOPIC_AUTHORIZATION_FAILED,
            source="KafkaApis.handleFetchRequest, handleTxnOffsetCommitRequest",
        ),
        Row(
            "write",
            "The principal may not write to the topic",
            when=(use_topic.use == TopicUse.WRITE) & ~use_topic.may_write_topic,
            reply=Errors.TOPIC_AUTHORIZATION_FAILED,
            source="KafkaApis.handleProduceRequest, handleAddPartitionsToTxnRequest",
        ),
        Row(
            "describe",
            "The principal may not describe the topic",
            when=(use_topic.use == TopicUse.DESCRIBE) & ~use_topic.may_describe_topic,
            reply=Errors.TOPIC_AUTHORIZATION_FAILED,
            source="KafkaApis.handleListOffsetRequest, handleTopicMetadataRequest, "
            "handleOffsetFetchRequest",
        ),
        Row(
            "delete",
            "The principal may not delete the topic",
            when=(use_topic.use == TopicUse.DELETE) & ~use_topic.may_delete_topic,
            reply=Errors.TOPIC_AUTHORIZATION_FAILED,
            source="KafkaApis.handleDeleteTopicsRequest",
        ),
        Row(
            "authorized",
            "The request is let through",
            reply=Errors.NONE,
            source="AuthHelper.authorize",
        ),
    ),
)

create_topic = event(
    "a topic is to be made",
    by_metadata=Bool(),
    may_create_topic=Bool(),
    may_create_any_topic=Bool(),
    event_doc="`by_metadata`: by Metadata, with auto.create.topics.enable.",
)
create_asks = Table(
    authorizer,
    on=create_topic,
    response=AuthorizationResponse,
    rows=(
        Row(
            "cluster",
            "The principal may not create topics",
            when=~create_topic.may_create_any_topic & ~create_topic.by_metadata,
            reply=Errors.CLUSTER_AUTHORIZATION_FAILED,
            during=~create_by_topic,
            source="KafkaApis.handleCreateTopicsRequest",
        ),
        Row(
            "cluster-by-metadata",
            "The principal may not create topics by Metadata",
            when=~create_topic.may_create_any_topic & create_topic.by_metadata,
            reply=Errors.TOPIC_AUTHORIZATION_FAILED,
            during=~create_by_topic,
            source="KafkaApis.handleTopicMetadataRequest",
        ),
        Row(
            "topic",
            "The principal may create neither the topic nor any topic",
            when=~create_topic.may_create_any_topic & ~create_topic.may_create_topic,
            reply=Errors.TOPIC_AUTHORIZATION_FAILED,
            during=create_by_topic,
            source="KafkaApis.handleCreateTopicsRequest, handleTopicMetadataRequest",
        ),
        Row(
            "authorized",
            "The request is let through",
            reply=Errors.NONE,
            source="AuthHelper.authorize",
        ),
    ),
)

TABLES = (
    init_asks,
    add_asks,
    end_asks,
    describe_asks,
    add_offsets_asks,
    commit_asks,
    find_asks,
    group_asks,
    produce_asks,
    markers_ask,
    topic_asks,
    create_asks,
)
