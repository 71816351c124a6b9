"""A group whose members ask for anything, at any time: the requests of a driven group with what is
looked at when they are answered.

Nobody knows of a member id, or of a generation, that the coordinator hasn't given out. All else of
a request is free: it may be late, of a member that is gone, or of one that goes by another's
instance id. A member id is given out once.
"""

from __future__ import annotations

from ...language import (
    Bool,
    Expression,
    Machine,
    Row,
    Set,
    Table,
    set_of,
)
from ..errors import Errors
from ..messages import PRODUCER
from . import commits, requests
from .joined import Updates, joined
from .state import (
    GENERATIONS,
    generation,
    has_member,
    has_static_member,
    have_instances,
    is_known,
    leader,
    members,
    promised,
    static,
)

answers = Machine("group_answers", doc="Ids that were given out, and wrong answers so far.")
used = answers.field("used", Set(PRODUCER), doc="Member ids that were given out.")
fenced = answers.field(
    "fenced", Set(PRODUCER), doc="Whose instance id another member has taken over."
)
commit_of_none = answers.field(
    "commit_of_none", Bool(), doc="A client outside of the generation may commit, although the "
        "group has members.",
)  # fmt: skip
fenced_answer = answers.field("fenced_answer", Bool(), doc="A fenced member got another answer.")
other_answer = answers.field(
    "other_answer", Bool(), doc="A client outside of the generation got NONE."
)
commit_unassigned = answers.field(
    "commit_unassigned", Bool(), doc="A member may commit while all await their assignment."
)


_FENCED = "fenced_answer"


def _error(row: Row) -> Expression:
    """What its answer says."""
    if isinstance(row.reply, Expression):
        return row.reply
    assert row.reply is not None
    return dict(row.reply.fields)["error"]


def _shows(row: Row, what: str) -> bool:
    """Whether the answer may show the mistake: no error, except where FENCED_INSTANCE_ID is due."""
    if what == _FENCED:
        return not _error(row).same_as(Errors.FENCED_INSTANCE_ID)
    return _error(row).same_as(Errors.NONE)


def _watched(table: Table, when: Expression, **looked_at: Expression) -> Table:
    """The table as long as its request names what was given out (`when`); its answers are looked
    at."""
    fields = {name: answers.fields[name].expression for name in looked_at}
    updates: dict[str, Updates] = {
        row.id: {
            fields[what]: fields[what] | wrong
            for what, wrong in looked_at.items()
            if _shows(row, what)
        }
        for row in table.rows
    }
    return joined(table, answers, when=when, updates=updates)


def _is_given(member: Expression) -> Expression:
    return ~member.is_set | member.value.is_in(used)


# JoinGroup ------------------------------------------------------------------------------------

_join = requests.join
_old = static[_join.instance.value]
_GIVEN: Updates = {used: used | set_of(_join.new_member)}
_TAKEN_OVER: Updates = {**_GIVEN, fenced: fenced | set_of(_old.value)}
join_group = joined(
    requests.join_group,
    answers,
    when=~_join.new_member.is_in(used) & _is_given(_join.member),
    updates={
        "static-member-replaced": _TAKEN_OVER,
        "static-member-rejoins": _TAKEN_OVER,
        "new-static-member": _GIVEN,
        "member-id-required": _GIVEN,
        "new-member": _GIVEN,
    },
)
join_completed = joined(requests.join_completed, when=generation < GENERATIONS)

# The others -----------------------------------------------------------------------------------


def _is_no_member(member: Expression, named: Expression) -> Expression:
    return ~has_member(member) | (named != generation)


def _is_fenced(member: Expression, instance: Expression) -> Expression:
    """A client that names an instance id that another member has."""
    return member.is_set & member.value.is_in(fenced) & has_static_member(instance)


_sync, _beat, _leave = requests.sync, requests.beat, requests.leave
_commit, _txn = commits.commit, commits.commit_in_transaction
sync_group = _watched(
    requests.sync_group,
    _is_given(_sync.member) & (_sync.generation <= generation),
    other_answer=_is_no_member(_sync.member, _sync.generation),
    fenced_answer=_is_fenced(_sync.member, _sync.instance),
)
heartbeat = _watched(
    requests.heartbeat,
    _is_given(_beat.member) & (_beat.generation <= generation),
    other_answer=_is_no_member(_beat.member, _beat.generation),
    fenced_answer=_is_fenced(_beat.member, _beat.instance),
)
leave_group = _watched(
    requests.leave_group,
    _is_given(_leave.member),
    fenced_answer=_is_fenced(_leave.member, _leave.instance),
)
offset_commit = _watched(
    commits.offset_commit,
    _is_given(_commit.member) & (_commit.generation <= generation),
    commit_of_none=_is_no_member(_commit.member, _commit.generation) & (members != set_of()),
    fenced_answer=_is_fenced(_commit.member, _commit.instance),
    commit_unassigned=requests.status == requests.COMPLETING,
)
txn_offset_commit = _watched(
    commits.txn_offset_commit,
    _is_given(_txn.member) & (_txn.generation <= generation),
    commit_of_none=commits.names_member_or_generation
    & _is_no_member(_txn.member, _txn.generation)
    & (members != set_of()),
    fenced_answer=_is_fenced(_txn.member, _txn.instance),
)

TABLES = (
    requests.group_status_validated,
    join_group,
    join_completed,
    requests.member_expires,
    sync_group,
    heartbeat,
    leave_group,
    offset_commit,
    txn_offset_commit,
    commits.delete_group,
)
REAL_FIELDS = (
    is_known, requests.status, leader, promised, requests.joined, static, have_instances,
)  # fmt: skip
