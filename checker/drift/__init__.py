"""Drift: which rows of the tables a change of Kafka's sources concerns."""
