"""From a producer's send to a consumer's processing, over a partition that is replicated."""
