"""What the documents say, checked against the code."""
