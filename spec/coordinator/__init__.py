"""The transaction coordinator: the entry of a transactional id, its log and its markers."""
