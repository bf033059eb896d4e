"""Rows of files into other files, of the same bucket or of others. Nothing is committed here."""
