"""One bucket's LSM tree against plain Python models."""
