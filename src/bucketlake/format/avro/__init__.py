"""Avro as Paimon's Java writer lays it out: the container of blocks, and records of metadata in it."""
