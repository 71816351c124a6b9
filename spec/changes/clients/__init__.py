"""Client libraries with rules of their own, and parts of the client that systems leave out."""
