"""The producer: what it knows, its calls, its requests, its batches."""
