"""What happens to a table: scan, read, write, commit. Runs in a plain Python process; Spark only distributes it."""
