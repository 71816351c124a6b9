"""Machine code, and its cache on disk."""
