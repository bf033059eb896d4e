"""Rows of append tables in another order: curves, sorting in bounded memory, ranges, sort compaction, clustering."""
