"""Options: data files: their formats, sizes and names. Rows of the option table.

Spec: docs/spec/schema.md#options
"""

from __future__ import annotations

from bucketlake.options.model import HONOURED, Option

ROWS = (
    Option(
        "changelog-file.compression", "string", None, HONOURED, "Compression of changelog files; else as data files."
    ),
    Option("changelog-file.format", "string", None, HONOURED, "Format of changelog files; else as data files."),
    Option("changelog-file.prefix", "string", "changelog-", HONOURED, "Start of changelog file names."),
    Option("changelog-file.stats-mode", "string", None, HONOURED, "Statistics of changelog files; else as data files."),
    Option("data-file.external-paths", "string", None, HONOURED, "Other places for data files."),
    Option(
        "data-file.external-paths.specific-fs",
        "string",
        None,
        HONOURED,
        "Scheme of the places to use.",
    ),
    Option(
        "data-file.external-paths.strategy",
        "enum",
        "none",
        HONOURED,
        "How a place is chosen for a file.",
        values=(
            "none",
            "specific-fs",
            "round-robin",
            "entropy-inject",
            "weight-robin",
        ),
    ),
    Option(
        "data-file.external-paths.weights",
        "string",
        None,
        HONOURED,
        "Weights of the places, separated by commas.",
    ),
    Option(
        "data-file.path-directory", "string", None, HONOURED, "Folder inside the table for data files.", mutable=False
    ),
    Option("data-file.prefix", "string", "data-", HONOURED, "Start of data file names."),
    Option("data-file.thin-mode", "bool", "false", HONOURED, "Leave the key columns out of data files."),
    Option(
        "file-index.in-manifest-threshold",
        "memory",
        "500 bytes",
        HONOURED,
        "Size up to which an index lies in the manifest.",
    ),
    Option("file-index.read.enabled", "bool", "true", HONOURED, "Use file indexes when reading."),
    Option("file.block-size", "memory", None, HONOURED, "Block or row group size of files.", least=1),
    Option("file.compression", "string", "zstd", HONOURED, "Compression of data files."),
    Option("file.compression.per.level", "map", None, HONOURED, "Compression by level."),
    Option("file.compression.zstd-level", "int", "1", HONOURED, "Level of zstd.", least=-131072, most=22),
    Option("file.format", "string", "parquet", HONOURED, "Format of data files: parquet, orc or avro."),
    Option("file.format.per.level", "map", None, HONOURED, "Format by level."),
    Option("file.suffix.include.compression", "bool", "false", HONOURED, "File names include their compression."),
    Option(
        "index-file-in-data-file-dir", "bool", "false", HONOURED, "Index files lie beside data files.", mutable=False
    ),
    Option("metadata.stats-dense-store", "bool", "true", HONOURED, "Statistics only for the columns that have them."),
    Option(
        "metadata.stats-keep-first-n-columns",
        "int",
        "-1",
        HONOURED,
        "Only the first columns get statistics; -1 all.",
        least=-1,
    ),
    Option("metadata.stats-mode", "string", "truncate(16)", HONOURED, "Statistics: none, counts, truncate(n) or full."),
    Option("metadata.stats-mode.per.level", "map", None, HONOURED, "Statistics by level."),
    Option("parquet.enable.dictionary", "bool", None, HONOURED, "Dictionary encoding of parquet."),
    Option("target-file-row-num", "long", "9223372036854775807", HONOURED, "Rows at which a new file starts.", least=1),
    Option(
        "target-file-size",
        "memory",
        None,
        HONOURED,
        "Bytes at which a new file starts; 128 mb with a key, 256 mb without.",
        least=1,
    ),
)
