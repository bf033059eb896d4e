"""Merge engines: what becomes of the rows of one key."""
