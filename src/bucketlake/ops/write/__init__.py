"""The write path of one task."""
