"""Reading a table as a stream: where a reader stands, what comes next, and what a batch holds."""
