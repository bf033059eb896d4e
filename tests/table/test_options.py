"""What options do to a table: refused where they are set, bearable where another engine set them, honoured."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.errors import CommitError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.schema.change import AddColumn, RemoveOption, SetOption, UpdateComment
from bucketlake.table import Table
from bucketlake.types.model import DataType, Root

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("dt", pa.string(), nullable=False)])
ROWS = pa.table({"id": [1, 2], "dt": ["a", "b"]}, SCHEMA)
BESIDE = {"lookup.remote-file.enabled": "true", "lookup.remote-file.level-threshold": "3"}


def table(folder: Path, keys: tuple[str, ...] = (), **options: Any) -> Table:
    """An empty table `default.t` with partitions by dt."""
    return bucketlake.open(folder / "wh").create_table("t", SCHEMA, ["dt"], keys, options)


def foreign(folder: Path, options: dict[str, str], rows: bool = True) -> Table:
    """A table with rows, whose options another engine has set."""
    made = table(folder)
    if rows:
        made.write_arrow(ROWS)
    path = Path(made.path, "schema", "schema-0")
    tree = json.loads(path.read_text())
    path.write_text(json.dumps({**tree, "options": {**tree["options"], **options}}))
    return made.refresh()


def ids(made: Table, **options: Any) -> list[int]:
    """The ids that a read gives."""
    return sorted(made.to_arrow(**options)["id"].to_pylist())


REFUSED = {
    "commit.callbacks": "x.Y",
    "lookup.remote-file.enabled": "true",
    "auto-create": "true",
    "scan.partitions": "dt=a",
    "path": "/elsewhere",
}


@pytest.mark.parametrize(("key", "value"), REFUSED.items())
def test_setting_a_refused_option_is_refused_at_every_door(tmp_path: Path, key: str, value: str) -> None:
    made = table(tmp_path)
    made.write_arrow(ROWS)
    doors = [
        lambda: made.alter(SetOption(key, value)),
        lambda: made.to_arrow(**{key: value}),
        lambda: made.write_arrow(ROWS, **{key: value}),
        lambda: made.with_options({key: value}),
        lambda: bucketlake.open(tmp_path / "wh").table("t", {key: value}),
        lambda: bucketlake.open(tmp_path / "wh").create_table("u", SCHEMA, ["dt"], (), {key: value}),
        lambda: bucketlake.open(tmp_path / "wh", {f"table-default.{key}": value}),
    ]
    for door in doors:
        with pytest.raises(UnsupportedError, match=f"'{key}'"):
            door()
    assert len(made.snapshots()) == 1
    assert made.refresh().schema.id == 0
    assert bucketlake.open(tmp_path / "wh").list_tables() == ["t"]


def test_upkeep_of_another_engine_is_warned_of_once(tmp_path: Path) -> None:
    made = foreign(tmp_path, BESIDE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ids(made) == [1, 2]
    with pytest.warns(UserWarning, match="default.t.*lookup.remote-file.enabled, lookup.remote-file.level-threshold"):
        made.write_arrow(ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bucketlake.open(tmp_path / "wh").table("t").write_arrow(ROWS)
    assert ids(made) == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(
    "options",
    [
        {**BESIDE, "write-only": "true"},
        {"lookup.remote-file.level-threshold": "3"},
        {"write.merge-schema": "true"},
    ],
)
def test_upkeep_that_nobody_asks_for_is_not_warned_of(tmp_path: Path, options: dict[str, str]) -> None:
    made = foreign(tmp_path, options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.write_arrow(ROWS)


def test_a_table_that_cannot_be_written_is_read_and_its_options_altered(tmp_path: Path) -> None:
    made = foreign(tmp_path, {"commit.callbacks": "x.Y", **BESIDE})
    assert ids(made) == [1, 2]
    for write in (lambda: made.write_arrow(ROWS), lambda: made.delete("true"), made.compact, made.truncate):
        with pytest.raises(UnsupportedError, match="commit.callbacks"):
            write()
    with pytest.raises(UnsupportedError, match="commit.callbacks"):
        made.alter(AddColumn("n", DataType(Root.INT)))
    with pytest.raises(UnsupportedError, match="commit.callbacks"):
        made.alter(SetOption("commit.callbacks", "x.Z"))
    altered = made.alter(SetOption("snapshot.num-retained.min", "3"), UpdateComment(None, "of Flink"))
    assert altered.options.get("snapshot.num-retained.min") == 3
    assert altered.options.text("commit.callbacks") == "x.Y"
    assert made.alter(SetOption("commit.callbacks", "x.Y")).schema.id == 2  # as it is: no change
    reset = altered.alter(RemoveOption("commit.callbacks"), RemoveOption("lookup.remote-file.enabled"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reset.write_arrow(ROWS)
    assert ids(reset) == [1, 1, 2, 2]


def test_a_table_that_cannot_be_read_can_be_altered(tmp_path: Path) -> None:
    made = foreign(tmp_path, {"manifest.format": "orc"})
    with pytest.raises(UnsupportedError, match=r"manifest\.format"):
        ids(made)
    altered = made.alter(SetOption("bucket-append-ordered", "false"))
    assert ids(altered.alter(RemoveOption("manifest.format"))) == [1, 2]


def test_manifests_of_no_size_hold_an_entry_each(tmp_path: Path) -> None:
    made = foreign(tmp_path, {"manifest.target-file-size": "0 b"})
    made.write_arrow(ROWS)
    assert ids(made) == [1, 1, 2, 2]


def test_a_long_name_of_a_damaged_schema_is_told_short() -> None:
    error = NotFoundError("no such column", column="x" * 100_000, table="t")
    assert len(str(error)) < 3000
    assert "(100000 characters)" in str(error)
    assert str(error).endswith("table=t]")
    assert error.details["column"] == "x" * 100_000


def test_renaming_a_column_that_a_refused_option_names(tmp_path: Path) -> None:
    from bucketlake.schema.change import RenameColumn

    made = foreign(tmp_path, {"clustering.columns": "id"})
    assert made.alter(RenameColumn("id", "number")).options.text("clustering.columns") == "number"


def test_malformed_options_of_another_engine_do_not_bar_altering_others(tmp_path: Path) -> None:
    made = foreign(tmp_path, {"lookup.cache-rows": "many"})
    made.alter(SetOption("snapshot.num-retained.min", "3"))
    with pytest.raises(InvalidError, match=r"lookup\.cache-rows"):
        made.alter(SetOption("lookup.cache-rows", "most"))


def test_empty_commits(tmp_path: Path) -> None:
    made = table(tmp_path)
    nothing = ROWS.slice(0, 0)
    assert made.write_arrow(nothing) is None
    assert made.write_arrow(nothing, **{"snapshot.ignore-empty-commit": "true"}) is None
    written = made.write_arrow(nothing, **{"snapshot.ignore-empty-commit": "false"})
    assert written is not None and written.id == 1
    assert len(made.snapshots()) == 1


def test_deletes_of_nothing_commit_where_that_is_wanted(tmp_path: Path) -> None:
    table = bucketlake.open(tmp_path).create_table("t", pa.schema([("id", pa.int32())]), options={"bucket": "-1"})
    table.write_arrow(pa.table({"id": pa.array([1, 2], pa.int32())}))
    assert table.delete("id = 9") is None
    snapshot = table.delete("id = 9", **{"snapshot.ignore-empty-commit": "false"})
    assert snapshot is not None and (snapshot.id, snapshot.delta_record_count) == (2, 0)
    assert table.to_arrow().num_rows == 2


@pytest.mark.parametrize("keys", [(), ("id", "dt")])
def test_files_and_snapshots_by_time_of_creation(tmp_path: Path, keys: tuple[str, ...]) -> None:
    made = table(tmp_path, keys, **({"bucket": 1} if keys else {}))
    for number in (1, 2, 3):
        made.write_arrow(pa.table({"id": [number], "dt": ["a"]}, SCHEMA))
    times = [snapshot.time_millis for snapshot in made.snapshots()]
    assert ids(made, **{"scan.file-creation-time-millis": times[0] - 60_000}) == [1, 2, 3]
    assert ids(made, **{"scan.file-creation-time-millis": times[2] + 60_000}) == []
    files = {file.file.creation_time: file for file in made.files()}
    assert len(made.files(**{"scan.file-creation-time-millis": times[2] + 60_000})) == 0 < len(files)
    assert ids(made, **{"scan.creation-time-millis": times[2] + 60_000}) == []
    assert ids(made, **{"scan.creation-time-millis": times[1]}) in ([1, 2], [1, 2, 3], [1])
    assert ids(made.alter(SetOption("scan.file-creation-time-millis", str(times[2] + 60_000)))) == []


def _branch(made: Table, name: str) -> None:
    """Make a branch as other engines do: its folder with a schema."""
    folder = Path(made.path, "branch", f"branch-{name}", "schema")
    folder.mkdir(parents=True)
    (folder / "schema-0").write_text(Path(made.path, "schema", "schema-0").read_text())


def test_a_branch_among_the_options(tmp_path: Path) -> None:
    made = table(tmp_path)
    made.write_arrow(ROWS)
    for door in (
        lambda: made.to_arrow(branch="nope"),
        lambda: made.write_arrow(ROWS, branch="nope"),
        lambda: made.with_options(branch="nope"),
        lambda: made.plan(branch="nope"),
        lambda: list(made.to_batches(branch="nope")),
        lambda: made.delete("true", branch="nope"),
    ):
        with pytest.raises(NotFoundError, match="nope"):
            door()
    assert ids(made, branch="main") == [1, 2]
    _branch(made, "b")
    assert ids(made, branch="b") == []
    made.write_arrow(ROWS.slice(0, 1), branch="b")
    assert (ids(made), ids(made, branch="b")) == ([1, 2], [1])
    on_branch = made.with_options({"snapshot.num-retained.min": "7"}).with_options(branch="b")
    assert on_branch.options.get("snapshot.num-retained.min") == 7
    assert ids(on_branch) == [1]
    assert ids(on_branch, branch="main") == [1, 2]
    on_branch.delete("true")
    assert (ids(made), ids(made, branch="b")) == ([1, 2], [])


@pytest.mark.parametrize("keys", [(), ("id", "dt")])
def test_a_delete_says_what_it_deletes(tmp_path: Path, keys: tuple[str, ...]) -> None:
    made = table(tmp_path, keys, **({"bucket": 1} if keys else {}))
    made.write_arrow(ROWS)
    for nothing in (None, True, "", "  "):
        with pytest.raises(InvalidError):
            made.delete(nothing)  # type: ignore[arg-type]
    assert ids(made) == [1, 2]
    made.delete("true")
    assert ids(made) == []


def test_the_comment_among_the_options_is_the_tables(tmp_path: Path) -> None:
    made = table(tmp_path, comment="first")
    assert (made.schema.comment, "comment" in made.schema.options) == ("first", False)
    made = made.alter(SetOption("comment", "second"))
    assert (made.schema.comment, "comment" in made.schema.options) == ("second", False)
    assert made.alter(RemoveOption("comment")).schema.comment is None


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("merge_engine", "merge-engine"),
        ("Bucket-Key", "bucket-key"),
        ("snapshot.num-retained.mn", "snapshot.num-retained.min"),
    ],
)
def test_what_looks_like_a_typing_error_is_warned_of(tmp_path: Path, key: str, meant: str) -> None:
    with pytest.warns(UserWarning, match=f"'{key}'.*'{meant}'"):
        made = table(tmp_path, **{key: "1"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.alter(SetOption("snapshot.num-retained.min", "3"))
        made.alter(SetOption("my.own", "3"))
    with pytest.warns(UserWarning, match="'writeonly'"):
        made.alter(SetOption("writeonly", "true"))


def test_a_slip_among_the_options_of_a_call_is_refused(tmp_path: Path) -> None:
    written = table(tmp_path)
    written.write_arrow(ROWS)
    written.write_arrow(ROWS)
    for slip, meant in (("scan.snapshotid", "scan.snapshot-id"), ("snapshot-id", "scan.snapshot-id")):
        for call in (written.with_options, written.to_arrow, written.plan, written.write_arrow):
            given = (ROWS,) if call == written.write_arrow else ()
            with pytest.raises(InvalidError, match=f"no such option.*did you mean '{meant}'"):
                call(*given, **{slip: 1})
    with pytest.raises(InvalidError, match="no such option.*did you mean 'version'"):  # not scan_version, which is it
        written.to_arrow(verson=1)
    assert written.to_arrow(**{"my.own": 1, "changelog.precommit-compact.buffer-size": "1 mb"}).num_rows == 4


@pytest.mark.parametrize("keys", [(), ("dt", "id")])
@pytest.mark.parametrize(
    "key",
    [
        *("num-sorted-run.compaction-trigger", "compaction.size-ratio", "num-levels", "full-compaction.delta-commits"),
        *("snapshot.expire.execution-mode", "snapshot.num-retained.max", "partition.expiration-time", "write-only"),
        *("partition.end-input-to-done", "tag.automatic-creation", "clustering.incremental"),
    ],
)
def test_what_cannot_be_read_after_a_commit_is_no_error_of_it(tmp_path: Path, key: str, keys: tuple[str, ...]) -> None:
    """Whoever writes again what failed would have the rows twice."""
    place = {"bucket": "1", **({} if keys else {"bucket-key": "id"})}
    made = bucketlake.open(tmp_path / "wh").create_table("t", SCHEMA, ["dt"], keys, place)
    path = Path(made.path, "schema", "schema-0")
    tree = json.loads(path.read_text())
    path.write_text(json.dumps({**tree, "options": {**tree["options"], key: "zz"}}))
    again = made.refresh()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            again.write_arrow(ROWS)
        except InvalidError as error:
            assert key in str(error)
            assert made.snapshots() == []
        else:
            assert [found.id for found in made.snapshots()][:1] == [1]


def test_rows_that_wait_for_a_compaction_nobody_can_read(tmp_path: Path) -> None:
    made = table(tmp_path, ("dt", "id"), bucket="1", **{"changelog-producer": "lookup"})
    path = Path(made.path, "schema", "schema-0")
    tree = json.loads(path.read_text())
    path.write_text(json.dumps({**tree, "options": {**tree["options"], "num-levels": "zz"}}))
    with pytest.raises(CommitError, match=r"the rows are committed.*num-levels.*CALL sys\.compact"):
        made.refresh().write_arrow(ROWS)
