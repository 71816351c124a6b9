"""A table of ACLs that changes while requests come in: with it `authorization` is explored.

A principal asks about one resource of each type. What the table lets it do is asked of `acls`, for
each choice of the lines that have a say. Nobody is let through for want of any line
(allow.everyone.if.no.acl.found=false).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from ...language import (
    Bool,
    Expression,
    Int,
    Machine,
    Optional,
    Row,
    Set,
    Table,
    constant,
    enum,
    event,
    if_,
    lift,
    record,
    set_of,
    size,
    some,
)
from ...language.changes import Change
from ...language.expressions import all_true, any_true
from . import authorization
from .acls import ANYBODY, ANYTHING, CLUSTER_NAME, Acl, Acls

PRINCIPAL, TOPIC, OTHER_TOPIC = "User:alice", "topic", "other"
NAMES = {"TOPIC": TOPIC, "GROUP": "group", "CLUSTER": CLUSTER_NAME, "TRANSACTIONAL_ID": "id"}


def _allow(operation: str, resource: str, name: str | None = None) -> Acl:
    return Acl(PRINCIPAL, operation, resource, name or NAMES[resource])


LINES = (
    _allow("WRITE", "TOPIC"),
    Acl(PRINCIPAL, "WRITE", "TOPIC", TOPIC, "DENY"),
    _allow("ALL", "TOPIC", ANYTHING),
    Acl(ANYBODY, "ALL", "TOPIC", TOPIC[:2], "DENY", "PREFIXED"),
    _allow("WRITE", "TOPIC", OTHER_TOPIC),
    _allow("READ", "TOPIC"),
    _allow("DELETE", "TOPIC"),
    _allow("CREATE", "TOPIC"),
    _allow("WRITE", "TRANSACTIONAL_ID"),
    Acl(PRINCIPAL, "ALL", "TRANSACTIONAL_ID", ANYTHING, "DENY"),
    _allow("TWO_PHASE_COMMIT", "TRANSACTIONAL_ID"),
    _allow("READ", "GROUP"),
    _allow("DELETE", "GROUP"),
    _allow("IDEMPOTENT_WRITE", "CLUSTER"),
    _allow("CREATE", "CLUSTER"),
    _allow("CLUSTER_ACTION", "CLUSTER"),
    _allow("ALTER", "CLUSTER"),
)
"""The lines that there may be."""
ACLS = constant("acls", 2, 0, 4, meaning="lines of the table at a time, of those that there may be")

Request = enum(
    "AuthorizedRequest", "INIT_WITH_ID", "INIT_WITHOUT_ID", "WITH_ID", "DESCRIBE_ID", "OF_BROKER",
    "MARKERS", "WITH_ID_AND_GROUP", "JOIN_GROUP", "DESCRIBE_GROUP", "DELETE_GROUP", "READ_TOPIC",
    "WRITE_TOPIC", "DESCRIBE_TOPIC", "DELETE_TOPIC", "CREATE_TOPIC", "PRODUCE", "IDEMPOTENT",
)  # fmt: skip
Refusal = enum("Refusal", "NONE", "ID", "CLUSTER", "GROUP", "TOPIC", "UNKNOWN_TOPIC")
Answer = record("AuthorizationAnswer", request=Request, refusal=Refusal)
LINE = Int(0, len(LINES) - 1, "line")

table = Machine("acl_table", doc="The ACLs, and what a principal was answered under them.")
lines = table.field("lines", Set(LINE), doc="Those that there are, by their place in the list.")
is_super = table.field("is_super", Bool(), doc="The principal is one of super.users.")
answer = table.field("answer", Optional(Answer), doc="The last answer, under the present table.")


def has(line: Acl) -> Expression:
    """Whether the table has a line."""
    return lift(LINES.index(line)).is_in(lines)


def _tabulated(allows: Callable[[Acls], bool], matter: tuple[Acl, ...]) -> Expression:
    """The table's content, for each choice of the lines that matter."""

    def cases() -> Iterator[Expression]:
        for count in range(len(matter) + 1):
            for chosen in combinations(matter, count):
                if allows(Acls(chosen)):
                    yield all_true(*(has(x) if x in chosen else ~has(x) for x in matter))

    return is_super | any_true(*cases())


def allowed(operation: str, resource: str) -> Expression:
    """Whether the table lets the principal carry out an operation on its resource."""
    name = NAMES[resource]

    def asks(acls: Acls) -> bool:
        return acls.allow(PRINCIPAL, operation, resource, name)

    matter = tuple(x for x in LINES if asks(Acls((x,))) or _denies(x, operation, resource))
    return _tabulated(asks, matter)


def _denies(line: Acl, operation: str, resource: str) -> bool:
    return (
        line.permission == "DENY"
        and line.is_about(resource, NAMES[resource])
        and line.is_for(PRINCIPAL, (operation,))
    )


def allowed_any(operation: str, resource: str) -> Expression:
    """Whether it lets the principal carry out an operation on some resource of a type."""
    matter = tuple(x for x in LINES if x.resource == resource and x.is_for(PRINCIPAL, (operation,)))
    return _tabulated(lambda acls: acls.allow_any(PRINCIPAL, operation, resource), matter)


# The table changes --------------------------------------------------------------------------------

needs = {
    "PREFIXED": authorization.prefixed_acls,
    "TWO_PHASE_COMMIT": authorization.two_phase_commit_acl,
}
add = event("create an ACL", line=LINE)
is_known = all_true(
    *(
        (add.line != at) | feature
        for at, line in enumerate(LINES)
        for said, feature in needs.items()
        if said in (line.pattern, line.operation)
    )
)
remove = event("delete an ACL", line=LINE)
change_super = event("super.users changes")
CHANGES = (
    Table(
        table,
        on=add,
        when=(size(lines) < ACLS) & ~add.line.is_in(lines) & is_known,
        rows=(
            Row(
                "added",
                set={lines: lines | set_of(add.line), answer: None},
                source="AclAuthorizer.createAcls, StandardAuthorizer.addAcl",
            ),
        ),
    ),
    Table(
        table,
        on=remove,
        when=remove.line.is_in(lines),
        rows=(
            Row(
                "removed",
                set={lines: lines - set_of(remove.line), answer: None},
                source="AclAuthorizer.deleteAcls, StandardAuthorizer.removeAcl",
            ),
        ),
    ),
    Table(
        table,
        on=change_super,
        rows=(
            Row(
                "toggled",
                set={is_super: ~is_super, answer: None},
                source="AclAuthorizer.configure, super.users",
            ),
        ),
    ),
)

# Requests -----------------------------------------------------------------------------------------


_init, _add = authorization.init_producer_id, authorization.add_partitions_to_txn
_find, _produce = authorization.find_coordinator, authorization.produce
_use, _group_use = authorization.use_topic.use, authorization.use_group.use
init_producer_id_request = if_(_init.has_id, Request.INIT_WITH_ID, Request.INIT_WITHOUT_ID)
add_partitions_to_txn_request = if_(_add.from_broker, Request.OF_BROKER, Request.WITH_ID)
find_coordinator_request = if_(_find.of_group, Request.DESCRIBE_GROUP, Request.DESCRIBE_ID)
group_request = if_(
    _group_use == authorization.GroupUse.READ,
    Request.JOIN_GROUP,
    if_(_group_use == authorization.GroupUse.DELETE, Request.DELETE_GROUP, Request.DESCRIBE_GROUP),
)
produce_request = if_(
    _produce.transactional,
    Request.WITH_ID,
    if_(_produce.idempotent, Request.IDEMPOTENT, Request.PRODUCE),
)
topic_request = if_(
    _use == authorization.TopicUse.READ,
    Request.READ_TOPIC,
    if_(
        _use == authorization.TopicUse.WRITE,
        Request.WRITE_TOPIC,
        if_(_use == authorization.TopicUse.DELETE, Request.DELETE_TOPIC, Request.DESCRIBE_TOPIC),
    ),
)

decisions = (
    Change("acls", "The table of ACLs decides.", machines=(table,))
    .table("authorizer.InitProducerId asks")
    .only_when(
        (authorization.init_producer_id.may_write_id == allowed("WRITE", "TRANSACTIONAL_ID"))
        & (
            authorization.init_producer_id.may_commit_in_two_phases
            == allowed("TWO_PHASE_COMMIT", "TRANSACTIONAL_ID")
        )
        & (
            authorization.init_producer_id.may_write_idempotently
            == allowed("IDEMPOTENT_WRITE", "CLUSTER")
        )
        & (authorization.init_producer_id.may_write_any_topic == allowed_any("WRITE", "TOPIC"))
    )
    .also(
        "transactional-id",
        "two-phase-commit",
        set={answer: some(Answer(request=init_producer_id_request, refusal=Refusal.ID))},
    )
    .also(
        "idempotent-write",
        "idempotent-write-or-any-topic",
        set={answer: some(Answer(request=init_producer_id_request, refusal=Refusal.CLUSTER))},
    )
    .also(
        "authorized",
        set={answer: some(Answer(request=init_producer_id_request, refusal=Refusal.NONE))},
    )
    .table("authorizer.AddPartitionsToTxn asks")
    .only_when(
        (authorization.add_partitions_to_txn.may_write_id == allowed("WRITE", "TRANSACTIONAL_ID"))
        & (
            authorization.add_partitions_to_txn.may_act_for_cluster
            == allowed("CLUSTER_ACTION", "CLUSTER")
        )
    )
    .also(
        "cluster-action",
        set={answer: some(Answer(request=add_partitions_to_txn_request, refusal=Refusal.CLUSTER))},
    )
    .also(
        "transactional-id",
        set={answer: some(Answer(request=add_partitions_to_txn_request, refusal=Refusal.ID))},
    )
    .also(
        "authorized",
        set={answer: some(Answer(request=add_partitions_to_txn_request, refusal=Refusal.NONE))},
    )
    .table("authorizer.EndTxn asks")
    .only_when(authorization.end_txn.may_write_id == allowed("WRITE", "TRANSACTIONAL_ID"))
    .also(
        "transactional-id", set={answer: some(Answer(request=Request.WITH_ID, refusal=Refusal.ID))}
    )
    .also("authorized", set={answer: some(Answer(request=Request.WITH_ID, refusal=Refusal.NONE))})
    .table("authorizer.DescribeTransactions asks")
    .only_when(
        authorization.describe_transactions.may_describe_id
        == allowed("DESCRIBE", "TRANSACTIONAL_ID")
    )
    .also(
        "transactional-id",
        set={answer: some(Answer(request=Request.DESCRIBE_ID, refusal=Refusal.ID))},
    )
    .also(
        "authorized", set={answer: some(Answer(request=Request.DESCRIBE_ID, refusal=Refusal.NONE))}
    )
    .table("authorizer.AddOffsetsToTxn asks")
    .only_when(
        (authorization.add_offsets_to_txn.may_write_id == allowed("WRITE", "TRANSACTIONAL_ID"))
        & (authorization.add_offsets_to_txn.may_read_group == allowed("READ", "GROUP"))
    )
    .also(
        "transactional-id",
        set={answer: some(Answer(request=Request.WITH_ID_AND_GROUP, refusal=Refusal.ID))},
    )
    .also(
        "group",
        set={answer: some(Answer(request=Request.WITH_ID_AND_GROUP, refusal=Refusal.GROUP))},
    )
    .also(
        "authorized",
        set={answer: some(Answer(request=Request.WITH_ID_AND_GROUP, refusal=Refusal.NONE))},
    )
    .table("authorizer.TxnOffsetCommit asks")
    .only_when(
        (authorization.txn_offset_commit.may_write_id == allowed("WRITE", "TRANSACTIONAL_ID"))
        & (authorization.txn_offset_commit.may_read_group == allowed("READ", "GROUP"))
    )
    .also(
        "transactional-id",
        set={answer: some(Answer(request=Request.WITH_ID_AND_GROUP, refusal=Refusal.ID))},
    )
    .also(
        "group",
        set={answer: some(Answer(request=Request.WITH_ID_AND_GROUP, refusal=Refusal.GROUP))},
    )
    .also(
        "authorized",
        set={answer: some(Answer(request=Request.WITH_ID_AND_GROUP, refusal=Refusal.NONE))},
    )
    .table("authorizer.FindCoordinator asks")
    .only_when(
        (authorization.find_coordinator.may_describe_id == allowed("DESCRIBE", "TRANSACTIONAL_ID"))
        & (authorization.find_coordinator.may_describe_group == allowed("DESCRIBE", "GROUP"))
    )
    .also(
        "group", set={answer: some(Answer(request=find_coordinator_request, refusal=Refusal.GROUP))}
    )
    .also(
        "transactional-id",
        set={answer: some(Answer(request=find_coordinator_request, refusal=Refusal.ID))},
    )
    .also(
        "authorized",
        set={answer: some(Answer(request=find_coordinator_request, refusal=Refusal.NONE))},
    )
    .table("authorizer.a group is asked for")
    .only_when(
        (authorization.use_group.may_read_group == allowed("READ", "GROUP"))
        & (authorization.use_group.may_describe_group == allowed("DESCRIBE", "GROUP"))
        & (authorization.use_group.may_delete_group == allowed("DELETE", "GROUP"))
    )
    .also(
        "read",
        "describe",
        "delete",
        set={answer: some(Answer(request=group_request, refusal=Refusal.GROUP))},
    )
    .also("authorized", set={answer: some(Answer(request=group_request, refusal=Refusal.NONE))})
    .table("authorizer.Produce asks")
    .only_when(
        (authorization.produce.may_write_id == allowed("WRITE", "TRANSACTIONAL_ID"))
        & (authorization.produce.may_write_idempotently == allowed("IDEMPOTENT_WRITE", "CLUSTER"))
    )
    .also(
        "transactional-id", set={answer: some(Answer(request=produce_request, refusal=Refusal.ID))}
    )
    .also(
        "idempotent-write",
        set={answer: some(Answer(request=produce_request, refusal=Refusal.CLUSTER))},
    )
    .also("authorized", set={answer: some(Answer(request=produce_request, refusal=Refusal.NONE))})
    .table("authorizer.WriteTxnMarkers asks")
    .only_when(
        (
            authorization.write_txn_markers.may_act_for_cluster
            == allowed("CLUSTER_ACTION", "CLUSTER")
        )
        & (authorization.write_txn_markers.may_alter_cluster == allowed("ALTER", "CLUSTER"))
    )
    .also(
        "cluster-action",
        "cluster-action-or-alter",
        set={answer: some(Answer(request=Request.MARKERS, refusal=Refusal.CLUSTER))},
    )
    .also("authorized", set={answer: some(Answer(request=Request.MARKERS, refusal=Refusal.NONE))})
    .table("authorizer.a topic is asked for")
    .only_when(
        (authorization.use_topic.may_read_topic == allowed("READ", "TOPIC"))
        & (authorization.use_topic.may_write_topic == allowed("WRITE", "TOPIC"))
        & (authorization.use_topic.may_describe_topic == allowed("DESCRIBE", "TOPIC"))
        & (authorization.use_topic.may_delete_topic == allowed("DELETE", "TOPIC"))
    )
    .also(
        "unknown-topic",
        set={answer: some(Answer(request=topic_request, refusal=Refusal.UNKNOWN_TOPIC))},
    )
    .also(
        "read",
        "write",
        "describe",
        "delete",
        set={answer: some(Answer(request=topic_request, refusal=Refusal.TOPIC))},
    )
    .also("authorized", set={answer: some(Answer(request=topic_request, refusal=Refusal.NONE))})
    .table("authorizer.a topic is to be made")
    .only_when(
        (authorization.create_topic.may_create_topic == allowed("CREATE", "TOPIC"))
        & (authorization.create_topic.may_create_any_topic == allowed("CREATE", "CLUSTER"))
    )
    .also(
        "cluster", set={answer: some(Answer(request=Request.CREATE_TOPIC, refusal=Refusal.CLUSTER))}
    )
    .also(
        "cluster-by-metadata",
        "topic",
        set={answer: some(Answer(request=Request.CREATE_TOPIC, refusal=Refusal.TOPIC))},
    )
    .also(
        "authorized", set={answer: some(Answer(request=Request.CREATE_TOPIC, refusal=Refusal.NONE))}
    )
)
"""The ACLs decide the principal's permissions, and the last answer is kept."""

TABLES = (
    *CHANGES,
    authorization.init_asks,
    authorization.add_asks,
    authorization.end_asks,
    authorization.describe_asks,
    authorization.add_offsets_asks,
    authorization.commit_asks,
    authorization.find_asks,
    authorization.group_asks,
    authorization.produce_asks,
    authorization.markers_ask,
    authorization.topic_asks,
    authorization.create_asks,
)
"""Requests of a principal, under a table of ACLs that changes."""
