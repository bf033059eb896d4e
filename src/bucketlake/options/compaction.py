"""Options: sorted runs, compaction and clustering. Rows of the option table.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

from bucketlake.options.model import HONOURED, Option

ROWS = (
    Option(
        "clustering.columns",
        "string",
        None,
        HONOURED,
        "Columns by which rows are clustered.",
        fallback=("sink.clustering.by-columns",),
    ),
    Option(
        "clustering.history-partition.idle-to-full-sort",
        "duration",
        None,
        HONOURED,
        "Idle time after which an old partition is sorted whole.",
    ),
    Option("clustering.history-partition.limit", "int", "5", HONOURED, "Old partitions sorted in one run."),
    Option("clustering.incremental", "bool", "false", HONOURED, "Cluster append tables bit by bit."),
    Option(
        "clustering.incremental.mode",
        "enum",
        "global-sort",
        HONOURED,
        "Whether incremental clustering orders globally or inside tasks.",
        values=(
            "global-sort",
            "local-sort",
        ),
    ),
    Option("clustering.incremental.optimize-write", "bool", "false", HONOURED, "Cluster already while writing."),
    Option(
        "clustering.strategy",
        "string",
        "auto",
        HONOURED,
        "Curve or order of clustering.",
        fallback=("sink.clustering.strategy",),
    ),
    Option(
        "compaction.commit-interval",
        "duration",
        "1 min",
        HONOURED,
        "Only in Bucketlake: after this time a compaction job commits what is finished.",
    ),
    Option(
        "compaction.commit-size",
        "memory",
        "8 gb",
        HONOURED,
        "Only in Bucketlake: a compaction job commits what is finished once so much of its input is done.",
        least=1,
    ),
    Option(
        "compaction.delete-ratio-threshold",
        "float",
        "0.2",
        HONOURED,
        "Share of deleted rows at which an append file is rewritten.",
        least=0,
    ),
    Option(
        "compaction.file-num-limit",
        "int",
        "100000",
        HONOURED,
        "Maximum number of files in one compaction plan of an append table.",
        least=1,
    ),
    Option("compaction.force-rewrite-all-files", "bool", "false", HONOURED, "Full compaction rewrites every file."),
    Option("compaction.force-up-level-0", "bool", "false", HONOURED, "Compaction always takes in level 0."),
    Option(
        "compaction.incremental-size-threshold",
        "memory",
        None,
        HONOURED,
        "Size of new files at which a full compaction starts.",
    ),
    Option(
        "compaction.max-size-amplification-percent",
        "int",
        "200",
        HONOURED,
        "Extra size in percent at which all runs are merged.",
        least=0,
    ),
    Option(
        "compaction.min.file-num",
        "int",
        "5",
        HONOURED,
        "Minimum number of small files that are worth merging.",
        least=1,
    ),
    Option("compaction.offpeak-ratio", "int", "0", HONOURED, "Size ratio added in quiet hours.", least=0),
    Option(
        "compaction.offpeak.end.hour",
        "int",
        "-1",
        HONOURED,
        "Hour at which quiet hours end; -1 none.",
        least=-1,
        most=23,
    ),
    Option(
        "compaction.offpeak.start.hour",
        "int",
        "-1",
        HONOURED,
        "Hour at which quiet hours start; -1 none.",
        least=-1,
        most=23,
    ),
    Option(
        "compaction.optimization-interval", "duration", None, HONOURED, "Time between full compactions for fast reads."
    ),
    Option(
        "compaction.size-ratio",
        "int",
        "1",
        HONOURED,
        "Percent by which the next run may be larger and still join.",
        least=0,
    ),
    Option("compaction.skip-expired-partitions", "bool", "false", HONOURED, "Leave expired partitions alone."),
    Option(
        "compaction.small-file-ratio",
        "float",
        "0.7",
        HONOURED,
        "Share of the target size below which a file is small.",
        least=0,
    ),
    Option(
        "compaction.total-size-threshold", "memory", None, HONOURED, "Total size below which compaction is always full."
    ),
    Option(
        "full-compaction.delta-commits",
        "int",
        None,
        HONOURED,
        "Commits of a stream between full compactions; batch writes then compact fully.",
        least=1,
    ),
    Option(
        "lookup-compact",
        "enum",
        "radical",
        HONOURED,
        "How eagerly lookup compaction runs.",
        values=(
            "radical",
            "gentle",
        ),
    ),
    Option(
        "lookup-compact.max-interval",
        "int",
        None,
        HONOURED,
        "Maximum number of skipped rounds of gentle lookup compaction.",
        least=1,
    ),
    Option(
        "num-levels",
        "int",
        None,
        HONOURED,
        "Levels of the tree; else one more than the compaction trigger.",
        least=2,
        most=1000,
    ),
    Option(
        "num-sorted-run.compaction-trigger", "int", "5", HONOURED, "Sorted runs at which compaction starts.", least=1
    ),
    Option("num-sorted-run.stop-trigger", "int", None, HONOURED, "Sorted runs at which writing waits.", least=1),
    Option(
        "pk-clustering-override",
        "bool",
        "false",
        HONOURED,
        "Order keyed rows by other columns.",
        mutable=False,
    ),
    Option(
        "sort-compaction.local-sample.magnification",
        "int",
        "1000",
        HONOURED,
        "Sample of a sort compaction, times its tasks.",
    ),
    Option(
        "sort-compaction.range-strategy",
        "enum",
        "size",
        HONOURED,
        "Whether ranges are equal in size or in rows.",
        values=(
            "size",
            "quantity",
        ),
    ),
    Option("zorder.var-length-contribution", "int", "8", HONOURED, "Bytes of a text that count in a z-order."),
)
