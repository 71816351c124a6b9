"""Answers to requests: topics and logs, transactions, groups and their offsets."""
