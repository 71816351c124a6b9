"""The leader of a partition: its producer states, its markers, the reader's view."""
