"""Commands that check, prove and compare systems, and read counterexamples."""
