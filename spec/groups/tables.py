"""The tables of a group's coordinator that is driven at real ranges: of a group, and of a partition
that it has offsets of."""

from __future__ import annotations

from .members import classic_group
from .offsets import offset_metadata

DRIVEN = (*classic_group.TABLES, *offset_metadata.MEMBERS_TABLES)
DRIVEN_OFFSETS = offset_metadata.OFFSETS_TABLES
