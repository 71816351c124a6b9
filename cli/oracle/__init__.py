"""Commands that use the oracle: conform, serve, proxy, judge, decode, vectors, config."""
