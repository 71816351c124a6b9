"""Judges recorded histories: whether some order of the operations explains the answers."""
