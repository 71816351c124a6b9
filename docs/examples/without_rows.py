"""Shipped systems, each without the row that keeps one of the rules for clients."""

from epochfence.model.serve.rules.book import system_without

end_behind_batches = system_without("end-behind-batches")
find_the_coordinator_again = system_without("find-the-coordinator-again")
same_batch_again = system_without("same-batch-again")
filter_by_ranges = system_without("filter-by-ranges")
