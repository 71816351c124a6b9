"""Brokers with rules of their own, and parts of brokers that shipped systems leave out."""
