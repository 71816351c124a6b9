"""Commands that check, prove and compare systems, and that read counterexamples."""
