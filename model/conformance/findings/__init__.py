"""Findings that run: on real brokers, by requests and by Kafka's own client behind a proxy."""
