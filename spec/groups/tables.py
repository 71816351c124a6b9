"""The tables of a group's coordinator that is driven at real ranges: of a group, and of a partition
that it has offsets of."""

from __future__ import annotations

from . import commits, requests

DRIVEN = (*requests.TABLES, *commits.MEMBERS_TABLES)
DRIVEN_OFFSETS = commits.OFFSETS_TABLES
