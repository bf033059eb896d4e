"""Whether a table is whole, what is to be done where it is not, what it holds, and what would make it better."""
