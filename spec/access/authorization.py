"""Which request needs which ACL, and what is answered to who lacks it.

A broker looks before anything else of a request is looked at. The parameters of an event are
what the request says, and what the asking principal may do (`CHECKS`): the caller asks a table of
ACLs for each (`acls`). Requests about topics ask once more for each topic.

Source: KafkaApis of the releases.
"""

from __future__ import annotations

from typing import Any, Final

from ...language import (
    Bool,
    Event,
    Expression,
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
    "prefixed_acls", "2.0", sentence="An ACL may be for a prefix of names.", source="KIP-290"
)
create_by_topic = feature(
    "create_by_topic",
    "2.0",
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

# What is asked, and answered ----------------------------------------------------------------------

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
"""The operation and the type of resource that a parameter asks for."""
NEEDS: Final = {
    "PREFIXED": prefixed_acls.data.name, "TWO_PHASE_COMMIT": two_phase_commit_acl.data.name,
}  # fmt: skip
"""Features that allow an ACL to say more, by release."""
ANY_TOPIC: Final = "may_write_any_topic"
"""The parameter that asks for WRITE on some topic."""

authorizer = Machine("authorizer", doc="A broker, as it asks whether a principal may.")
asker = Machine("asker", doc="Who is answered.")
AuthorizationResponse = message("AuthorizationResponse", asker, only_real=True, error=Errors)


def _asked(name: str, *checks: str, **said: Any) -> Any:
    fields: dict[str, Any] = {**said, **dict.fromkeys(checks, Bool())}
    return event(name, **fields)


def _refused(name: str, when: Any, error: Expression, source: str, **rest: Any) -> Row:
    return Row(name, when=when, reply=AuthorizationResponse(error=error), source=source, **rest)


def _table(on: Event, *rows: Row) -> Table:
    authorized = Row("authorized", reply=AuthorizationResponse(error=Errors.NONE))
    return Table(authorizer, on, (*rows, authorized), response=AuthorizationResponse)


# Requests to coordinators -------------------------------------------------------------------------

_init = _asked(
    "InitProducerId asks", "may_write_id", "may_commit_in_two_phases", "may_write_idempotently",
    ANY_TOPIC, has_id=Bool(), enable_2pc=Bool(),
)  # fmt: skip
_INIT = "KafkaApis.handleInitProducerIdRequest"
init_asks = _table(
    _init,
    _refused(
        "not authorized for the transactional id",
        _init.has_id & ~_init.may_write_id,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        _INIT,
    ),
    _refused(
        "not authorized for two-phase commit",
        _init.has_id & _init.enable_2pc & ~_init.may_commit_in_two_phases,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        _INIT,
        during=two_phase_commit_acl,
    ),
    _refused(
        "not authorized to write idempotently",
        ~_init.has_id & ~_init.may_write_idempotently,
        Errors.CLUSTER_AUTHORIZATION_FAILED,
        _INIT,
        during=~idempotent_by_topic,
    ),
    _refused(
        "not authorized to write idempotently, nor to any topic",
        ~_init.has_id & ~_init.may_write_idempotently & ~_init.may_write_any_topic,
        Errors.CLUSTER_AUTHORIZATION_FAILED,
        _INIT,
        during=idempotent_by_topic,
    ),
)

_add = _asked("AddPartitionsToTxn asks", "may_write_id", "may_act_for_cluster", from_broker=Bool())
_ADD = "KafkaApis.handleAddPartitionsToTxnRequest"
add_asks = _table(
    _add,
    _refused(
        "not a broker",
        _add.from_broker & ~_add.may_act_for_cluster,
        Errors.CLUSTER_AUTHORIZATION_FAILED,
        _ADD,
        note="From version 4 of the API on, brokers send it.",
    ),
    _refused(
        "not authorized for the transactional id",
        ~_add.from_broker & ~_add.may_write_id,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        _ADD,
    ),
)

_end = _asked("EndTxn asks", "may_write_id")
end_asks = _table(
    _end,
    _refused(
        "not authorized for the transactional id",
        ~_end.may_write_id,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "KafkaApis.handleEndTxnRequest",
    ),
)

_describe = _asked("DescribeTransactions asks", "may_describe_id")
describe_asks = _table(
    _describe,
    _refused(
        "not authorized for the transactional id",
        ~_describe.may_describe_id,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "KafkaApis.handleDescribeTransactionsRequest",
    ),
)

# Offsets of groups --------------------------------------------------------------------------------


def _offsets_ask(name: str, source: str) -> Table:
    on = _asked(name, "may_write_id", "may_read_group")
    return _table(
        on,
        _refused(
            "not authorized for the transactional id",
            ~on.may_write_id,
            Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            source,
        ),
        _refused(
            "not authorized for the group",
            ~on.may_read_group,
            Errors.GROUP_AUTHORIZATION_FAILED,
            source,
        ),
    )


add_offsets_asks = _offsets_ask("AddOffsetsToTxn asks", "KafkaApis.handleAddOffsetsToTxnRequest")
commit_asks = _offsets_ask("TxnOffsetCommit asks", "KafkaApis.handleTxnOffsetCommitRequest")

_find = _asked("FindCoordinator asks", "may_describe_id", "may_describe_group", of_group=Bool())
_FIND = "KafkaApis.handleFindCoordinatorRequest"
find_asks = _table(
    _find,
    _refused(
        "not authorized for the group",
        _find.of_group & ~_find.may_describe_group,
        Errors.GROUP_AUTHORIZATION_FAILED,
        _FIND,
    ),
    _refused(
        "not authorized for the transactional id",
        ~_find.of_group & ~_find.may_describe_id,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        _FIND,
    ),
)

GroupUse = enum("GroupUse", "READ", "DESCRIBE", "DELETE")
_group = _asked(
    "a group is asked for", "may_read_group", "may_describe_group", "may_delete_group",
    use=GroupUse,
)  # fmt: skip
group_asks = _table(
    _group,
    _refused(
        "not authorized to join it",
        (_group.use == GroupUse.READ) & ~_group.may_read_group,
        Errors.GROUP_AUTHORIZATION_FAILED,
        "KafkaApis.handleJoinGroupRequest, handleSyncGroupRequest, handleHeartbeatRequest, "
        "handleLeaveGroupRequest, handleOffsetCommitRequest",
    ),
    _refused(
        "not authorized to describe it",
        (_group.use == GroupUse.DESCRIBE) & ~_group.may_describe_group,
        Errors.GROUP_AUTHORIZATION_FAILED,
        "KafkaApis.handleOffsetFetchRequest",
    ),
    _refused(
        "not authorized to delete it",
        (_group.use == GroupUse.DELETE) & ~_group.may_delete_group,
        Errors.GROUP_AUTHORIZATION_FAILED,
        "KafkaApis.handleDeleteGroupsRequest",
    ),
)

# Requests to leaders ------------------------------------------------------------------------------

_produce = _asked(
    "Produce asks", "may_write_id", "may_write_idempotently", transactional=Bool(),
    idempotent=Bool(),
)  # fmt: skip
_PRODUCE = "KafkaApis.handleProduceRequest"
produce_asks = _table(
    _produce,
    _refused(
        "not authorized for the transactional id",
        _produce.transactional & ~_produce.may_write_id,
        Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        _PRODUCE,
    ),
    _refused(
        "not authorized to write idempotently",
        ~_produce.transactional & _produce.idempotent & ~_produce.may_write_idempotently,
        Errors.CLUSTER_AUTHORIZATION_FAILED,
        _PRODUCE,
        during=~idempotent_by_topic,
    ),
)

_markers = _asked("WriteTxnMarkers asks", "may_act_for_cluster", "may_alter_cluster")
_MARKERS = "KafkaApis.handleWriteTxnMarkersRequest"
markers_ask = _table(
    _markers,
    _refused(
        "not a broker",
        ~_markers.may_act_for_cluster,
        Errors.CLUSTER_AUTHORIZATION_FAILED,
        _MARKERS,
        during=~markers_by_admins,
    ),
    _refused(
        "neither a broker nor an administrator",
        ~_markers.may_act_for_cluster & ~_markers.may_alter_cluster,
        Errors.CLUSTER_AUTHORIZATION_FAILED,
        _MARKERS,
        during=markers_by_admins,
    ),
)

# Topics -------------------------------------------------------------------------------------------

Use = enum("TopicUse", "READ", "WRITE", "DESCRIBE", "DELETE")
_topic = _asked(
    "a topic is asked for", "may_read_topic", "may_write_topic", "may_describe_topic",
    "may_delete_topic", use=Use,
)  # fmt: skip
topic_asks = _table(
    _topic,
    _refused(
        "answered as unknown",
        ~_topic.may_describe_topic,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        "KAFKA-5547, KafkaApis",
        during=~unauthorized_error,
    ),
    _refused(
        "not authorized to read it",
        (_topic.use == Use.READ) & ~_topic.may_read_topic,
        Errors.TOPIC_AUTHORIZATION_FAILED,
        "KafkaApis.handleFetchRequest, handleTxnOffsetCommitRequest",
    ),
    _refused(
        "not authorized to write to it",
        (_topic.use == Use.WRITE) & ~_topic.may_write_topic,
        Errors.TOPIC_AUTHORIZATION_FAILED,
        "KafkaApis.handleProduceRequest, handleAddPartitionsToTxnRequest",
    ),
    _refused(
        "not authorized to describe it",
        (_topic.use == Use.DESCRIBE) & ~_topic.may_describe_topic,
        Errors.TOPIC_AUTHORIZATION_FAILED,
        "KafkaApis.handleListOffsetRequest, handleTopicMetadataRequest, handleOffsetFetchRequest",
    ),
    _refused(
        "not authorized to delete it",
        (_topic.use == Use.DELETE) & ~_topic.may_delete_topic,
        Errors.TOPIC_AUTHORIZATION_FAILED,
        "KafkaApis.handleDeleteTopicsRequest",
    ),
)

_create = _asked(
    "a topic is to be made", "may_create_topic", "may_create_any_topic", by_metadata=Bool()
)
_cannot_create = ~_create.may_create_any_topic
create_asks = _table(
    _create,
    _refused(
        "not authorized to create topics",
        _cannot_create & ~_create.by_metadata,
        Errors.CLUSTER_AUTHORIZATION_FAILED,
        "KafkaApis.handleCreateTopicsRequest",
        during=~create_by_topic,
    ),
    _refused(
        "not authorized to create topics by naming them",
        _cannot_create & _create.by_metadata,
        Errors.TOPIC_AUTHORIZATION_FAILED,
        "KafkaApis.handleTopicMetadataRequest",
        during=~create_by_topic,
    ),
    _refused(
        "not authorized to create it",
        _cannot_create & ~_create.may_create_topic,
        Errors.TOPIC_AUTHORIZATION_FAILED,
        "KafkaApis.handleCreateTopicsRequest, handleTopicMetadataRequest",
        during=create_by_topic,
    ),
)

TABLES = (
    init_asks, add_asks, end_asks, describe_asks, add_offsets_asks, commit_asks, find_asks,
    group_asks, produce_asks, markers_ask, topic_asks, create_asks,
)  # fmt: skip
