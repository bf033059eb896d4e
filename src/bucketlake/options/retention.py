"""Options: what is kept for how long: snapshots, changelogs, tags, partitions. Rows of the option table.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

from bucketlake.options.model import (
    CUSTOM_DONE,
    ENGINE,
    HONOURED,
    WRITES,
    Option,
)

ROWS = (
    Option(
        "changelog.num-retained.max",
        "int",
        None,
        HONOURED,
        "Maximum number of changelogs to keep; else as snapshots.",
        least=1,
    ),
    Option(
        "changelog.num-retained.min",
        "int",
        None,
        HONOURED,
        "Minimum number of changelogs to keep; else as snapshots.",
        least=1,
    ),
    Option("changelog.time-retained", "duration", None, HONOURED, "How long changelogs are kept; else as snapshots."),
    Option(
        "end-input.check-partition-expire", "bool", "false", HONOURED, "Expire partitions when a bounded write ends."
    ),
    Option("metastore.tag-to-partition", "string", None, ENGINE, "Tags appear as partitions in the metastore."),
    Option(
        "metastore.tag-to-partition.preview",
        "enum",
        "none",
        ENGINE,
        "Which tags appear before they are made.",
        values=(
            "none",
            "process-time",
            "watermark",
            "batch",
        ),
    ),
    Option("partition.end-input-to-done", "bool", "false", HONOURED, "Mark partitions done when a bounded write ends."),
    Option("partition.expiration-batch-size", "int", None, HONOURED, "Partitions expired in one commit."),
    Option(
        "partition.expiration-check-interval",
        "duration",
        "1 h",
        HONOURED,
        "Pause between checks for expired partitions.",
    ),
    Option("partition.expiration-max-num", "int", "100", HONOURED, "Maximum number of partitions expired at once."),
    Option(
        "partition.expiration-strategy",
        "string",
        "values-time",
        HONOURED,
        "Age of a partition: by its values or its last write.",
    ),
    Option("partition.expiration-time", "duration", None, HONOURED, "Age at which a partition is dropped."),
    Option(
        "partition.idle-time-to-report-statistic",
        "duration",
        "0 ms",
        ENGINE,
        "Idle time before a partition is reported.",
    ),
    Option("partition.mark-done-action", "string", "success-file", HONOURED, "What marking a partition done does."),
    Option("partition.mark-done-action.custom.class", "string", None, CUSTOM_DONE, "Java class of a custom marking."),
    Option("partition.mark-done-action.http.params", "string", None, HONOURED, "Arguments of marking by HTTP."),
    Option("partition.mark-done-action.http.url", "string", None, HONOURED, "Address of marking by HTTP."),
    Option(
        "partition.timestamp-format.strict", "bool", "false", HONOURED, "Refuse partition values that are not a time."
    ),
    Option("partition.timestamp-formatter", "string", None, HONOURED, "Form of time in partition values."),
    Option("partition.timestamp-pattern", "string", None, HONOURED, "Partition columns that make up the time."),
    Option(
        "snapshot.clean-empty-directories",
        "bool",
        "false",
        HONOURED,
        "Remove folders that expiry empties.",
        fallback=("snapshot.expire.clean-empty-directories",),
    ),
    Option(
        "snapshot.expire.execution-mode",
        "enum",
        "sync",
        HONOURED,
        "Whether a commit waits for expiry.",
        values=(
            "sync",
            "async",
        ),
    ),
    Option("snapshot.expire.limit", "int", "50", HONOURED, "Maximum number of snapshots expired at once.", least=1),
    Option("snapshot.num-retained.max", "int", "2147483647", HONOURED, "Maximum number of snapshots to keep.", least=1),
    Option("snapshot.num-retained.min", "int", "10", HONOURED, "Minimum number of snapshots to keep.", least=1),
    Option("snapshot.time-retained", "duration", "1 h", HONOURED, "How long snapshots are kept."),
    Option("tag.automatic-completion", "bool", "false", HONOURED, "Create automatic tags that were missed."),
    Option(
        "tag.automatic-creation",
        "enum",
        "none",
        HONOURED,
        "What creates automatic tags.",
        values=(
            "none",
            "process-time",
            "watermark",
            "batch",
        ),
    ),
    Option("tag.batch.customized-name", "string", None, HONOURED, "Name of the tag that a batch write creates."),
    Option("tag.callback.#.param", "string", None, WRITES, "Argument of a tag call-back class."),
    Option("tag.callbacks", "string", None, WRITES, "Java classes called after a tag is made."),
    Option("tag.create-success-file", "bool", "false", HONOURED, "Write a success file beside an automatic tag."),
    Option("tag.creation-delay", "duration", "0 ms", HONOURED, "How late automatic tags are made."),
    Option(
        "tag.creation-period",
        "enum",
        "daily",
        HONOURED,
        "How often automatic tags are made.",
        values=(
            "daily",
            "hourly",
            "two-hours",
        ),
    ),
    Option("tag.creation-period-duration", "duration", None, HONOURED, "The same, as a duration."),
    Option("tag.default-time-retained", "duration", None, HONOURED, "How long tags are kept that do not say it."),
    Option("tag.num-retained-max", "int", None, HONOURED, "Maximum number of automatic tags to keep.", least=1),
    Option(
        "tag.period-formatter",
        "enum",
        "with_dashes",
        HONOURED,
        "Form of automatic tags' names.",
        values=(
            "with_dashes",
            "without_dashes",
            "without_dashes_and_spaces",
        ),
    ),
    Option("tag.time-expire-enabled", "bool", "true", HONOURED, "Drop tags whose time is over."),
)
