"""Shipped systems, each without the row that keeps one of the rules for clients."""

from epochfence.language import Change
from epochfence.spec.systems import shipped

end_behind_batches = shipped("transactions") + Change(
    "end-behind-batches", "The client ends a transaction ahead of its batches."
).table("producer.commitTransaction").without("wait-for-batches")

find_the_coordinator_again = shipped("transactions") + Change(
    "find-the-coordinator-again", "The client takes a coordinator that loads for an error."
).table("producer.EndTxnResponse").without("retry")

same_batch_again = shipped("idempotence") + Change(
    "same-batch-again", "The client gives a repeated batch another sequence."
).table("producer.drain").without("again")

filter_by_ranges = shipped("reading") + Change(
    "filter-by-ranges", "The reader delivers the records of aborted transactions."
).table("fetcher.next batch").without("aborted-batch")
