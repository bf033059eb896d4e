"""VECTOR columns: Apache Paimon on Flink declares, reads and writes them, and goes on in turns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.peers.flink import FlinkPaimon
from tests.peers.rpc import PeerError
from tests.profile import later

import bucketlake
from bucketlake.schema.change import SetOption
from bucketlake.table import Table
from bucketlake.types.model import INT, DataField
from bucketlake.types.parse import parse_type_text

pytestmark = pytest.mark.peer

ORDER = "SELECT id, v FROM t ORDER BY id"
Rows = list[tuple[int, list[Any] | None]]


def ours(table: Table) -> Rows:
    found = table.refresh().to_arrow().sort_by("id").to_pylist()
    return [(row["id"], row["v"]) for row in found]


def written(*rows: tuple[int, list[float] | None]) -> pa.Table:
    kinds = pa.schema([("id", pa.int32()), ("v", pa.list_(pa.float32()))])
    return pa.table({"id": [key for key, _ in rows], "v": [vector for _, vector in rows]}, kinds)


@pytest.mark.parametrize(
    ("format", "keys", "declared"),
    later(
        [
            ("parquet", True, "option"),
            ("avro", False, "comment"),
            ("parquet", False, "comment"),
            ("avro", True, "option"),
        ],
        2,
    ),
)
def test_in_turns(flink: FlinkPaimon, tmp_path: Path, format: str, keys: bool, declared: str) -> None:
    """Flink makes the table; both write and read it, and each compacts what the other wrote."""
    flink.use(tmp_path)
    options = {"file.format": format, "bucket": "1" if keys else "-1", "compaction.min.file-num": "2"}
    comment = " COMMENT '__VECTOR_FIELD;3; what it means'"
    if declared == "option":
        options, comment = {**options, "vector-field": "v", "field.v.vector-dim": "3"}, ""
    flink.sql(
        f"CREATE TABLE t (id INT, v ARRAY<FLOAT>{comment}{', PRIMARY KEY (id) NOT ENFORCED' if keys else ''}) WITH ("
        + ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        + ")"
    )
    table = bucketlake.open(tmp_path).table("t")
    first = "INSERT INTO t VALUES (1, CAST(ARRAY[1.5, 2.0, -3.0] AS ARRAY<FLOAT>)), (2, CAST(NULL AS ARRAY<FLOAT>))"
    if declared == "comment":  # Flink cannot use what it has made: its schema does not say the dimension twice
        with pytest.raises(PeerError, match="vector-dim"):
            flink.sql(first)
        table.alter(SetOption("field.v.vector-dim", "3"))
    flink.sql(first)
    assert table.schema.field("v").type == parse_type_text("VECTOR<FLOAT, 3>", "flink")
    assert ours(table) == [(1, [1.5, 2.0, -3.0]), (2, None)]
    table.write_arrow(written((3, [4.0, 5.0, 6.0]), (4, None)))
    expected: Rows = [(1, [1.5, 2.0, -3.0]), (2, None), (3, [4.0, 5.0, 6.0]), (4, None)]
    assert flink.sql(ORDER).rows == ours(table) == expected
    table.refresh().compact()
    assert flink.sql(ORDER).rows == ours(table) == expected
    flink.sql("INSERT INTO t VALUES (5, CAST(ARRAY[7.0, 8.0, 9.0] AS ARRAY<FLOAT>))")
    flink.sql("CALL sys.compact(`table` => 'default.t')")
    assert flink.sql(ORDER).rows == ours(table) == [*expected, (5, [7.0, 8.0, 9.0])]


@pytest.mark.parametrize(
    ("kind", "comment", "options"),
    later(
        [
            ("VECTOR<FLOAT, 3>", None, {}),
            ("ARRAY<FLOAT>", "__VECTOR_FIELD;3", {}),
            ("ARRAY<FLOAT>", None, {"vector-field": "v", "field.v.vector-dim": "3"}),
        ],
        1,
    ),
)
def test_flink_uses_a_table_that_was_made_here(
    flink: FlinkPaimon, tmp_path: Path, kind: str, comment: str | None, options: dict[str, str]
) -> None:
    flink.use(tmp_path)
    fields = [DataField(0, "id", INT), DataField(1, "v", parse_type_text(kind, "flink"), comment)]
    table = bucketlake.open(tmp_path).create_table("t", fields, options=options)
    table.write_arrow(written((1, [1.0, 2.0, 3.0]), (2, None)))
    assert flink.sql(ORDER).rows == ours(table) == [(1, [1.0, 2.0, 3.0]), (2, None)]
    flink.sql("INSERT INTO t VALUES (3, CAST(ARRAY[4.0, 5.0, 6.0] AS ARRAY<FLOAT>))")
    assert ours(table)[2] == (3, [4.0, 5.0, 6.0])
