"""The layouts of Kafka's records on disk."""
