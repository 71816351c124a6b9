"""Recorded histories: is there an order that explains them?"""
