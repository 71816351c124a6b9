"""Properties of transactions."""
