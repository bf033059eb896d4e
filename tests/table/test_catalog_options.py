"""Options of `bucketlake.open`: honoured, harmless, or refused before anything is read or made."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.errors import InvalidError, UnsupportedError

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metastore", "hive"),
        ("metastore", "dlf"),
        ("uri", "jdbc:mysql://host?password=hunter2"),
        ("lock.enabled", "true"),
        ("lock.enabled", True),
        ("lock.type", "zookeeper"),
        ("case-sensitive", "false"),
        ("case-sensitive", False),
        ("table.type", "external"),
        ("type", "iceberg"),
        ("resolving-file-io.enabled", "true"),
        ("default-database", "sales"),
        ("defaultDatabase", "sales"),
        ("disable-create-table-in-default-db", "true"),
        ("table-default.blob-view-field", "b"),
        ("table-default.file.format", "csv"),
    ],
)
def test_what_moves_tables_or_names_is_refused_by_name(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(UnsupportedError, match=key.removeprefix("table-default.")) as caught:
        bucketlake.open(tmp_path / "wh", {key: value})
    assert caught.value.remedy
    assert "hunter2" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_python_names_of_catalog_options(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"lock\.enabled"):
        bucketlake.open(tmp_path, lock_enabled=True)
    with pytest.raises(UnsupportedError, match="case-sensitive"):
        bucketlake.open(tmp_path, case_sensitive=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bucketlake.open(tmp_path, cache_enabled=False, metastore="filesystem", uri=None)


@pytest.mark.parametrize(
    "options",
    [
        {"metastore": "filesystem", "type": "paimon", "lock.enabled": "false", "case-sensitive": "true"},
        {"table.type": "MANAGED", "default-database": "default", "sync-all-properties": "false"},
        {"cache-enabled": "false", "cache.manifest.max-memory": "1 gb", "local-cache.dir": "/tmp/x"},
        {
            "s3.endpoint": "http://localhost:1",
            "fs.s3a.access.key": "x",
            "hadoop.fs.defaultFS": "x",
            "hive-conf-dir": "/x",
        },
        {"table-default.bucket": "4", "table-default.my.own": "x"},
    ],
)
def test_what_changes_nothing_is_accepted_without_a_word(tmp_path: Path, options: dict[str, str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bucketlake.open(tmp_path, options)


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("metastor", "did you mean 'metastore'"),
        ("lock.enable", r"did you mean 'lock\.enabled'"),
        ("s3-endpoint", r"did you mean 's3\.endpoint'"),
        ("sprak", r"did you mean 'spark'"),
        ("merge-engine", "write 'table-default.merge-engine'"),
        ("bukcet-key", "write 'table-default.bucket-key'"),
        ("something-else", "no effect$"),
    ],
)
def test_unknown_keys_are_warned_of(tmp_path: Path, key: str, advice: str) -> None:
    with pytest.warns(UserWarning, match=advice) as caught:
        bucketlake.open(tmp_path, {key: "hunter2"})
    assert "hunter2" not in str(caught[0].message)


def test_malformed_table_defaults_are_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="write-only"):
        bucketlake.open(tmp_path, {"table-default.write-only": "perhaps"})
    with pytest.warns(UserWarning, match="'merge_engine'.*'merge-engine'"):
        bucketlake.open(tmp_path, {"table-default.merge_engine": "first-row"})


def test_the_warehouse_is_named_once(tmp_path: Path) -> None:
    for same in (str(tmp_path), f"{tmp_path}/", f"file://{tmp_path}"):
        assert bucketlake.open(tmp_path, {"warehouse": same}).warehouse == str(tmp_path)
    with pytest.raises(InvalidError, match="two warehouses"):
        bucketlake.open(tmp_path, {"warehouse": f"{tmp_path}/other"})


def test_table_defaults_reach_new_tables(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path, {"table-default.write-only": True})
    assert catalog.create_table("t", SCHEMA).options.get("write-only") is True
    assert catalog.create_table("u", SCHEMA, options={"write-only": "false"}).options.get("write-only") is False


def test_an_object_is_no_value_of_an_option(tmp_path: Path) -> None:
    with (
        pytest.warns(UserWarning, match="'sprak' is not known.*did you mean 'spark'"),
        pytest.raises(InvalidError, match="an option's value has no text.*type=object"),
    ):
        bucketlake.open(tmp_path, sprak=object())
    for value in (tmp_path, 1, 1.5, True, "x", ["a", 2]):
        bucketlake.open(tmp_path, **{"oss.any": value})
