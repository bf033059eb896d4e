"""The schema of a table: what it is, may be, becomes, and how files of older ones are read."""
