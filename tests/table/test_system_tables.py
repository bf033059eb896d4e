"""`t$ro`, `t$audit_log` and `t$binlog` without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from bucketlake.catalog import Catalog
from bucketlake.errors import InvalidError, NotFoundError
from bucketlake.ops.rows import read as reading
from bucketlake.ops.scan.system_tables import RowView, read_view
from bucketlake.ops.table.messages import Split
from bucketlake.schema.change import SetOption
from bucketlake.table import Table

SCHEMA = pa.schema([pa.field("p", pa.int32()), pa.field("k", pa.int64()), pa.field("s", pa.string())])


def create(catalog: Catalog, keyed: bool = True, **options: Any) -> Table:
    given = {"bucket": 1 if keyed else -1, **options}
    return catalog.create_table("db.t", SCHEMA, ["p"], ["p", "k"] if keyed else [], options=given)


def put(table: Table, rows: Sequence[tuple[Any, ...]], kinds: Sequence[int] | None = None) -> None:
    columns = {f.name: pa.array([row[i] for row in rows], f.type) for i, f in enumerate(SCHEMA)}
    if kinds is not None:
        columns["_VALUE_KIND"] = pa.array(kinds, pa.int8())
    table.write_arrow(pa.table(columns))


def rows(table: Table, **arguments: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_arrow(**arguments).to_pylist())


def test_read_optimized_shows_the_last_full_compaction(catalog: Catalog) -> None:
    table = create(catalog, **{"write-only": True})
    optimized = catalog.table("db.t$ro")
    assert optimized.schema == table.schema
    put(table, [(1, 1, "a"), (2, 2, "b")])
    assert rows(optimized) == []
    table.compact()
    put(table, [(1, 1, "z"), (1, 3, "c")])
    table.delete("k = 2")
    assert rows(optimized) == [(1, 1, "a"), (2, 2, "b")]
    assert rows(optimized, where="s = 'b'", columns=["k"]) == [(2,)]
    assert all(split.raw for split in optimized.plan().splits)
    assert {found.file.level for found in optimized.files()} == {5}
    table.compact()
    assert rows(optimized) == [(1, 1, "z"), (1, 3, "c")]
    assert rows(optimized, scan_snapshot_id=2) == [(1, 1, "a"), (2, 2, "b")]
    # A file whose statistics rule a condition out is not opened, although others hold older versions of its keys.
    assert optimized.plan("s = 'zz'").splits == ()


def test_read_optimized_with_levels_and_vectors(catalog: Catalog) -> None:
    table = create(catalog, **{"deletion-vectors.enabled": True, "num-levels": 3})
    put(table, [(1, 1, "a"), (1, 2, "b")])
    table.compact()
    put(table, [(1, 1, "z")])
    shown = rows(catalog.table("db.t$ro"))
    assert (1, 2, "b") in shown and (1, 1, "a") not in shown
    assert {found.file.level for found in catalog.table("db.t$ro").files()} == {2}


def test_read_optimized_of_append_tables_is_the_table(catalog: Catalog) -> None:
    table = create(catalog, keyed=False)
    put(table, [(1, 1, "a"), (2, 2, "b")])
    assert rows(catalog.table("db.t$ro")) == rows(table)


def test_audit_log_keeps_deletes(catalog: Catalog) -> None:
    table = create(catalog, **{"write-only": True})
    put(table, [(1, 1, "a"), (1, 2, "b"), (2, 1, "c")])
    put(table, [(1, 1, "z"), (1, 2, "b")], [2, 3])
    log = catalog.table("db.t$audit_log")
    assert log.schema.field_names == ("rowkind", "p", "k", "s")
    assert not log.schema.primary_keys
    assert rows(log) == [("+I", 2, 1, "c"), ("+U", 1, 1, "z"), ("-D", 1, 2, "b")]
    assert rows(log, scan_snapshot_id=1) == [("+I", 1, 1, "a"), ("+I", 1, 2, "b"), ("+I", 2, 1, "c")]
    assert rows(log, columns=["s", "rowkind"]) == [("b", "-D"), ("c", "+I"), ("z", "+U")]
    assert rows(log, where="rowkind = '-D'", columns=["k"]) == [(2,)]
    assert rows(log, where="rowkind <> '-D' and k = 1 and p = 2") == [("+I", 2, 1, "c")]
    assert log.to_arrow(limit=1).num_rows == 1
    assert len(log.plan("p = 2").splits) == 1
    table.compact()
    assert rows(log) == [("+I", 2, 1, "c"), ("+U", 1, 1, "z")]


def test_sequence_numbers(catalog: Catalog) -> None:
    table = create(catalog, **{"table-read.sequence-number.enabled": True, "write-only": True})
    put(table, [(1, 1, "a"), (1, 2, "b")])
    put(table, [(1, 1, "z")])
    assert table.schema.field_names == ("p", "k", "s")
    log = catalog.table("db.t$audit_log")
    assert log.schema.field_names == ("rowkind", "_SEQUENCE_NUMBER", "p", "k", "s")
    assert rows(log) == [("+I", 1, 1, 2, "b"), ("+I", 2, 1, 1, "z")]
    assert rows(log, where="_SEQUENCE_NUMBER > 1", columns=["_SEQUENCE_NUMBER"]) == [(2,)]
    assert rows(catalog.table("db.t$binlog")) == [("+I", 1, [1], [2], ["b"]), ("+I", 2, [1], [1], ["z"])]
    catalog.drop_table("db.t")
    create(catalog)
    for refused in ("audit_log", "binlog"):
        with pytest.raises(InvalidError, match="is not supported by hint"):
            catalog.table(f"db.t${refused}").to_arrow(table_read_sequence_number_enabled=True)
    catalog.drop_table("db.t")
    with pytest.raises(InvalidError, match="Cannot enable 'table-read.sequence-number.enabled' for non-primary-key"):
        create(catalog, keyed=False, **{"table-read.sequence-number.enabled": True})


def test_binlog_packs_updates(catalog: Catalog) -> None:
    table = create(catalog, **{"changelog-producer": "lookup"})
    put(table, [(1, 1, "a"), (1, 2, "b")])
    put(table, [(1, 1, None), (1, 3, "c")])
    table.delete("k = 2")
    newest = table.latest_snapshot()
    assert newest is not None
    binlog = catalog.table("db.t$binlog")
    assert [str(item.type) for item in binlog.arrow_schema][1:] == [
        "list<element: int32>",
        "list<element: int64>",
        "list<element: string>",
    ]
    span = {"incremental_between": f"2,{newest.id}"}
    assert [tuple(row.values()) for row in binlog.to_arrow(**span).to_pylist()] == [
        ("+U", [1, 1], [1, 1], ["a", None]),
        ("+I", [1], [3], ["c"]),
        ("-D", [1], [2], ["b"]),
    ]
    assert binlog.to_arrow(columns=["s"], where="rowkind = '+U'", **span).to_pylist() == [{"s": ["a", None]}]
    # A full read shows rows, one by one; where two snapshots are compared, too (Apache Paimon fails there).
    assert rows(binlog) == [("+I", [1], [1], [None]), ("+I", [1], [3], ["c"]), ("-D", [1], [2], ["b"])]
    assert ("-D", [1], [2], ["b"]) in rows(binlog, incremental_between_scan_mode="diff", **span)


def test_pairs_survive_the_ends_of_files(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(catalog, **{"changelog-producer": "input", "write-only": True})
    put(table, [(1, k, "a") for k in range(5)])
    put(table, [row for k in range(5) for row in ((1, k, "a"), (1, k, "b"))], [1, 2] * 5)
    binlog = catalog.table("db.t$binlog")
    (split,) = binlog.plan(incremental_between="1,2").splits

    def one_by_one(store: Any, split: Split, columns: Any, *more: Any) -> Any:
        for batch in real(store, split, columns, *more):
            yield from (batch.slice(place, 1) for place in range(batch.num_rows))

    real = reading.read_kinds
    monkeypatch.setattr(reading, "read_kinds", one_by_one)
    found = [row for batch in read_view(binlog.store, RowView("binlog"), split) for row in batch.to_pylist()]
    assert [tuple(row.values()) for row in found] == [("+U", [1, 1], [k, k], ["a", "b"]) for k in range(5)]


def test_an_update_without_its_other_half_stands_alone(catalog: Catalog) -> None:
    table = create(catalog, **{"changelog-producer": "input", "write-only": True})
    put(table, [(1, 1, "a"), (1, 2, "b"), (1, 3, "c"), (1, 3, "d"), (1, 4, "e")], [1, 2, 1, 2, 1])
    binlog = catalog.table("db.t$binlog")
    assert [tuple(row.values()) for row in binlog.to_arrow(incremental_between="0,1").to_pylist()] == [
        ("-U", [1], [1], ["a"]),
        ("+U", [1], [2], ["b"]),
        ("+U", [1, 1], [3, 3], ["c", "d"]),
        ("-U", [1], [4], ["e"]),
    ]


def test_append_tables(catalog: Catalog) -> None:
    table = create(catalog, keyed=False)
    put(table, [(1, 1, "a")])
    put(table, [(2, 1, None)])
    assert rows(catalog.table("db.t$audit_log")) == [("+I", 1, 1, "a"), ("+I", 2, 1, None)]
    assert rows(catalog.table("db.t$binlog"), incremental_between="1,2") == [("+I", [2], [1], [None])]
    assert catalog.table("db.t$audit_log").to_arrow(columns=["rowkind"]).to_pylist() == [{"rowkind": "+I"}] * 2


@pytest.mark.parametrize("name", ["ro", "audit_log", "binlog"])
def test_system_tables_cannot_be_written(catalog: Catalog, name: str) -> None:
    put(create(catalog), [(1, 1, "a")])
    view = catalog.table(f"db.t${name}")
    refusals = [
        lambda: view.write_arrow(view.to_arrow()),
        lambda: view.delete("k = 1"),
        lambda: view.update({"s": "b"}),
        lambda: view.truncate(),
        lambda: view.compact(),
        lambda: view.drop_partitions([{"p": 1}]),
        lambda: view.alter(SetOption("bucket", "2")),
    ]
    for refusal in refusals:
        with pytest.raises(InvalidError, match=rf"system table 'db.t\${name}', please use data table"):
            refusal()
    assert view.refresh().schema == view.schema
    with pytest.raises(InvalidError, match="for system table"):
        catalog.drop_table(f"db.t${name}")


def test_what_is_no_system_table(catalog: Catalog) -> None:
    create(catalog)
    with pytest.raises(NotFoundError, match=r"did you mean '\$audit_log'"):
        catalog.table("db.t$audit")
    with pytest.raises(NotFoundError):
        catalog.table("db.other$ro")


def test_branches(catalog: Catalog) -> None:
    table = create(catalog)
    put(table, [(1, 1, "a")])
    storage = table.store.env.storage
    branch = f"{table.path}/branch/branch-b"
    for part in ("schema/schema-0", "snapshot/snapshot-1"):
        storage.write(f"{branch}/{part}", storage.read(f"{table.path}/{part}"))
    put(table, [(1, 2, "b")])
    assert rows(catalog.table("db.t$branch_b$audit_log")) == [("+I", 1, 1, "a")]
    assert rows(catalog.table("db.t$branch_b$ro")) == []
