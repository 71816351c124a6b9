"""Recorded histories and brokers' files of any size, judged on Spark."""
