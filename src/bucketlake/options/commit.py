"""Options: commits, manifests and snapshots. Rows of the option table.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

from bucketlake.options.model import HONOURED, READS, TAG_IDLE, WRITES, Option

ROWS = (
    Option("commit.callback.#.param", "string", None, WRITES, "Argument of a commit call-back class."),
    Option("commit.callbacks", "string", None, WRITES, "Java classes called after a commit."),
    Option(
        "commit.discard-duplicate-files",
        "bool",
        "false",
        HONOURED,
        "Drop files from a commit that are in the table already.",
    ),
    Option("commit.force-compact", "bool", "false", HONOURED, "Compact before every commit."),
    Option("commit.force-create-snapshot", "bool", "false", HONOURED, "Commit even if nothing changed."),
    Option("commit.max-retries", "int", "10", HONOURED, "Attempts of a commit that loses races.", least=0),
    Option("commit.max-retry-wait", "duration", "10 s", HONOURED, "Longest pause between attempts."),
    Option("commit.min-retry-wait", "duration", "10 ms", HONOURED, "Shortest pause between attempts."),
    Option(
        "commit.strict-mode.last-safe-snapshot",
        "long",
        None,
        HONOURED,
        "Newest snapshot at which a strict commit found no foreign change.",
    ),
    Option("commit.timeout", "duration", None, HONOURED, "How long a commit tries."),
    Option("commit.user-prefix", "string", None, HONOURED, "Start of commit users' names."),
    Option("dynamic-partition-overwrite", "bool", "true", HONOURED, "Overwrite only the partitions that get rows."),
    Option("manifest-sort.enabled", "bool", "false", HONOURED, "Sort entries when manifests are merged."),
    Option(
        "manifest-sort.max-rewrite-size",
        "memory",
        "256 mb",
        HONOURED,
        "Maximum number of bytes rewritten by one such sort.",
    ),
    Option("manifest-sort.partition-field", "string", None, HONOURED, "Partition column of that sort."),
    Option("manifest.compression", "string", "zstd", HONOURED, "Compression of manifests."),
    Option("manifest.delete-file-drop-stats", "bool", "false", HONOURED, "Deleted entries carry no statistics."),
    Option("manifest.format", "string", "avro", READS, "Format of manifests: avro."),
    Option(
        "manifest.full-compaction-threshold-size",
        "memory",
        "16 mb",
        HONOURED,
        "Size of changed manifests at which all are merged.",
    ),
    Option("manifest.merge-min-count", "int", "30", HONOURED, "Small manifests that are merged together.", least=1),
    Option("manifest.target-file-size", "memory", "8 mb", HONOURED, "Size of a manifest.", least=1),
    Option("metastore.partitioned-table", "bool", "false", HONOURED, "The metastore knows the partitions."),
    Option("overwrite-upgrade", "bool", "true", HONOURED, "Files of an overwrite go to the top level if they can."),
    Option("sink.process-time-zone", "string", None, HONOURED, "Zone of processing time in tags."),
    Option("sink.watermark-time-zone", "string", "UTC", HONOURED, "Zone of the watermark in tags."),
    Option("snapshot.ignore-empty-commit", "bool", None, HONOURED, "No snapshot for a commit without changes."),
    Option(
        "snapshot.watermark-idle-timeout", "duration", None, TAG_IDLE, "Time after which an idle watermark moves on."
    ),
)
