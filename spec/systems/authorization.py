"""Requests of a principal, under a table of ACLs that changes."""

from __future__ import annotations

import dataclasses

from ...language import System, Unreached
from ..access import acl_table
from ..access.authorization import AUTHORIZERS, unauthorized_error
from ..properties.authorization import PROPERTIES
from .reductions.access import AUTHORIZER

base = System(
    name="authorization",
    doc="A broker that is asked for anything by a principal, while ACLs are created and deleted.",
    tables=acl_table.TABLES,
    reductions=AUTHORIZER,
    properties=(),
    constants=(acl_table.ACLS,),
    protocols=AUTHORIZERS,
    terminal=True,
    reach="every table of at most two of 17 ACLs, that allow and deny, of a name, of a prefix and "
    "of all names, and every request under each of them, of a super user as well. They don't reach "
    "a third ACL (acls=3), a second principal, or allow.everyone.if.no.acl.found.",
)
"""The ACLs and the broker, which doesn't look at them."""

system = dataclasses.replace(
    base + acl_table.decisions,
    name=base.name,
    doc=base.doc,
    properties=PROPERTIES,
    unreached=(
        Unreached(
            "impossible: before 1.0 a topic that one may not describe is called unknown",
            ("authorizer.a topic is asked for/describe",),
            ~unauthorized_error,
        ),
    ),
)
