"""Deterministic simulation: storage that fails where told, a clock that does not wait, threads that take turns."""
