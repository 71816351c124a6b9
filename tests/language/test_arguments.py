"""Which name was meant by a misspelt one."""

from __future__ import annotations

import pytest

from epochfence.language.declaration.arguments import nearest
from epochfence.spec.bugs import BUGS
from epochfence.spec.systems import SHIPPED, shipped

BUG_NAMES = [bug.id for bug in BUGS]
RELEASES = shipped("transactions").protocols.releases
PROPERTIES = [item.name for item in shipped("transactions").properties]


@pytest.mark.parametrize(
    ("written", "known", "expected"),
    [
        ("KAFKA-14042", BUG_NAMES, "KAFKA-14402"),
        ("kafka 14402", BUG_NAMES, "KAFKA-14402"),
        ("14402", BUG_NAMES, "KAFKA-14402"),
        ("KAFKA-144", BUG_NAMES, "KAFKA-14402"),
        ("franz-go-6ecd", BUG_NAMES, "franz-go-6ecd2f9f"),
        ("transaction", SHIPPED, "transactions"),
        ("NoDuplicat", PROPERTIES, "NoDuplicate"),
        ("Hanging", PROPERTIES, "NoHangingTransaction"),
    ],
)
def test_a_name_that_is_misspelt_or_cut_short(
    written: str, known: list[str], expected: str
) -> None:
    assert nearest(written, known) == expected


@pytest.mark.parametrize(
    ("written", "known"),
    [
        *((name, BUG_NAMES) for name in ("KAFKA-1", "KAFKA-8352", "KAFKA", "redpanda", "KIP-1")),
        ("librdkafka-1.8.0", BUG_NAMES),
        *((name, RELEASES) for name in ("4.9", "4.41", "5.0", "0.10")),
        ("client2", ["client0", "client1"]),
        ("xyz", PROPERTIES),
    ],
)
def test_a_name_of_something_else(written: str, known: list[str]) -> None:
    """Another number is another bug, another release, another instance."""
    assert nearest(written, known) is None
