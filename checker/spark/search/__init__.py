"""Breadth-first search by shards on Spark's executors."""
