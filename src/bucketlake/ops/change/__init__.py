"""Deleting and updating rows."""
