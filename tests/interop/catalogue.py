"""The tables that Bucketlake writes for the other engines to read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from tests.interop.cases import Case, Maker
from tests.interop.typed_values import KEYS, plain_columns, plain_rows

from bucketlake.schema.change import AddColumn, DropColumn, RenameColumn, SetOption, UpdateColumnType, UpdatePosition
from bucketlake.types.parse import parse_type_text

CODECS = {
    "parquet": ("snappy", "none", "gzip", "lz4_raw", "zstd"),
    "orc": ("snappy", "none", "zlib", "lz4", "zstd"),
    "avro": ("snappy", "null", "zstd", "deflate"),
}
KV = {"k": "INT", "v": "STRING"}


def kv(start: int, stop: int, label: str) -> list[tuple[Any, ...]]:
    """Rows for KV."""
    return [(key, f"{label}{key}") for key in range(start, stop)]


def catalogue() -> list[Case]:
    """Every case."""
    groups = (_types, _codecs, _keys, _partitions, _lifecycles, _appends, _layouts, _evolutions, _widened_keys, _stats)
    return [case for group in groups for case in group()]


def _types() -> Iterator[Case]:
    for form in CODECS:
        rows = plain_rows(form)
        yield Case(
            f"types_{form}",
            f"every type in {form}",
            plain_columns(form),
            lambda maker, rows=rows: maker.write(*rows),
            options={"bucket": "-1", "file.format": form},
            copied=True,
        )
        yield Case(
            f"pk_types_{form}",
            f"every type in {form}, primary key, upserts",
            plain_columns(form),
            lambda maker, rows=rows: (maker.write(*rows), maker.write(*rows[1:3]), maker.delete("id = 2", _id(2))),
            keys=["id"],
            options={"bucket": "1", "file.format": form},
        )


def _id(value: int) -> Any:
    return lambda row: row["id"] == value


def _codecs() -> Iterator[Case]:
    for form, codecs in CODECS.items():
        yield Case(
            f"codecs_{form}",
            f"{form} files compressed with {', '.join(codecs)}, one a commit",
            {"k": "INT", "v": "STRING", "d": "DECIMAL(10, 2)"},
            lambda maker, codecs=codecs: [
                maker.write(
                    *((at * 100 + i, f"{codec} {'x' * 40}", Decimal(i) / 4) for i in range(50)),
                    file_compression=codec,
                )
                for at, codec in enumerate(codecs)
            ],
            options={"bucket": "-1", "file.format": form},
        )


def _keys() -> Iterator[Case]:
    for label, (kind, values) in KEYS.items():
        yield Case(
            f"key_{label}",
            f"primary key of {kind} over 5 buckets",
            {"v": "INT", "k": kind},
            lambda maker, values=values: maker.write(*((at, key) for at, key in enumerate(values()))),
            keys=["k"],
            options={"bucket": "5"},
            copied=True,
        )
    yield Case(
        "key_composite",
        "key of four columns, their order not the table's",
        {"v": "INT", "s": "STRING", "n": "INT", "d": "DECIMAL(20, 2)", "b": "BOOLEAN"},
        lambda maker: maker.write(
            *(
                (at, f"{'long text ' * (at % 3)}{at}", at % 5 - 2, Decimal(at * 10**17) / 100, at % 2 == 0)
                for at in range(60)
            )
        ),
        keys=["n", "s", "d", "b"],
        options={"bucket": "4"},
        copied=True,
    )
    yield Case(
        "key_partitioned",
        "the partition column is part of the key, and not of the bucket",
        {"p": "STRING", "k": "BIGINT", "t": "TIMESTAMP(3)", "v": "INT"},
        lambda maker: maker.write(
            *(
                (f"p{at % 3}", at * 10**9, dt.datetime(2024, 1, 1) + dt.timedelta(milliseconds=at), at)
                for at in range(60)
            )
        ),
        partitions=["p"],
        keys=["p", "k", "t"],
        options={"bucket": "3"},
        copied=True,
    )
    yield Case(
        "key_bucket_key",
        "bucket-key is a part of the primary key",
        {"a": "STRING", "b": "INT", "v": "INT"},
        lambda maker: maker.write(*((f"a{at % 7}", at, at) for at in range(60))),
        keys=["a", "b"],
        options={"bucket": "3", "bucket-key": "a"},
        copied=True,
    )
    for kind, columns, key in (
        ("mod", {"k": "INT", "v": "STRING"}, lambda at: at - 20),
        ("mod_bigint", {"k": "BIGINT", "v": "STRING"}, lambda at: (at - 20) * 10**12 + at),
        ("hive", {"k": "STRING", "n": "BIGINT", "v": "STRING"}, lambda at: f"żółć 🦭{at}" * (at % 3)),
    ):
        many = len(columns) == 3
        yield Case(
            f"bucket_{kind}",
            f"bucket-function.type = {kind}, negative keys among them",
            columns,
            lambda maker, key=key, many=many: maker.write(
                *((key(at), *([(at - 20) * 10**10] if many else []), f"v{at}") for at in range(50))
            ),
            keys=["k", "n"] if many else ["k"],
            options={"bucket": "4", "bucket-function.type": kind.split("_")[0]},
            copied=True,
        )


# Fewer than ten: with more partitions in a task Paimon's writers spill, and number rows anew.
STRINGS = ["plain", "", "  ", None, "a/b=c:d%e", "ü 🦭", 'q"#*?{}[]^\\', "it's", "\t"]
DATES = [dt.date(2024, 1, 1), dt.date(1969, 12, 31), None]
MOMENTS = [
    dt.datetime(2024, 1, 1, 12, 30, 0, 123000),
    dt.datetime(1969, 12, 31),
    dt.datetime(2024, 1, 1, 0, 0, 5),
    dt.datetime(2024, 1, 1, 0, 1),
    None,
]
PLAIN_NAMES = {"partition.legacy-name": "false"}
PARTITIONS: dict[str, tuple[str, Sequence[Any], dict[str, str]]] = {
    "string": ("STRING", STRINGS, {}),
    "int": ("INT", [-1, 0, 2**31 - 1, None], {}),
    "bigint": ("BIGINT", [-(2**63), 5_000_000_000], {}),
    "tinyint": ("TINYINT", [-128, 127], {}),
    "boolean": ("BOOLEAN", [True, False, None], {}),
    "decimal": ("DECIMAL(10, 2)", [Decimal("-1.50"), Decimal(100)], {}),
    "float": ("FLOAT", [1.5, 1e10, -0.001], {}),
    "double": ("DOUBLE", [0.1, 1e-5, 12345678.5], {}),
    "char": ("CHAR(3)", ["abc", "xyz"], {}),
    "date": ("DATE", DATES, {}),
    "date_plain": ("DATE", DATES, PLAIN_NAMES),
    "time": ("TIME(3)", [dt.time(1, 2, 3, 4000), dt.time(0)], {}),
    "time_plain": ("TIME(3)", [dt.time(1, 2, 3, 4000), dt.time(0)], PLAIN_NAMES),
    "timestamp": ("TIMESTAMP(3)", MOMENTS, {}),
    "timestamp_plain": ("TIMESTAMP(3)", MOMENTS, PLAIN_NAMES),
    "timestamp_6": ("TIMESTAMP(6)", [dt.datetime(2024, 1, 1, 12, 30, 0, 123456)], {}),
    "timestamp_6_plain": ("TIMESTAMP(6)", [dt.datetime(2024, 1, 1, 12, 30, 0, 123456)], PLAIN_NAMES),
    "default_name": ("STRING", ["a", None], {"partition.default-name": "none_such"}),
}


def _partitions() -> Iterator[Case]:
    for label, (kind, values, options) in PARTITIONS.items():
        yield Case(
            f"pt_{label}",
            f"partitioned by {kind}",
            {"k": "INT", "p": kind},
            lambda maker, values=values: maker.write(*enumerate(values)),
            partitions=["p"],
            options={"bucket": "-1", **options},
            copied=True,
        )
    yield Case(
        "pt_several",
        "primary-key table partitioned by STRING, INT and DATE; upserts, a delete, one partition dropped",
        {"a": "STRING", "k": "INT", "b": "INT", "c": "DATE", "v": "STRING"},
        lambda maker: (
            maker.write(("x", 1, 1, DATES[0], "v1"), ("x", 2, 1, DATES[1], "v2"), ("y", 3, 2, DATES[1], "v")),
            maker.write(("x", 1, 1, DATES[0], "v3"), ("y", 1, 2, DATES[1], "v4")),
            maker.delete("k = 3", lambda row: row["k"] == 3),
            maker.drop(a="x", b=1, c=DATES[1]),
        ),
        partitions=["a", "b", "c"],
        keys=["a", "b", "c", "k"],
        options={"bucket": "2"},
    )


def _upserts(maker: Maker) -> None:
    maker.write(*kv(0, 40, "a"))
    maker.write(*kv(10, 20, "b"))
    maker.delete("k < 15", lambda row: row["k"] < 15)
    maker.write(*kv(12, 14, "again"), (100, None))
    maker.write(*kv(0, 3, "twice"), *kv(1, 2, "in one write"))


def _lifecycles() -> Iterator[Case]:
    for form in CODECS:
        options = {"bucket": "3", "file.format": form}
        yield Case(f"pk_{form}", f"upserts and deletes, {form}", KV, _upserts, keys=["k"], options=options)
    options = {"bucket": "2"}
    yield Case("empty_append", "no snapshot", KV, lambda maker: None, options={"bucket": "-1"})
    yield Case("empty_pk", "no snapshot", KV, lambda maker: None, keys=["k"], options=options)
    yield Case(
        "truncated",
        "all rows removed, then some more",
        KV,
        lambda maker: (maker.write(*kv(0, 9, "a")), maker.truncate(), maker.write(*kv(3, 5, "b"))),
        keys=["k"],
        options=options,
    )
    yield Case(
        "emptied",
        "truncated, and left so",
        KV,
        lambda maker: (maker.write(*kv(0, 9, "a")), maker.truncate()),
        options={"bucket": "-1"},
    )
    yield Case(
        "deleted",
        "every row deleted by key",
        KV,
        lambda maker: (maker.write(*kv(0, 9, "a")), maker.delete("k >= 0", lambda row: True)),
        keys=["k"],
        options=options,
    )
    yield Case(
        "overwritten_pk",
        "whole overwrite of a primary-key table, an upsert after it",
        KV,
        lambda maker: (maker.write(*kv(0, 9, "a")), maker.overwrite(*kv(5, 7, "b")), maker.write(*kv(6, 8, "c"))),
        keys=["k"],
        options=options,
    )
    yield Case(
        "overwritten_pt",
        "overwrites: static, dynamic, whole by option; then an append",
        {"k": "INT", "v": "STRING", "p": "INT"},
        _overwrites,
        partitions=["p"],
        options={"bucket": "-1"},
    )


def _overwrites(maker: Maker) -> None:
    maker.write((1, "a", 1), (2, "b", 2), (3, "c", 3))
    maker.overwrite((10, "a2", 1), partition={"p": 1})
    maker.overwrite((20, "b2", 2), (40, "d", 4))
    maker.overwrite((5, "e", 5), (6, "f", 6), dynamic_partition_overwrite=False)
    maker.overwrite(partition={"p": 6})
    maker.write((7, "g", 7))


def _appends() -> Iterator[Case]:
    rows = [[(at, f"c{commit}", commit) for at in range(30)] for commit in range(3)]
    columns = {"k": "INT", "v": "STRING", "w": "BIGINT"}
    yield Case(
        "append_bucketed",
        "append table with four buckets, three commits",
        columns,
        lambda maker: [maker.write(*part) for part in rows],
        options={"bucket": "4", "bucket-key": "v,k"},
    )
    yield Case(
        "append_bucketed_once",
        "append table with four buckets, one commit",
        columns,
        lambda maker: maker.write(*rows[0]),
        options={"bucket": "4", "bucket-key": "v,k"},
        copied=True,
    )
    for form in CODECS:
        yield Case(
            f"append_unaware_{form}",
            f"append table without buckets in {form}, three commits",
            columns,
            lambda maker: [maker.write(*part) for part in rows],
            options={"bucket": "-1", "file.format": form},
        )


def _layouts() -> Iterator[Case]:
    for form in CODECS:
        yield Case(
            f"thin_{form}",
            f"data-file.thin-mode in {form}: no key columns in the files",
            KV,
            _upserts,
            keys=["k"],
            options={"bucket": "2", "data-file.thin-mode": "true", "file.format": form},
        )
    yield Case(
        "names",
        "data-file.path-directory, data-file.prefix, file.suffix.include.compression",
        {"p": "STRING", **KV},
        lambda maker: (
            maker.write(*(("x", *row) for row in kv(0, 5, "a"))),
            maker.write(*(("y", *row) for row in kv(2, 6, "b"))),
            maker.write(*(("x", *row) for row in kv(2, 6, "c"))),
        ),
        partitions=["p"],
        keys=["p", "k"],
        options={
            "bucket": "1",
            "data-file.path-directory": "data",
            "data-file.prefix": "mine-",
            "file.suffix.include.compression": "true",
        },
    )
    yield Case(
        "rolled",
        "files rolled by size: many in one bucket",
        KV,
        lambda maker: (maker.write(*kv(0, 20_000, "a" * 50)), maker.write(*kv(19_990, 20_010, "b"))),
        keys=["k"],
        options={"bucket": "1", "target-file-size": "64 kb"},
    )


def _evolve(maker: Maker) -> None:
    def typed(text: str) -> Any:
        return parse_type_text(text, "flink")

    maker.write((1, "a", 10, 1.5), (2, "b", 20, 2.5))
    maker.alter(AddColumn(("added",), typed("STRING")), then=lambda row: {**row, "added": None})
    maker.write((3, "c", 30, 3.5, "new"))
    maker.alter(
        RenameColumn(("s",), "renamed"),
        then=lambda row: {**{key: value for key, value in row.items() if key != "s"}, "renamed": row["s"]},
    )
    maker.write((4, "d", 40, 4.5, "x"))
    maker.alter(UpdateColumnType(("n",), typed("BIGINT")), UpdateColumnType(("f",), typed("DOUBLE")))
    maker.write((1, "e", 5_000_000_000, 0.1, "y"))
    maker.alter(DropColumn(("renamed",)), then=lambda row: {k: v for k, v in row.items() if k != "renamed"})
    maker.alter(AddColumn(("s",), typed("INT")), then=lambda row: {**row, "s": None})
    maker.write((6, 60, 6.5, "z", 600))
    maker.alter(UpdatePosition(("added",), after="k"))
    maker.write((7, "last", 70, 7.5, 700))


def _evolutions() -> Iterator[Case]:
    columns = {"k": "INT", "s": "STRING", "n": "INT", "f": "FLOAT"}
    for form in CODECS:
        covers = f"add, rename, widen, drop, reuse a dropped name, move, with data between, {form}"
        yield Case(f"evolved_{form}", covers, columns, _evolve, options={"bucket": "-1", "file.format": form})
        options = {"bucket": "2", "file.format": form}
        yield Case(f"evolved_pk_{form}", covers, columns, _evolve, keys=["k"], options=options)


def _widen_key(maker: Maker) -> None:
    maker.write((1, "a"), (2, "b"), (2**31 - 1, "c"))
    maker.merge(pa.table({"k": [2, 2**31, -5], "v": ["B", "d", "e"]}))
    maker.write((1, "A"), (2**31 - 1, "C"))


def _widened_keys() -> Iterator[Case]:
    covers = "a key widened by merge-schema, with data before and after"
    for name, options in (
        ("fixed", {"bucket": "3"}),
        ("dynamic", {"bucket": "-1"}),
        ("vectors", {"bucket": "2", "deletion-vectors.enabled": "true"}),
        ("avro", {"bucket": "2", "file.format": "avro"}),
    ):
        yield Case(f"widened_key_{name}", f"{covers}, {name}", KV, _widen_key, keys=["k"], options=options)
    bucketed = {"bucket": "3", "bucket-key": "k"}
    yield Case("widened_key_append", f"{covers}, append table", KV, _widen_key, options=bucketed)


def _stats() -> Iterator[Case]:
    columns = {"k": "INT", "s": "STRING", "n": "BIGINT"}
    rows = [
        (1, "a text of more than sixteen characters", 1),
        (2, None, None),
        (3, "zz\U0010ffff" * 9, 3),
        (4, "ü" * 20, 4),
    ]
    for form in CODECS:
        for mode in ("none", "counts", "full", "truncate(4)", "truncate(16)"):
            label = mode.replace("(", "_").rstrip(")")
            yield Case(
                f"stats_{label}_{form}",
                f"metadata.stats-mode = {mode}, one column by its own mode, {form}",
                columns,
                lambda maker: maker.write(*rows),
                options={
                    "bucket": "-1",
                    "file.format": form,
                    "metadata.stats-mode": mode,
                    "fields.n.stats-mode": "full",
                },
                copied=True,
            )
    yield Case(
        "stats_not_dense",
        "metadata.stats-dense-store off",
        columns,
        lambda maker: maker.write(*rows),
        options={"bucket": "-1", "metadata.stats-mode": "counts", "metadata.stats-dense-store": "false"},
        copied=True,
    )
    yield Case(
        "stats_pk",
        "statistics of a primary-key table with deletes; changed on the way",
        columns,
        lambda maker: (
            maker.write(*rows),
            maker.alter(SetOption("metadata.stats-mode", "full")),
            maker.write(*rows[1:]),
            maker.delete("k = 1", lambda row: row["k"] == 1),
        ),
        keys=["k"],
        options={"bucket": "1", "metadata.stats-mode": "truncate(3)"},
    )
