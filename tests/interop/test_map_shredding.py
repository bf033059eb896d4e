"""Shredded MAP columns: Apache Paimon on Flink reads the files written here, writes such files, and goes on in turns."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.format.test_map_shredding import metadata
from tests.peers.flink import FlinkPaimon
from tests.profile import later

import bucketlake
from bucketlake.schema.change import SetOption
from bucketlake.table import Table

pytestmark = pytest.mark.peer

LAYOUT = "fields.m.map.storage-layout"
COLUMNS = "fields.m.map.shared-shredding.max-columns"
PLACEMENT = "fields.m.map.shared-shredding.column-placement-policy"
SCHEMA = pa.schema([("id", pa.int32()), ("m", pa.map_(pa.string(), pa.int64()))])
ORDER = "SELECT id, m FROM t ORDER BY id"
Rows = list[tuple[Any, ...]]


def ours(table: Table) -> Rows:
    found = table.refresh().to_arrow(columns=["id", "m"]).sort_by("id").to_pylist()
    return [(row["id"], None if row["m"] is None else dict(row["m"])) for row in found]


def data(*rows: tuple[int, dict[str, int | None] | None]) -> pa.Table:
    lists = [None if one is None else list(one.items()) for _, one in rows]
    return pa.table([pa.array([key for key, _ in rows], pa.int32()), pa.array(lists, SCHEMA.field(1).type)], SCHEMA)


def options(**more: str) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in more.items())


def made(flink: FlinkPaimon, folder: Path, keys: bool, **more: str) -> Table:
    flink.use(folder)
    primary = ", PRIMARY KEY (id) NOT ENFORCED" if keys else ""
    bucket = {"bucket": "1"} if keys else {"bucket": "-1"}
    flink.sql(
        f"CREATE TABLE t (id INT, m MAP<STRING NOT NULL, BIGINT>{primary}) WITH ("
        + options(**bucket, **{LAYOUT: "shared-shredding", COLUMNS: "2", **more})
        + ")"
    )
    return bucketlake.open(folder).table("t")


KINDS: dict[str, tuple[bool, dict[str, str]]] = {
    "append": (False, {"compaction.min.file-num": "2"}),
    "keyed": (True, {}),
    "vectors": (True, {"deletion-vectors.enabled": "true"}),
    "merged": (True, {"merge-engine": "aggregation", "fields.m.aggregate-function": "merge_map"}),
    "input": (True, {"changelog-producer": "input", "file.compression": "none"}),
    "thin": (True, {"data-file.thin-mode": "true", "changelog-producer": "lookup"}),
    "lz4": (False, {"compaction.min.file-num": "2", "file.compression": "lz4", "file.format": "orc"}),
}
FEW = [("append", "parquet"), ("vectors", "orc"), ("merged", "parquet"), ("thin", "orc")]
BOTH = [*FEW, *(both for both in product(KINDS, ("parquet", "orc")) if both not in FEW)]


@pytest.mark.parametrize(("kind", "format"), later(BOTH, 4))
def test_in_turns(flink: FlinkPaimon, tmp_path: Path, kind: str, format: str) -> None:
    """Both write, read and compact one table; its layout is switched off and on meanwhile."""
    keys, more = KINDS[kind]
    if more.get("file.format", format) != format:
        pytest.skip("Flink has no such codec of parquet here")
    table = made(flink, tmp_path, keys, **{"file.format": format, **more})

    def same() -> Rows:
        found = ours(table)
        assert flink.sql(ORDER).rows == found
        return found

    flink.sql(
        "INSERT INTO t VALUES (1, MAP['a', 1, 'b', 2, 'ü日', CAST(NULL AS BIGINT)]), "
        "(2, CAST(NULL AS MAP<STRING NOT NULL, BIGINT>))"
    )
    assert same() == [(1, {"a": 1, "b": 2, "ü日": None}), (2, None)]
    fresh = 0 if keys else 10
    table.write_arrow(data((fresh + 1, {"z": 9, "a": 8, "y": 7, "x": None}), (3, {}), (4, {"a": 4})))
    same()
    flink.sql(f"ALTER TABLE t SET ('{LAYOUT}' = 'default')")
    flink.sql(f"INSERT INTO t VALUES ({fresh + 2}, MAP['plain', 1, 'p', 2, 'q', 3])")
    table = table.refresh().alter(SetOption(LAYOUT, "shared-shredding"))
    flink.sql(f"INSERT INTO t VALUES (5, MAP['a', 5, 'b', 5, 'c', 5, 'd', 5]), ({fresh + 4}, MAP['b', 44])")
    before = same()
    assert len(before) == (5 if keys else 8)
    flink.sql("CALL sys.compact(`table` => 'default.t')")
    assert same() == before
    table.refresh().write_arrow(data((6, {"v": 1, "w": 2, "a": 3})))
    before = same()
    table.refresh().compact(full=True)
    assert same() == before
    assert not table.refresh().fsck("rows").codes
    for file in table.refresh().files():
        assert metadata(file.path)["num-columns"] in "12"


VALUES = {
    "BOOLEAN": "TRUE",
    "TINYINT": "CAST(-7 AS TINYINT)",
    "DOUBLE": "CAST(1.5 AS DOUBLE)",
    "DECIMAL(30, 5)": "CAST('-123456789012345678.12345' AS DECIMAL(30, 5))",
    "STRING": "'é'",
    "CHAR(3)": "CAST('ab' AS CHAR(3))",
    "BYTES": "CAST(X'00ff' AS BYTES)",
    "DATE": "DATE '1969-05-06'",
    "TIME(3)": "TIME '12:34:56.789'",
    "TIMESTAMP(3)": "TIMESTAMP '1969-05-06 01:02:03.004'",
    "TIMESTAMP(6)": "TIMESTAMP '2020-05-06 01:02:03.004005'",
    "TIMESTAMP(9)": "TIMESTAMP '2020-05-06 01:02:03.004005006'",
    "TIMESTAMP_LTZ(3)": "CAST(TIMESTAMP '2020-05-06 01:02:03.004' AS TIMESTAMP_LTZ(3))",
    "ARRAY<INT>": "ARRAY[1, 2]",
    "ROW<a INT, b ROW<c STRING, d ARRAY<TIMESTAMP(9)>>>": "CAST(ROW(1, ROW('x', ARRAY[TIMESTAMP '2020-01-01 00:00:00.000000001'])) AS ROW<a INT, b ROW<c STRING, d ARRAY<TIMESTAMP(9)>>>)",
}


@pytest.mark.parametrize("format", later(["parquet", "orc"], 1))
def test_every_type_of_values(flink: FlinkPaimon, tmp_path: Path, format: str) -> None:
    """Flink reads what it wrote, and the same after all of it was written again here."""
    flink.use(tmp_path)
    columns = [f"m{number}" for number in range(len(VALUES))]
    kinds = ", ".join(f"{name} MAP<STRING NOT NULL, {kind}>" for name, kind in zip(columns, VALUES, strict=True))
    more = {"bucket": "-1", "file.format": format, "compaction.min.file-num": "2"}
    for name in columns:
        more |= {f"fields.{name}.map.storage-layout": "shared-shredding"}
        more |= {f"fields.{name}.map.shared-shredding.max-columns": "2"}
    flink.sql(f"CREATE TABLE t (id INT, {kinds}) WITH ({options(**more)})")
    for number in range(2):
        maps = ", ".join(
            f"MAP['a', {value}, 'b', CAST(NULL AS {kind}), 'c', {value}]" for kind, value in VALUES.items()
        )
        flink.sql(f"INSERT INTO t VALUES ({number}, {maps})")
    before = flink.sql("SELECT * FROM t ORDER BY id").rows
    assert all(len(one) == 3 and one["b"] is None for row in before for one in row[1:])
    table = bucketlake.open(tmp_path).table("t")
    table.compact(full=True)
    (file,) = table.refresh().files()
    assert all(metadata(file.path, name)["max-row-width"] == "3" for name in columns)
    assert flink.sql("SELECT * FROM t ORDER BY id").rows == before


@pytest.mark.parametrize("policy", later(["lru", "plain", "sequential"], 1))
def test_both_tell_the_same_of_a_file(flink: FlinkPaimon, tmp_path: Path, policy: str) -> None:
    """But for the order of a row's keys, which is Java's or the writer's, and for the bytes of another zstd."""
    table = made(flink, tmp_path, False, **{COLUMNS: "3", PLACEMENT: policy})
    table.write_arrow(data((1, {"a": 1, "b": 2, "c": 3, "d": 4})))
    flink.sql("INSERT INTO t VALUES (2, MAP['a', 1, 'b', 2, 'c', 3, 'd', 4])")
    first, second = (metadata(file.path) for file in table.refresh().files())
    for said in (first, second):
        said.pop("field-dict")
        said["names"] = sorted(said["names"])
    assert first == second
