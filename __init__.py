"""Epochfence: Kafka's exactly-once protocol as tables that run, are checked and are proved."""
