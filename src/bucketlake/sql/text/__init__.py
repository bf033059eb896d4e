"""Statements as text and tokens: cut as Spark cuts them, read to their end, spliced."""
