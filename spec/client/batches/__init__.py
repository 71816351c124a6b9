"""A client's batches: Kafka's RecordAccumulator and Sender."""
