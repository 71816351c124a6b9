"""Partitions with their replicas: of the clients' records, and of the transaction log."""
