"""Compaction: of a bucket, of append files, of pending rows; planned, run, committed."""
