"""The rules for clients, and the suite that tries a client on each of them."""
