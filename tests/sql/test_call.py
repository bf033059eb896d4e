"""CALL: arguments of both engines, what is refused, and what compaction leaves."""

from __future__ import annotations

import pytest
from tests.profile import first

import bucketlake
from bucketlake.errors import BucketlakeError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.sql.procedures import call
from bucketlake.sql.procedures.catalogue import PROCEDURES
from bucketlake.sql.procedures.registry import TABLE
from bucketlake.sql.text.cursor import Cursor

pytestmark = pytest.mark.spark


def table(lake: bucketlake.Lake, options: str = "") -> None:
    lake.sql(
        "CREATE TABLE db.t (id INT, v INT, pt STRING) PARTITIONED BY (pt) TBLPROPERTIES "
        f"('primary-key' = 'id,pt', 'bucket' = '1', 'write-only' = 'true'{options})"
    )
    for value in range(3):
        lake.sql(f"INSERT INTO db.t VALUES (1, {value}, 'a'), (2, {value}, 'a'), (1, {value}, 'b')")
    lake.sql("DELETE FROM db.t WHERE id = 2")


def runs(lake: bucketlake.Lake) -> dict[str, int]:
    found: dict[str, int] = {}
    for file in lake.table("db.t").files():
        found[file.partition["pt"]] = found.get(file.partition["pt"], 0) + 1
    return found


def rows(lake: bucketlake.Lake) -> list[tuple[int, int, str]]:
    return sorted(tuple(row) for row in lake.sql("SELECT * FROM db.t").collect())


COMPACTS_ALL = [
    "CALL sys.compact('db.t')",
    "CALL sys.compact('db.t', '', '', '', '')",
    "CALL paimon.sys.compact(`table` => 'db.t')",
    "CALL SYS.COMPACT(TABLE => 'db.t')",
    "call sys.compact(table => 'db.t', compact_strategy => 'FULL', partitions => NULL);",
    "CALL sys.compact('db.t', '', '', '', '', '', '', '')",
    "CALL sys.compact('t', partitions => '')",
    "CALL sys.compact('db.t', 'pt=a;pt=b', 'full')",
    "CALL sys.compact('db.t', '', '', '', 'num-levels=4')",  # Flink's fifth: options
    "CALL sys.compact('db.t', '', 'none', '', '', \"pt IN ('a', 'b')\")",  # Flink's third: order_strategy
]


@pytest.mark.parametrize("statement", first(COMPACTS_ALL, 6))
def test_every_spelling_compacts_the_table(lake: bucketlake.Lake, statement: str) -> None:
    table(lake)
    lake.current_database = "db"
    before = rows(lake)
    shown = lake.sql(statement)
    assert shown.columns == ["result"] and [row[0] for row in shown.collect()] == [True]
    assert runs(lake) == {"a": 1, "b": 1}
    assert rows(lake) == before == [(1, 2, "a"), (1, 2, "b")]
    newest = lake.table("db.t").latest_snapshot()
    assert newest is not None and newest.commit_kind.value == "COMPACT"
    lake.sql(statement)
    assert lake.table("db.t").latest_snapshot() == newest


@pytest.mark.parametrize(
    "argument",
    [
        "partitions => 'pt=a'",
        "partitions => 'pt=\"a\"'",
        "`where` => \"pt < 'b'\"",
        "where => \"pt = 'a' AND pt <> 'c'\"",
        "where => \"upper(substr(pt, 1, 1)) = 'A'\"",
        "where => \"ascii(pt) < 98 AND pt > 'A'\"",
    ],
)
def test_partitions_are_chosen(lake: bucketlake.Lake, argument: str) -> None:
    table(lake)
    lake.sql(f"CALL sys.compact(`table` => 'db.t', {argument})")
    assert runs(lake)["a"] == 1 and runs(lake)["b"] > 1


def test_conditions_over_partition_columns_that_only_spark_evaluates(classic: bucketlake.Lake) -> None:
    """Conditions may compute and convert: `hh` is a text here, and compared as a number."""
    classic.sql(
        "CREATE TABLE db.h (id INT, dt STRING, hh STRING) PARTITIONED BY (dt, hh) "
        "TBLPROPERTIES ('bucket' = '1', 'bucket-key' = 'id')"
    )
    parts = "VALUES ('9', '08'), ('20', '08'), ('20', '11'), ('30', NULL) AS p(dt, hh)"
    classic.sql(f"INSERT INTO db.h SELECT CAST(id AS INT), dt, hh FROM {parts}, range(3)")
    where = "where => 'dt > 10 and hh < 10'"
    classic.sql(f"CALL sys.rescale('db.h', 2, {where})")
    found = {(file.partition["dt"], file.partition["hh"]): file for file in classic.table("db.h").files()}
    assert {place: file.total_buckets for place, file in found.items()} == {
        ("9", "08"): 1,
        ("20", "08"): 2,
        ("20", "11"): 1,
        ("30", "__DEFAULT_PARTITION__"): 1,
    }
    classic.sql(f"CALL sys.copy('db.h', 'db.copied', {where})")
    copied = classic.sql("SELECT DISTINCT dt, hh FROM db.copied").collect()
    assert [tuple(row) for row in copied] == [("20", "08")]
    classic.sql("CALL sys.rewrite(table => 'db.h', options => 'file.format=orc', where => 'hh IS NULL OR dt = 9')")
    orc = {file.partition["dt"] for file in classic.table("db.h").files() if file.path.endswith(".orc")}
    assert orc == {"9", "30"}
    for condition, message in (("length(hh) + id > 1", "Only partition predicate"), ("gone(hh) = 1", "gone")):
        with pytest.raises(BucketlakeError, match=message):
            classic.sql(f"CALL sys.compact(table => 'db.h', where => '{condition}')")


def test_idle_partitions_only(lake: bucketlake.Lake) -> None:
    table(lake)
    lake.sql("CALL sys.compact(table => 'db.t', partition_idle_time => '1 d')")
    assert runs(lake)["a"] > 1
    lake.sql("CALL sys.compact(table => 'db.t', partition_idle_time => '0 s')")
    assert runs(lake) == {"a": 1, "b": 1}


def test_minor_leaves_few_runs_alone(lake: bucketlake.Lake) -> None:
    table(lake)
    before = runs(lake)
    lake.sql("CALL sys.compact(table => 'db.t', compact_strategy => 'minor')")
    assert runs(lake) == before
    lake.sql(
        "CALL sys.compact(table => 'db.t', compact_strategy => 'minor', options => 'num-sorted-run.compaction-trigger=2')"
    )
    assert runs(lake) == {"a": 1, "b": 1}


REFUSED = [
    ("CALL sys.compact()", InvalidError, "needs arguments"),
    ("CALL sys.compact('')", InvalidError, "needs arguments"),
    ("CALL sys.compact('db.gone')", NotFoundError, "gone"),
    ("CALL sys.compcat('db.t')", InvalidError, "did you mean sys.compact"),
    ("CALL sys.compact(tabel => 'db.t')", InvalidError, "did you mean table"),
    ("CALL sys.compact(table => 'db.t', `table` => 'db.t')", InvalidError, "given twice"),
    ("CALL sys.compact(table => 'db.t', 'pt=a')", InvalidError, "positional argument after a named one.*: name this"),
    ("CALL sys.compact('db.t', where = \"pt = 'a'\")", InvalidError, "named by =>.*: write name => value"),
    ("CALL nope.sys.compact('db.t')", InvalidError, r"no catalog of this name.*catalog=nope.*CALL sys\.compact"),
    ("CALL sys.compact('db.t', '', '', '', '', '', '', '', '', '')", InvalidError, "too many arguments"),
    ("CALL sys.compact(table => 'db.t', compact_strategy => 'some')", InvalidError, "only supports 'full' or 'minor'"),
    ("CALL sys.compact(table => 'db.t', order_by => 'v')", InvalidError, "cannot work with order_by"),
    ("CALL sys.compact(table => 'db.t', order_strategy => 'zorder', order_by => 'w')", InvalidError, "find column w"),
    ("CALL sys.compact('db.t', '', 'zorder', 'w')", InvalidError, "find column w"),
    ("CALL sys.compact(table => 'db.t', partitions => 'pt=a', where => 'pt > 1')", InvalidError, "used together"),
    ("CALL sys.compact(table => 'db.t', partitions => 'id=1')", InvalidError, "Partition keys"),
    ("CALL sys.compact(table => 'db.t', partitions => 'a')", InvalidError, "not a partition"),
    ("CALL sys.compact(table => 'db.t', where => 'v > 1')", InvalidError, "Only partition predicate"),
    ("CALL sys.compact(table => 'db.t', options => 'a')", InvalidError, "not an option"),
    ("CALL sys.compact('db.t', options => 'num-levels=4,num-levels=5')", InvalidError, "given twice"),
    ("CALL sys.compact('db.t', partitions => ';')", InvalidError, "no partition is named"),  # it compacted all
    ("CALL sys.drop_partition('db.t', 'pt=a,pt=b')", InvalidError, "one value of a column.*: write ; between"),
    (
        "CALL sys.expire_partitions('db.t', '1 d', options => 'partition.time-formatter=y')",
        InvalidError,
        "no such option",
    ),
    ("CALL sys.migrate_table('hive', 'a.b', options_map => map('a'))", InvalidError, "last key has no value"),
    ("CALL sys.migrate_table('hive', 'a.b', options_map => map('a', '1', 'a', '2'))", InvalidError, "given twice"),
    ("CALL sys.compact(table => 'db.t', partition_idle_time => 'soon')", InvalidError, "soon"),
    ("CALL sys.rescale(`table` => 'db.t', bucket_num => 'x')", InvalidError, "not a whole number"),
    ("CALL sys.rescale('db.t', 2, 'dt=1', 'x', 'y', 'z')", InvalidError, "too many arguments"),
    ("CALL sys.rescale('db.t', partitions => 'dt=1', where => 'dt = 1')", InvalidError, "cannot be used together"),
    ("CALL sys.rescale('db.t', partitions => 'dt=1', partition => 'dt=1')", InvalidError, "cannot be used together"),
    ("CALL sys.compact 'db.t'", InvalidError, "expected"),
    ("CALL sys.compact('db.t') x", InvalidError, "unexpected text"),
    ("CALL sys.advise(table => 'db.t$files')", InvalidError, r"system table 'db.t\$files', please use data table"),
]


@pytest.mark.parametrize(("statement", "error", "message"), REFUSED)
def test_what_is_refused(classic: bucketlake.Lake, statement: str, error: type[Exception], message: str) -> None:
    classic.sql("CREATE TABLE db.t (id INT, v INT, pt STRING) PARTITIONED BY (pt) TBLPROPERTIES ('bucket' = '-1')")
    with pytest.raises(error, match=message):
        classic.sql(statement)
    assert classic.table("db.t").latest_snapshot() is None


BUILT = [one for one in PROCEDURES.values() if one.run is not None]
SPARK = [
    "rollback",
    "rollback_to_timestamp",
    "rollback_to_watermark",
    "purge_files",
    "create_tag",
    "replace_tag",
    "rename_tag",
    "create_tag_from_timestamp",
    "delete_tag",
    "expire_tags",
    "create_branch",
    "create_global_index",
    "drop_global_index",
    "delete_branch",
    "rename_branch",
    "compact",
    "materialize_deletion_vectors",
    "compact_database",
    "compact_chain_table",
    "rescale",
    "remove_orphan_files",
    "remove_unexisting_files",
    "expire_snapshots",
    "expire_partitions",
    "repair",
    "repair_earliest_snapshot",
    "fast_forward",
    "merge_branch",
    "reset_consumer",
    "mark_partition_done",
    "compact_manifest",
    "clear_consumers",
    "alter_view_dialect",
    "create_function",
    "alter_function",
    "drop_function",
    "trigger_tag_automatic_creation",
    "rewrite_file_index",
    "copy",
    "reassign_row_id",
]


def test_all_of_sparks_procedures_are_known() -> None:
    assert not set(SPARK) - set(PROCEDURES)
    assert all(one.doc and (one.run is None) == bool(one.missing) for one in PROCEDURES.values())
    assert all(set(one.flink) <= {argument.name for argument in one.arguments} for one in PROCEDURES.values())


@pytest.mark.parametrize("name", sorted(PROCEDURES.keys() - {one.name for one in BUILT}))
def test_what_is_not_built_is_refused_by_name(name: str) -> None:
    cursor = Cursor(f"CALL sys.{name}(one_that_it_has => 'x', another => map('a', 'b'))")
    with pytest.raises(UnsupportedError, match=f"sys.{name} is not supported"):
        call.parse(cursor)


def test_arguments_are_of_their_kinds() -> None:
    for text, error in [
        ("sys.create_tag(table => 't', tag => 'x', snapshot => 'one')", "not a whole number"),
        ("sys.create_tag(table => 't', tag => 'x', snapshot => 9223372036854775808)", "out of range"),
        ("sys.expire_snapshots(table => 't', retain_max => 2147483648)", "out of range"),
        ("sys.create_branch(table => 't', branch => 'x', ignoreIfExists => 'maybe')", "neither true nor false"),
        ("sys.rollback(table => 't', version => '1', tag => 'x')", "only can set one of version/snapshot/tag"),
        ("sys.rollback(table => 't')", "only can set one of version/snapshot/tag"),
        ("sys.expire_snapshots(table => 't'，retain_max => 1)", "SQL: "),
        ("sys.unknown_procedure(table => 't')", "no such procedure"),
        ("sys.clear_consumers(table => 't', includingConsumers => '(')", "not a regular expression"),
    ]:
        cursor = Cursor(f"CALL {text}")
        with pytest.raises(InvalidError, match=error):
            call.parse(cursor)
    cursor = Cursor("CALL sys.reset_consumer(TABLE => 't', consumer_id => 'c', NEXTSNAPSHOTID => 3L)")
    found = call.parse(cursor)
    wanted = {"table": "t", "consumerId": "c", "nextSnapshotId": "3"}
    assert isinstance(found, call.Call) and found.arguments == wanted


def test_all_arguments_of_both_engines_may_be_named() -> None:
    text = "sys.compact_database(including_databases => 'a|b', mode => 'combined', including_tables => 't.*', "
    text += "excluding_tables => 'x', table_options => 'sink.parallelism=4')"
    found = call.parse(Cursor(f"CALL {text}"))
    assert isinstance(found, call.Call) and found.arguments["mode"] == "combined"
    with pytest.raises(InvalidError, match="given twice"):
        call.parse(Cursor("CALL sys.compact_database(mode => 'combined', mode => 'divided')"))
    text = (
        "sys.rescale(table => 't', bucket_num => 2, partitions => 'a=1', scan_parallelism => 1, sink_parallelism => 1)"
    )
    assert isinstance(call.parse(Cursor(f"CALL {text}")), call.Call)


@pytest.mark.parametrize(
    ("flinks", "sparks"),
    [
        ("create_tag(`table` => 't', tag => 'x', snapshot_id => cast(10 as bigint))", "create_tag('t', 'x', 10)"),
        (
            "create_tag('t', 'x', CAST(NULL AS BIGINT), '1 d')",
            "create_tag(table => 't', tag => 'x', time_retained => '1 d')",
        ),
        (
            "replace_tag(`table` => 't', tag_name => 'x', snapshot_id => 5)",
            "replace_tag(table => 't', tag => 'x', snapshot => 5)",
        ),
        (
            "rename_tag(`table` => 't', tagName => 'x', targetTagName => 'y')",
            "rename_tag(table => 't', tag => 'x', target_tag => 'y')",
        ),
        ("rename_tag('t', 'x', cast('y' AS STRING))", "rename_tag('t', 'x', 'y')"),
        ("repair(`table` => 'd.t')", "repair('d.t')"),
    ],
)
def test_flinks_calls_mean_sparks(flinks: str, sparks: str) -> None:
    found, wanted = (call.parse(Cursor(f"CALL sys.{text}")) for text in (flinks, sparks))
    assert isinstance(found, call.Call) and found == wanted


def test_casts_of_arguments_change_no_value() -> None:
    for text in ("CAST(1.7 AS BIGINT)", "CAST('x' AS INT)", "CAST(1 AS DATE)", "CAST(1)", "CAST(1 AS BIGINT, 2)"):
        with pytest.raises(InvalidError, match="SQL: "):
            call.parse(Cursor(f"CALL sys.create_tag('t', 'x', {text})"))


def test_help_lists_all_and_explains_one(classic: bucketlake.Lake) -> None:
    listed = {row.procedure: row for row in classic.sql("CALL sys.help()").collect()}
    assert set(listed) == set(PROCEDURES)
    assert listed["create_function"].state.startswith("not built: ")
    told = [tuple(row) for row in classic.sql("CALL sys.help('compact')").collect()]
    assert told[0][0] == "compact" and told[1] == ("  table", "string", TABLE.doc, "required")
    with pytest.raises(InvalidError, match="did you mean sys.compact"):
        classic.sql("CALL sys.help('compcat')")
