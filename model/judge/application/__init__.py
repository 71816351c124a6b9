"""Histories of applications: results of producers against reads of consumers."""
