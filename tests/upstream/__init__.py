"""Apache Paimon's own Spark tests, read from a checkout and replayed here: `python -m tests.upstream.replay`."""
