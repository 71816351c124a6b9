"""The rules for clients, and the suite that tests a client on each rule."""
