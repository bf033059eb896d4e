"""A grammar of Spark queries and of changes, and what runs them over lake tables and over Spark's own."""
