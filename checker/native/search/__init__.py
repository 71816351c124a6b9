"""The search: levels, workers, checkpoints, and passes over the found states."""
