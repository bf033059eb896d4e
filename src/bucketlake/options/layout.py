"""Options: what a table is: its place, keys, partitions and columns. Rows of the option table.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

from bucketlake.options.model import AUTO_CREATE, HONOURED, READS, Effect, Option, call

ROWS = (
    Option(
        "add-column-before-partition",
        "bool",
        "false",
        HONOURED,
        "New columns go before the first partition column instead of to the end.",
    ),
    Option(
        "alter-column-null-to-not-null.disabled", "bool", "true", HONOURED, "Refuse to make nullable columns NOT NULL."
    ),
    Option("auto-create", "bool", "false", AUTO_CREATE, "Make the table's storage when it is first used."),
    Option(
        "branch",
        "string",
        "main",
        Effect("honoured", "calls", remedy="name the branch with the table: `db.t$branch_b`"),
        "Branch to read and write.",
    ),
    Option(
        "partition", "string", None, HONOURED, "Partition columns, moved into the schema at creation.", mutable=False
    ),
    Option(
        "partition.default-name",
        "string",
        "__DEFAULT_PARTITION__",
        HONOURED,
        "Folder name of null and blank partition values.",
    ),
    Option("partition.legacy-name", "bool", "true", HONOURED, "Partition folders name dates by epoch day."),
    Option(
        "partition.sink-strategy",
        "enum",
        "none",
        HONOURED,
        "With hash, each partition's rows of an append table go to one task, else to as many as have them.",
        values=(
            "none",
            "hash",
            "partition_dynamic",
        ),
    ),
    Option(
        "path",
        "string",
        None,
        call("leave it out: a table lies in its warehouse; open another folder by its own path"),
        "Folder of the table.",
    ),
    Option("primary-key", "string", None, HONOURED, "Key columns, moved into the schema at creation.", mutable=False),
    Option(
        "type",
        "enum",
        "table",
        READS,
        "What the name stands for; table and materialized-table are served.",
        mutable=False,
        served=("materialized-table",),
        values=(
            "table",
            "format-table",
            "materialized-table",
            "object-table",
            "lance-table",
            "iceberg-table",
        ),
    ),
)
