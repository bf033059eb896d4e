"""The REST catalog against a server built from Apache Paimon's document: names, commits, lost answers, tokens, secrets."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.catalogs.rest_server import TOKEN, Server, later, serving

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.catalogs import rest_client
from bucketlake.catalogs.model import DialectChange, View
from bucketlake.env.env import SystemClock
from bucketlake.errors import (
    AlreadyExistsError,
    CommitError,
    CommitUnknownError,
    CorruptError,
    InvalidError,
    NotFoundError,
    NotWrittenError,
    StorageError,
    UnsupportedError,
)
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import (
    AddColumn,
    DropColumn,
    RemoveOption,
    RenameColumn,
    SetOption,
    UpdateColumnDefault,
    UpdateColumnNullability,
    UpdateColumnType,
    UpdateComment,
    UpdatePosition,
)
from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
ROWS = pa.table({"id": [1, 2], "v": ["a", "b"]})


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(rest_client, "FIRST_PAUSE", 0.001)
    with serving(tmp_path / "files") as found:
        yield found


def opened(server: Server, **more: Any) -> Catalog:
    return bucketlake.open("ware house", metastore="rest", uri=server.uri, token=TOKEN, **more)


@pytest.fixture
def catalog(server: Server) -> Catalog:
    found = opened(server)
    found.create_database("db")
    return found


def test_databases_and_tables_are_the_servers(server: Server, catalog: Catalog) -> None:
    for name in ("a b", "c", "d", "e"):
        catalog.create_database(name, properties={"comment": "x"})
    assert catalog.list_databases() == ["a b", "c", "d", "db", "default", "e"]  # of several pages
    catalog.alter_database("a b", {"comment": None, "owner": "me"})
    assert catalog.database_properties("a b") == {"owner": "me", "location": f"{server.folder}/a b.db"}
    with pytest.raises(AlreadyExistsError):
        catalog.create_database("c")
    catalog.drop_database("c")
    assert not catalog.database_exists("c")
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"}, comment="it's")
    assert table.path.startswith(f"{server.folder}/tables.db/")
    with pytest.raises(AlreadyExistsError):
        catalog.create_table("db.t", SCHEMA)
    catalog.create_table("db.t", SCHEMA, ignore_if_exists=True)
    table.write_arrow(ROWS)
    assert opened(server).table("db.t").to_arrow().sort_by("id").to_pylist() == ROWS.to_pylist()
    catalog.rename_table("db.t", "d.u")
    assert (catalog.list_tables("db"), catalog.list_tables("d")) == ([], ["u"])
    table = catalog.table("d.u")
    table.write_arrow(pa.table({"id": [2, 3], "v": ["B", "c"]}))
    assert table.to_arrow().num_rows == 3
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2]
    assert catalog.table("d.u$snapshots").to_arrow().num_rows == 2
    assert catalog.table("sys.tables").to_arrow().column("table_name").to_pylist() == ["u"]
    with pytest.raises(NotFoundError, match="did you mean"):
        catalog.table("d.uu")
    with pytest.raises(InvalidError, match="not empty"):
        catalog.drop_database("d")
    catalog.drop_table("d.u")
    with pytest.raises(NotFoundError):
        catalog.drop_table("d.u")
    assert not Path(table.path).exists()


def test_partitions_statistics_are_told_with_each_commit(server: Server, catalog: Catalog) -> None:
    schema = pa.schema([pa.field("p", pa.string()), pa.field("v", pa.int64())])
    table = catalog.create_table("db.t", schema, partition_keys=["p"])
    table.write_arrow(pa.table({"p": ["x", "x", "y"], "v": [1, 2, 3]}))
    told = {item["spec"]["p"]: item for item in server.statistics}
    assert {p: (item["recordCount"], item["fileCount"]) for p, item in told.items()} == {"x": (2, 1), "y": (1, 1)}
    assert told["x"]["fileSizeInBytes"] == table.files("p = 'x'")[0].file.file_size
    assert abs(told["x"]["lastFileCreationTime"] - later(0)) < 120_000
    server.statistics.clear()
    table.drop_partitions([{"p": "x"}])
    assert [(item["spec"], item["recordCount"], item["fileCount"]) for item in server.statistics] == [
        ({"p": "x"}, -2, -1)
    ]


def test_changes_of_a_schema_are_the_servers(catalog: Catalog) -> None:
    catalog.create_table(
        "db.t", SCHEMA, primary_keys=["id"], options={"bucket": "1", "snapshot.num-retained.max": "90"}
    )
    table = catalog.alter_table(
        "db.t",
        SetOption("snapshot.num-retained.min", "3"),
        RemoveOption("snapshot.num-retained.max"),
        UpdateComment(None, "of all"),
        AddColumn("n", parse_type_text("INT"), "a number", after="id"),
        AddColumn("m", parse_type_text("STRUCT<a: INT>")),
    )
    assert table is not None
    assert table.schema.field_names == ("id", "n", "v", "m") or list(table.schema.field_names) == ["id", "n", "v", "m"]
    table = table.alter(
        RenameColumn("n", "number"),
        UpdateColumnType("number", parse_type_text("BIGINT")),
        UpdateComment("number", "renamed"),
        UpdateColumnDefault("number", "7"),
        UpdatePosition("number"),
        AddColumn(("m", "b"), parse_type_text("STRING")),
        UpdateColumnNullability("v", True),
    )
    assert list(table.schema.field_names) == ["id", "v", "m", "number"]
    assert table.schema.options == {"bucket": "1", "snapshot.num-retained.min": "3"}
    table = table.alter(DropColumn("m"), UpdatePosition("number", before="v"))
    assert list(table.schema.field_names) == ["id", "number", "v"]
    table = table.alter(UpdateColumnDefault("number", None), UpdateComment("number", None))
    assert (table.schema.field("number").default, table.schema.field("number").description) == (None, None)


def test_branches_tags_and_rollbacks(server: Server, catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    table.write_arrow(ROWS)
    table.create_tag("one")
    table.write_arrow(pa.table({"id": [3], "v": ["c"]}))
    table.create_branch("dev", "one")
    dev = catalog.table("db.t$branch_dev")
    assert dev.latest_snapshot().id == 1  # type: ignore[union-attr]
    dev.write_arrow(pa.table({"id": [4], "v": ["d"]}))
    assert dev.to_arrow().num_rows == 3
    with pytest.raises(AlreadyExistsError):
        table.create_branch("dev")
    with pytest.raises(NotFoundError):
        table.create_branch("other", "none")
    table.rename_branch("dev", "next")
    assert table.branches() == ["next"]
    assert catalog.table("db.t$branch_next").to_arrow().num_rows == 3
    table.fast_forward("next")
    assert sorted(table.to_arrow().column("id").to_pylist()) == [1, 2, 4]
    table.delete_branch("next")
    table.rollback_to("one")
    assert table.latest_snapshot().id == 1  # type: ignore[union-attr]
    table.write_arrow(pa.table({"id": [5], "v": ["e"]}))
    table.rollback_to(1)
    assert table.to_arrow().num_rows == 2
    assert {"createBranch", "renameBranch", "forwardBranch", "dropBranch", "rollbackTable"} <= set(server.asked)


def test_views(catalog: Catalog) -> None:
    catalog.create_table("db.t", SCHEMA)
    fields = (DataField(0, "id", parse_type_text("BIGINT NOT NULL")),)
    view = View(fields, "SELECT id FROM t", {"flink": "x"}, None, {"a": "b"})
    for name in ("v", "w", "x"):
        catalog.create_view(f"db.{name}", view)
    assert catalog.list_views("db") == ["v", "w", "x"]
    assert catalog.view("db.v") == view
    assert catalog.view("db.none") is None
    with pytest.raises(AlreadyExistsError):
        catalog.create_view("db.v", view)
    catalog.change_view("db.v", DialectChange("add", "spark", "SELECT 2L id"))
    catalog.change_view("db.v", DialectChange("update", "spark", "SELECT 3L id"))
    catalog.change_view("db.v", DialectChange("drop", "flink"))
    assert catalog.view("db.v") == replace(view, dialects={"spark": "SELECT 3L id"})
    with pytest.raises(AlreadyExistsError):
        catalog.change_view("db.v", DialectChange("add", "spark", "x"))
    for name, action in (("v", "update"), ("v", "drop"), ("none", "add")):
        with pytest.raises(NotFoundError):
            catalog.change_view(f"db.{name}", DialectChange(action, "flink", "x" if action != "drop" else None))
    catalog.create_view("db.v", View(fields, "SELECT 1L id"), replace=True)
    assert catalog.view("db.v").query == "SELECT 1L id"  # type: ignore[union-attr]
    catalog.drop_view("db.v")
    with pytest.raises(NotFoundError):
        catalog.drop_view("db.v")


@pytest.mark.parametrize("status", [400, 500, "drop"])
def test_a_view_stays_where_the_server_does_not_take_its_successor(
    server: Server, catalog: Catalog, status: Any
) -> None:
    view = View(
        (DataField(0, "id", parse_type_text("BIGINT")),), "SELECT 1L id", {"flink": "x"}, "a comment", {"a": "b"}
    )
    catalog.create_view("db.v", view)
    faults = iter([status])
    server.fault = lambda name, after: next(faults, None) if name == "createView" and not after else None
    with pytest.raises((InvalidError, StorageError)):
        catalog.create_view("db.v", replace(view, query="SELECT 2L id"), replace=True)
    assert catalog.view("db.v") == view


# ---------------------------------------------------------------------------------------------- commits


@pytest.mark.parametrize("lost", ["drop", 500, 503, 504])
@pytest.mark.parametrize("done", [False, True])
def test_a_commit_whose_answer_is_lost_is_there_once(server: Server, catalog: Catalog, lost: Any, done: bool) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.write_arrow(ROWS)
    faults = iter([lost])
    server.fault = lambda name, after: next(faults, None) if name == "commitTable" and after == done else None
    table.write_arrow(ROWS)
    assert table.to_arrow().num_rows == 4
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2]


def test_a_commit_that_nobody_answers_is_unknown_and_keeps_its_files(server: Server, catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA, options={"commit.max-retries": "2", "commit.max-retry-wait": "5 ms"})
    server.fault = lambda name, after: "drop" if name == "commitTable" and after else None
    with pytest.raises(CommitUnknownError):
        table.write_arrow(ROWS)
    server.fault = lambda name, after: None
    assert table.to_arrow().num_rows == 2


@pytest.mark.parametrize("status", [400, 403, 404, 409, 501])
def test_a_refused_commit_leaves_nothing(server: Server, catalog: Catalog, status: int) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    server.fault = lambda name, after: status if name == "commitTable" and not after else None
    with pytest.raises(CommitError, match="refused the commit") as caught:
        table.write_arrow(ROWS)
    assert not isinstance(caught.value, CommitUnknownError)
    assert list(Path(table.path).glob("bucket-*/*")) == []
    server.fault = lambda name, after: None
    assert table.latest_snapshot() is None


def test_what_a_server_has_no_time_for_is_sent_again_and_not_done(
    server: Server, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """429: the request was not taken in. A commit of which that is said to the end leaves nothing."""
    slept: list[float] = []
    monkeypatch.setattr(SystemClock, "sleep", lambda _, seconds: slept.append(seconds))
    busy = iter([429, 429])
    server.fault = lambda name, after: next(busy, None) if name == "createTable" and not after else None
    table = catalog.create_table("db.t", SCHEMA, options={"commit.max-retries": "2"})
    assert len(slept) == 2 and min(slept) >= 3
    server.fault = lambda name, after: 429 if name == "commitTable" and not after else None
    with pytest.raises(NotWrittenError, match="no more requests"):
        table.write_arrow(ROWS)
    assert min(slept) >= 3
    assert list(Path(table.path).glob("bucket-*/*")) == []


def test_a_server_that_refuses_connections_has_done_nothing(catalog: Catalog) -> None:
    client = replace(catalog.metastore.client, base="http://127.0.0.1:1")  # type: ignore[attr-defined]
    with pytest.raises(NotWrittenError, match="no answer from a service"):
        client.post_change("alter the table", "tables", body={})


def test_a_commit_to_a_table_made_anew_under_the_same_name_is_refused(catalog: Catalog) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    catalog.drop_table("db.t")
    catalog.create_table("db.t", SCHEMA)
    with pytest.raises((CommitError, NotFoundError)):
        table.write_arrow(ROWS)
    assert catalog.table("db.t").to_arrow().num_rows == 0


def test_two_writers_of_two_handles_rebase(server: Server, catalog: Catalog) -> None:
    one = catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    other = opened(server).table("db.t")
    done: list[Any] = []

    def between(name: str, after: bool) -> None:
        if name == "commitTable" and not after and not done:
            done.append(True)
            other.write_arrow(pa.table({"id": [7], "v": ["x"]}))

    server.fault = between
    one.write_arrow(ROWS)
    assert one.to_arrow().num_rows == 3
    assert [snapshot.id for snapshot in one.snapshots()] == [1, 2]


@pytest.mark.parametrize("place", [ROWS, None])
def test_a_handle_does_nothing_to_another_table_that_has_its_name(catalog: Catalog, place: Any) -> None:
    """All but commits are asked for by name alone."""
    table = catalog.create_table("db.t", SCHEMA)
    table.write_arrow(ROWS)
    catalog.rename_table("db.t", "db.moved")
    another = catalog.create_table("db.t", SCHEMA)
    for _ in range(3 if place else 0):
        another.write_arrow(ROWS)
    acts: list[Callable[[], Any]] = [
        table.to_arrow,
        lambda: table.write_arrow(ROWS),
        lambda: table.alter(SetOption("my.key", "1")),
        lambda: table.rollback_to(1),
        lambda: table.create_branch("b"),
        lambda: table.expire_snapshots(retain_max=1, retain_min=1),
    ]
    for act in acts:
        with pytest.raises(NotFoundError, match="another one has its name"):
            act()
    found = catalog.table("db.t")
    assert found.to_arrow().num_rows == (6 if place else 0) and not found.branches()
    assert "my.key" not in found.schema.options
    assert catalog.table("db.moved").to_arrow().num_rows == 2


# ---------------------------------------------------------------------------------------------- the server's answers


@pytest.mark.parametrize("operation", ["dropTable", "dropDatabase"])
def test_a_removal_whose_answer_is_lost_leaves_what_others_make_then(
    server: Server, catalog: Catalog, operation: str
) -> None:
    catalog.create_table("db.t", SCHEMA).write_arrow(ROWS)
    other, lost = opened(server), [True]

    def meanwhile(name: str, after: bool) -> Any:
        if name != operation or not after or not lost:
            return None
        lost.clear()
        other.create_database("db", ignore_if_exists=True)
        other.create_table("db.t", SCHEMA).write_arrow(ROWS)
        return "drop"

    server.fault = meanwhile
    if operation == "dropTable":
        catalog.drop_table("db.t")
    else:
        catalog.drop_database("db", cascade=True)
    assert other.table("db.t").to_arrow().num_rows == 2


def test_changes_whose_answer_is_lost(server: Server, catalog: Catalog) -> None:
    """A rename is looked for; of others it is said that it is not known."""
    table = catalog.create_table("db.t", SCHEMA)
    for _ in range(2):
        table.write_arrow(ROWS)
    changes = {"alterTable", "rollbackTable", "createBranch", "alterDatabase"}
    server.fault = lambda name, after: "drop" if after and name in {*changes, "renameTable"} else None
    acts: list[Callable[[], Any]] = [
        lambda: table.alter(SetOption("my.key", "1")),
        lambda: table.rollback_to(1),
        lambda: table.create_branch("b"),
        lambda: catalog.metastore.alter_database("db", {"a": "1"}),
    ]
    for act in acts:
        with pytest.raises(StorageError, match="it is not known whether"):
            act()
    catalog.rename_table("db.t", "db.u")
    assert catalog.list_tables("db") == ["u"]
    server.fault = lambda name, after: "drop" if not after and name == "renameTable" else None
    with pytest.raises(StorageError, match="it is not known whether"):
        catalog.rename_table("db.u", "db.t")
    assert catalog.list_tables("db") == ["u"]


def test_reads_are_tried_again_and_changes_are_not(server: Server, catalog: Catalog) -> None:
    faults = iter([503, "drop", 429])
    server.fault = lambda name, after: next(faults, None) if name == "listDatabases" else None
    assert catalog.list_databases() == ["db", "default"]
    server.asked.clear()
    server.fault = lambda name, after: 503 if name == "createTable" else None
    with pytest.raises(StorageError, match="it is not known whether"):
        catalog.create_table("db.t", SCHEMA)
    assert server.asked.count("createTable") == 1
    server.fault = lambda name, after: 500
    with pytest.raises(StorageError):
        catalog.list_databases()
    server.fault = lambda name, after: (
        "drop" if name == "dropDatabase" and after and server.asked.count(name) == 1 else None
    )
    catalog.drop_database("db")
    assert not catalog.database_exists("db")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidError),
        (401, InvalidError),
        (403, InvalidError),
        (409, AlreadyExistsError),
        (501, UnsupportedError),
        (302, InvalidError),
        (500, StorageError),
    ],
)
def test_errors_by_what_the_caller_does_next(
    server: Server, catalog: Catalog, status: int, kind: type[Exception]
) -> None:
    server.fault = lambda name, after: status if name == "listDatabases" else None
    with pytest.raises(kind) as caught:
        catalog.list_databases()
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("body", [b"[]", b"{", b"[" * 100_000, b'{"databases": 5}', b'{"databases": "db"}', b"\xff"])
def test_answers_that_are_none(server: Server, catalog: Catalog, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_listDatabases", lambda *_: body)
    with pytest.raises(CorruptError):
        catalog.list_databases()


def test_an_answer_without_end(server: Server, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_client, "LARGEST_ANSWER", 1000)
    monkeypatch.setattr(server, "_listDatabases", lambda *_: b'{"databases": [' + b" " * 5000 + b"]}")
    with pytest.raises(CorruptError, match="too long"):
        catalog.list_databases()


# ---------------------------------------------------------------------------------------------- options, secrets


def test_what_the_server_says_of_options(server: Server) -> None:
    server.config = {
        "defaults": {"prefix": "pre fix", "table-default.bucket": "5", "table-default.write-buffer-size": "7 mb"},
        "overrides": {"table-default.bucket": "3", "token": "other", "uri": "https://evil.example"},
    }
    catalog = opened(server, **{"table-default.bucket": "4"})
    catalog.create_database("db")
    options = catalog.create_table("db.t", SCHEMA, primary_keys=["id"]).schema.options
    assert options == {"bucket": "3", "write-buffer-size": "7 mb"}


def test_tokens_go_nowhere_else(server: Server, catalog: Catalog) -> None:
    with pytest.raises(InvalidError, match="spoken to by https"):
        bucketlake.open("w", metastore="rest", uri="http://lake.example:8080", token=TOKEN)
    with pytest.raises(InvalidError, match="credentials in the URL"):
        bucketlake.open("w", metastore="rest", uri="https://me:secret@lake.example", token=TOKEN)
    with pytest.raises(InvalidError, match="token is not accepted") as caught:
        bucketlake.open("ware house", metastore="rest", uri=server.uri, token="wrong-token-99")
    assert "wrong-token-99" not in str(caught.value)
    with pytest.raises(UnsupportedError, match="DLF"):
        bucketlake.open("w", {"metastore": "rest", "uri": server.uri, "dlf.access-key-id": "x"})
    with pytest.raises(UnsupportedError, match="token.provider"):
        bucketlake.open("w", {"metastore": "rest", "uri": server.uri, "token.provider": "dlf"})
    table = catalog.create_table("db.t", SCHEMA)
    table.write_arrow(ROWS)
    sent = pickle.dumps(table)
    assert TOKEN.encode() not in sent
    assert b"127.0.0.1" not in sent
    there = pickle.loads(sent)
    assert there.to_arrow().num_rows == 2
    with pytest.raises(CommitError, match="no way into it"):
        there.write_arrow(ROWS)
    with pytest.raises(InvalidError, match="does not leave"):
        pickle.dumps(catalog)
    assert TOKEN not in repr(catalog) + repr(catalog.metastore) + repr(table) + repr(table.store)
    assert TOKEN not in str(catalog.table("sys.catalog_options").to_arrow().to_pylist())


def test_data_tokens_are_renewed_before_they_end(server: Server) -> None:
    server.tokens = [({"s3.secret-key": "first-secret"}, later(-1)), ({"s3.secret-key": "other-secret"}, later(90))]
    catalog = opened(server, **{"data-token.enabled": "true"})
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA)
    table.write_arrow(ROWS)
    asked = server.asked.count("getTableToken")
    assert asked >= 2  # the first had ended
    table.write_arrow(ROWS)
    assert table.to_arrow().num_rows == 4
    assert server.asked.count("getTableToken") == asked
    sent = pickle.loads(pickle.dumps(table))
    assert sent.to_arrow().num_rows == 4  # with the token that it was sent with
    assert server.asked.count("getTableToken") == asked
    sent.store.env.storage._token = type(sent.store.env.storage._token)({}, later(-1), later(-1))
    with pytest.raises(StorageError, match="token has expired"):
        sent.to_arrow()
    assert "secret" not in repr(table.store.env.storage)


def _refused_after(left: list[int], status: int, operation: str, done: bool) -> int | None:
    """Data tokens are refused after so many that are handed out."""
    if operation != "getTableToken" or done:
        return None
    left[0] -= 1
    return status if left[0] < 0 else None


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_data_token_that_is_refused_says_nothing_of_a_file(server: Server, status: int) -> None:
    """Files were told as damaged, or as gone, and rows left out where such files are to be passed over."""
    server.tokens = [({}, later(-1))]
    catalog = opened(server, **{"data-token.enabled": "true"})
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA)
    table.write_arrow(ROWS)
    passing = {"scan.ignore-corrupt-files": "true", "scan.ignore-lost-files": "true"}
    for answered in range(6):
        reading, left = table.refresh().with_options(passing), [answered]
        clear_cache()
        server.fault = partial(_refused_after, left, status)
        try:
            assert reading.to_arrow().num_rows == ROWS.num_rows
        except StorageError as error:
            assert "no data token" in str(error) and f"status={status}" in str(error)
        server.fault = lambda operation, done: None
    server.fault = lambda operation, done: status if operation == "getTableToken" else None
    storage = table.store.env.storage
    storage._token = type(storage._token)({}, later(90), later(-1))
    assert table.to_arrow().num_rows == ROWS.num_rows, "it is good for a while"


def test_external_tables_are_committed_by_their_files(server: Server, catalog: Catalog) -> None:
    catalog.create_table("db.t", SCHEMA)
    server.external.add("db.t")
    table = catalog.table("db.t")
    table.write_arrow(ROWS)
    assert table.to_arrow().num_rows == 2
    assert "commitTable" not in server.asked


def test_what_has_no_place_before_the_server_gives_one(catalog: Catalog, tmp_path: Path) -> None:
    source = bucketlake.open(tmp_path / "wh").create_table("s", SCHEMA)
    source.write_arrow(ROWS)
    with pytest.raises(UnsupportedError, match="server says where tables lie"):
        catalog.clone_table(source, "db.c")
    catalog.create_table("db.c", SCHEMA)
    assert catalog.clone_table(source, "db.c") is not None
    assert catalog.table("db.c").to_arrow().num_rows == 2
    with pytest.raises(UnsupportedError):
        catalog.migrate_folder(str(tmp_path), "db.m")
