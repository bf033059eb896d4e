"""Aggregate functions: one vectorised function a name."""
