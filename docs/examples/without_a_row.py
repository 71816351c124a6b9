"""Idempotent producers on a leader that lacks one row: it appends a batch out of order."""

from epochfence.language import Change
from epochfence.spec.systems import shipped

system = shipped("idempotence") + Change(
    "without-a-row", "The leader appends a batch that is out of order."
).table("partition.Produce").without("out-of-order")
