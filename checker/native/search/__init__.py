"""The search: levels, workers, checkpoints, and passes over the states that were found."""
