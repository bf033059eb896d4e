"""REPLACE TABLE without Spark: history stays readable, whatever the new definition is, whoever writes meanwhile and
wherever the process dies."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import KILL_BEFORE, FaultStorage, Killed, MapStorage, fault_on

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import ConflictError, UnsupportedError
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.ops.commit.replacement import Replacement, draft_replacement
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import AddColumn
from bucketlake.schema.given import new_schema
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text

SEEDS = itertools.count(1)
OLD = {"id": "BIGINT", "data": "STRING"}
ROWS = [{"id": 1, "data": "one"}, {"id": 2, "data": "two"}]


def fields(**columns: str) -> list[DataField]:
    return [DataField(i, name, parse_type_text(kind, "spark")) for i, (name, kind) in enumerate(columns.items())]


@pytest.fixture
def storage() -> MapStorage:
    clear_cache()
    return MapStorage()


def catalog_of(storage: Any) -> Catalog:
    return Catalog(Env(storage, FakeClock(next(SEEDS))), "/wh")


@pytest.fixture
def catalog(storage: MapStorage) -> Catalog:
    found = catalog_of(storage)
    table = found.create_table("t", fields(**OLD), (), ("id",), {"bucket": "2"})
    table.write_arrow(pa.Table.from_pylist(ROWS))
    return found


def drafted_as(catalog: Catalog, name: str, schema: TableSchema) -> Replacement:
    return draft_replacement(catalog.table(name).store, schema, name)


def drafted(
    catalog: Catalog,
    columns: dict[str, str],
    keys: tuple[str, ...] = (),
    partitions: tuple[str, ...] = (),
    **options: str,
) -> Replacement:
    return drafted_as(catalog, "t", new_schema(fields(**columns), partitions, keys, options, None))


def content(catalog: Catalog, **options: Any) -> list[dict[str, Any]]:
    rows = catalog.table("t").to_arrow(**options).to_pylist()
    return sorted(rows, key=lambda row: str(list(row.values())))


@pytest.mark.parametrize(
    ("columns", "keys", "options"),
    [
        (OLD, ("id",), {"bucket": "4"}),
        (OLD, ("data", "id"), {"bucket": "-1"}),
        (OLD, (), {"bucket": "-1"}),
        ({"id": "STRING", "amount": "INT"}, ("id",), {"bucket": "1", "merge-engine": "aggregation"}),
        ({"data": "BIGINT"}, ("data",), {"bucket": "-2"}),
        (OLD, ("id",), {"bucket": "1", "merge-engine": "first-row"}),
    ],
)
def test_old_rows_stay_readable(
    catalog: Catalog, columns: dict[str, str], keys: tuple[str, ...], options: dict[str, str]
) -> None:
    catalog.table("t").write_arrow(pa.Table.from_pylist([{"id": 1, "data": "newer"}]))
    replacement = drafted(catalog, columns, keys, **options)
    assert content(catalog) == [{"id": 1, "data": "newer"}, ROWS[1]]  # a draft is no change
    replacement.switch()
    replacement.finish()
    table = catalog.table("t")
    assert (table.schema.field_names, table.schema.primary_keys) == (tuple(columns), keys)
    assert table.schema.options["bucket"] == options["bucket"]
    assert content(catalog) == []
    assert content(catalog, scan_snapshot_id=1) == ROWS
    assert content(catalog, scan_snapshot_id=2) == [{"id": 1, "data": "newer"}, ROWS[1]]
    assert table.latest_snapshot().commit_kind is CommitKind.OVERWRITE
    new = [{name: ("x" if "STRING" in kind else 7) for name, kind in columns.items()}]
    table.write_arrow(pa.Table.from_pylist(new, table.arrow_schema))
    table.compact()
    assert content(catalog) == new
    assert content(catalog, scan_snapshot_id=1) == ROWS
    table.expire_snapshots(1, 1)
    assert content(catalog) == new


def test_new_columns_have_new_ids(catalog: Catalog) -> None:
    before = catalog.table("t").schema
    replacement = drafted(catalog, OLD, bucket="-1")
    replacement.switch()
    after = catalog.table("t").schema
    assert after.id == before.id + 1
    assert not {item.id for item in before.fields} & {item.id for item in after.fields}
    assert after.highest_field_id == max(item.id for item in after.fields)


def test_a_table_without_snapshots(catalog: Catalog) -> None:
    catalog.create_table("u", fields(a="INT"))
    replacement = drafted_as(catalog, "u", new_schema(fields(b="STRING"), (), (), {}, "why"))
    replacement.switch()
    replacement.finish()
    table = catalog.table("u")
    assert (table.schema.field_names, table.schema.comment, table.latest_snapshot()) == (("b",), "why", None)


def test_refusals_change_nothing(catalog: Catalog, storage: MapStorage) -> None:
    catalog.create_table("p", fields(a="INT", dt="STRING"), ["dt"]).write_arrow(pa.table({"a": [1], "dt": ["x"]}))
    before = dict(storage.files)
    cases: list[tuple[str, dict[str, str], tuple[str, ...], type[Exception], str]] = [
        ("p", {"a": "INT"}, (), UnsupportedError, "Cannot replace table .* partition keys"),
        ("p", {"a": "INT", "dt": "INT"}, ("dt",), UnsupportedError, "Cannot replace table"),
    ]
    for name, columns, partitions, error, message in cases:
        with pytest.raises(error, match=message):
            drafted_as(catalog, name, new_schema(fields(**columns), partitions, (), {}, None))
    with pytest.raises(UnsupportedError, match=r"data-file\.path-directory"):
        drafted(catalog, OLD, **{"data-file.path-directory": "data"})
    assert storage.files == before


def test_an_alteration_meanwhile_is_a_conflict(catalog: Catalog) -> None:
    replacement = drafted(catalog, OLD, bucket="-1")
    catalog.alter_table("t", AddColumn("more", parse_type_text("INT", "spark")))
    with pytest.raises(ConflictError, match="altered"):
        replacement.switch()
    assert [row["id"] for row in content(catalog)] == [1, 2]


def test_a_writer_of_the_old_definition_loses(catalog: Catalog, storage: MapStorage) -> None:
    late = catalog.table("t")
    drafted(catalog, {"id": "STRING", "v": "INT"}, bucket="-1").switch()
    files = set(storage.files)
    with pytest.raises(ConflictError, match="replaced"):
        late.write_arrow(pa.Table.from_pylist(ROWS))
    assert content(catalog) == []
    assert not {path for path in set(storage.files) - files if "/data-" in path}


def test_rows_that_come_between_go(catalog: Catalog) -> None:
    replacement = drafted(catalog, {"id": "STRING", "v": "INT"}, bucket="-1")
    late = catalog.table("t")

    class Interrupted(FaultStorage):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            if path.endswith("schema-1"):
                late.write_arrow(pa.Table.from_pylist(ROWS))
            return bool(super().put_if_absent(path, data))

    store = replacement.new
    slow = replace(store, env=replace(store.env, storage=Interrupted(store.env.storage)))
    replacement = replace(replacement, new=slow)
    replacement.switch()
    replacement.finish()
    assert content(catalog) == []
    assert content(catalog, scan_snapshot_id=3) == ROWS


def test_death_between_the_steps(catalog: Catalog, storage: MapStorage) -> None:
    dying = catalog_of(FaultStorage(storage, fault_on("put_if_absent", "schema-1", KILL_BEFORE)))
    with pytest.raises(Killed):
        drafted(dying, {"id": "STRING"}, bucket="-1").switch()
    clear_cache()
    again = catalog_of(storage)
    assert content(again) == []
    assert content(again, scan_snapshot_id=1) == ROWS
    drafted(again, {"id": "STRING"}, bucket="-1").switch()
    assert again.table("t").schema.field_names == ("id",)
