"""Structured Streaming: queries that read and write tables."""
