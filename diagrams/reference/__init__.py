"""Generated reference pages: errors, and who is affected by a bug."""
