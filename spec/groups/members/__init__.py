"""A group's members: Kafka's GroupMetadataManager, and the members' poll loop."""
