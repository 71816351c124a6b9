"""Results as text, JSON, SARIF, JUnit XML and Arrow tables."""
