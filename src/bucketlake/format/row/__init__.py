"""BinaryRow: the bytes that partitions, keys, statistics and bucket hashes are made of."""
