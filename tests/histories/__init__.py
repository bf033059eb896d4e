"""Random histories of a table and what it must hold after them: shared by tests with Spark, without, and with peers."""
