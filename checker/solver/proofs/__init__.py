"""The page of proofs, its overview, and the digests of proofs."""
