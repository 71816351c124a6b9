"""A client's transactions: Kafka's TransactionManager, its requests and their answers."""
