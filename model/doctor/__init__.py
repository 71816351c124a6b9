"""Looks at a cluster, or at its files, for transactions that hang, and says why and what helps."""
