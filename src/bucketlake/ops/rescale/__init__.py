"""Another number of buckets."""
