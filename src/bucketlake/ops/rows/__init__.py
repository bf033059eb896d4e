"""Rows of one task: in, spilled, assigned, rolled into files, read again, looked up."""
