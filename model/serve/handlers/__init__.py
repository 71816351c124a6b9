"""Answers requests about topics and logs, transactions, groups and their offsets."""
