"""Commands that look: text, JSON, exit status; nothing hostile reaches the terminal."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import SparkRuntimeException
from tests.cli.conftest import HOSTILE, Run

import bucketlake
from bucketlake.cli.files import Shape, Target, written
from bucketlake.cli.output import Console
from bucketlake.cli.text import Look, table
from bucketlake.env.object_store import storage_for
from bucketlake.schema.change import AddColumn, DropColumn, RenameColumn, UpdateColumnType

READS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("databases",): ("db", "default"),
    ("tables",): ("orders", "days", "empty"),
    ("tables", "db", "--long"): ("orders", "id"),
    ("describe", "db.orders"): ("primary key  id", "BIGINT", "v1", "dev"),
    ("describe", "db.orders$files"): ("file_path",),
    ("schemas", "db.orders"): ("schema id",),
    ("options", "db.orders"): ("bucket", "2"),
    ("options", "db.orders", "--all"): ("merge-engine", "deduplicate"),
    ("partitions", "db.days"): ("day=a", "day=b"),
    ("files", "db.orders"): ("bucket", ".parquet"),
    ("snapshots", "db.orders"): ("APPEND", "v1"),
    ("snapshots", "db.orders", "--branch", "dev"): ("APPEND",),
    ("tags", "db.orders"): ("v1",),
    ("branches", "db.orders"): ("dev",),
    ("consumers", "db.orders"): (),
    ("usage", "db.orders"): ("live", "metadata", "total"),
    ("plan", "db.orders", "--where", "id = 0"): ("1 of 6",),
    ("cat", "db.orders"): ("Oslo", "\\x1b[2J\\n"),
    ("cat", "empty"): ("x",),
    ("diff", "db.orders", "1"): ("rowkind", "+I"),
}


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_reading_as_text_and_json(run: Run, shared: str, words: tuple[str, ...]) -> None:
    text = run(*words, warehouse=shared)
    assert (text.status, text.err) == (0, "" if READS[words] else "no consumers\n")
    assert all(part in text.out for part in READS[words]), text.out
    assert "\x1b" not in text.out
    told = run(*words, "--json", warehouse=shared)
    assert (told.status, told.err) == (0, "")
    assert isinstance(told.json, (list, dict))
    assert "\x1b" not in told.out


def test_a_system_table_has_no_files_of_its_own(run: Run, shared: str) -> None:
    described = run("describe", "db.orders$files", "--json", warehouse=shared).json
    assert [described[one] for one in ("schema_id", "records", "files", "bytes")] == [None] * 4
    assert "records" not in run("describe", "db.orders$files", warehouse=shared).out
    assert run("describe", "empty", "--json", warehouse=shared).json["records"] == 0


def test_values_of_json(run: Run, shared: str) -> None:
    described = run("describe", "db.orders", "--json", warehouse=shared).json
    assert described["columns"][0] == {
        "name": "id",
        "type": "BIGINT",
        "nullable": False,
        "default": None,
        "comment": None,
    }
    assert (described["primary_key"], described["bucket"], described["snapshot"]) == (["id"], 2, 3)
    assert described["comment"] == "with \x1b[31mred[/red] [bold]x"
    newest = run("snapshots", "db.orders", "--json", "--limit", "1", warehouse=shared).json
    assert [one["snapshot"] for one in newest] == [3]
    assert newest[0]["time"].endswith("Z")
    planned = run("plan", "db.orders", "--where", "id = 0", "--json", warehouse=shared).json
    assert (planned["files"], planned["files_in_all"]) == (1, 6)
    rows = run("cat", "db.orders", "--json", warehouse=shared).json
    assert {row["id"]: row["city"] for row in rows} == {0: "Oslo", 1: "Oslo", 2: "Oslo", 3: "Rome", 4: HOSTILE}


def test_schemas_know_columns_by_their_ids(run: Run, tmp_path: Path) -> None:
    """As the web page does: a rename is no column that went and another that came."""
    root = str(tmp_path / "wh")
    table = bucketlake.open(root).create_table(
        "t", pa.schema([("a", pa.int32()), ("fare", pa.int32()), ("x", pa.int8())])
    )
    table = table.alter(RenameColumn("fare", "amount"), UpdateColumnType("amount", "BIGINT"))
    table.alter(DropColumn("x"), AddColumn("x", "STRING"))
    told = [
        (one["added"], one["removed"], one["changed"]) for one in run("schemas", "t", "--json", warehouse=root).json
    ]
    first, second, third = told
    assert first == ([], [], [])
    assert second == ([], [], ["fare → amount", "amount INT → BIGINT"])
    assert third == (["x STRING"], ["x TINYINT"], [])
    assert "fare → amount" in run("schemas", "t", warehouse=root).out


def test_rows_as_they_were(run: Run, shared: str) -> None:
    def cities(*words: str) -> dict[int, str]:
        result = run("cat", *words, "--format", "jsonl", "--columns", "id,city", warehouse=shared)
        rows = map(json.loads, result.out.splitlines())
        return {row["id"]: row["city"] for row in rows}

    first = {0: "Oslo", 1: "Rome", 2: HOSTILE}
    for words in (["--snapshot", "1"], ["--tag", "v1"], ["--branch", "dev"]):
        assert cities("db.orders", *words) == first
    assert cities("db.orders$branch_dev") == first
    assert cities("db.orders", "--where", "id > 2") == {3: "Rome", 4: HOSTILE}
    wrong = run("cat", "db.orders", "--where", "id = 'x' AND city = 'Oslo'", warehouse=shared)
    assert (wrong.status, "'x' is no" in wrong.err, "Spark" in wrong.err) == (1, True, False)
    assert len(cities("db.orders", "--limit", "2")) == 2
    assert cities("db.orders", "--as-of", "2999-01-01")[1] == "Oslo"
    assert run("cat", "db.orders", "--as-of", "1999-01-01T00:00:00Z", warehouse=shared).status == 1
    two = run("cat", "db.orders", "--snapshot", "1", "--tag", "v1", warehouse=shared)
    assert (two.status, "one state only" in two.err) == (2, True)


def test_difference(run: Run, shared: str) -> None:
    words = ("db.orders", "v1", "3", "--columns", "id", "--json")
    assert {(row["rowkind"], row["id"]) for row in run("diff", *words, warehouse=shared).json} >= {("+I", 3), ("+I", 4)}
    assert run("diff", "empty", "1", warehouse=shared).status == 1


def test_rows_that_were_written_again_do_not_differ(run: Run, tmp_path: Path) -> None:
    catalog, warehouse = bucketlake.open(tmp_path), str(tmp_path)
    columns = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    for engine in ("deduplicate", "aggregation"):
        options = {"bucket": "1", "merge-engine": engine, "fields.n.aggregate-function": "sum"}
        table = catalog.create_table(engine, columns, primary_keys=["id"], options=options)
        table.write_arrow(pa.table({"id": [1, 2, 3], "n": [10, 20, 30]}))
        table.write_arrow(pa.table({"id": [1, 2, 4], "n": [0 if engine == "aggregation" else 10, 5, 40]}))
    catalog.table("deduplicate").delete("id = 3")

    def told(*words: str) -> list[list[object]]:
        return [list(row.values()) for row in run("diff", *words, "--json", warehouse=warehouse).json]

    changed = [["-U", 2, 20], ["+U", 2, 5]]
    assert told("deduplicate", "1") == [*changed, ["-D", 3, 30], ["+I", 4, 40]]
    assert told("aggregation", "1", "2") == [["-U", 2, 20], ["+U", 2, 25], ["+I", 4, 40]]
    assert told("deduplicate", "1", "--where", "n < 10", "--columns", "n") == [["+U", 5]]
    assert told("deduplicate", "1", "2", "--limit", "1") == changed[:1]
    for snapshot in (1, 2):
        run("tag", "create", "deduplicate", f"t{snapshot}", "--snapshot", str(snapshot), warehouse=warehouse)
    assert told("deduplicate", "t1", "t2") == told("deduplicate", "1", "2") == [*changed, ["+I", 4, 40]]


def test_files_of_rows(run: Run, shared: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("export", "db.orders", "o.parquet", "--json", warehouse=shared)
    assert (done.json["rows"], done.json["format"]) == (5, "parquet")
    assert pq.read_table("o.parquet").num_rows == 5
    again = run("export", "db.orders", "o.parquet", warehouse=shared)
    assert (again.status, "--overwrite" in again.err) == (1, True)
    assert run("cat", "db.orders", "-o", "o.parquet", "--overwrite", "-n", "2", warehouse=shared).status == 0
    assert pq.read_table("o.parquet").num_rows == 2
    for name, lines in (("o.csv", 7), ("o.jsonl", 5), ("o.json", 5), ("o.csv.gz", 0)):
        assert run("export", "db.orders", name, warehouse=shared).status == 0
        assert not lines or len(Path(name).read_text().splitlines()) == lines, name
    assert run("export", "db.orders", "o.arrow", warehouse=shared).status == 0
    assert pa.ipc.open_file("o.arrow").read_all().num_rows == 5
    assert run("export", "db.orders", "o.dat", warehouse=shared).status == 2
    assert run("export", "db.orders", "bad.csv", "--columns", "nope", warehouse=shared).status == 1
    assert not Path("bad.csv").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_errors_are_message_place_remedy(run: Run, shared: str) -> None:
    missing = run("describe", "db.order", warehouse=shared)
    assert missing.status == 1
    assert missing.err.splitlines() == ["error: no such table", "  at: table=db.order", "  do: did you mean 'orders'?"]
    told = run("describe", "db.order", "--json", warehouse=shared)
    assert (told.status, told.out) == (1, "")
    assert told.error["kind"] == "NotFoundError"
    assert told.error["place"] == {"table": "db.order"}
    for words in (["nope"], ["tables", "--nope"], ["cat"], ["cat", "t", "--format", "xml"], []):
        assert run(*words, warehouse=shared).status == 2, words
    assert "Did you mean 'snapshots'?" in run("history", "db.orders", warehouse=shared).err
    assert "Did you mean 'advise'?" in run("doctor", "db.orders", warehouse=shared).err
    assert "Did you mean 'sql'?" in run("delete", "db.orders", warehouse=shared).err
    assert "Did you mean 'rollback'?" in run("undo", "db.orders", warehouse=shared).err
    folder = f"{shared}/db.db/orders"
    assert f"write 'db.orders'; the warehouse, '{shared}', is said apart" in run("files", folder, warehouse=shared).err
    assert run("tables").status == 2  # no warehouse
    assert run("tables", warehouse="nowhere").status == 1
    assert run("tables", "--nope", "--json").error["kind"] == "UsageError"
    hostile = run("describe", "db.x\x1b[31m", warehouse=shared)
    assert (hostile.status, "\x1b" in hostile.err) == (1, False)


def test_version_and_help(run: Run) -> None:
    assert run("--version").out.startswith("bucketlake ")
    for words in (["--help"], ["cat", "-h"], ["tag", "create", "--help"]):
        result = run(*words)
        assert result.status == 0
        assert result.out.startswith("Usage: bucketlake")


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_heads_of_a_narrow_table_stand_on_several_lines(width: int) -> None:
    head = ["bucket", "min sequence", "created", "path"]
    lines = table(
        head, [["0", "17", "2026-01-01 10:00:00", "/tmp/" + "x" * 80]], [True, True, False, False], Look(False, width)
    )
    assert max(map(len, lines)) <= width
    words = " ".join(lines[:-1]).split()
    assert sorted(words) == sorted(["bucket", "min", "sequence", "created", "path"])
    assert len(lines) == (2 if width == 200 else 3)
    assert lines[-1].split()[:2] == ["0", "17"]
    assert ("10:00:00" in lines[-1]) == (width > 40)


@pytest.mark.parametrize("width", [12, 30])
def test_rows_are_blocks_where_numbers_would_be_cut(width: int) -> None:
    head = ["bucket", "bytes", "created", "path"]
    rows = [[str(n), "1,024.5 KiB", "2026-01-01 10:00:00", "/tmp/" + "x" * 80] for n in range(2)]
    lines = table(head, rows, [True, True, False, False], Look(False, width))
    assert lines[:4] == ["bucket   0", "bytes    1,024.5 KiB", "created  2026-01-01 10:00:00", f"path     {rows[0][3]}"]
    assert lines[4:6] == ["", "bucket   1"]


def test_wrong_usage_says_of_which_command(run: Run, shared: str) -> None:
    for words in (("cat", "db.orders", "--where"), ("cat", "db.orders", "--wher", "x"), ("cat",)):
        told = run(*words, warehouse=shared)
        assert told.status == 2 and "at: Usage: bucketlake cat " in told.err
        assert told.err.endswith("  do: bucketlake cat --help\n")


def test_what_spark_refuses_is_no_fault_to_report(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    Console().failure(SparkRuntimeException("[CONFLICTING] Two folders.\n\nIf so, say it.\n\tat org.x.Y(Z.java)"))
    assert capsys.readouterr().err == "error: [CONFLICTING] Two folders.\n  do: BUCKETLAKE_TRACE=1 shows where\n"
    Console().failure(KeyError("x"))
    assert "please report it" in capsys.readouterr().err


@pytest.mark.parametrize("shape", [Shape("csv"), Shape("parquet"), Shape("jsonl", "gzip")])
def test_an_export_that_fails_leaves_the_object_as_it_was(shape: Shape) -> None:
    storage, path = storage_for(f"memory://{uuid.uuid4().hex}/out")
    rows = pa.table({"x": range(10)})
    for before in (None, b"of yesterday"):
        if before is not None:
            storage.write(path, before)
        target = Target(path, shape, {}, replace=True)
        with pytest.raises(KeyboardInterrupt), written(target, rows.schema) as write:
            write(rows.to_batches()[0])
            raise KeyboardInterrupt
        assert (storage.read(path) if storage.info(path) else None) == before


def test_every_command_names_a_partition_alike(run: Run, tmp_path: Path) -> None:
    """Folders of dates are named by numbers of days."""
    days = pa.table({"day": pa.array([20454], pa.int32()).cast(pa.date32()), "n": [1]})
    table = bucketlake.open(tmp_path).create_table("default.t", days.schema, ["day"])
    table.write_arrow(days)
    wanted = "day=2026-01-01"
    told = {"partitions": run("partitions", "t", "--json", warehouse=str(tmp_path)).json}
    told["files"] = run("files", "t", "--json", warehouse=str(tmp_path)).json
    told["plan"] = run("plan", "t", "--json", warehouse=str(tmp_path)).json["splits"]
    (file,) = table.files()
    assert file.partition == table.partitions()[0] and "day=20454" in file.path
    Path(file.path).unlink()
    told["fsck"] = run("fsck", "t", "--json", warehouse=str(tmp_path)).json["findings"]
    assert {name: [one["partition"] for one in rows] for name, rows in told.items()} == {
        name: [wanted] for name in told
    }
    assert run("fsck", "t", "--partition", wanted, "--json", warehouse=str(tmp_path)).json["findings"]
