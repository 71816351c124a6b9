"""Finds hanging transactions in a cluster or in its files, with their causes and remedies."""
