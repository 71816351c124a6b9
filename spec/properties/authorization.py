"""Properties of authorization under a table of ACLs that changes."""

from __future__ import annotations

from ...language import Expression, failure, if_, invariant
from ...language.expressions import any_true
from ..access.acl_table import LINES, Refusal, Request, answer, has, is_super
from ..access.authorization import (
    create_by_topic,
    idempotent_by_topic,
    markers_by_admins,
    unauthorized_error,
)

(
    _write, _no_write, _all_topics, _no_prefix, _other_topic, _read, _delete, _create, _id, _no_id,
    _two_phases, _read_group, _delete_group, _idempotent, _create_any, _cluster_action, _alter,
) = map(has, LINES)  # fmt: skip
_request, _refusal = answer.value.request, answer.value.refusal
_NONE = Refusal.NONE


def _is_one(*requests: Expression) -> Expression:
    return any_true(*(_request == request for request in requests))


def _let(*requests: Expression) -> Expression:
    """Whether one of these requests was let through, of who isn't let through anyway."""
    return answer.is_set & ~is_super & _is_one(*requests) & (_refusal == _NONE)


def _refused(*requests: Expression) -> Expression:
    return answer.is_set & _is_one(*requests) & (_refusal != _NONE)


_OF_TOPICS = (
    Request.READ_TOPIC,
    Request.WRITE_TOPIC,
    Request.DESCRIBE_TOPIC,
    Request.DELETE_TOPIC,
)
_OF_IDS = (Request.INIT_WITH_ID, Request.WITH_ID, Request.DESCRIBE_ID)
_OF_GROUPS = (Request.JOIN_GROUP, Request.DESCRIBE_GROUP, Request.DELETE_GROUP)
_OF_CLUSTER = (
    Request.INIT_WITHOUT_ID,
    Request.IDEMPOTENT,
    Request.OF_BROKER,
    Request.MARKERS,
)
_AUTHORIZE = "AclAuthorizer.authorizeAction, StandardAuthorizerData.authorize"

deny_first = invariant(
    "DenyBeatsAllow",
    ~(_let(*_OF_TOPICS) & _no_prefix)
    & ~(_let(Request.WRITE_TOPIC) & _no_write)
    & ~(_let(*_OF_IDS, Request.WITH_ID_AND_GROUP) & _no_id),
    "If an ACL denies an operation, it is refused, whatever another ACL allows.",
    _AUTHORIZE,
    failure=failure("{} gets {}, and an ACL denies it", _request, _refusal),
)
allowed_first = invariant(
    "NobodyWithoutAllow",
    _let(Request.WRITE_TOPIC).implies(_write | _all_topics)
    & _let(Request.READ_TOPIC).implies(_read | _all_topics)
    & _let(Request.DELETE_TOPIC).implies(_delete | _all_topics)
    & _let(Request.DESCRIBE_TOPIC).implies(_write | _read | _delete | _all_topics)
    & _let(Request.CREATE_TOPIC).implies(
        if_(create_by_topic, _create | _create_any | _all_topics, _create_any)
    )
    & _let(*_OF_IDS, Request.WITH_ID_AND_GROUP).implies(_id)
    & _let(Request.JOIN_GROUP, Request.WITH_ID_AND_GROUP).implies(_read_group)
    & _let(Request.DELETE_GROUP).implies(_delete_group)
    & _let(Request.DESCRIBE_GROUP).implies(_read_group | _delete_group)
    & _let(Request.OF_BROKER).implies(_cluster_action)
    & _let(Request.MARKERS).implies(
        if_(markers_by_admins, _cluster_action | _alter, _cluster_action)
    ),
    "Only an ACL lets a principal through that is no super user.",
    _AUTHORIZE,
    failure=failure("{} gets {}, and no ACL allows it", _request, _refusal),
)
super_users = invariant(
    "SuperUsersMay",
    ~(is_super & answer.is_set & (_refusal != _NONE)),
    "No request of a super user is refused.",
    "AclAuthorizer.isSuperUser, StandardAuthorizerData.authorize",
    failure=failure("{} gets {}, although it is a super user's", _request, _refusal),
)
none_refused = invariant(
    "AllowedIsLetThrough",
    ~(_refused(Request.WRITE_TOPIC) & (_write | _all_topics) & ~_no_write & ~_no_prefix)
    & ~(_refused(Request.READ_TOPIC) & (_read | _all_topics) & ~_no_prefix)
    & ~(_refused(Request.DELETE_TOPIC) & (_delete | _all_topics) & ~_no_prefix)
    & ~(
        _refused(Request.CREATE_TOPIC)
        & if_(create_by_topic, _create_any | (_create & ~_no_prefix), _create_any)
    )
    & ~(_refused(Request.WITH_ID, Request.DESCRIBE_ID) & _id & ~_no_id)
    & ~(_refused(Request.WITH_ID_AND_GROUP) & _id & _read_group & ~_no_id)
    & ~(_refused(Request.JOIN_GROUP) & _read_group)
    & ~(_refused(Request.DELETE_GROUP) & _delete_group)
    & ~(_refused(Request.DESCRIBE_GROUP) & (_read_group | _delete_group))
    & ~(_refused(Request.OF_BROKER, Request.MARKERS) & _cluster_action)
    & ~if_(markers_by_admins, _refused(Request.MARKERS) & _alter, False)
    & ~_refused(Request.PRODUCE),
    "If an ACL allows what a request needs, and none denies it, the request is accepted.",
    _AUTHORIZE,
    failure=failure("{} gets {}, although an ACL allows it and none denies it", _request, _refusal),
)
by_topic = (_write | _all_topics | _other_topic) & ~_no_write & ~_no_prefix
idempotent_by = invariant(
    "IdempotentByTopic",
    ~(
        _refused(Request.INIT_WITHOUT_ID, Request.IDEMPOTENT)
        & if_(idempotent_by_topic, _idempotent | by_topic, _idempotent)
    )
    & _let(Request.INIT_WITHOUT_ID).implies(
        if_(idempotent_by_topic, _idempotent | _write | _all_topics | _other_topic, _idempotent)
    )
    & ~if_(idempotent_by_topic, _refused(Request.IDEMPOTENT), False),
    "From 2.8 on, WRITE on any topic is enough for a producer id. Before, it takes "
    "IDEMPOTENT_WRITE on the cluster.",
    "KIP-679, AclAuthorizer.authorizeByResourceType",
    failure=failure("{} gets {}, by the wrong ACL", _request, _refusal),
)
error_of_resource = invariant(
    "ErrorOfResource",
    _refused(*_OF_TOPICS).implies(
        if_(
            unauthorized_error,
            _refusal == Refusal.TOPIC,
            _refusal.is_in(Refusal.TOPIC, Refusal.UNKNOWN_TOPIC),
        )
    )
    & _refused(*_OF_IDS).implies(_refusal == Refusal.ID)
    & _refused(*_OF_GROUPS).implies(_refusal == Refusal.GROUP)
    & _refused(*_OF_CLUSTER).implies(_refusal == Refusal.CLUSTER)
    & _refused(Request.WITH_ID_AND_GROUP).implies(
        if_(is_super | (_id & ~_no_id), _refusal == Refusal.GROUP, _refusal == Refusal.ID)
    )
    & _refused(Request.CREATE_TOPIC).implies(
        if_(
            create_by_topic,
            _refusal == Refusal.TOPIC,
            _refusal.is_in(Refusal.TOPIC, Refusal.CLUSTER),
        )
    ),
    "The error of a refused request names the resource. Before 1.0, a topic that the principal "
    "may not describe was unknown.",
    "KafkaApis, KAFKA-5547",
    failure=failure("{} gets {}, the error of another resource", _request, _refusal),
)

PROPERTIES = (
    deny_first, allowed_first, super_users, none_refused, idempotent_by, error_of_resource,
)  # fmt: skip
