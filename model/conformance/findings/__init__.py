"""Reproductions of findings on real brokers, with requests and with Kafka's own client behind a
proxy."""
