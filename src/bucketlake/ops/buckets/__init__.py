"""Which bucket a row gets where its number is not fixed: dynamic and postponed buckets, and tasks for buckets."""
