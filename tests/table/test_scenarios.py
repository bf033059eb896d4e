"""Reference scenarios as far as they need no SQL: S1 bucketed append, S2 unaware append, S9 cross-partition keys with
a fixed bucket, S11 another bucket number."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from bucketlake import Catalog, InvalidError, Table
from bucketlake.schema.change import SetOption
from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text


def fields(**types: str) -> list[DataField]:
    return [DataField(number, name, parse_type_text(text)) for number, (name, text) in enumerate(types.items())]


def rows(table: Table, **arguments: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow(**arguments).to_pylist())


def insert(table: Table, *content: tuple[Any, ...], **arguments: Any) -> None:
    columns = zip(*content, strict=True)
    table.write_arrow(
        pa.table(
            [pa.array(c, f.type) for c, f in zip(columns, table.arrow_schema, strict=True)], table.arrow_schema.names
        ),
        **arguments,
    )


def test_s1_bucketed_append(catalog: Catalog) -> None:
    table = catalog.create_table(
        "wo_pk_table",
        fields(order_id="BIGINT", price="DECIMAL(32, 2)", ts="TIMESTAMP(3)"),
        options={"bucket": "2", "bucket-key": "order_id"},
    )
    content = [
        (number, Decimal(number * 100), datetime.datetime(2025, 4, 5, 11, 45, number - 1)) for number in (1, 2, 3)
    ]
    insert(table, content[0])
    insert(table, *content[1:])
    assert [row[0] for row in rows(table)] == [1, 2, 3]
    insert(table, content[1])
    (again,) = table.plan("order_id = 2").splits
    assert [file.bucket for file in table.files("order_id = 2")] == [again.bucket] * 2
    assert {file.bucket for file in table.files()} <= {0, 1}
    assert all(f"/bucket-{file.bucket}/" in file.path for file in table.files())
    assert rows(table, where="order_id = 2", columns=["order_id"]) == [(2,), (2,)]


def test_s1_sequence_numbers_continue_in_each_bucket(catalog: Catalog) -> None:
    table = catalog.create_table("t", fields(k="INT"), options={"bucket": "1", "bucket-key": "k"})
    for start in range(0, 9, 3):
        insert(table, (start,), (start + 1,), (start + 2,))
    ranges = [(file.file.min_sequence_number, file.file.max_sequence_number) for file in table.files()]
    assert ranges == [(0, 2), (3, 5), (6, 8)]
    assert table.to_arrow().column("k").to_pylist() == list(range(9))


def test_s2_unaware_append(catalog: Catalog) -> None:
    table = catalog.create_table("t", fields(k="INT", pt="STRING"), ["pt"], options={"bucket": "-1"})
    insert(table, (1, "a"), (2, "b"), (3, "a"))
    insert(table, (4, "a"))
    assert sorted((tuple(f.partition.values()), f.bucket, f.total_buckets) for f in table.files()) == [
        (("a",), 0, -1),
        (("a",), 0, -1),
        (("b",), 0, -1),
    ]
    assert rows(table) == [(1, "a"), (2, "b"), (3, "a"), (4, "a")]
    assert [file.partition for file in table.files("pt = 'b'")] == [{"pt": "b"}]


def test_s9_cross_partition_key_with_fixed_bucket(catalog: Catalog) -> None:
    table = catalog.create_table(
        "t", fields(pk="INT", v="INT", pt="INT"), partition_keys=["pt"], primary_keys=["pk"], options={"bucket": "2"}
    )
    insert(table, (1, 10, 1), (2, 20, 1), (3, 30, 1), (4, 40, 1))
    table.delete("pk = 1")
    insert(table, (1, 11, 2))
    table.delete("pk = 1")
    insert(table, (1, 12, 3))
    assert rows(table) == [(1, 12, 3), (2, 20, 1), (3, 30, 1), (4, 40, 1)]


def test_s9_without_the_deletes_the_key_is_there_three_times(catalog: Catalog) -> None:
    table = catalog.create_table(
        "t", fields(pk="INT", v="INT", pt="INT"), partition_keys=["pt"], primary_keys=["pk"], options={"bucket": "2"}
    )
    for row in ((1, 10, 1), (1, 11, 2), (1, 12, 3)):
        insert(table, row)
    assert rows(table, where="pk = 1") == [(1, 10, 1), (1, 11, 2), (1, 12, 3)]


@pytest.fixture
def rescaled(catalog: Catalog) -> Table:
    table = catalog.create_table(
        "t", fields(k="INT", v="INT", pt="STRING"), ["pt"], ["pt", "k"], options={"bucket": "2"}
    )
    insert(table, *[(k, k, "a") for k in range(20)])
    insert(table, *[(k, k, "b") for k in range(3)])
    return table.alter(SetOption("bucket", "8"))


def test_s11_other_bucket_number_changes_metadata_only(rescaled: Table) -> None:
    assert len(rows(rescaled)) == 23
    assert rows(rescaled, where="k = 7") == [(7, 7, "a")]
    assert rescaled.to_arrow(where="k = 2 AND pt = 'b'").num_rows == 1


def test_s11_insert_is_refused_and_names_both_numbers(rescaled: Table) -> None:
    before = rows(rescaled)
    with pytest.raises(
        InvalidError, match=r"Try to write partition pt=a with a new bucket num 8, but .* num is 2"
    ) as e:
        insert(rescaled, (100, 1, "a"))
    assert "OVERWRITE" in str(e.value)
    with pytest.raises(InvalidError, match="new bucket num 8"):
        insert(rescaled, (1, 1, "new"), (1, 2, "b"))
    assert rows(rescaled) == before
    insert(rescaled, (1, 1, "new"))
    assert {file.total_buckets for file in rescaled.files("pt = 'new'")} == {8}


def test_s11_unpartitioned_tables_are_refused_before_anything_is_read(catalog: Catalog) -> None:
    table = catalog.create_table("u", fields(k="INT"), primary_keys=["k"], options={"bucket": "2"})
    insert(table, (1,))
    table = table.alter(SetOption("bucket", "3"))
    with pytest.raises(InvalidError, match="Try to write table with a new bucket num 3"):
        table.write_arrow(never())
    insert(table, (1,), (5,), mode="overwrite")
    assert rows(table) == [(1,), (5,)]
    assert {file.total_buckets for file in table.files()} == {3}


def never() -> Any:
    raise AssertionError("rows were asked for")
    yield


def test_s11_overwrite_hashes_the_partition_anew(rescaled: Table) -> None:
    content = rescaled.to_arrow(where="pt = 'a'")
    rescaled.write_arrow(content, mode="overwrite", partition={"pt": "a"})
    assert len(rows(rescaled)) == 23
    assert {(f.partition["pt"], f.total_buckets) for f in rescaled.files()} == {("a", 8), ("b", 2)}
    assert max(f.bucket for f in rescaled.files("pt = 'a'")) > 1
    insert(rescaled, (100, 1, "a"), (3, -3, "a"))
    assert rows(rescaled, where="k IN (3, 100)") == [(3, -3, "a"), (100, 1, "a")]
    for k in range(20):
        assert rescaled.to_arrow(where=f"k = {k} AND pt = 'a'").num_rows == 1
