"""The producer: its state, its calls, its requests, its batches."""
