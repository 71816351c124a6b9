"""A system's state diagrams as one HTML file, in levels: states, rows of an edge, a row."""
