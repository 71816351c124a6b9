"""Why properties hold: invariants of no interest by themselves, that proofs use."""
