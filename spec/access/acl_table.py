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
    Event,
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
from ...language.expressions import Operand, all_true, any_true
from ..messages import Errors
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
_REFUSALS = {
    "NONE": Refusal.NONE,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": Refusal.ID,
    "CLUSTER_AUTHORIZATION_FAILED": Refusal.CLUSTER,
    "GROUP_AUTHORIZATION_FAILED": Refusal.GROUP,
    "TOPIC_AUTHORIZATION_FAILED": Refusal.TOPIC,
    "UNKNOWN_TOPIC_OR_PARTITION": Refusal.UNKNOWN_TOPIC,
}
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

_needs = {
    "PREFIXED": authorization.prefixed_acls,
    "TWO_PHASE_COMMIT": authorization.two_phase_commit_acl,
}
add = event("create an ACL", line=LINE)
_is_known = all_true(
    *(
        (add.line != at) | feature
        for at, line in enumerate(LINES)
        for said, feature in _needs.items()
        if said in (line.pattern, line.operation)
    )
)
remove = event("delete an ACL", line=LINE)
change_super = event("super.users changes")
CHANGES = (
    Table(
        table,
        on=add,
        when=(size(lines) < ACLS) & ~add.line.is_in(lines) & _is_known,
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


def _as_allowed(on: Event) -> Iterator[Expression]:
    for name, _ in on.parameters:
        if name in authorization.CHECKS:
            yield getattr(on, name) == allowed(*authorization.CHECKS[name])
        elif name == authorization.ANY_TOPIC:
            yield getattr(on, name) == allowed_any("WRITE", "TOPIC")


def _answer(row: Row, request: Expression) -> Expression:
    error = row.reply
    assert isinstance(error, Expression)
    (refusal,) = (to for said, to in _REFUSALS.items() if error.same_as(getattr(Errors, said)))
    return Answer(request=request, refusal=refusal)


_init, _add = authorization.init_asks.on, authorization.add_asks.on
_produce = authorization.produce_asks.on
_use, _group_use = authorization.topic_asks.on.use, authorization.group_asks.on.use
_Use, _GroupUse = authorization.TopicUse, authorization.GroupUse
REQUESTS: tuple[tuple[Table, Operand], ...] = (
    (authorization.init_asks, if_(_init.has_id, Request.INIT_WITH_ID, Request.INIT_WITHOUT_ID)),
    (authorization.add_asks, if_(_add.from_broker, Request.OF_BROKER, Request.WITH_ID)),
    (authorization.end_asks, Request.WITH_ID),
    (authorization.describe_asks, Request.DESCRIBE_ID),
    (authorization.add_offsets_asks, Request.WITH_ID_AND_GROUP),
    (authorization.commit_asks, Request.WITH_ID_AND_GROUP),
    (
        authorization.find_asks,
        if_(authorization.find_asks.on.of_group, Request.DESCRIBE_GROUP, Request.DESCRIBE_ID),
    ),
    (
        authorization.group_asks,
        if_(
            _group_use == _GroupUse.READ,
            Request.JOIN_GROUP,
            if_(_group_use == _GroupUse.DELETE, Request.DELETE_GROUP, Request.DESCRIBE_GROUP),
        ),
    ),
    (
        authorization.produce_asks,
        if_(
            _produce.transactional,
            Request.WITH_ID,
            if_(_produce.idempotent, Request.IDEMPOTENT, Request.PRODUCE),
        ),
    ),
    (authorization.markers_ask, Request.MARKERS),
    (
        authorization.topic_asks,
        if_(
            _use == _Use.READ,
            Request.READ_TOPIC,
            if_(
                _use == _Use.WRITE,
                Request.WRITE_TOPIC,
                if_(_use == _Use.DELETE, Request.DELETE_TOPIC, Request.DESCRIBE_TOPIC),
            ),
        ),
    ),
    (authorization.create_asks, Request.CREATE_TOPIC),
)
"""Each table, with the kind of its request."""


def _decisions() -> Change:
    """The ACLs decide the principal's permissions, and the last answer is kept."""
    change = Change("acls", "The table of ACLs decides.", machines=(table,))
    for asked, request in REQUESTS:
        change = change.table(asked.name).only_when(all_true(*_as_allowed(asked.on)))
        for row in asked.rows:
            change = change.also(row.id, set={answer: some(_answer(row, lift(request)))})
    return change


decisions = _decisions()
TABLES = (*CHANGES, *(asked for asked, _ in REQUESTS))
