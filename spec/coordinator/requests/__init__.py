"""Requests of clients and leaders: Kafka's TransactionCoordinator."""
