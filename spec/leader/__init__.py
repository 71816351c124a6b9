"""The leader of a partition: its producer states, its markers, what readers see."""
