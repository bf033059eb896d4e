"""Where every key of a cross-partition table lies."""
