"""A table with each fault that a check knows."""
