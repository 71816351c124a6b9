"""The system `authorization`: what its rows protect, and that ACLs are read as an authorizer reads
them."""

from __future__ import annotations

from typing import Any

import pytest

from epochfence.checker.check import Options, check
from epochfence.checker.verdict.result import Verdict
from epochfence.language import instantiate, some
from epochfence.spec.access import acl_table
from epochfence.spec.access.acls import Acl, Acls
from epochfence.spec.systems import shipped
from epochfence.tests.spec.alterations import altered
from epochfence.tests.spec.differing import differing

SYSTEM = shipped("authorization")
TOPIC, GROUP = "authorizer.a topic is asked for", "authorizer.a group is asked for"
INIT = "authorizer.InitProducerId asks"


@pytest.mark.slow(3)
@pytest.mark.long
@pytest.mark.parametrize("release", differing(SYSTEM))
def test_it_holds_and_every_row_is_taken(release: str) -> None:
    result = check(instantiate(SYSTEM, release), Options())
    assert (result.verdict, result.unexplained) == (Verdict.HOLDS, [])


_OF_TOPIC = acl_table.Answer(
    request=acl_table.Request.DELETE_GROUP, refusal=acl_table.Refusal.TOPIC
)
CHANGES: list[tuple[str, str, dict[str, Any], str]] = [
    (TOPIC, "write", {"when": False}, "DenyBeatsAllow"),
    (TOPIC, "read", {"when": False}, "NobodyWithoutAllow"),
    (
        "authorizer.WriteTxnMarkers asks",
        "cluster-action-or-alter",
        {"when": False},
        "NobodyWithoutAllow",
    ),
    ("authorizer.EndTxn asks", "transactional-id", {"when": True}, "SuperUsersMay"),
    (GROUP, "read", {"when": True}, "AllowedIsLetThrough"),
    (INIT, "idempotent-write-or-any-topic", {"when": False}, "IdempotentByTopic"),
    (GROUP, "delete", {"updates": {acl_table.answer: some(_OF_TOPIC)}}, "ErrorOfResource"),
]


@pytest.mark.slow(3)
@pytest.mark.long
@pytest.mark.parametrize(("table", "row", "change", "name"), CHANGES)
def test_what_protects_the_properties(
    table: str, row: str, change: dict[str, Any], name: str
) -> None:
    without = altered(SYSTEM, table=table, row=row, **change)
    result = check(instantiate(without, "4.3", properties=(name,)), Options(brief=True))
    assert result.verdict is Verdict.BROKEN


class _NoDeny(Acls):
    """An authorizer that takes no notice of what is denied."""

    def allow(self, principal: str, operation: str, resource: str, name: str) -> bool:
        """Whether some line allows it."""
        lines = tuple(acl for acl in self.lines if acl.permission == "ALLOW")
        return Acls(lines).allow(principal, operation, resource, name)


def test_an_authorizer_that_passes_over_denials_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is read by `acls`, so that a fault there shows in the system."""
    right = acl_table.allowed("WRITE", "TOPIC")
    monkeypatch.setattr(acl_table, "Acls", _NoDeny)
    assert not acl_table.allowed("WRITE", "TOPIC").same_as(right)


def test_every_line_says_something_of_its_own() -> None:
    assert len({*acl_table.LINES}) == len(acl_table.LINES)
    for line in acl_table.LINES:
        assert isinstance(line, Acl)
        assert line.resource in acl_table.NAMES
