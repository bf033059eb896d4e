"""The SQL catalog on SQLite, PostgreSQL and MariaDB: names, tables, its lock, and what it never shows."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.catalogs import servers

import bucketlake
from bucketlake.catalog import Catalog, Identifier
from bucketlake.catalogs import sql
from bucketlake.catalogs.files import FileSystem, move_table
from bucketlake.catalogs.model import DialectChange, View
from bucketlake.catalogs.repair import repair
from bucketlake.errors import (
    AlreadyExistsError,
    CommitError,
    CorruptError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})
KEYS = itertools.count()


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "mariadb"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    if request.param == "sqlite":
        yield servers.sqlite(tmp_path_factory.mktemp("db"))
        return
    with servers.postgresql() if request.param == "postgresql" else servers.mariadb() as options:
        yield options


@pytest.fixture
def options(database: dict[str, str]) -> dict[str, str]:
    return {**database, "catalog-key": f"k{next(KEYS)}", "lock.enabled": "true", "lock-check-max-sleep": "20 ms"}


@pytest.fixture
def catalog(options: dict[str, str], tmp_path: Path) -> Catalog:
    return bucketlake.open(tmp_path / "wh", options)


def rows(catalog: Catalog) -> Any:
    return catalog.metastore.rows  # type: ignore[attr-defined]


def locks(catalog: Catalog) -> list[tuple[Any, ...]]:
    key = rows(catalog).key
    found = rows(catalog).database.query("SELECT lock_id, expire_time_seconds FROM paimon_distributed_locks")
    return [row for row in found if row[0].startswith(f"{key}.")]


def test_names_are_rows_and_files_lie_as_everywhere(catalog: Catalog, options: dict[str, str], tmp_path: Path) -> None:
    assert catalog.list_databases() == ["default"]
    catalog.create_database("db", properties={"comment": "of sales", "owner": "o'neil ? %s"})
    with pytest.raises(AlreadyExistsError):
        catalog.create_database("db")
    catalog.create_database("db", ignore_if_exists=True)
    assert catalog.database_properties("db") == {
        "location": f"{tmp_path}/wh/db.db",
        "comment": "of sales",
        "owner": "o'neil ? %s",
    }
    catalog.alter_database("db", {"comment": None, "owner": "x", "more": "y"})
    assert catalog.database_properties("db") == {"location": f"{tmp_path}/wh/db.db", "owner": "x", "more": "y"}
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    assert table.path == f"{tmp_path}/wh/db.db/t"
    table.write_arrow(ROWS)
    other = bucketlake.open(tmp_path / "wh", options)  # another process
    assert other.list_databases() == ["db", "default"]
    assert other.list_tables("db") == ["t"]
    assert other.table("db.t").to_arrow().sort_by("id").to_pylist() == ROWS.to_pylist()
    assert bucketlake.open(tmp_path / "wh").table("db.t").to_arrow().num_rows == 2  # the folder says the same
    assert bucketlake.open(tmp_path / "wh", {**options, "catalog-key": "another"}).list_databases() == ["default"]
    assert rows(catalog).properties("db", "t")["primary-key"] == "id"
    assert locks(catalog) == []
    assert catalog.table("sys.tables").to_arrow().column("table_name").to_pylist() == ["t"]
    assert other.table("db.t$snapshots").to_arrow().num_rows == 1


def test_tables_are_made_altered_renamed_and_dropped(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_table("t", SCHEMA)
    assert catalog.list_databases() == ["default"]
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("t", SCHEMA)
    catalog.create_table("t", SCHEMA, ignore_if_exists=True)
    catalog.table("t").write_arrow(ROWS)
    catalog.alter_table("t", bucketlake.schema.SetOption("snapshot.num-retained.max", "70"))
    assert rows(catalog).properties("default", "t") == {"snapshot.num-retained.max": "70"}
    catalog.create_database("db")
    catalog.rename_table("t", "db.u")
    assert (catalog.list_tables(), catalog.list_tables("db")) == ([], ["u"])
    assert rows(catalog).properties("db", "u") == {"snapshot.num-retained.max": "70"}
    assert catalog.table("db.u").to_arrow().num_rows == 2
    with pytest.raises(InvalidError, match="not empty"):
        catalog.drop_database("db")
    with pytest.raises(NotFoundError, match="no such table"):
        catalog.table("db.U")
    catalog.drop_table("db.u")
    assert not (tmp_path / "wh/db.db/u").exists()
    with pytest.raises(NotFoundError):
        catalog.drop_table("db.u")
    catalog.create_table("db.u", SCHEMA)
    catalog.drop_database("db", cascade=True)
    assert catalog.list_databases() == ["default"]
    assert list((tmp_path / "wh").glob("db.db/*")) == []
    with pytest.raises(NotFoundError):
        catalog.create_table("db.u", SCHEMA)


def test_one_of_several_creators_wins(options: dict[str, str], tmp_path: Path) -> None:
    made: list[Any] = []

    def create() -> None:
        own = bucketlake.open(tmp_path / "wh", options)
        try:
            own.create_table("t", SCHEMA)
            made.append(True)
        except AlreadyExistsError:
            made.append(False)
        own.table("t").write_arrow(ROWS)

    bucketlake.open(tmp_path / "wh", options)
    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False, False, False, True]
    catalog = bucketlake.open(tmp_path / "wh", options)
    assert catalog.table("t").to_arrow().num_rows == 8
    assert locks(catalog) == []


def test_views_are_stored_as_paimon_stores_them(catalog: Catalog) -> None:
    catalog.create_table("t", SCHEMA)
    view = View(
        (DataField(0, "id", parse_type_text("BIGINT NOT NULL")),), "SELECT id FROM t", {"spark": "x"}, "c", {"a": "b"}
    )
    catalog.create_view("v", view)
    assert catalog.view("v") == view
    assert catalog.list_views() == ["v"]
    assert catalog.list_tables() == ["t"]
    for again, error in (("v", "view exists"), ("t", "a table has the view's name")):
        with pytest.raises(AlreadyExistsError, match=error):
            catalog.create_view(again, view)
    catalog.create_view("v", View(view.fields, "SELECT 1"), replace=True)
    assert catalog.view("v").query == "SELECT 1"  # type: ignore[union-attr]
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("v", SCHEMA)
    catalog.drop_view("v")
    with pytest.raises(NotFoundError):
        catalog.drop_view("v")
    catalog.drop_view("v", ignore_if_missing=True)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"query": "SELECT 1", "dialects": 3, "fields": []}'])
def test_a_view_that_is_damaged_is_named_and_can_be_made_anew(catalog: Catalog, text: str) -> None:
    catalog.create_view("good", View((), "SELECT 1"))
    rows(catalog).set_view("default", "v", text, False)
    with pytest.raises(CorruptError, match=r"not a view.*default\.v.*: make it anew: CREATE OR REPLACE VIEW"):
        catalog.view("v")
    assert catalog.list_views() == ["good", "v"] and catalog.view("good") is not None
    catalog.create_view("v", View((), "SELECT 2"), replace=True)
    assert catalog.view("v") == View((), "SELECT 2")


def test_a_views_dialects_change_one_by_one(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    field = DataField(0, "id", parse_type_text("BIGINT NOT NULL"))
    catalog.create_view("v", View((field,), "SELECT 1", {"spark": "SELECT 2"}, "c", {"a": "b"}))
    rows = catalog.metastore.rows  # type: ignore[attr-defined]
    once, overtaking = type(rows).change_view, [DialectChange("add", "trino", "SELECT 4")]

    def change(self: Any, *given: str) -> bool:
        while overtaking:
            catalog.change_view("v", overtaking.pop())
        return bool(once(self, *given))

    monkeypatch.setattr(type(rows), "change_view", change)
    catalog.change_view("v", DialectChange("add", "flink", "SELECT 3"))
    found = catalog.view("v")
    assert found is not None and (found.query, found.comment, found.options) == ("SELECT 1", "c", {"a": "b"})
    assert found.dialects == {"spark": "SELECT 2", "trino": "SELECT 4", "flink": "SELECT 3"}
    catalog.change_view("v", DialectChange("update", "spark", "SELECT 5"))
    catalog.change_view("v", DialectChange("drop", "trino"))
    assert catalog.view("v").dialects == {"spark": "SELECT 5", "flink": "SELECT 3"}  # type: ignore[union-attr]
    with pytest.raises(AlreadyExistsError, match="Dialect flink"):
        catalog.change_view("v", DialectChange("add", "flink", "SELECT 6"))
    for name, action in (("v", "update"), ("v", "drop"), ("none", "add")):
        with pytest.raises(NotFoundError):
            catalog.change_view(name, DialectChange(action, "trino", "SELECT 6" if action != "drop" else None))


# ---------------------------------------------------------------------------------------------- the lock


def test_a_commit_waits_for_the_lock_and_gives_up_in_time(options: dict[str, str], tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path / "wh", {**options, "lock-acquire-timeout": "30 s"})
    catalog.create_table("t", SCHEMA)
    waiting = bucketlake.open(tmp_path / "wh", {**options, "lock-acquire-timeout": "50 ms"})
    held = catalog.metastore.locks.held(Identifier("default", "t"))  # type: ignore[attr-defined]
    with held as is_held:
        assert locks(catalog) == [(f"{options['catalog-key']}.default.t", 30)]
        with pytest.raises(CommitError, match="lock is held by another writer"):
            waiting.table("t").write_arrow(ROWS)
        assert is_held()
    assert list((tmp_path / "wh/default.db/t").glob("bucket-*/*")) == []  # what it wrote is removed
    waiting.table("t").write_arrow(ROWS)
    assert waiting.table("t").to_arrow().num_rows == 2
    assert locks(catalog) == []


def test_a_holder_that_died_is_waited_for_as_long_as_its_lease(options: dict[str, str], tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path / "wh", options)
    catalog.create_table("t", SCHEMA)
    insert = "INSERT INTO paimon_distributed_locks (lock_id, acquired_at, expire_time_seconds) VALUES (?, ?, ?)"
    key = f"{options['catalog-key']}.default.t"
    rows(catalog).database.change(insert, (key, "2020-01-01 00:00:00", 480))
    catalog.table("t").write_arrow(ROWS)
    assert catalog.table("t").to_arrow().num_rows == 2
    assert locks(catalog) == []


def test_a_lost_lease_is_noticed_and_nobody_elses_lock_is_released(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_table("t", SCHEMA)
    database, own = rows(catalog).database, catalog.metastore.locks  # type: ignore[attr-defined]
    name = Identifier("default", "t")
    with own.held(name) as is_held:
        database.change(
            "UPDATE paimon_distributed_locks SET acquired_at = ? WHERE lock_id LIKE ?",
            ("2030-01-01 00:00:00", f"{rows(catalog).key}.%"),
        )
        assert not is_held()  # another has taken it
    assert len(locks(catalog)) == 1  # and keeps it
    database.change("DELETE FROM paimon_distributed_locks WHERE lock_id LIKE ?", (f"{rows(catalog).key}.%",))
    lost = iter([False, False, True])
    monkeypatch.setattr(type(own), "_is_held", lambda *_: next(lost))
    catalog.table("t").write_arrow(ROWS)
    assert catalog.table("t").to_arrow().num_rows == 2
    monkeypatch.setattr(type(own), "_is_held", lambda *_: False)
    with pytest.raises(CommitError, match="lost each time"):
        catalog.table("t").write_arrow(ROWS)
    assert catalog.table("t").to_arrow().num_rows == 2


# ---------------------------------------------------------------------------------------------- what dies on the way


def test_what_a_dead_creation_left_is_told_of_and_taken_up(catalog: Catalog, tmp_path: Path) -> None:
    bucketlake.open(tmp_path / "wh").create_table("t", SCHEMA).write_arrow(ROWS)  # a folder, and no row
    assert not catalog.table_exists("t")
    with pytest.raises(InvalidError, match=r"sys\.repair"):
        catalog.create_table("t", SCHEMA)
    assert repair(catalog, "default.t") == ["default.t"]
    assert catalog.table("t").to_arrow().num_rows == 2
    bucketlake.open(tmp_path / "wh").create_database("db")
    bucketlake.open(tmp_path / "wh").create_table("db.t", SCHEMA)
    assert repair(catalog) == ["db.t"]
    assert repair(catalog, "db") == []
    assert catalog.list_tables("db") == ["t"]
    with pytest.raises(UnsupportedError):
        repair(bucketlake.open(tmp_path / "wh"))
    with pytest.raises(InvalidError, match="no table in this folder"):
        catalog.adopt_table("none")


def test_a_failing_database_leaves_no_half_made_table(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> bool:
        raise StorageError("gone")

    monkeypatch.setattr(type(rows(catalog)), "add_table", fails)
    with pytest.raises(StorageError, match="gone"):
        catalog.create_table("t", SCHEMA)
    monkeypatch.undo()
    catalog.create_table("t", SCHEMA)


def test_a_rename_that_fails_gives_the_name_back(catalog: Catalog, tmp_path: Path) -> None:
    catalog.create_table("t", SCHEMA)
    (tmp_path / "wh/default.db/u").mkdir()
    (tmp_path / "wh/default.db/u/notes").touch()
    with pytest.raises(AlreadyExistsError, match="other files lie where the table would be moved to.*look what"):
        catalog.rename_table("t", "u")
    assert catalog.list_tables() == ["t"]
    assert catalog.table("t").to_arrow().num_rows == 0


def test_a_rename_that_died_before_its_folder_moved_is_told_and_mended(catalog: Catalog) -> None:
    catalog.create_table("t", SCHEMA).write_arrow(ROWS)
    rows(catalog).rename_table(("default", "t"), ("default", "u"))
    with pytest.raises(NotFoundError, match=r"RENAME TABLE was interrupted.*sys\.repair\('default'\).*DROP TABLE"):
        catalog.table("u")
    assert repair(catalog, "default") == ["default.t"]
    catalog.drop_table("u")
    catalog.rename_table("t", "u")
    assert catalog.list_tables() == ["u"] and catalog.table("u").to_arrow().num_rows == 2


def test_a_table_made_under_the_name_that_a_rename_is_about_to_take_stays(
    options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its maker looked before the row had that name, and published its schema before the folder came."""
    catalog = bucketlake.open(tmp_path / "wh", {**options, "lock.enabled": "false"})
    catalog.create_table("t", SCHEMA).write_arrow(ROWS)
    publish = FileSystem.publish

    def overtaken(files: FileSystem, draft: Any, name: Identifier) -> bool:
        done: list[bool] = []

        def late(*given: Any) -> None:
            done.append(publish(files, draft, name))
            move_table(*given)

        monkeypatch.setattr(sql, "move_table", late)
        with pytest.raises(AlreadyExistsError, match="would be moved to"):
            catalog.rename_table("t", "u")
        return done[0]

    monkeypatch.setattr(FileSystem, "publish", overtaken)
    made = catalog.create_table("u", SCHEMA)
    monkeypatch.undo()
    assert catalog.list_tables() == ["t", "u"]
    made.write_arrow(ROWS)
    assert [catalog.table(name).to_arrow().num_rows for name in ("t", "u")] == [2, 2]


def test_a_rename_overtaken_by_another_of_the_new_name_keeps_the_table(
    options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = bucketlake.open(tmp_path / "wh", {**options, "lock.enabled": "false"})
    catalog.create_table("t", SCHEMA).write_arrow(ROWS)

    def overtaken(*given: Any) -> None:
        monkeypatch.undo()
        with pytest.raises(NotFoundError):
            catalog.rename_table("u", "v")
        move_table(*given)

    monkeypatch.setattr(sql, "move_table", overtaken)
    catalog.rename_table("t", "u")
    assert catalog.list_tables() == ["u"] and catalog.table("u").to_arrow().num_rows == 2


@pytest.mark.parametrize("left", ["", "manifest", "bucket-0/x", "snapshot"])
def test_what_a_late_writer_leaves_of_a_table_is_no_hindrance_to_its_name(
    catalog: Catalog, tmp_path: Path, left: str
) -> None:
    """A writer, or an expiry, whose table was renamed meanwhile makes its folders again."""
    catalog.create_table("t", SCHEMA).write_arrow(ROWS)
    folder = tmp_path / "wh/default.db/u"
    (folder / left).mkdir(parents=True)
    if left == "snapshot":
        (folder / "snapshot/EARLIEST").write_text("1")
        (folder / "snapshot/LATEST").write_text("3")
    catalog.rename_table("t", "u")
    assert catalog.table("u").to_arrow().num_rows == 2
    catalog.table("u").write_arrow(ROWS)
    assert len(catalog.table("u").snapshots()) == 2


# ---------------------------------------------------------------------------------------------- other ways to write


def test_clones_tags_and_branches_go_through_the_catalog(catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("t", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    table.write_arrow(ROWS)
    table.create_tag("one")
    table.create_branch("dev", "one")
    catalog.table("t$branch_dev").write_arrow(pa.table({"id": [3], "v": ["c"]}))
    assert catalog.table("t$branch_dev").to_arrow().num_rows == 3
    assert catalog.clone_table(catalog.table("t"), "u") is not None
    assert catalog.list_tables() == ["t", "u"]
    assert catalog.table("u").to_arrow().num_rows == 2
    assert locks(catalog) == []


# ---------------------------------------------------------------------------------------------- secrets


def test_what_is_sent_holds_no_way_into_the_database(catalog: Catalog, database: dict[str, str]) -> None:
    table = catalog.create_table("t", SCHEMA)
    table.write_arrow(ROWS)
    sent = pickle.dumps(table)
    for secret in (servers.PASSWORD, "jdbc", "catalog.db", "postgres", "unix_socket"):
        assert secret.encode() not in sent
    there = pickle.loads(sent)
    assert there.to_arrow().num_rows == 2
    with pytest.raises(CommitError, match="catalog decides about commits"):
        there.write_arrow(ROWS)
    assert table.to_arrow().num_rows == 2
    assert table.refresh().write_arrow(ROWS) is not None
    with pytest.raises(InvalidError, match="does not leave its process"):
        pickle.dumps(catalog)
    assert servers.PASSWORD not in repr(catalog) + repr(catalog.metastore) + repr(table)
    assert servers.PASSWORD not in str(catalog.table("sys.catalog_options").to_arrow().to_pylist())


def test_a_wrong_password_is_not_shown(database: dict[str, str], tmp_path: Path) -> None:
    if "sqlite" in database["uri"]:
        with pytest.raises(StorageError, match="unable to open"):
            bucketlake.open(tmp_path, metastore="jdbc", uri=f"jdbc:sqlite:{tmp_path}/none/c.db")
        return
    with pytest.raises(StorageError) as caught:
        bucketlake.open(tmp_path, {**database, "jdbc.password": "wrong-secret-1"})
    assert "wrong-secret-1" not in str(caught.value)
