"""The visited set: packed states, whole or by their parts, in memory or on disk."""
