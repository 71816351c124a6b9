"""A real broker beside the oracle: asked over its own protocol, and held to what is allowed.

Needs the extra `broker`, as `model.records` does.
"""
