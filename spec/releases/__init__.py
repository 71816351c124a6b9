"""Kafka's releases: which features each one has, its API versions, and open proposals."""
