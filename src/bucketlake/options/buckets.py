"""Options: which bucket a row belongs to. Rows of the option table.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

from bucketlake.options.model import HONOURED, Option

ROWS = (
    Option("bucket", "int", "-1", HONOURED, "Number of buckets; -1 dynamic or unaware, -2 postpone."),
    Option("bucket-append-ordered", "bool", "true", HONOURED, "Append tables with buckets keep the order of writing."),
    Option(
        "bucket.auto",
        "bool",
        "false",
        HONOURED,
        "Only in Bucketlake: compaction changes the bucket number of partitions as their data grows and shrinks.",
    ),
    Option(
        "bucket-function.type",
        "enum",
        "default",
        HONOURED,
        "How the bucket key becomes a bucket.",
        mutable=False,
        values=(
            "default",
            "mod",
            "hive",
        ),
    ),
    Option(
        "bucket-key",
        "string",
        None,
        HONOURED,
        "Columns whose hash decides the bucket; else the primary key.",
        mutable=False,
    ),
    Option(
        "cross-partition-upsert.bootstrap-parallelism",
        "int",
        "10",
        HONOURED,
        "Threads that fill the key index.",
        least=1,
    ),
    Option("cross-partition-upsert.index-ttl", "duration", None, HONOURED, "Age at which keys leave the key index."),
    Option("dynamic-bucket.assigner-parallelism", "int", None, HONOURED, "Tasks that assign buckets.", least=1),
    Option(
        "dynamic-bucket.initial-buckets",
        "int",
        None,
        HONOURED,
        "Buckets that a partition starts with.",
        mutable=False,
        least=1,
    ),
    Option(
        "dynamic-bucket.max-buckets",
        "int",
        "-1",
        HONOURED,
        "Maximum number of buckets of a partition; -1 any number.",
        least=-1,
    ),
    Option(
        "dynamic-bucket.target-row-num",
        "long",
        "2000000",
        HONOURED,
        "Rows of a bucket before a new one opens.",
        least=1,
    ),
    Option(
        "postpone.batch-write-fixed-bucket",
        "bool",
        "true",
        HONOURED,
        "Batch writes to postpone tables go to real buckets.",
    ),
    Option(
        "postpone.batch-write-fixed-bucket.max-parallelism",
        "int",
        "2048",
        HONOURED,
        "Maximum number of buckets that such a write opens.",
        least=1,
    ),
    Option(
        "postpone.default-bucket-num",
        "int",
        "1",
        HONOURED,
        "Buckets of a partition compacted for the first time.",
        least=1,
    ),
    Option("postpone.merge-on-read", "bool", "false", HONOURED, "Batch reads see pending rows."),
    Option(
        "postpone.target-row-num-per-bucket",
        "long",
        None,
        HONOURED,
        "Rows for which a new partition gets one more bucket.",
        least=1,
    ),
    Option(
        "postpone.target-size-per-bucket",
        "memory",
        "1 gb",
        HONOURED,
        "Bytes for which a new partition gets one more bucket.",
        least=1,
    ),
)
