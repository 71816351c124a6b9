"""The transaction log and the ids in memory: Kafka's TransactionStateManager."""
