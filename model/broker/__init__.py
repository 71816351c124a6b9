"""The machines of a broker that users drive."""
