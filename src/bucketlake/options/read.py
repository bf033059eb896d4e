"""Options: scans, time travel, streams and consumers. Rows of the option table.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

from bucketlake.options.model import ENGINE, EXACT, FAILS, HONOURED, INTERNAL, READS, SPEED, Option

ROWS = (
    Option("batch-scan-mode", "string", "none", READS, "Internal: how a batch plan starts."),
    Option("consumer-id", "string", None, HONOURED, "Name under which a stream's progress is kept."),
    Option("consumer.changelog-only", "bool", "false", HONOURED, "Consumers hold back changelogs only."),
    Option("consumer.expiration-time", "duration", None, HONOURED, "Idle time after which a consumer is dropped."),
    Option("consumer.ignore-progress", "bool", "false", HONOURED, "Start anew, whatever the consumer's progress."),
    Option(
        "consumer.mode",
        "enum",
        "exactly-once",
        EXACT,
        "Whether progress is exact or at least once.",
        values=(
            "exactly-once",
            "at-least-once",
        ),
    ),
    Option("continuous.discovery-interval", "duration", "10 s", ENGINE, "Pause between looks for new snapshots."),
    Option(
        "file-reader-async-threshold", "memory", "10 mb", SPEED, "Size from which files are read in the background."
    ),
    Option("incremental-between", "string", None, HONOURED, "Read what came between two snapshots or tags."),
    Option(
        "incremental-between-scan-mode",
        "enum",
        "auto",
        HONOURED,
        "What an incremental read looks at.",
        values=(
            "auto",
            "delta",
            "changelog",
            "diff",
        ),
    ),
    Option(
        "incremental-between-tag-to-snapshot",
        "bool",
        "false",
        HONOURED,
        "Take the tags of an incremental read as snapshots.",
    ),
    Option("incremental-between-timestamp", "string", None, HONOURED, "Read what came between two times."),
    Option(
        "incremental-to-auto-tag", "string", None, HONOURED, "Read what came since the automatic tag before this one."
    ),
    Option("read.batch-size", "int", "1024", SPEED, "Rows of a batch when reading."),
    Option("scan.bounded.watermark", "long", None, HONOURED, "Watermark at which a stream ends."),
    Option("scan.bucket", "int", None, HONOURED, "Only this bucket is read.", least=0),
    Option(
        "scan.creation-time-millis", "long", None, HONOURED, "Read files made after this time, or from its snapshot."
    ),
    Option("scan.fallback-branch", "string", None, HONOURED, "Branch that has the partitions that this one lacks."),
    Option(
        "scan.fallback-branch.read-fail-fast",
        "bool",
        "false",
        FAILS,
        "Fail where the other branch cannot be read.",
    ),
    Option("scan.fallback-delta-branch", "string", None, HONOURED, "Delta branch of a chain table."),
    Option("scan.fallback-snapshot-branch", "string", None, HONOURED, "Snapshot branch of a chain table."),
    Option("scan.file-creation-time-millis", "long", None, HONOURED, "Read only files made after this time."),
    Option("scan.ignore-corrupt-files", "bool", "false", HONOURED, "Skip files that cannot be read."),
    Option("scan.ignore-lost-files", "bool", "false", HONOURED, "Skip files that are missing."),
    Option("scan.manifest.parallelism", "int", None, HONOURED, "Threads that read manifests.", least=1),
    Option("scan.max-splits-per-task", "int", "10", SPEED, "Splits that one task holds."),
    Option(
        "scan.mode",
        "enum",
        "default",
        HONOURED,
        "Where a scan starts.",
        values=(
            "default",
            "latest-full",
            "full",
            "latest",
            "compacted-full",
            "from-timestamp",
            "from-creation-timestamp",
            "from-file-creation-time",
            "from-snapshot",
            "from-snapshot-full",
            "incremental",
        ),
        fallback=("log.scan",),
    ),
    Option(
        "scan.plan-auto-tag-for-read.time-retained",
        "duration",
        None,
        HONOURED,
        "Tag the snapshot that a batch read reads, for this long.",
    ),
    Option("scan.plan-sort-partition", "bool", "false", SPEED, "Order of splits by partition."),
    Option("scan.primary-branch", "string", None, HONOURED, "Branch whose partitions come first."),
    Option("scan.snapshot-id", "long", None, HONOURED, "Snapshot to read."),
    Option("scan.tag-name", "string", None, HONOURED, "Tag to read."),
    Option("scan.timestamp", "string", None, HONOURED, "Time to read at, as text."),
    Option(
        "scan.timestamp-millis",
        "long",
        None,
        HONOURED,
        "Time to read at, in epoch milliseconds.",
        fallback=("log.scan.timestamp-millis",),
    ),
    Option("scan.version", "string", None, HONOURED, "Snapshot id, tag or watermark to read, whichever the text is."),
    Option("scan.watermark", "long", None, HONOURED, "First snapshot with this watermark is read."),
    Option("source.split.open-file-cost", "memory", "4 mb", HONOURED, "Bytes that opening a file counts for."),
    Option("source.split.target-size", "memory", "128 mb", HONOURED, "Bytes of a split.", least=1),
    Option("stream-scan-mode", "string", "none", INTERNAL, "Internal: how a streaming plan starts."),
    Option(
        "streaming-read-append-overwrite", "bool", "false", HONOURED, "Streams of append tables read overwrites too."
    ),
    Option("streaming-read-overwrite", "bool", "false", HONOURED, "Streams read the changes of overwrites."),
    Option("streaming.read.snapshot.delay", "duration", None, HONOURED, "Streams stay this far behind."),
)
