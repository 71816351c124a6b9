"""Injected faults: their declaration, and their effect on requests and the cluster."""
