"""The tables of a leader that is driven at real ranges, in one tuple."""

from __future__ import annotations

from .markers import write_markers
from .produce import produce
from .recovery import producer_expires, question_expires, records_deleted
from .verification import verified

DRIVEN = (produce, verified, write_markers, producer_expires, question_expires, records_deleted)
