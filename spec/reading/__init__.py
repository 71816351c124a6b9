"""A read_committed reader of a partition that is replicated, and whose log is compacted."""
