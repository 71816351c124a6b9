"""How a partition's replicas agree: fetch, high watermark, in-sync set, elections, truncation."""
