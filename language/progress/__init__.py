"""Progress: fairness of events, and rankings that prove it."""
