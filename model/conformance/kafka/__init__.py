"""Kafka's own brokers, started from Maven."""
