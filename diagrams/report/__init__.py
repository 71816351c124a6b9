"""What a check came to, as one HTML file that needs no network."""
