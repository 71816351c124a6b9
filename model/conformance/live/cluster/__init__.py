"""A cluster of real brokers: its topics, settings, epochs and permissions."""
