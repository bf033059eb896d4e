"""Migration of Hive-style folders: files keep their names, nothing is lost or doubled whatever happens on the way."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from tests.profile import SOAK
from tests.sim.storage import (
    FAIL_AFTER,
    FAIL_BEFORE,
    KILL_AFTER,
    KILL_BEFORE,
    FaultStorage,
    Killed,
    fault_at,
    fault_on,
)

import bucketlake
from bucketlake import Catalog
from bucketlake.catalogs.migrate import Draft
from bucketlake.env.local import LocalStorage
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    CommitUnknownError,
    ConflictError,
    CorruptError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
)
from bucketlake.ops.migrate.source import JOURNAL
from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = bucketlake.open(tmp_path / "wh")
    catalog.create_database("db")
    return catalog


def rows(low: int, high: int) -> pa.Table:
    ks = range(low, high)
    return pa.table({"id": pa.array(ks, pa.int64()), "name": [f"n{k}" for k in ks]})


def put(path: Path, data: pa.Table, file_format: str = "parquet") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if file_format == "parquet":
        pq.write_table(data, path)
    else:
        orc.write_table(data, str(path))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of one name in two partitions, one of them null, and what Spark leaves beside."""
    folder = tmp_path / "hive" / "t"
    put(folder / "pt=1" / "000000_0", rows(0, 10))
    put(folder / "pt=1" / "part-1.parquet", rows(10, 20))
    put(folder / f"pt={HIVE_NULL}" / "000000_0", rows(20, 30))
    (folder / "_SUCCESS").touch()
    (folder / "pt=1" / ".part-1.parquet.crc").touch()
    return folder


def draft(*keys: str, kind: str = "INT", **options: str) -> Draft:
    columns = {"id": "BIGINT", "name": "STRING", **dict.fromkeys(keys, kind)}
    fields = [DataField(n, name, parse_type_text(text)) for n, (name, text) in enumerate(columns.items())]
    return Draft(fields, keys, options)


PT = draft("pt")


def ids(table: Any, **read: Any) -> list[int]:
    return sorted(table.to_arrow(columns=["id"], **read).column(0).to_pylist())


def data_of(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith((".", "_"))
    )


def test_files_become_a_table_under_their_names(catalog: Catalog, folder: Path) -> None:
    done = catalog.migrate_folder(str(folder), "db.t", "parquet", PT)
    table = catalog.table("db.t")
    assert (done.files, done.rows) == (3, 30)
    assert ids(table) == list(range(30))
    assert ids(table, where="pt = 1") == list(range(20))
    assert ids(table, where="pt IS NULL AND id > 25") == [26, 27, 28, 29]
    assert data_of(folder) == []
    assert data_of(Path(table.path) / "pt=1") == ["bucket-0/000000_0.parquet", "bucket-0/part-1.parquet"]
    assert table.options.text("partition.default-name") == HIVE_NULL
    assert [snapshot.commit_kind.value for snapshot in table.snapshots()] == ["APPEND"]
    assert table.delete("id = 3 OR id = 25") is not None
    table.write_arrow(pa.table({"id": [100], "name": ["x"], "pt": pa.array([None], pa.int32())}))
    assert table.with_options({"compaction.min.file-num": "1"}).compact(full=True) is not None
    assert ids(table) == [k for k in [*range(30), 100] if k not in (3, 25)]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_statistics_are_the_footers(catalog: Catalog, tmp_path: Path, file_format: str) -> None:
    data = pa.table(
        {
            "i": pa.array([5, None, -7], pa.int32()),
            "s": ["b", "a", None],
            "d": pa.array([dt.date(1950, 1, 1), None, dt.date(2020, 2, 2)]),
            "f": [1.0, float("nan"), 2.0],
            "l": pa.array([[1], [], None], pa.list_(pa.int64())),
        }
    )
    put(tmp_path / "src" / f"a.{file_format}", data, file_format)
    put(tmp_path / "src" / f"b.{file_format}", data.slice(0, 1), file_format)
    catalog.migrate_folder(str(tmp_path / "src"), "db.t", file_format)
    table = catalog.table("db.t")
    assert table.to_arrow().sort_by("i").column("i").to_pylist() == [-7, 5, 5, None]
    for where, files in {"i < 0": 1, "i > 5": 0, "d > DATE '2019-01-01'": 1, "s = 'a'": 1, "f > 5": 2}.items():
        assert len(table.files(where=where)) == files, where
    assert table.to_arrow(where="i < 0").num_rows == 1
    assert table.to_arrow(where="s IS NULL").num_rows == 1


def test_an_existing_table_takes_more(catalog: Catalog, folder: Path, tmp_path: Path) -> None:
    """Its own default partition name holds; columns are found by name."""
    catalog.create_table("db.t", pa.schema([("name", pa.string()), ("pt", pa.int32()), ("id", pa.int64())]), ["pt"])
    table = catalog.table("db.t")
    table.write_arrow(pa.table({"name": ["x"], "pt": pa.array([None], pa.int32()), "id": [99]}))
    catalog.migrate_folder(str(folder), "db.t")
    assert ids(table) == [*range(30), 99]
    assert ids(table, where="pt IS NULL") == [*range(20, 30), 99]
    put(folder / "pt=1" / "000000_0", rows(40, 45))
    with pytest.raises(AlreadyExistsError, match="one name"):
        catalog.migrate_folder(str(folder), "db.t")
    assert data_of(folder) == ["pt=1/000000_0"]
    (folder / "pt=1" / "000000_0").rename(folder / "pt=1" / "other")
    catalog.migrate_folder(str(folder), "db.t")
    assert ids(table) == [*range(30), *range(40, 45), 99]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_check_asks_no_file_for_partition_columns(catalog: Catalog, tmp_path: Path, file_format: str) -> None:
    """They are the partition's, whatever the files hold: what was migrated is whole."""
    catalog.create_table("db.t", pa.schema([("pt", pa.int32()), ("name", pa.string()), ("id", pa.int64())]), ["pt"])
    put(tmp_path / "src" / "pt=1" / f"a.{file_format}", rows(0, 3), file_format)
    catalog.migrate_folder(str(tmp_path / "src"), "db.t", file_format)
    table = catalog.table("db.t")
    table.write_arrow(pa.table({"pt": pa.array([2], pa.int32()), "name": ["x"], "id": [9]}))
    assert [(found.code, found.cause) for found in table.fsck("rows").findings] == []


def test_partition_columns_of_many_types(catalog: Catalog, tmp_path: Path) -> None:
    folder = tmp_path / "src"
    put(folder / "d=2024-02-29" / "s=a%2Fb c" / "x.parquet", rows(0, 1))
    put(folder / "d=1960-01-01" / f"s={HIVE_NULL}" / "x.parquet", rows(1, 2))
    fields = [*draft().fields, DataField(2, "d", parse_type_text("DATE")), DataField(3, "s", parse_type_text("STRING"))]
    catalog.migrate_folder(str(folder), "db.t", "parquet", Draft(fields, ["d", "s"]))
    found = catalog.table("db.t").to_arrow().sort_by("id").select(["d", "s"]).to_pylist()
    assert found == [{"d": dt.date(2024, 2, 29), "s": "a/b c"}, {"d": dt.date(1960, 1, 1), "s": None}]
    catalog.table("db.t").write_arrow(pa.table({"id": [9], "name": ["n"], "d": [dt.date(2024, 2, 29)], "s": ["a/b c"]}))
    assert ids(catalog.table("db.t"), where="d = DATE '2024-02-29'") == [0, 9]


def test_without_a_draft_the_first_footer_tells(catalog: Catalog, folder: Path) -> None:
    catalog.migrate_folder(str(folder), "db.t")
    assert ids(catalog.table("db.t"), where="pt = '1'") == list(range(20))


def test_columns_that_the_first_footer_does_not_tell(catalog: Catalog, tmp_path: Path) -> None:
    """They were no columns of the table, and their values lost. Where the table is there, its columns count."""
    folder = tmp_path / "src"
    put(folder / "a.parquet", rows(0, 1).select(["id"]))
    put(folder / "b.parquet", rows(1, 2))
    with pytest.raises(
        InvalidError, match=r"columns that the first file lacks; nothing.*b\.parquet, columns=\['name'\]"
    ):
        catalog.migrate_folder(str(folder), "db.t")
    assert data_of(folder) == ["a.parquet", "b.parquet"]
    catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    catalog.migrate_folder(str(folder), "db.t")
    assert ids(catalog.table("db.t")) == [0, 1]


def test_an_empty_folder_makes_an_empty_table(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert catalog.migrate_folder(str(tmp_path / "empty"), "db.t", "parquet", PT).files == 0
    assert catalog.table("db.t").to_arrow().num_rows == 0


# ---------------------------------------------------------------------------------------------- refusals


def _truncate(folder: Path) -> None:
    path = folder / "pt=1" / "part-1.parquet"
    path.write_bytes(path.read_bytes()[:-3])


def _other_type(folder: Path) -> None:
    put(folder / "pt=2" / "x", pa.table({"id": pa.array([1], pa.int32()), "name": ["a"]}))


def _other_case(folder: Path) -> None:
    put(folder / "pt=2" / "x", pa.table({"ID": pa.array([1], pa.int64()), "name": ["a"]}))


def _other_clock(folder: Path) -> None:
    put(folder / "pt=2" / "x", pa.table({"id": pa.array([1], pa.int64()), "name": pa.array([0], pa.timestamp("us"))}))


def _old_calendar(folder: Path) -> None:
    told = {"org.apache.spark.legacyDateTime": ""}
    data = pa.table({"id": pa.array([1], pa.int64()), "name": pa.array([dt.date(1500, 1, 1)])})
    put(folder / "pt=2" / "x", data.replace_schema_metadata(told))


BAD: dict[str, tuple[Callable[[Path], Any], type[Exception], str]] = {
    "cut": (_truncate, CorruptError, "part-1.parquet"),
    "empty": (lambda f: (f / "pt=1" / "e.parquet").touch(), CorruptError, "e.parquet"),
    "text": (lambda f: (f / "pt=1" / "e.txt").write_text("PAR1, it says"), CorruptError, "e.txt"),
    "type": (_other_type, InvalidError, "another type"),
    "case": (_other_case, InvalidError, "'ID'"),
    "clock": (_other_clock, InvalidError, "name"),
    "stray file": (lambda f: put(f / "x", rows(0, 1)), InvalidError, "outside of the partitions"),
    "stray folder": (lambda f: (f / "pt=1" / "sub").mkdir(), InvalidError, "folder among"),
    "other key": (lambda f: (f / "day=1").mkdir(), InvalidError, "partition column 'pt'"),
    "no value": (lambda f: put(f / "pt=a" / "x", rows(0, 1)), InvalidError, "no value"),
    "link": (lambda f: (f / "pt=1" / "l").symlink_to(f / "pt=1" / "000000_0"), InvalidError, "link"),
    "one name": (lambda f: put(f / "pt=1" / "000000_0.parquet", rows(0, 1)), AlreadyExistsError, "one name"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_taken_is_named_and_nothing_moves(catalog: Catalog, folder: Path, name: str) -> None:
    spoil, error, words = BAD[name]
    spoil(folder)
    before = data_of(folder)
    with pytest.raises(error, match=words):
        catalog.migrate_folder(str(folder), "db.t", "parquet", PT)
    assert data_of(folder) == before
    assert not (folder / JOURNAL).exists()
    assert not catalog.table_exists("db.t")
    assert data_of(Path(catalog.table_path("db.t"))) == []


@pytest.mark.parametrize(
    ("kind", "mark"),
    [
        ("Delta", "_delta_log/0.json"),
        ("Hudi", ".hoodie/hoodie.properties"),
        ("Iceberg", "metadata/v1.metadata.json"),
        ("Paimon", "schema/schema-0"),
    ],
)
@pytest.mark.parametrize("below", ["", "pt=1", "data", "data/pt=1", "pt=1/bucket-0"])
def test_a_table_of_another_format_is_left_alone(
    catalog: Catalog, tmp_path: Path, kind: str, mark: str, below: str
) -> None:
    """Their folders hold files of rows that were deleted or replaced; moved, they came back and the table was broken."""
    table = tmp_path / "lake" / "t"
    put(table / below / "a.parquet", rows(0, 3))
    put(tmp_path / "plain" / "metadata", rows(0, 3))
    (table / mark).parent.mkdir()
    (table / mark).touch()
    before = sorted(table.rglob("*"))
    with pytest.raises(UnsupportedError, match=rf"of a {kind}.* table.*path={table}\]"):
        catalog.migrate_folder(str(table / below), "db.t")
    assert sorted(table.rglob("*")) == before and not catalog.table_exists("db.t")
    assert catalog.migrate_folder(str(tmp_path / "plain"), "db.plain").rows == 3


def test_dates_of_the_old_calendar_are_refused_unless_recent(catalog: Catalog, folder: Path) -> None:
    fields = [replace(item, type=parse_type_text("DATE")) if item.name == "name" else item for item in PT.fields]
    shutil.rmtree(folder)
    _old_calendar(folder)
    with pytest.raises(UnsupportedError, match="before 1900"):
        catalog.migrate_folder(str(folder), "db.t", "parquet", replace(PT, fields=fields))


def test_tables_that_cannot_hold_them(catalog: Catalog, folder: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), ("name", pa.string()), pa.field("pt", pa.int32(), False)])
    catalog.create_table("db.pk", schema, ["pt"], ["pt", "id"], {"bucket": "1"})
    catalog.create_table("db.fixed", schema, ["pt"], [], {"bucket": "2", "bucket-key": "id"})
    catalog.create_table("db.flat", schema)
    catalog.create_table("db.not_null", schema, ["pt"])
    for name, words in {
        "pk": "only support append only",
        "fixed": "bucket should be -1",
        "flat": "partition keys not match",
    }.items():
        with pytest.raises(InvalidError, match=words):
            catalog.migrate_folder(str(folder), f"db.{name}")
    with pytest.raises(InvalidError, match="bucket should be -1"):
        catalog.migrate_folder(str(folder), "db.new", "parquet", draft("pt", bucket="1"))
    with pytest.raises(UnsupportedError, match="avro"):
        catalog.migrate_folder(str(folder), "db.new", "avro", PT)
    with pytest.raises(UnsupportedError, match="depend on who wrote them"):
        catalog.migrate_folder(str(folder), "db.new", "parquet", draft("pt", kind="TIMESTAMP_LTZ(6)"))
    with pytest.raises(NotFoundError, match="no such folder"):
        catalog.migrate_folder(str(folder / "no"), "db.new", "parquet", PT)
    with pytest.raises(InvalidError, match="lie in each other"):
        catalog.migrate_folder(catalog.warehouse, "db.new", "parquet", PT)
    assert len(data_of(folder)) == 3
    catalog.migrate_folder(str(folder), "db.not_null", "parquet")  # footers prove that there is no null
    with pytest.raises(InvalidError, match="NOT NULL"):
        put(folder / "pt=1" / "n", pa.table({"id": pa.array([None], pa.int64()), "name": ["a"]}))
        catalog.migrate_folder(str(folder), "db.not_null", "parquet")


# ---------------------------------------------------------------------------------------------- crashes


def faulty(catalog: Catalog, storage: Any) -> Catalog:
    return replace(catalog, env=replace(catalog.env, storage=storage))


def read_source(folder: Path) -> list[int]:
    """What Spark would read: visible files."""
    return sorted(k for name in data_of(folder) for k in pq.read_table(folder / name).column("id").to_pylist())


def calls_of(catalog: Catalog, folder: Path) -> int:
    storage = FaultStorage(LocalStorage())
    faulty(catalog, storage).migrate_folder(str(folder), "db.t", "parquet", PT)
    return len(storage.calls)


def restore(catalog: Catalog, folder: Path, kept: Path) -> None:
    catalog.drop_table("db.t", ignore_if_missing=True)
    shutil.rmtree(catalog.table_path("db.t"), ignore_errors=True)
    shutil.rmtree(folder)
    shutil.copytree(kept, folder)


@pytest.mark.parametrize("fault", [KILL_BEFORE, KILL_AFTER, FAIL_BEFORE, FAIL_AFTER])
def test_a_fault_at_any_step_loses_no_row_and_doubles_none(
    catalog: Catalog, folder: Path, tmp_path: Path, fault: str
) -> None:
    kept = tmp_path / "kept"
    shutil.copytree(folder, kept)
    number = calls_of(catalog, folder)
    step = 1 if SOAK else 5
    start = [KILL_BEFORE, KILL_AFTER, FAIL_BEFORE, FAIL_AFTER].index(fault) % step
    for call in range(start, number, step):
        restore(catalog, folder, kept)
        storage = FaultStorage(LocalStorage(), fault_at(call, fault))
        with suppress(Killed, BucketlakeError):
            faulty(catalog, storage).migrate_folder(str(folder), "db.t", "parquet", PT)
        seen = ids(catalog.table("db.t")) if catalog.table_exists("db.t") else []
        assert seen in ([], list(range(30))), call
        assert read_source(folder) == list(range(30)) or seen == list(range(30)), call
        catalog.migrate_folder(str(folder), "db.t", "parquet", PT)
        assert ids(catalog.table("db.t")) == list(range(30)), call
        assert data_of(folder) == [], call
        assert not (folder / JOURNAL).exists(), call


def test_after_the_commit_another_call_only_sweeps(catalog: Catalog, folder: Path) -> None:
    storage = FaultStorage(LocalStorage(), fault_on("delete", "000000_0", KILL_BEFORE))
    with pytest.raises(Killed):
        faulty(catalog, storage).migrate_folder(str(folder), "db.t", "parquet", PT)
    table = catalog.table("db.t")
    table.write_arrow(pa.table({"id": [50], "name": ["x"], "pt": pa.array([1], pa.int32())}))
    put(folder / "pt=1" / "late", rows(60, 62))
    assert catalog.migrate_folder(str(folder), "db.t", "parquet", PT).files == 3
    assert data_of(folder) == ["pt=1/late"]
    assert ids(table) == [*range(30), 50]
    assert catalog.migrate_folder(str(folder), "db.t", "parquet", PT).files == 1
    assert ids(table) == [*range(30), 50, 60, 61]


def test_what_is_no_longer_known_is_refused(catalog: Catalog, folder: Path) -> None:
    storage = FaultStorage(LocalStorage(), fault_on("delete", "000000_0", KILL_BEFORE))
    with pytest.raises(Killed):
        faulty(catalog, storage).migrate_folder(str(folder), "db.t", "parquet", PT)
    table = catalog.table("db.t")
    table.write_arrow(pa.table({"id": [50], "name": ["x"], "pt": pa.array([1], pa.int32())}))
    table.expire_snapshots(1, 1)
    with pytest.raises(CommitUnknownError, match="may have been committed"):
        catalog.migrate_folder(str(folder), "db.t", "parquet", PT)
    assert ids(table) == [*range(30), 50]
    assert read_source(folder)


def test_another_writer_commits_meanwhile(catalog: Catalog, folder: Path) -> None:
    catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("name", pa.string()), ("pt", pa.int32())]), ["pt"])
    table = catalog.table("db.t")
    done = []

    class Racing(FaultStorage):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            if "snapshot-" in path and not done:
                done.append(table.write_arrow(pa.table({"id": [70], "name": ["x"], "pt": pa.array([1], pa.int32())})))
            return super().put_if_absent(path, data)

    faulty(catalog, Racing(LocalStorage())).migrate_folder(str(folder), "db.t", "parquet", PT)
    assert ids(table) == [*range(30), 70]


def test_two_migrations_of_a_folder_make_one_commit(catalog: Catalog, folder: Path) -> None:
    done = []

    class Twin(FaultStorage):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            if "snapshot-" in path and not done:
                done.append(catalog.migrate_folder(str(folder), "db.t", "parquet", PT))
            return super().put_if_absent(path, data)

    faulty(catalog, Twin(LocalStorage())).migrate_folder(str(folder), "db.t", "parquet", PT)
    assert ids(catalog.table("db.t")) == list(range(30))
    assert len(catalog.table("db.t").snapshots()) == 1
    assert data_of(folder) == []


def test_another_migration_with_a_file_more_doubles_nothing(catalog: Catalog, folder: Path) -> None:
    """The journal of the first is taken for a dead one's: its commit comes first all the same, or the second's does."""
    done = []

    class Twin(FaultStorage):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            if "snapshot-" in path and not done:
                put(folder / "pt=1" / "more", rows(80, 82))
                done.append(catalog.migrate_folder(str(folder), "db.t", "parquet", PT))
            return super().put_if_absent(path, data)

    with pytest.raises(ConflictError, match="just come to the table"):
        faulty(catalog, Twin(LocalStorage())).migrate_folder(str(folder), "db.t", "parquet", PT)
    assert ids(catalog.table("db.t")) == [*range(30), 80, 81]
    assert data_of(folder) == []


def test_a_folder_on_its_way_to_another_table_is_refused(catalog: Catalog, folder: Path) -> None:
    storage = FaultStorage(LocalStorage(), fault_on("link", "000000_0", KILL_AFTER))
    with pytest.raises(Killed):
        faulty(catalog, storage).migrate_folder(str(folder), "db.t", "parquet", PT)
    with pytest.raises(AlreadyExistsError, match="another table has begun"):
        catalog.migrate_folder(str(folder), "db.other", "parquet", PT)
    assert not catalog.table_exists("db.other")


def test_a_link_that_a_cleaner_took_is_made_again(catalog: Catalog, folder: Path) -> None:
    taken = []

    class Cleaner(FaultStorage):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            done = super().put_if_absent(path, data)
            if "snapshot-1" in path and not taken:
                taken.extend(Path(catalog.table_path("db.t")).rglob("part-1.parquet"))
                taken[0].unlink()
            return done

    faulty(catalog, Cleaner(LocalStorage())).migrate_folder(str(folder), "db.t", "parquet", PT)
    assert taken
    assert ids(catalog.table("db.t")) == list(range(30))
