"""What a chain table must be, in Paimon's words, and which of its partition columns chain.

Spec: docs/spec/chain_table.md#the-table
"""

from __future__ import annotations

from bucketlake.errors import InvalidError
from bucketlake.schema.schema import TableSchema


def chain_keys(schema: TableSchema) -> tuple[str, ...]:
    """The partition columns that order partitions in time, the last ones: those that `chain-table.chain-partition-keys`
    names, else all. Those before them tell groups apart, each of which is a chain of its own."""
    text = schema.table_options.text("chain-table.chain-partition-keys") or ""
    return tuple(name.strip() for name in text.split(",")) if text.strip() else schema.partition_keys


def check_chain(schema: TableSchema) -> None:
    """InvalidError where a chain table lacks what chaining needs."""
    options = schema.table_options
    if not options.get("chain-table.enabled"):
        return
    expires = options.get("partition.expiration-time") is not None
    strategy = options.get("partition.expiration-strategy")
    vectors = options.get("deletion-vectors.enabled")
    for met, message in (
        (bool(schema.primary_keys), "Primary key is required for chain table."),
        (bool(schema.partition_keys), "Chain table must be partition table."),
        (schema.bucket > 0, "Bucket number must be greater than 0 for chain table."),
        (bool(options.names("sequence.field")), "Sequence field is required for chain table."),
        (
            options.get("changelog-producer") in ("none", "input"),
            "Changelog producer must be none or input for chain table.",
        ),
        (
            not vectors or options.get("merge-engine") == "deduplicate",
            "Chain tables only support deletion vectors with the deduplicate merge engine.",
        ),
        (
            options.text("partition.timestamp-pattern") is not None,
            "Partition timestamp pattern is required for chain table.",
        ),
        (
            options.text("partition.timestamp-formatter") is not None,
            "Partition timestamp formatter is required for chain table.",
        ),
        (
            not expires or strategy == "values-time",
            f"Chain table only supports 'values-time' partition expiration strategy, but found '{strategy}'.",
        ),
    ):
        if not met:
            raise InvalidError(message)
    keys, partitions = chain_keys(schema), schema.partition_keys
    if partitions[len(partitions) - len(keys) :] != keys or len(keys) > len(partitions):
        raise InvalidError(
            "chain-table.chain-partition-keys must be a contiguous suffix of the table's partition keys. "
            f"Partition keys: [{', '.join(partitions)}], chain partition keys: [{', '.join(keys)}]."
        )
