"""A transaction coordinator: its entries, its log, and its markers."""
