"""Maintenance as Spark tasks."""
