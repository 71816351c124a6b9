"""Drift: the rows of the tables that a change of Kafka's sources affects."""
