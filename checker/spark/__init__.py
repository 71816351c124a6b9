"""Exploration on Apache Spark: shards on many machines, levels on durable storage."""
