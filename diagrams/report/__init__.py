"""The result of a check as one HTML file that needs no network."""
