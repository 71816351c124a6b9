"""Kafka's own classes take the steps of a machine, in process, and the results are compared."""
