"""Rows of keys: a table looked up, as a stream is enriched with it."""
