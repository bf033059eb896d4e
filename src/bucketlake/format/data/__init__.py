"""Data files of every format: one writer, one reader, and what a written file is known by."""
