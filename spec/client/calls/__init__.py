"""The calls of an application to its producer."""
