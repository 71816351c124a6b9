"""Who is refused, as no member of a group's generation: in bounded runs and at real ranges."""

from __future__ import annotations

from collections.abc import Callable

from ...language import Expression, Row, only
from ..releases.group_features import instances_needed, static_members
from .state import generation, members, static

Refused = Callable[[str, Expression, str], Row]
"""A function that makes a row from its name, its condition and the name of its error."""


def is_member(member: Expression) -> Expression:
    """Whether a member is named, and is one."""
    return member.is_set & member.value.is_in(members)


def refusals(is_one: Expression, named: Expression, refused: Refused) -> tuple[Row, Row]:
    """The rows for who `is_one` not, a member, and for a generation that is named and isn't this
    one."""
    return (
        refused("unknown member", ~is_one, "UNKNOWN_MEMBER_ID"),
        refused("another generation", named != generation, "ILLEGAL_GENERATION"),
    )


def is_held(instance: Expression) -> Expression:
    """Whether a member has this instance id."""
    holder = static[instance.value]
    return instance.is_set & holder.is_set & holder.value.is_in(members)


def refused_instances(
    member: Expression, instance: Expression, refused: Refused,
    needed: Expression = instances_needed,
) -> tuple[Row, ...]:  # fmt: skip
    """The rows for who names an instance id that another member has, or (where it is `needed`)
    nobody has. Only real ranges have them."""
    is_other = is_held(instance) & (static[instance.value] != member)
    is_free = instance.is_set & ~is_held(instance)
    return (
        *only(static_members, refused("fenced instance", is_other, "FENCED_INSTANCE_ID")),
        *only(needed, refused("unknown instance", is_free, "UNKNOWN_MEMBER_ID")),
    )
