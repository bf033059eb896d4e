"""System tables of metadata without Spark: columns, texts, conditions that leave out files, time travel, refusals."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError
from bucketlake.format.metadata.manifest import ManifestFile
from bucketlake.ops.system.history import duration_text
from bucketlake.ops.system.texts import hash_order
from bucketlake.ops.table.store import Store
from bucketlake.schema.change import AddColumn, DropColumn, SetOption, UpdateColumnType
from bucketlake.table import Table
from bucketlake.types.model import DataType, Root

SCHEMA = pa.schema([pa.field("p", pa.date32()), pa.field("k", pa.int64()), pa.field("s", pa.string())])


def create(catalog: Catalog, keyed: bool = True, **options: Any) -> Table:
    given = {"bucket": 2 if keyed else -1, **options}
    return catalog.create_table("db.t", SCHEMA, ["p"], ["p", "k"] if keyed else [], options=given)


def put(table: Table, *rows: tuple[int | None, int, str | None]) -> None:
    days = [None if day is None else dt.date(2024, 1, day) for day, _, _ in rows]
    table.write_arrow(pa.table([days, [k for _, k, _ in rows], [s for _, _, s in rows]], schema=SCHEMA))


def rows(catalog: Catalog, name: str, *columns: str, **arguments: Any) -> list[tuple[Any, ...]]:
    found = catalog.table(f"db.t${name}").to_arrow(columns=columns or None, **arguments)
    return [tuple(row.values()) for row in found.to_pylist()]


def test_snapshots(catalog: Catalog) -> None:
    table = create(catalog, **{"write-only": True})
    assert rows(catalog, "snapshots") == []
    put(table, (1, 1, "a"))
    put(table, (1, 2, "b"))
    table.compact()
    found = catalog.table("db.t$snapshots").to_arrow()
    assert found.schema.field("snapshot_id") == pa.field("snapshot_id", pa.int64(), nullable=False)
    assert found.schema.field("commit_time") == pa.field("commit_time", pa.timestamp("ms"), nullable=False)
    assert found.schema.names[8:] == [
        *("changelog_manifest_list", "total_record_count", "delta_record_count", "changelog_record_count", "watermark"),
        *("next_row_id", "operation", "writer_version"),
    ]
    assert rows(catalog, "snapshots", "snapshot_id", "commit_kind", "total_record_count", "operation") == [
        (1, "APPEND", 1, "WRITE"),
        (2, "APPEND", 2, "WRITE"),
        (3, "COMPACT", 2, None),
    ]
    latest = table.latest_snapshot()
    assert latest is not None
    local = dt.datetime.fromtimestamp(latest.time_millis / 1000).replace(microsecond=latest.time_millis % 1000 * 1000)
    assert rows(catalog, "snapshots", "commit_time", where="snapshot_id = 3") == [(local,)]


def test_conditions_leave_out_files(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(catalog)
    for day in (1, 2, 3):
        put(table, (day, day, "a"))
    asked: list[Any] = []
    snapshot, manifests = Store.find_snapshot, Store.manifests

    def found(store: Store, number: int) -> Any:
        asked.append(number)
        return snapshot(store, number)

    def opened(store: Store, files: list[ManifestFile]) -> Any:
        asked.extend(file.file_name for file in files)
        return manifests(store, files)

    monkeypatch.setattr(Store, "find_snapshot", found)
    assert rows(catalog, "snapshots", "snapshot_id", where="snapshot_id IN (1, 3) AND commit_kind = 'APPEND'") == [
        (1,),
        (3,),
    ]
    assert asked == [1, 3]
    monkeypatch.undo()
    monkeypatch.setattr(Store, "manifests", opened)
    for name, text in (("files", "{2024-01-02}"), ("buckets", "{2024-01-02}"), ("partitions", "p=2024-01-02")):
        asked.clear()
        assert rows(catalog, name, "partition", where=f"partition = '{text}'") == [(text,)]
        assert len(asked) == 1, name
    assert rows(catalog, "files", "partition", where="partition = '2024-01-02'") == []
    everywhere = rows(catalog, "files", "partition", "bucket", "level")
    for bucket in (0, 1):
        assert rows(catalog, "files", "partition", "bucket", "level", where=f"bucket = {bucket}") == [
            row for row in everywhere if row[1] == bucket
        ]
    assert rows(catalog, "files", "level", where="level > 0") == []
    assert len(rows(catalog, "files", "level", where="level = 0 AND record_count = 1", limit=2)) == 2
    assert rows(catalog, "manifests", "num_added_files", where="schema_id = 1") == []


def test_partition_texts_that_look_alike(catalog: Catalog) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string()), ("n", pa.int32()), ("v", pa.int32())])
    table = catalog.create_table("db.t", schema, ["a", "b", "n"])
    parts = [("x", "y", 1), ("x, y", "z", 1), ("null", "y", None), (None, "y", None), (" ", "y", 7)]
    table.write_arrow(pa.Table.from_pylist([{"a": a, "b": b, "n": n, "v": 1} for a, b, n in parts], schema))
    texts = {"{x, y, 1}": 1, "{x, y, z, 1}": 1, "{null, y, null}": 2, "{x, y, 01}": 0, "{ , y, 7}": 1, "{x, y}": 0}
    for text, count in texts.items():
        assert len(rows(catalog, "files", "partition", where=f"partition = '{text}'")) == count, text
    null = "__DEFAULT_PARTITION__"
    named = {f"a={null}/b=y/n={null}": 1, f"a=null/b=y/n={null}": 1, f"a={null}/b=y/n=7": 1, "a= /b=y/n=7": 0}
    for text, count in named.items():
        assert len(rows(catalog, "partitions", "partition", where=f"partition = '{text}'")) == count, text
    assert rows(catalog, "partitions", "partition", where=["partition LIKE 'a=x,%'", " n = 1"][0]) == [
        ("a=x, y/b=z/n=1",)
    ]


def test_texts_of_keys_and_statistics(catalog: Catalog) -> None:
    schema = pa.schema(
        [
            *(("k", pa.date32()), ("d", pa.float64()), ("f", pa.float32()), ("t", pa.timestamp("us"))),
            *(("c", pa.decimal128(10, 2)), ("b", pa.bool_()), ("l", pa.list_(pa.int32())), ("Z", pa.string())),
        ]
    )
    table = catalog.create_table("db.t", schema, (), ["k", "Z"], {"bucket": 1})
    day, time = dt.date(2024, 1, 31), dt.datetime(2024, 1, 31, 2, 3, 4, 500)
    first = {"k": day, "d": 1.5e10, "f": 0.1, "t": time, "c": Decimal("1.50"), "b": True, "l": [1], "Z": "ä, x"}
    table.write_arrow(pa.Table.from_pylist([first], schema))
    (file,) = rows(catalog, "files", "min_key", "null_value_counts", "min_value_stats", "max_value_stats")
    assert file == (
        "[19753, ä, x]",
        "{Z=0, b=0, c=0, d=0, f=0, k=0, l=0, t=0}",
        "{Z=ä, x, b=true, c=1.50, d=1.5E10, f=0.1, k=19753, l=null, t=2024-01-31T02:03:04.000500}",
        "{Z=ä, x, b=true, c=1.50, d=1.5E10, f=0.1, k=19753, l=null, t=2024-01-31T02:03:04.000500}",
    )
    assert rows(catalog, "files", "partition", "file_source", "write_cols") == [("{}", "APPEND", None)]
    ranges = rows(catalog, "file_key_ranges", "min_key", "max_key", "first_row_id")
    assert ranges == [("[19753, ä, x]", "[19753, ä, x]", None)]


def test_statistics_follow_the_schema(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", pa.schema([("a", pa.int32()), ("b", pa.int32()), ("c", pa.string())]))
    table.write_arrow({"a": [1, 4], "b": [2, None], "c": ["3", "6"]})
    table = table.alter(
        AddColumn("d", DataType(Root.INT)), DropColumn("c"), UpdateColumnType("a", DataType(Root.BIGINT))
    )
    table.write_arrow({"a": [7], "b": [8], "d": [9]})
    found = rows(catalog, "files", "null_value_counts", "min_value_stats", "max_value_stats")
    assert found == [
        ("{a=0, b=1, d=2}", "{a=1, b=2, d=null}", "{a=4, b=2, d=null}"),
        ("{a=0, b=0, d=0}", "{a=7, b=8, d=9}", "{a=7, b=8, d=9}"),
    ]
    assert rows(catalog, "files", "max_value_stats", scan_snapshot_id=1) == [("{a=4, b=2, c=6}",)]
    table.with_options({"metadata.stats-mode": "none"}).write_arrow({"a": [1], "b": [1], "d": [1]})
    assert rows(catalog, "files", "null_value_counts", "min_value_stats")[2] == (
        "{a=null, b=null, d=null}",
        "{a=null, b=null, d=null}",
    )


def test_summaries(catalog: Catalog) -> None:
    table = create(catalog, keyed=False, **{"deletion-vectors.enabled": True})
    put(table, (1, 1, "a"), (1, 2, "b"), (None, 3, "c"))
    put(table, (1, 4, "d"))
    table.delete("k = 2")
    columns = ("partition", "record_count", "file_count", "total_buckets", "done", "deleted_record_count")
    assert rows(catalog, "partitions", *columns) == [
        ("p=2024-01-01", 3, 2, -1, False, 1),
        ("p=__DEFAULT_PARTITION__", 1, 1, -1, False, 0),
    ]
    assert rows(catalog, "partitions", "created_at", "created_by", "updated_by", "options", limit=1) == [(None,) * 4]
    assert rows(catalog, "buckets", "partition", "bucket", "record_count", "file_count") == [
        ("{2024-01-01}", 0, 3, 2),
        ("{null}", 0, 1, 1),
    ]
    ((partition, kind, ranges),) = rows(catalog, "table_indexes", "partition", "index_type", "dv_ranges")
    assert (partition, kind) == ("{2024-01-01}", "DELETION_VECTORS")
    assert list(ranges[0]) == ["f0", "f1", "f2", "_CARDINALITY"] and ranges[0]["_CARDINALITY"] == 1
    assert rows(catalog, "manifests", "num_added_files", "min_partition_stats", "max_partition_stats") == [
        (2, "{2024-01-01}", "{2024-01-01}"),
        (1, "{2024-01-01}", "{2024-01-01}"),
    ]
    assert rows(catalog, "manifests", "num_added_files", scan_snapshot_id=1) == [(2,)]
    assert rows(catalog, "table_indexes", "row_count", scan_snapshot_id=1) == []
    table.drop_partitions([{"p": "2024-01-01"}])
    assert [row[0] for row in rows(catalog, "partitions")] == ["p=__DEFAULT_PARTITION__"]


def test_pending_rows(catalog: Catalog) -> None:
    table = create(catalog, bucket=-2)
    table.with_options({"postpone.batch-write-fixed-bucket": False}).write_arrow(
        pa.table([[dt.date(2024, 1, 1)], [1], ["a"]], schema=SCHEMA)
    )
    assert rows(catalog, "buckets", "bucket", where="bucket = -2") == [(-2,)]
    assert rows(catalog, "files") == rows(catalog, "partitions") == []


def test_schemas_and_options(catalog: Catalog) -> None:
    options = {
        "merge-engine": "aggregation",
        "fields.s.aggregate-function": "last_value",
        "fields.s.ignore-retract": "true",
    }
    table = create(catalog, **options)
    table.alter(AddColumn("n", DataType(Root.INT), "what for"), SetOption("snapshot.num-retained.max", "70"))
    fields = [json.loads(found) for (found,) in rows(catalog, "schemas", "fields")]
    assert [field["name"] for field in fields[0]] == ["p", "k", "s"]
    assert fields[1][3] == {"id": 3, "name": "n", "type": "INT", "description": "what for"}
    assert rows(catalog, "schemas", "fields", where="schema_id = 0") == [
        (
            '[{"id":0,"name":"p","type":"DATE NOT NULL"},{"id":1,"name":"k","type":"BIGINT NOT NULL"},'
            '{"id":2,"name":"s","type":"STRING"}]',
        )
    ]
    assert rows(catalog, "schemas", "partition_keys", "primary_keys", "comment", limit=1) == [
        ('["p"]', '["p","k"]', None)
    ]
    assert dict(rows(catalog, "options")) == {**options, "bucket": "2", "snapshot.num-retained.max": "70"}
    assert dict(rows(catalog, "options", scan_snapshot_id=5)) == dict(rows(catalog, "options"))
    aggregated = rows(catalog, "aggregation_fields")
    assert aggregated[0] == ("p", "DATE NOT NULL", "[]", "[]", None)
    assert aggregated[2][:2] == ("s", "STRING") and sorted(aggregated[2][2]) == sorted("[last_value, true]")
    assert aggregated[3][4] == "what for"


def test_java_order_of_options() -> None:
    keys = [f"fields.c{number}.aggregate-function" for number in range(20)]
    assert hash_order(["merge-engine", "bucket", "file.format"]) == ["bucket", "merge-engine", "file.format"]
    assert sorted(hash_order(keys)) == sorted(keys) and hash_order(keys) != keys
    assert hash_order(["Aa", "BB"]) == ["Aa", "BB"] and hash_order(["BB", "Aa"]) == ["BB", "Aa"]  # one hash


def test_tags_branches_and_consumers(catalog: Catalog) -> None:
    table = create(catalog)
    put(table, (1, 1, "a"))
    root = Path(table.path)
    snapshot = json.loads((root / "snapshot" / "snapshot-1").read_text())
    for name, more in {
        "b": {"tagCreateTime": [2024, 10, 2, 3, 4, 5, 678_901_000], "tagTimeRetained": 86400.0},
        "a": {"tagCreateTime": [2024, 10, 2, 3, 4]},
    }.items():
        (root / "tag").mkdir(exist_ok=True)
        (root / "tag" / f"tag-{name}").write_text(json.dumps({**snapshot, **more}))
    assert rows(catalog, "tags", "tag_name", "snapshot_id", "record_count", "create_time", "time_retained") == [
        ("a", 1, 1, dt.datetime(2024, 10, 2, 3, 4), None),
        ("b", 1, 1, dt.datetime(2024, 10, 2, 3, 4, 5, 678000), "PT24H"),
    ]
    assert rows(catalog, "tags", "tag_name", where="tag_name = 'b'") == [("b",)]
    assert rows(catalog, "tags", where="tag_name = '../x'") == []
    (root / "consumer").mkdir()
    (root / "consumer" / "consumer-me").write_text('{"nextSnapshot": 4}')
    assert rows(catalog, "consumers") == [("me", 4)]
    (root / "branch" / "branch-b1").mkdir(parents=True)
    (root / "schema").rename(root / "kept")
    (root / "branch" / "branch-b1" / "schema").mkdir()
    text = (root / "kept" / "schema-0").read_text()
    (root / "branch" / "branch-b1" / "schema" / "schema-0").write_text(text.replace('"bucket" : "2"', '"bucket" : "5"'))
    (root / "kept").rename(root / "schema")
    ((name, created),) = rows(catalog, "branches")
    assert name == "b1" and abs(created - dt.datetime.now()) < dt.timedelta(minutes=5)
    assert rows(catalog, "branch_b1$options") == [("bucket", "5")]
    assert rows(catalog, "branch_b1$snapshots") == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        ("0", "PT0S"),
        ("86400.0", "PT24H"),
        ("90", "PT1M30S"),
        ("3661.5", "PT1H1M1.5S"),
        ("0.000000001", "PT0.000000001S"),
    ],
)
def test_durations(seconds: str, text: str) -> None:
    assert duration_text(Decimal(seconds)) == text


def test_statistics(catalog: Catalog) -> None:
    table = create(catalog)
    put(table, (1, 1, "a"))
    assert rows(catalog, "statistics") == []
    root = Path(table.path)
    snapshot = json.loads((root / "snapshot" / "snapshot-1").read_text())
    (root / "statistics").mkdir()
    stats = {"snapshotId": 1, "schemaId": 0, "mergedRecordCount": 1, "mergedRecordSize": 10, "colStats": {}}
    (root / "statistics" / "stat-1").write_text(json.dumps(stats))
    changed = {**snapshot, "id": 2, "statistics": "stat-1", "commitKind": "ANALYZE"}
    (root / "snapshot" / "snapshot-2").write_text(json.dumps(changed))
    assert rows(catalog, "statistics") == [(1, 0, 1, 10, "{ }")]
    assert rows(catalog, "statistics", scan_snapshot_id=1) == []
    column = {"colId": 1, "distinctCount": 1, "min": "1", "max": "1", "nullCount": 0, "avgLen": 8, "maxLen": 8}
    (root / "statistics" / "stat-1").write_text(json.dumps({**stats, "colStats": {"k": column}}))
    ((shown,),) = rows(catalog, "statistics", "colstat")
    assert shown.startswith('{\n  "k" : {\n    "colId" : 1,\n    "distinctCount" : 1,') and json.loads(shown) == {
        "k": column
    }


def test_file_indexes(catalog: Catalog) -> None:
    create(
        catalog, keyed=False, **{"file-index.bloom-filter.columns": "k,s", "file-index.in-manifest-threshold": "1 gb"}
    )
    table = catalog.table("db.t")
    put(table, (1, 1, None))
    columns = ("partition", "column_name", "index_type", "storage_type", "index_file_path", "is_empty")
    found = rows(catalog, "file_indexes", *columns)
    assert [row[:5] for row in sorted(found)] == [
        ("{2024-01-01}", name, "bloom-filter", "EMBEDDED", None) for name in ("k", "s")
    ]
    put(table.with_options({"file-index.in-manifest-threshold": "1 b"}), (2, 1, "x"))
    ((path, size, container),) = rows(
        catalog,
        "file_indexes",
        "index_file_path",
        "index_size_in_bytes",
        "index_container_size_in_bytes",
        where="storage_type = 'FILE' AND column_name = 'k'",
    )
    assert Path(path).stat().st_size == container > size > 0


def test_of_the_catalog(catalog: Catalog) -> None:
    put(create(catalog), (1, 1, "a"))
    catalog.create_table("default.plain", pa.schema([("a", pa.int32())]), options={"owner": "me"})

    def found(name: str, *columns: str, where: str | None = None) -> list[tuple[Any, ...]]:
        data = catalog.table(f"sys.{name}").to_arrow(columns=columns or None, where=where)
        return [tuple(row.values()) for row in data.to_pylist()]

    assert found("tables", "database_name", "table_name", "table_type", "partitioned", "primary_key", "owner") == [
        ("db", "t", "table", True, True, None),
        ("default", "plain", "table", False, False, "me"),
    ]
    assert found("tables", "record_count", "created_at", where="table_name = 't'") == [(None, None)]
    assert found("partitions", "table_name", "partition_name", "record_count", "done") == [("t", "p=19723", 1, False)]
    assert found("all_table_options", "key", where="database_name = 'db'") == [("bucket",), ("path",)]
    assert ("warehouse", catalog.warehouse) in found("catalog_options")
    assert catalog.list_tables("sys") == ["all_table_options", "catalog_options", "partitions", "tables"]
    assert "sys" not in catalog.list_databases()
    assert catalog.table("sys.tables").refresh().with_options(scan_snapshot_id=1).to_arrow().num_rows == 2


def test_secrets_of_the_catalog_stay_hidden(tmp_path: Path) -> None:
    made = bucketlake.open(tmp_path, {"s3.secret-key": "hush"})
    assert {"key": "s3.secret-key", "value": "***"} in made.table("sys.catalog_options").to_arrow().to_pylist()
    off = bucketlake.open(tmp_path, {"catalog-options-table.enabled": "false"})
    with pytest.raises(NotFoundError, match="no such system table"):
        off.table("sys.catalog_options")


def test_refusals(catalog: Catalog) -> None:
    create(catalog)
    for name, remedy in {"db.t$file": "did you mean '\\$files'", "sys.table": "did you mean 'sys.tables'"}.items():
        with pytest.raises(NotFoundError, match=remedy):
            catalog.table(name)
    with pytest.raises(NotFoundError, match="no such table"):
        catalog.table("db.none$files")
    with pytest.raises(InvalidError, match="does not support row tracking"):
        catalog.table("db.t$row_tracking")
    files = catalog.table("db.t$FILES")
    assert files.schema.field_names[0] == "partition"
    for action in (
        lambda: files.write_arrow({"bucket": [1]}),
        lambda: files.delete("true"),
        lambda: files.compact(),
        lambda: files.alter(SetOption("a", "b")),
        lambda: catalog.table("sys.tables").truncate(),
        lambda: catalog.drop_table("db.t$files"),
        lambda: files.plan(),
    ):
        with pytest.raises(InvalidError, match="system table"):
            action()
    with pytest.raises(InvalidError, match="did you mean 'bucket'"):
        files.to_arrow(columns=["buckets"])
    with pytest.raises(UnsupportedError, match="one snapshot"):
        files.to_arrow(incremental_between="1,2")
    with pytest.raises(NotFoundError, match="There is currently no snapshot"):
        files.to_arrow(scan_snapshot_id=9)
