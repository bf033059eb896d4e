"""The tables whose files are damaged: together they have every kind of file, each a few kilobytes.

`make(folder)` writes them; `ACTIONS` says what is done to each after the damage, and what must come of it. A second
warehouse holds them as old releases recorded them, without sizes (`unsized`), so that damage gets past the length checks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.format.index.index_manifest import decode_index_manifest, encode_index_manifest
from bucketlake.format.metadata.manifest import (
    decode_manifest,
    decode_manifest_list,
    encode_manifest,
    encode_manifest_list,
)
from bucketlake.table import Table

ROWS = 40
SCHEMA = pa.schema(
    [
        ("pt", pa.string()),
        ("k", pa.int64()),
        ("name", pa.string()),
        ("n", pa.int32()),
        ("price", pa.decimal128(20, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("fine", pa.timestamp("ns")),
        ("flag", pa.bool_()),
        ("score", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("point", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("counts", pa.map_(pa.string(), pa.int64())),
    ]
)
COARSE = pa.schema([field for field in SCHEMA if field.name != "fine"])
INDEXED = pa.schema([SCHEMA.field(name) for name in ("pt", "k", "name", "n", "day", "flag")])
SMALL = {"source.split.target-size": "1kb"}


def rows(low: int, high: int, mark: str, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows with the keys from `low` up to `high`."""
    found = [_row(k, mark) for k in range(low, high)]
    return pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in found], schema=schema)


def _row(k: int, mark: str) -> dict[str, Any]:
    some = k % 5 != 0
    return {
        "pt": f"p{k % 2}",
        "k": k,
        "name": f"{mark}-{k}-{'long ' * (k % 4)}" if some else None,
        "n": k * 7 - 100,
        "price": Decimal(k * 1_000_003) / 100 if some else None,
        "day": date(2024, 1, 1 + k % 28),
        "at": datetime(2024 if k % 7 else 3024, 5, 6, 7, 8, k % 60, k * 1000 + 1),
        "fine": datetime(1969, 5, 6, 7, 8, k % 60, k * 1000 + 1) if some else None,
        "flag": k % 3 == 0,
        "score": k / 3 if some else None,
        "tags": [mark] * (k % 3) if some else None,
        "point": {"x": k, "y": mark},
        "counts": [(f"{mark}{i}", i) for i in range(k % 3)],
    }


# ---- the tables


def _keys(catalog: Catalog) -> None:
    options = {"bucket": "2", "num-sorted-run.compaction-trigger": "9", "file.format": "parquet"}
    table = catalog.create_table("keys", SCHEMA, ["pt"], ["pt", "k"], options)
    for number, mark in enumerate("abc"):
        table.write_arrow(rows(number * 10, ROWS, mark))
    table.delete("k = 11")


def _appended(format: str, schema: pa.Schema) -> Callable[[Catalog], None]:
    def make(catalog: Catalog) -> None:
        options = {"bucket": "-1", "file.format": format}
        table = catalog.create_table(format, schema, ["pt"], [], options)
        for number, mark in enumerate("ab"):
            table.write_arrow(rows(number * ROWS, number * ROWS + ROWS, mark, schema))

    return make


def _shredded(format: str) -> Callable[[Catalog], None]:
    """Maps of which a row has up to two keys, over one value column."""
    layout = {"storage-layout": "shared-shredding", "shared-shredding.max-columns": "1"}
    options = {"bucket": "-1", "file.format": format, **{f"fields.counts.map.{key}": v for key, v in layout.items()}}
    schema = pa.schema([SCHEMA.field(name) for name in ("k", "counts")])

    def make(catalog: Catalog) -> None:
        table = catalog.create_table(f"shredded_{format}", schema, [], [], options)
        for number, mark in enumerate("ab"):
            table.write_arrow(rows(number * ROWS, number * ROWS + ROWS, mark, schema))

    return make


def _marked(name: str, more: dict[str, str]) -> Callable[[Catalog], None]:
    def make(catalog: Catalog) -> None:
        options = {"bucket": "-1", "deletion-vectors.enabled": "true", **more}
        table = catalog.create_table(name, INDEXED, ["pt"], [], options)
        for number, mark in enumerate("ab"):
            table.write_arrow(rows(number * ROWS, number * ROWS + ROWS, mark, INDEXED))
        table.delete("k % 7 = 0 OR k > 70" if False else "k IN (0, 7, 14, 21, 50, 55) OR k > 70")

    return make


def _dynamic(catalog: Catalog) -> None:
    options = {"bucket": "-1", "dynamic-bucket.target-row-num": "15", "num-sorted-run.compaction-trigger": "9"}
    table = catalog.create_table("dynamic", INDEXED, ["pt"], ["pt", "k"], options)
    table.write_arrow(rows(0, ROWS, "a", INDEXED))
    table.write_arrow(rows(ROWS // 2, ROWS + 10, "b", INDEXED))


def _indexed(name: str, threshold: str) -> Callable[[Catalog], None]:
    def make(catalog: Catalog) -> None:
        options = {
            "bucket": "-1",
            "file-index.bloom-filter.columns": "name,k",
            "file-index.bitmap.columns": "name,n,flag",
            "file-index.range-bitmap.columns": "day,name",
            "file-index.bsi.columns": "n,k",
            "file-index.in-manifest-threshold": threshold,
        }
        table = catalog.create_table(name, INDEXED, [], [], options)
        table.write_arrow(rows(0, ROWS, "a", INDEXED))

    return make


def _tagged(catalog: Catalog) -> None:
    table = catalog.create_table("tagged", INDEXED, [], ["k"], {"bucket": "1", "changelog-producer": "input"})
    table.write_arrow(rows(0, ROWS, "a", INDEXED))
    snapshot = Path(table.path, "snapshot", "snapshot-1").read_bytes()
    for folder, name, data in (
        ("tag", "tag-first", snapshot),
        ("consumer", "consumer-slow", b'{"nextSnapshot": 1}'),
        ("statistics", "stat-1", json.dumps({"snapshotId": 1, "schemaId": 0}).encode()),
    ):
        Path(table.path, folder).mkdir(exist_ok=True)
        Path(table.path, folder, name).write_bytes(data)
    table.write_arrow(rows(5, ROWS, "b", INDEXED))
    last = Path(table.path, "snapshot", "snapshot-2")
    last.write_text(json.dumps({**json.loads(last.read_text()), "statistics": "stat-1"}))


def _looked(catalog: Catalog) -> None:
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "9", "file.format": "parquet"}
    table = catalog.create_table("looked", INDEXED, [], ["k"], options)
    for number, mark in enumerate("ab"):
        table.write_arrow(rows(number * 10, ROWS, mark, INDEXED))


def _blobs(catalog: Catalog) -> None:
    """Values of columns in several blob files, some of which another file replaces, and rows that are deleted."""
    options = {
        **{"row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true"},
        **{"blob-field": "pic,pics,parts", "blob.target-file-size": "2kb", "compaction.min.file-num": "100"},
    }
    kinds = {"pic": pa.binary(), "pics": pa.list_(pa.binary()), "parts": pa.map_(pa.string(), pa.binary())}
    schema = pa.schema([("k", pa.int64()), ("name", pa.string()), *kinds.items()])
    values = [None if k % 6 == 3 else bytes([k]) * (k * 37 % 400) for k in range(ROWS)]
    several = [None if k % 7 == 2 else [values[k], b"x", None][: k % 4] for k in range(ROWS)]
    named = [None if k % 5 == 1 else [(f"n{n}", values[k]) for n in range(k % 3)] for k in range(ROWS)]
    table = catalog.create_table("blobs", schema, [], [], options)
    table.write_arrow(pa.table([range(ROWS), [f"n{k}" for k in range(ROWS)], values, several, named], schema))
    table.refresh().update({"pic": b"another", "pics": [b"another", None]}, "k IN (4, 9, 10, 38)")
    table.refresh().delete("k IN (5, 17)")


def _searched(catalog: Catalog) -> None:
    """Global indexes of two kinds, over two files."""
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    table = catalog.create_table("searched", INDEXED, [], [], options)
    for number, mark in enumerate("ab"):
        table.write_arrow(rows(number * ROWS, number * ROWS + ROWS, mark, INDEXED))
    table.create_global_index("k", btree_index_block_size="100 b")
    table.create_global_index("name", "bitmap")
    table.create_global_index("n", "bitmap", bitmap_index_compression="zstd")


TABLES: dict[str, Callable[[Catalog], None]] = {
    "keys": _keys,
    "parquet": _appended("parquet", SCHEMA),
    "orc": _appended("orc", SCHEMA),
    "avro": _appended("avro", COARSE),
    "marked": _marked("marked", {}),
    "marked64": _marked("marked64", {"deletion-vectors.bitmap64": "true"}),
    "dynamic": _dynamic,
    "indexed": _indexed("indexed", "1b"),
    "embedded": _indexed("embedded", "1mb"),
    "tagged": _tagged,
    "looked": _looked,
    "blobs": _blobs,
    "searched": _searched,
    "shredded_parquet": _shredded("parquet"),
    "shredded_orc": _shredded("orc"),
}


def make(folder: Path) -> None:
    """Write all tables below `folder`."""
    catalog = bucketlake.open(folder)
    for build in TABLES.values():
        build(catalog)


def unsized(folder: Path) -> None:
    """Take the recorded sizes of metadata, indexes and data files away, as releases before them left them out."""
    for path in folder.rglob("manifest/manifest-*"):
        data = path.read_bytes()
        if path.name.startswith("manifest-list-"):
            lists = [replace(entry, file_size=0) for entry in decode_manifest_list(data)]
            path.write_bytes(encode_manifest_list(lists))
        else:
            entries = [replace(e, file=replace(e.file, file_size=0)) for e in decode_manifest(data)]
            path.write_bytes(encode_manifest(entries))
    for path in folder.rglob("manifest/index-manifest-*"):
        found = decode_index_manifest(path.read_bytes())
        found = [e if e.file.global_index else replace(e, file=replace(e.file, file_size=0)) for e in found]
        path.write_bytes(encode_index_manifest(found))
    for path in [*folder.rglob("snapshot/snapshot-*"), *folder.rglob("tag/tag-*")]:
        tree = json.loads(path.read_text())
        path.write_text(json.dumps({key: value for key, value in tree.items() if not key.endswith("ManifestListSize")}))


# ---- what is done with them

Rows = list[tuple[str, ...]]


def listed(found: pa.Table) -> Rows:
    columns = [[repr(value) for value in _shown(column).to_pylist()] for column in found.columns]
    return sorted(zip(*columns, strict=True))


def _shown(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Timestamps and dates as numbers: a damaged one may be none of Python's."""
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _read(table: Table) -> dict[str, Rows]:
    return {"all": listed(table.to_arrow())}


WHERE = ("k = 7", "name = 'a-7-long long long '", "n < -50", "day > '2024-01-20'", "flag", "n IN (5, 12) OR name = 'x'")


def _ask(table: Table) -> dict[str, Rows]:
    return {where: listed(table.to_arrow(where)) for where in WHERE}


def _search(table: Table) -> dict[str, Rows]:
    asked = (
        "k = 7",
        "k > 30 AND k < 45",
        "name LIKE 'b-4%'",
        "name IS NULL",
        "name <> 'x'",
        "n IN (5, 12, 40)",
        "n > 400",
    )
    return {where: listed(table.to_arrow(where)) for where in asked}


def _upsert(table: Table) -> dict[str, Rows]:
    table.compact()
    table.write_arrow(rows(0, ROWS + 20, "z", INDEXED))
    return _read(table.refresh())


def _travel(table: Table) -> dict[str, Rows]:
    found = {"now": listed(table.to_arrow()), "then": listed(table.to_arrow(**{"scan.tag-name": "first"}))}
    found["changes"] = listed(table.to_arrow(**{"incremental-between": "1,2"}))
    table.store.consumers()
    table.write_arrow(rows(0, 3, "c", INDEXED))
    found["later"] = listed(table.refresh().to_arrow())
    return found


def _look(table: Table) -> dict[str, Rows]:
    return {"rows": listed(table.lookup(pa.table({"k": [*range(0, ROWS, 3), ROWS + 7]})))}


ACTIONS: dict[str, Callable[[Table], dict[str, Rows]]] = {
    "indexed": _ask,
    "embedded": _ask,
    "searched": _search,
    "dynamic": _upsert,
    "tagged": _travel,
    "looked": _look,
}
WRITING = ("dynamic", "tagged")


def act(folder: Path, name: str) -> dict[str, Rows]:
    """What the table's action answers, by the question."""
    table = bucketlake.open(folder).table(name)
    return ACTIONS.get(name, _read)(table)
