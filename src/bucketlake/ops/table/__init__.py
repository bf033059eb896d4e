"""What every room knows of a table: its files as values, messages, entries, partitions."""
