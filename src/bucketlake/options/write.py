"""Options: buffers, spills and casts of writers. Rows of the option table.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

from bucketlake.options.model import HONOURED, SPEED, Option

ROWS = (
    Option("async-file-write", "bool", "true", SPEED, "Write files in the background."),
    Option("cache-page-size", "memory", "64 kb", SPEED, "Page size of caches."),
    Option("disable-explicit-type-casting", "bool", "false", HONOURED, "Only widening changes of column types."),
    Option(
        "file-operation.thread-num",
        "int",
        None,
        HONOURED,
        "Threads for file operations.",
        fallback=("delete-file.thread-num",),
        least=1,
    ),
    Option("local-merge-buffer-size", "memory", None, SPEED, "Buffer that merges rows before they are shuffled."),
    Option("local-sort.max-num-file-handles", "int", "128", SPEED, "Maximum number of files open in one sort."),
    Option("page-size", "memory", "64 kb", SPEED, "Size of memory pages."),
    Option("sort-spill-buffer-size", "memory", "64 mb", SPEED, "Memory of a spilling sort."),
    Option("sort-spill-threshold", "int", None, SPEED, "Readers of a merge before it spills."),
    Option(
        "spill-compression",
        "string",
        "zstd",
        HONOURED,
        "Compression of spilled rows. Where it is not set, lz4 is used.",
    ),
    Option(
        "spill-compression.zstd-level", "int", "1", HONOURED, "Level of zstd for spilled rows.", least=-131072, most=22
    ),
    Option("write-buffer-for-append", "bool", "false", HONOURED, "Append writers buffer rows too."),
    Option("write-buffer-size", "memory", "256 mb", HONOURED, "Memory of a writer before it flushes.", least=1),
    Option(
        "write-buffer-spill.max-disk-size",
        "memory",
        "9223372036854775807 b",
        HONOURED,
        "Maximum disk space of a writer's spills.",
    ),
    Option("write-buffer-spillable", "bool", "true", HONOURED, "A full buffer may spill to disk."),
    Option(
        "write-max-writers-to-spill",
        "int",
        "10",
        HONOURED,
        "Open append writers from which rows are buffered and spilled.",
        least=0,
    ),
    Option(
        "write-only",
        "bool",
        "false",
        HONOURED,
        "Writers neither compact nor expire.",
        fallback=("write.compaction-skip",),
    ),
    Option("write.batch-memory", "memory", "128 mb", SPEED, "Memory of a batch when writing."),
    Option(
        "write.batch-size", "int", "1024", SPEED, "Rows of a batch when writing.", fallback=("orc.write.batch-size",)
    ),
    Option(
        "write.sequence-number-init-mode",
        "enum",
        "scan",
        HONOURED,
        "Whether sequence numbers go on from files or from the snapshot.",
        values=(
            "scan",
            "snapshot",
        ),
    ),
)
