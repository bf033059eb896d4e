"""MERGE INTO: rows of a table and of a source, and what becomes of them."""
