"""Options of blobs; of what is not built: vectors, indexes over tables, chains, materialized tables; of data evolution.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

from bucketlake.options.model import (
    GLOBAL_INDEX,
    HONOURED,
    READS,
    SPEED,
    UNINDEXED,
    VARIANTS,
    WRITES,
    Option,
    of,
)

ROWS = (
    Option("blob-as-descriptor", "bool", "false", HONOURED, "Reads give descriptors in place of blobs."),
    Option("blob-compaction.enabled", "bool", "false", HONOURED, "Compact blob files too."),
    Option(
        "blob-descriptor-field",
        "string",
        None,
        HONOURED,
        "Columns stored as blob descriptors.",
        mutable=False,
        fallback=("blob.stored-descriptor-fields",),
    ),
    Option("blob-descriptor.source-table", "string", None, WRITES, "Table that blob descriptors point into."),
    Option("blob-field", "string", None, HONOURED, "Columns stored as blobs.", mutable=False),
    Option("blob-view-field", "string", None, READS, "Columns that view other tables' blobs.", mutable=False),
    Option("blob-view.resolve.enabled", "bool", "true", of("blob-view-field"), "Resolve viewed blobs when reading."),
    Option("blob-write-null-on-fetch-failure", "bool", "false", HONOURED, "Write null where a blob cannot be fetched."),
    Option("blob-write-null-on-missing-file", "bool", "false", HONOURED, "Write null where a blob's file is missing."),
    Option("blob.copy-buffer-size", "memory", "4 kb", SPEED, "Buffer for copying blobs."),
    Option("blob.split-by-file-size", "bool", None, SPEED, "Blob files count when splits are cut."),
    Option("blob.target-file-size", "memory", None, HONOURED, "Size of blob files."),
    Option(
        "chain-table.chain-partition-keys", "string", None, of("chain-table.enabled"), "Partition columns that chain."
    ),
    Option("chain-table.enabled", "bool", "false", READS, "Chain of snapshot and delta branches."),
    Option(
        "chain-table.split.key-range-enabled",
        "bool",
        "true",
        of("chain-table.enabled"),
        "Chain reads split by key range.",
    ),
    Option(
        "chain-table.streaming.merge-snapshot",
        "bool",
        "false",
        of("chain-table.enabled"),
        "Chain streams merge the latest snapshot first.",
    ),
    Option(
        "data-evolution.compaction.rewrite-row-ids",
        "bool",
        "false",
        HONOURED,
        "Compaction removes deleted rows and gives out row ids anew.",
    ),
    Option("data-evolution.enabled", "bool", "false", HONOURED, "Columns of a row in several files.", mutable=False),
    Option(
        "data-evolution.merge-into.file-pruning",
        "bool",
        "true",
        SPEED,
        "Prune files in column-wise merges.",
    ),
    Option(
        "data-evolution.merge-into.source-persist",
        "bool",
        "false",
        SPEED,
        "Keep the source of a merge in memory.",
    ),
    Option(
        "data-evolution.reassign.skip-contiguous-row-count",
        "long",
        "1000000000",
        HONOURED,
        "Rows of a partition in sequence, more than these, keep their ids in reassign_row_id.",
    ),
    Option(
        "data-evolution.row-id-conflict-rewrite.max-size",
        "memory",
        "256 mb",
        SPEED,
        "Largest rewrite after a row id conflict.",
    ),
    Option("data-evolution.row-sidecar.enabled", "bool", "false", SPEED, "Write side files of rows."),
    Option(
        "data-evolution.row-sidecar.max-selected-rows",
        "long",
        "4096",
        SPEED,
        "Maximum number of rows read through side files.",
    ),
    Option(
        "data-evolution.row-sidecar.max-selection-ratio",
        "float",
        "0.05",
        SPEED,
        "Largest share of rows read through side files.",
    ),
    Option("format-table.commit-hive-sync-url", "string", None, of("type"), "Hive metastore of a format table."),
    Option(
        "format-table.file.compression",
        "string",
        None,
        of("type"),
        "Compression of a format table.",
        fallback=("file.compression",),
    ),
    Option(
        "format-table.implementation",
        "enum",
        "paimon",
        of("type"),
        "Who reads a format table.",
        values=(
            "paimon",
            "engine",
        ),
    ),
    Option(
        "format-table.partition-path-only-value", "bool", "false", of("type"), "Partition folders without column names."
    ),
    Option("format-table.scan.list-parallelism", "int", "64", of("type"), "Threads that list a format table."),
    Option("btree-index.block-size", "memory", "64 kb", HONOURED, "Bytes of a block of a btree index.", least=1),
    Option("btree-index.cache-size", "memory", "128 mb", SPEED, "Cache of a btree index's blocks."),
    Option(
        "btree-index.compression", "string", "none", SPEED, "Codec of a btree index's blocks; they are written plain."
    ),
    Option("btree-index.compression-level", "int", "1", SPEED, "Level of that codec."),
    Option(
        "btree-index.fallback-scan-max-size", "memory", "256 mb", SPEED, "Most bytes of index files that a range reads."
    ),
    Option("btree-index.high-priority-pool-ratio", "float", "0.1", SPEED, "Share of the cache for what is read often."),
    Option(
        "full-text-index.search-mode",
        "enum",
        "fast",
        GLOBAL_INDEX,
        "Search of a full-text index.",
        values=(
            "fast",
            "full",
            "detail",
        ),
    ),
    Option(
        "global-index.build.max-parallelism",
        "int",
        "4096",
        GLOBAL_INDEX,
        "Most tasks that build a global index.",
    ),
    Option("global-index.build.max-shard", "int", "32", GLOBAL_INDEX, "Most shards of a global index."),
    Option(
        "global-index.column-update-action",
        "enum",
        "THROW_ERROR",
        HONOURED,
        "What an update of an indexed column does.",
        values=(
            "THROW_ERROR",
            "DROP_PARTITION_INDEX",
            "IGNORE",
        ),
    ),
    Option("global-index.enabled", "bool", "true", HONOURED, "Reads leave out files by global indexes."),
    Option(
        "global-index.external-path",
        "string",
        None,
        HONOURED,
        "A folder outside the table that its index files may lie in.",
    ),
    Option(
        "global-index.row-count-per-shard",
        "long",
        "100000",
        GLOBAL_INDEX,
        "Rows of a shard of a global index.",
    ),
    Option(
        "global-index.search-mode",
        "enum",
        None,
        GLOBAL_INDEX,
        "Search of a global index.",
        values=(
            "fast",
            "full",
            "detail",
        ),
    ),
    Option("global-index.thread-num", "int", "32", GLOBAL_INDEX, "Threads of a global index."),
    Option("local-kv-db.block-size", "memory", "4 kb", SPEED, "Block size of the local key store."),
    Option("materialized-table.definition-query", "string", None, of("type"), "Query of a materialized table."),
    Option("materialized-table.interval-freshness", "string", None, of("type"), "Freshness of a materialized table."),
    Option("materialized-table.interval-freshness.time-unit", "string", None, of("type"), "Unit of that freshness."),
    Option(
        "materialized-table.logical-refresh-mode", "string", None, of("type"), "Wanted refresh of a materialized table."
    ),
    Option(
        "materialized-table.refresh-handler-bytes", "string", None, of("type"), "Refresh job of a materialized table."
    ),
    Option("materialized-table.refresh-handler-description", "string", None, of("type"), "Words for that job."),
    Option("materialized-table.refresh-mode", "string", None, of("type"), "Refresh of a materialized table."),
    Option("materialized-table.refresh-status", "string", None, of("type"), "State of that refresh."),
    Option("metadata.iceberg.storage", "string", "disabled", WRITES, "Write Iceberg's metadata too."),
    Option("pk-bitmap.index.columns", "string", None, WRITES, "Columns of a bitmap index on a keyed table."),
    Option("pk-btree.index.columns", "string", None, WRITES, "Columns of a tree index on a keyed table."),
    Option("pk-full-text.index.columns", "string", None, WRITES, "Columns of a full-text index on a keyed table."),
    Option("pk-vector.index.columns", "string", None, WRITES, "Columns of a vector index on a keyed table."),
    Option("query-auth.enabled", "bool", "false", READS, "A catalog service authorises queries."),
    Option("row-tracking.enabled", "bool", "false", HONOURED, "Rows have ids.", mutable=False),
    Option(
        "row-tracking.partition-group-on-commit",
        "bool",
        "true",
        HONOURED,
        "Row ids are given out partition by partition.",
    ),
    Option(
        "scalar-index.search-mode",
        "enum",
        "fast",
        UNINDEXED,
        "Search of a scalar index.",
        values=(
            "fast",
            "full",
            "detail",
        ),
    ),
    Option(
        "sorted-index.build.max-parallelism",
        "int",
        "4096",
        SPEED,
        "Most tasks that build a sorted index.",
        fallback=("btree-index.build.max-parallelism",),
    ),
    Option(
        "sorted-index.records-per-range",
        "long",
        "10000000",
        HONOURED,
        "Rows of a file of a sorted index; at most 2,097,152 here.",
        fallback=("btree-index.records-per-range",),
        least=1,
    ),
    Option(
        "upsert-key",
        "string",
        None,
        HONOURED,
        "Key of an append table: new rows update the rows that have the same key.",
    ),
    Option("variant.inferShreddingSchema", "bool", "false", VARIANTS, "Infer how variants are shredded."),
    Option(
        "variant.shredding.adaptive.maxInferBufferRow",
        "int",
        "256",
        VARIANTS,
        "Rows that an adaptive inference looks at.",
    ),
    Option(
        "variant.shredding.adaptive.retentionRatio",
        "float",
        "0.05",
        VARIANTS,
        "Share of rows that keeps a field shredded.",
    ),
    Option(
        "variant.shredding.inferenceMode",
        "enum",
        "per-file",
        VARIANTS,
        "Whether shredding is inferred anew for each file.",
        values=(
            "per-file",
            "adaptive",
        ),
    ),
    Option("variant.shredding.maxInferBufferRow", "int", "4096", VARIANTS, "Rows that an inference looks at."),
    Option("variant.shredding.maxSchemaDepth", "int", "50", VARIANTS, "Depth of a shredded variant."),
    Option("variant.shredding.maxSchemaWidth", "int", "300", VARIANTS, "Fields of a shredded variant."),
    Option(
        "variant.shredding.minFieldCardinalityRatio",
        "float",
        "0.1",
        VARIANTS,
        "Share of rows from which a field is shredded.",
    ),
    Option(
        "variant.shreddingSchema",
        "string",
        None,
        VARIANTS,
        "How variants are shredded.",
        fallback=("parquet.variant.shreddingSchema",),
    ),
    Option("vector-field", "string", None, READS, "Columns stored as vectors."),
    Option(
        "vector-index.search-mode",
        "enum",
        "fast",
        GLOBAL_INDEX,
        "Search of a vector index.",
        values=(
            "fast",
            "full",
            "detail",
        ),
    ),
    Option(
        "vector-search.distribute.enabled", "bool", "false", of("vector-field"), "Spread a vector search over tasks."
    ),
    Option(
        "vector-search.lateral-join.batch-size", "int", "256", of("vector-field"), "Rows of a batch in a vector join."
    ),
    Option("vector.file.format", "string", None, of("vector-field"), "Format of vector files."),
    Option("vector.target-file-size", "memory", None, of("vector-field"), "Size of vector files."),
    Option(
        "visibility-callback.check-interval",
        "duration",
        "10 s",
        of("visibility-callback.enabled"),
        "Pause between looks for visibility.",
    ),
    Option(
        "visibility-callback.enabled", "bool", "false", WRITES, "A commit waits until its rows are visible elsewhere."
    ),
    Option(
        "visibility-callback.timeout", "duration", "30 min", of("visibility-callback.enabled"), "How long it waits."
    ),
)
