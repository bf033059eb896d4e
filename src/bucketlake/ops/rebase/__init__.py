"""Writes that lost to another commit: their rows moved to where they belong now."""
