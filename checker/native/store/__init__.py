"""The visited set: packed states, whole or cut into shared parts, in memory or on disk."""
