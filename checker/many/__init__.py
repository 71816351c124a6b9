"""Many runs: sweeps, matrices, workers, and comparisons between runs."""
