"""The rows of the option table that belong to engines and file formats: Flink's and Spark's connectors, orc, parquet.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

from bucketlake.options.model import ENGINE, HONOURED, RETRIES, SEARCHES, SPEED, Effect, Option, call, upkeep

_SPARK = (
    Option(
        "legacy-timestamp-mapping.enabled",
        "bool",
        "false",
        Effect("honoured", "calls", remedy="SET spark.paimon.legacy-timestamp-mapping.enabled = true in the session"),
        "Spark takes TIMESTAMP for its own TIMESTAMP.",
    ),
    Option("read.allow.fullScan", "bool", "true", HONOURED, "Whether reads of partitioned tables may open every file."),
    Option(
        "read.changelog",
        "bool",
        "false",
        call("SELECT from the system table `t$audit_log`", "reads and streams of DataFrames"),
        "Reads give kinds of changes.",
    ),
    Option("read.stream.ignore-expired", "bool", "false", HONOURED, "Streams skip snapshots that have expired."),
    Option("read.stream.maxBytesPerTrigger", "long", None, HONOURED, "Bytes of one batch of a stream."),
    Option("read.stream.maxFilesPerTrigger", "int", None, HONOURED, "Files of one batch of a stream."),
    Option("read.stream.maxRowsPerTrigger", "long", None, HONOURED, "Rows of one batch of a stream."),
    Option("read.stream.maxTriggerDelayMs", "long", None, HONOURED, "Longest pause between two batches of a stream."),
    Option("read.stream.minRowsPerTrigger", "long", None, HONOURED, "Minimum number of rows of one batch of a stream."),
    Option("requiredSparkConfsCheck.enabled", "bool", "true", ENGINE, "Look at the session's settings first."),
    Option("source.split.target-size-with-column-pruning", "bool", "false", SPEED, "Splits by the columns read."),
    Option("vector-search.lateral-join.parallelism", "int", "16", SEARCHES, "Tasks of a vector search in a join."),
    Option(
        "write.data-evolution.update-conflict-retry.max-attempts",
        "int",
        "20",
        RETRIES,
        "Attempts of an update that loses races.",
    ),
    Option(
        "write.data-evolution.update-conflict-retry.wait-ms",
        "long",
        "10",
        RETRIES,
        "Pause between these attempts.",
    ),
    Option(
        "write.hive-style-dynamic-partition.enabled",
        "bool",
        "false",
        HONOURED,
        "INSERT takes the columns of a PARTITION clause last, as Hive does.",
    ),
    Option("write.merge-schema", "bool", "false", HONOURED, "Writes add the columns that the table lacks."),
    Option("write.merge-schema.explicit-cast", "bool", "false", HONOURED, "Writes change column types with loss."),
    Option("write.merge-schema.type-widening", "bool", "false", HONOURED, "Writes widen column types."),
    Option("write.use-v2-write", "bool", "false", ENGINE, "Which of Spark's write interfaces is used."),
)

CONNECTOR_KEYS = frozenset(row.key for row in _SPARK)  # of a call, not of a table: no table is made with them

_FLINK_KEPT = (
    *("changelog.precommit-compact.thread-num", "compaction.bucket-distribution-strategy", "end-input.watermark"),
    *("filesystem.job-level-settings.enabled", "lookup.async", "lookup.async-thread-number"),
    *("lookup.bootstrap-parallelism", "lookup.cache", "lookup.dynamic-partition.refresh-interval"),
    *("lookup.dynamic-partition.refresh.async", "lookup.refresh.async", "lookup.refresh.async.pending-snapshot-count"),
    *("lookup.refresh.full-load-threshold", "lookup.refresh.time-periods-blacklist"),
    *("partition.mark-done.recover-from-state", "read.shuffle-bucket-with-partition", "scan.bounded"),
    *("scan.dedicated-split-generation", "scan.infer-parallelism", "scan.infer-parallelism.max"),
    *("scan.max-snapshot.count", "scan.parallelism", "scan.remove-normalize", "scan.split-enumerator.batch-size"),
    *("scan.split-enumerator.mode", "scan.watermark.alignment.group", "scan.watermark.alignment.max-drift"),
    *("scan.watermark.alignment.update-interval", "scan.watermark.emit.strategy", "scan.watermark.idle-timeout"),
    *("sink.committer-cpu", "sink.committer-memory", "sink.committer-operator-chaining"),
    *("sink.coordinator-commit.enabled", "sink.cross-partition.managed-memory", "sink.key-only-deletes.enabled"),
    *("sink.managed.writer-buffer-memory", "sink.operator-uid.suffix", "sink.parallelism", "sink.savepoint.auto-tag"),
    *("sink.use-managed-memory-allocator", "sink.writer-coordinator.cache-expire-after-access"),
    *("sink.writer-coordinator.cache-memory", "sink.writer-coordinator.cache-soft-values"),
    *("sink.writer-coordinator.enabled", "sink.writer-coordinator.page-size"),
    *("sink.writer-coordinator.prefetch-manifests", "sink.writer-cpu", "sink.writer-memory"),
    *("sink.writer-refresh-detectors", "source.checkpoint-align.enabled", "source.checkpoint-align.timeout"),
    *("source.operator-uid.suffix", "unaware-bucket.compaction.parallelism", "unaware-bucket.no-shuffle"),
)

_FLINK = (
    Option(
        "commit.custom-listeners",
        "string",
        None,
        upkeep("call what is to be told from the job that writes"),
        "Listeners that Flink's committer calls.",
    ),
    Option(
        "partition.idle-time-to-done", "duration", None, HONOURED, "Idle time after which a partition is marked done."
    ),
    Option(
        "partition.mark-done-action.mode",
        "enum",
        "process-time",
        HONOURED,
        "By which clock partitions are marked done.",
        values=("process-time", "watermark"),
    ),
    Option("partition.time-interval", "duration", None, HONOURED, "Span of time that a partition stands for."),
    Option(
        "precommit-compact",
        "bool",
        "false",
        upkeep("leave it out: small files are compacted after the commit"),
        "Merge small files before they are committed.",
        fallback=("changelog.precommit-compact",),
    ),
    Option("scan.partitions", "string", None, call("name the partitions in WHERE"), "The only partitions to read."),
    Option("sink.clustering.sample-factor", "int", "100", ENGINE, "Sample by which Flink orders rows."),
    Option("sink.clustering.sort-in-cluster", "bool", "true", ENGINE, "Order rows inside tasks of Flink."),
    *(Option(key, "string", None, ENGINE, "Flink's connector reads it.") for key in _FLINK_KEPT),
)

_FORMATS = (
    Option("avro.codec", "string", None, HONOURED, "Compression of avro data files."),
    Option("orc.compress", "string", None, HONOURED, "Compression of orc files."),
    Option("orc.compress.size", "memory", "262144", HONOURED, "Bytes that orc compresses at once.", least=1),
    Option(
        "orc.dictionary.key.threshold",
        "float",
        None,
        HONOURED,
        "Share of values up to which a dictionary is kept.",
        least=0,
    ),
    Option("orc.row.index.stride", "int", "10000", HONOURED, "Rows between two entries of orc's row index.", least=1),
    Option("orc.stripe.size", "memory", None, HONOURED, "Bytes of an orc stripe.", least=1),
    Option(
        "orc.timestamp-ltz.legacy.type",
        "bool",
        "true",
        Effect("kept", why="local-zoned timestamps are instants here either way"),
        "Store local-zoned timestamps in orc as older versions did.",
    ),
    Option("parquet.block.size", "memory", None, HONOURED, "Bytes of a parquet row group.", least=1),
    Option("parquet.compression", "string", None, HONOURED, "Compression of parquet files."),
    Option(
        "parquet.compression.codec.zstd.level",
        "int",
        None,
        HONOURED,
        "Level of zstd in parquet.",
        least=1,
        most=22,
    ),
    Option(
        "parquet.dictionary.page.size",
        "memory",
        None,
        HONOURED,
        "Maximum number of bytes of a dictionary page.",
        least=1,
    ),
    Option("parquet.page.row.count.limit", "int", None, HONOURED, "Maximum number of rows of a page.", least=1),
    Option("parquet.page.size", "memory", None, HONOURED, "Bytes of a page.", least=1),
    Option("parquet.writer.version", "string", None, HONOURED, "Version of parquet's pages."),
)

ROWS = (*_SPARK, *_FLINK, *_FORMATS)
