"""What consoles and notebooks show: short, escaped, and never an error."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import bucketlake

SCHEMA = pa.schema([("id", pa.int64()), ("<b>x", pa.string())])


def test_a_table(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "2", "write-only": "true"}
    table = catalog.create_table("default.t", SCHEMA, primary_keys=["id"], options=options, comment="<script>&")
    assert repr(table) == "Table('default.t', 2 columns, key (id), no snapshot yet)"
    for number in range(3):
        table.write_arrow(pa.table({"id": [number], "<b>x": ["a"]}))
    assert repr(table) == "Table('default.t', 2 columns, key (id), snapshot 3, 3 records in 3 files)"
    html = table._repr_html_()
    assert "&lt;script&gt;&amp;" in html
    assert "&lt;b&gt;x" in html
    assert "<script" not in html
    assert "<b>x" not in html
    assert "1 of 1 buckets have more than 2 runs: CALL sys.compact" in html
    assert repr(catalog.table("default.t$files")).startswith("Table('default.t$files', ")
    assert repr(catalog.table("sys.tables")).startswith("Table('sys.tables', ")
    catalog.table("sys.tables")._repr_html_()


def test_values_are_short(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), ("day", pa.string())])
    options = {"bucket": "1", "s3.secret-key": "hush"}
    table = bucketlake.open(tmp_path).create_table("t", schema, ["day"], ["day", "id"], options)
    table.write_arrow({"id": [1, 2], "day": ["a", "a"]})
    assert repr(table.schema) == (
        "TableSchema(id=0, [id BIGINT NOT NULL, day STRING NOT NULL], partition_keys=['day'], "
        "primary_keys=['day', 'id'], options={'bucket': '1', 's3.secret-key': '***'})"
    )
    (file,) = table.files()
    assert repr(file) == (
        f"TableFile({file.path!r}, partition={{'day': 'a'}}, bucket=0, level=0, row_count=2, file_size={file.file_size})"
    )
    assert repr(table.plan()) == f"Plan(snapshot=1, 1 files, 1 splits, row_count=2, size={file.file_size})"


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    table = bucketlake.open(tmp_path).create_table("default.t", SCHEMA)
    table.write_arrow(pa.table({"id": [1], "<b>x": ["a"]}))
    for path in (tmp_path / "default.db" / "t" / "manifest").iterdir():
        path.write_bytes(b"<b>no manifest")
    again = bucketlake.open(tmp_path).table("default.t").with_options({"manifest.delete-file-drop-stats": "true"})
    bucketlake.ops.table.store.clear_cache()
    assert "unreadable" in repr(again)
    assert "unknown" in again._repr_html_()
    (tmp_path / "default.db" / "t" / "snapshot" / "snapshot-1").write_bytes(b"<i>{")
    bucketlake.ops.table.store.clear_cache()
    assert "unreadable" in repr(again)
    assert "<i>" not in again._repr_html_()


def test_a_warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = bucketlake.open(tmp_path)
    assert "no tables yet" in catalog._repr_html_()
    catalog.create_database("a&b")
    catalog.create_table("a&b.t", SCHEMA)
    assert catalog.tables() == ["a&b.t"]
    assert catalog.tables("default") == []
    assert repr(catalog) == f"Catalog('{tmp_path}')"
    assert "a&amp;b.t" in catalog._repr_html_()
    monkeypatch.setattr(type(catalog), "list_databases", lambda self: 1 / 0)
    assert "unreadable: division" in catalog._repr_html_()
