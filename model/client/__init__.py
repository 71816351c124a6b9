"""The producer that users drive, and its settings."""
