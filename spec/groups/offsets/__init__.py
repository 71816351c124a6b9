"""A group's offsets: Kafka's OffsetMetadataManager."""
