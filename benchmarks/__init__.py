"""Measurements against the floors of the same run: `python -m benchmarks.run --scale 1`."""
