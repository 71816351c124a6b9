"""Sequence charts of traces: the messages with senders and receivers, the times at which they were
taken, and the changes."""
