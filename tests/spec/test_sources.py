"""Each row of a shipped system names the code or the document that it follows."""

from __future__ import annotations

import re

from epochfence.spec.systems import SHIPPED, shipped

SOURCE = re.compile(r"\w+\.\w+|KIP-\d+|KAFKA-\d+|\w+/[\w-]+")
"""A method, a proposal, a ticket, or a commit of another implementation."""


def test_every_row_names_a_method_a_proposal_or_a_ticket() -> None:
    rows = {
        f"{table.name}/{row.id}": row.source
        for name in SHIPPED
        for table in shipped(name).tables
        for row in table.rows
    }
    assert [label for label, source in rows.items() if not SOURCE.search(source)] == []
