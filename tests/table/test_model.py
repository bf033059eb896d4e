"""Random histories of writes against a plain dict: what a table holds is what its model holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from tests.profile import examples, pairs

import bucketlake
from bucketlake.table import Table

SCHEMA = pa.schema(
    [
        pa.field("pt", pa.string()),
        pa.field("k", pa.int64()),
        pa.field("v", pa.int32()),
        pa.field("s", pa.string()),
        pa.field("d", pa.decimal128(10, 2)),
    ]
)
Row = tuple[Any, ...]

keys = st.integers(-3, 8)
partitions = st.sampled_from(["a", "b", "c/=1"])
rows = st.lists(
    st.tuples(
        partitions,
        keys,
        st.none() | st.integers(-100, 100),
        st.none() | st.text(max_size=4),
        st.none() | st.decimals(-1000, 1000, places=2),
    ),
    max_size=12,
)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), rows),
        st.tuples(st.just("dynamic"), rows),
        st.tuples(st.just("static"), partitions, rows),
        st.tuples(st.just("whole"), rows),
        st.tuples(st.just("delete"), keys),
        st.tuples(st.just("drop"), partitions),
        st.tuples(st.just("truncate")),
    ),
    max_size=5,
)


@dataclass
class Model:
    """Rows by primary key, or, without one, a list."""

    keyed: bool
    rows: list[Row] = field(default_factory=list)

    def apply(self, operation: Sequence[Any]) -> None:
        kind, *arguments = operation
        if kind == "append":
            self.add(arguments[0])
        elif kind == "dynamic":
            touched = {row[0] for row in arguments[0]}
            self.keep(lambda row: row[0] not in touched)
            self.add(arguments[0])
        elif kind == "static":
            self.keep(lambda row: row[0] != arguments[0])
            self.add([(arguments[0], *row[1:]) for row in arguments[1]])
        elif kind == "whole":
            self.rows = []
            self.add(arguments[0])
        elif kind == "delete":
            self.keep(lambda row: row[1] != arguments[0])
        elif kind == "drop":
            self.keep(lambda row: row[0] != arguments[0])
        else:
            self.rows = []

    def keep(self, condition: Any) -> None:
        self.rows = [row for row in self.rows if condition(row)]

    def add(self, new: Sequence[Row]) -> None:
        if not self.keyed:
            self.rows += new
            return
        merged = {row[:2]: row for row in [*self.rows, *new]}
        self.rows = list(merged.values())


def perform(table: Table, operation: Sequence[Any]) -> None:
    kind, *arguments = operation
    if kind == "append":
        table.write_arrow(arrow(arguments[0]))
    elif kind == "dynamic":
        table.write_arrow(arrow(arguments[0]), mode="overwrite")
    elif kind == "static":
        moved = [(arguments[0], *row[1:]) for row in arguments[1]]
        table.write_arrow(arrow(moved), mode="overwrite", partition={"pt": arguments[0]})
    elif kind == "whole":
        table.write_arrow(arrow(arguments[0]), mode="overwrite", dynamic_partition_overwrite=False)
    elif kind == "delete":
        table.delete(f"k = {arguments[0]}")
    elif kind == "drop":
        table.drop_partitions([{"pt": arguments[0]}])
    else:
        table.truncate()


def arrow(content: Sequence[Row]) -> pa.Table:
    columns = list(zip(*content, strict=True)) if content else [[] for _ in SCHEMA]
    return pa.table([pa.array(column, item.type) for column, item in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def content(table: Table, **options: Any) -> Counter[Row]:
    return Counter(tuple(row.values()) for row in table.to_arrow(**options).to_pylist())


KINDS = {
    "pk": (["pt", "k"], {"bucket": "2"}),
    "pk, cross-partition key": (["pt", "k"], {"bucket": "3", "bucket-key": "k"}),
    "bucketed append": ([], {"bucket": "2", "bucket-key": "k"}),
    "unaware append": ([], {"bucket": "-1"}),
}
SPILLING = {"write-buffer-size": "300 b", "write-max-writers-to-spill": "1", "target-file-size": "1 kb"}


@pytest.mark.parametrize(("kind", "format", "small"), pairs(list(KINDS), ["parquet", "orc", "avro"], [False, True]))
@settings(max_examples=examples(2, 48), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=operations)
def test_history_equals_model(
    tmp_path_factory: pytest.TempPathFactory, kind: str, format: str, small: bool, history: list[Sequence[Any]]
) -> None:
    primary_keys, options = KINDS[kind]
    catalog = bucketlake.open(tmp_path_factory.mktemp("warehouse"))
    table = catalog.create_table(
        "default.t",
        SCHEMA,
        partition_keys=["pt"],
        primary_keys=primary_keys,
        options={**options, "file.format": format, **(SPILLING if small else {})},
    )
    model = Model(keyed=bool(primary_keys))
    past: list[tuple[int, Counter[Row]]] = []
    for operation in history:
        if operation[0] == "delete" and not primary_keys:
            continue
        perform(table, operation)
        model.apply(operation)
        assert content(table) == Counter(model.rows)
        newest = table.latest_snapshot()
        if newest is not None:
            past.append((newest.id, Counter(model.rows)))
    for snapshot_id, rows_then in past:
        assert content(table, scan_snapshot_id=snapshot_id) == rows_then
    probe = 3
    assert content(table, where=f"k = {probe}") == Counter(row for row in model.rows if row[1] == probe)
    assert content(table, where="v > 10") == Counter(row for row in model.rows if row[2] is not None and row[2] > 10)
    names = [tuple(row) for row in ((r["s"], r["pt"]) for r in table.to_arrow(columns=["s", "pt"]).to_pylist())]
    assert Counter(names) == Counter((row[3], row[0]) for row in model.rows)
