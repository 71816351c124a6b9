"""The tables of a leader that is driven at real ranges, in one tuple."""

from __future__ import annotations

from .markers import write_markers
from .produce import produce, verified
from .recovery import producer_expires, question_expires, records_deleted

DRIVEN = (produce, verified, write_markers, producer_expires, question_expires, records_deleted)
