"""The oracle beside a system under test: requests, allowed answers, smallest disagreements."""
