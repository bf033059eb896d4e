"""REPLACE TABLE without Spark: history stays readable, whatever the new definition is, whoever writes meanwhile and
wherever the process dies."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import FAIL_BEFORE, KILL_BEFORE, FaultStorage, Killed, MapStorage, fault_on

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import (
    BucketlakeError,
    CommitError,
    CommitUnknownError,
    ConflictError,
    InvalidError,
    UnsupportedError,
)
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


@pytest.mark.parametrize("old", [{"bucket": "1"}, {"bucket": "-1"}])
@pytest.mark.parametrize(
    ("keys", "options"), [((), {"bucket": "-1"}), (("id",), {"bucket": "2"}), (("data",), {"bucket": "1"})]
)
def test_a_handle_from_before_says_that_it_is_one(
    catalog: Catalog, old: dict[str, str], keys: tuple[str, ...], options: dict[str, str]
) -> None:
    """By its keys and buckets the files of today look damaged, and by its statistics as if they held no row."""
    table = catalog.create_table("u", fields(**OLD), (), ("id",), old)
    table.write_arrow(pa.Table.from_pylist(ROWS))
    replacement = drafted_as(catalog, "u", new_schema(fields(**OLD), (), keys, options, None))
    replacement.switch()
    replacement.finish()
    for _ in range(2):
        catalog.table("u").write_arrow(pa.Table.from_pylist([{"id": 7, "data": "seven"}, {"id": 8, "data": "eight"}]))
    before = [one.id for one in catalog.table("u").snapshots()]
    for call in (
        lambda: table.to_arrow(),
        lambda: table.to_arrow(where="id = 7"),
        lambda: table.to_arrow(where="id = 99"),
        lambda: table.write_arrow(pa.Table.from_pylist(ROWS)),
        lambda: table.write_arrow(pa.Table.from_pylist(ROWS), mode="overwrite"),
    ):
        with pytest.raises(ConflictError, match=r"the table was replaced since it was opened.*open the table again"):
            call()
    assert [one.id for one in catalog.table("u").snapshots()] == before
    assert table.to_arrow(scan_snapshot_id=1).num_rows == 2
    assert set(table.refresh().to_arrow()["id"].to_pylist()) == {7, 8}


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


def test_what_is_dropped_meanwhile_does_not_come_back(catalog: Catalog, storage: MapStorage) -> None:
    """At whatever call of the storage it goes."""
    there, ends = dict(storage.files), 0
    for at in range(200):
        storage.files = dict(there)
        clear_cache()

        def drop(k: int, operation: str, path: str, at: int = at) -> None:
            if k == at:
                catalog_of(storage).drop_table("t")

        replacement = drafted(catalog, OLD, bucket="-1")
        store = replacement.old
        dying = replace(store.env, storage=FaultStorage(storage, drop))
        replacement = replace(replacement, old=replace(store, env=dying), new=replace(replacement.new, env=dying))
        try:
            replacement.switch()
        except BucketlakeError:
            ends += 1
        else:
            if catalog_of(storage).table_exists("t"):
                break  # all calls were before
        clear_cache()
        assert not catalog_of(storage).table_exists("t"), at
    assert ends > 5
    assert content(catalog) == []


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


KEYED = (("id",), {"bucket": "2"})


def replaced_between(catalog: Catalog, keys: tuple[str, ...], **options: str) -> None:
    """Snapshots 1 and 2 of one definition, 3, which removes their rows, 4 and 5 of another with the same names."""
    catalog.create_table("u", fields(**OLD), (), keys, options)
    catalog.table("u").write_arrow(pa.Table.from_pylist(ROWS[:1]))
    catalog.table("u").write_arrow(pa.Table.from_pylist(ROWS[1:]))
    replacement = drafted_as(catalog, "u", new_schema(fields(**OLD), (), keys, options, None))
    replacement.switch()
    replacement.finish()
    for number in (7, 8):
        catalog.table("u").write_arrow(pa.Table.from_pylist([{"id": number, "data": "new"}]))


@pytest.mark.parametrize(("part", "error"), [("snapshot-2", CommitUnknownError), ("schema-1", CommitError)])
def test_a_failure_between_the_steps_says_where_the_rows_are(
    catalog: Catalog, storage: MapStorage, part: str, error: type[BucketlakeError]
) -> None:
    failing = catalog_of(FaultStorage(storage, fault_on("put_if_absent", part, FAIL_BEFORE, 99)))
    replacement = drafted(failing, {"n": "INT"})
    with pytest.raises(error) as raised, replacement.finished_or_told():
        replacement.switch()
    assert type(raised.value) is error
    assert ("VERSION AS OF 1" in str(raised.value)) == (error is CommitError)
    assert content(catalog, **({"scan_snapshot_id": 1} if error is CommitError else {})) == ROWS


@pytest.mark.parametrize(("keys", "options"), [KEYED, ((), {"bucket": "-1"})])
def test_no_way_back_to_rows_without_columns(catalog: Catalog, keys: tuple[str, ...], options: dict[str, str]) -> None:
    """Under today's columns they would be nulls, of a key too; with the definition of then they come back."""
    replaced_between(catalog, keys, **options)
    table = catalog.table("u")
    for back in (table.rollback_to, table.rollback_to_as_latest):
        with pytest.raises(InvalidError, match="replaced since: .*fast-forward"):
            back(2)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [7, 8]
    assert (table.latest_snapshot().id, table.tags()) == (5, {})
    table.rollback_to(4)
    assert catalog.table("u").to_arrow()["id"].to_pylist() == [7]
    catalog.table("u").rollback_to_as_latest(3)  # of the old definition, and empty
    assert catalog.table("u").to_arrow().num_rows == 0
    table.create_tag("then", 2)
    table.create_branch("back", "then")
    table.fast_forward("back")
    table = catalog.table("u")
    assert sorted(table.to_arrow().to_pylist(), key=str) == ROWS
    table.write_arrow(pa.Table.from_pylist([{"id": 3, "data": "three"}]))
    assert sorted(catalog.table("u").to_arrow()["id"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize(("keys", "options"), [KEYED, ((), {"bucket": "-1"})])
def test_changes_of_the_table_before_are_refused(
    catalog: Catalog, keys: tuple[str, ...], options: dict[str, str]
) -> None:
    replaced_between(catalog, keys, **options)

    def between(span: str, mode: str) -> list[Any]:
        how = {"incremental_between": span, "incremental_between_scan_mode": mode}
        return sorted(catalog.table("u").to_arrow(**how)["id"].to_pylist())

    refused = [
        (span, mode) for span in ("0,5", "1,2", "1,4") for mode in ("delta", "diff") if (span, mode) != ("0,5", "diff")
    ]
    if not keys:
        refused.remove(("1,4", "diff"))  # rows that went are not told
        assert between("1,4", "diff") == [7]
    for span, mode in refused:
        with pytest.raises(InvalidError, match="replaced since: .*VERSION AS OF"):
            between(span, mode)
    assert between("2,5", "delta") == between("3,5", "diff") == [7, 8]
