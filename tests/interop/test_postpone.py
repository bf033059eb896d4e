"""Bucketlake and Apache Paimon on Flink write pending rows of postpone tables and compact each other's, in turns."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.interop.cases import Case, Maker, to_arrow
from tests.interop.catalogue import KV, kv
from tests.interop.engines import DATABASE, listed_here, listing, read_by_flink, result_rows
from tests.interop.values import arrow_rows, canonical
from tests.peers.flink import FlinkPaimon
from tests.profile import first

import bucketlake
from bucketlake.format.data.column_rewrite import join_files
from bucketlake.ops.buckets import dealt
from bucketlake.ops.compact import pending_whole
from bucketlake.ops.compact.postpone_compact import place_pending
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.write.postpone_write import write_counted
from bucketlake.ops.write.prepare import prepare_write

pytestmark = pytest.mark.peer
PENDING = {"postpone.batch-write-fixed-bucket": "false", "postpone.default-bucket-num": "3"}
SEEING = {"postpone.merge-on-read": "true"}
HINT = "/*+ OPTIONS('postpone.merge-on-read'='true') */"


class Turns:
    """One postpone table, its model, and both engines."""

    def __init__(self, flink: FlinkPaimon, folder: Path, case: Case) -> None:
        catalog = bucketlake.open(folder)
        catalog.create_database(DATABASE)
        flink.use(folder)
        self.flink, self.maker = flink, Maker(case.create(catalog, DATABASE))
        self.name = self.maker.table.name

    def ours(self, rows: list[tuple[int, str]], **options: str) -> None:
        self.maker.table = self.maker.table.refresh()
        self.maker.write(*rows, **options)

    def ours_late(self, rows: list[tuple[int, str]], before: list[tuple[int, str]]) -> None:
        """Rows whose files were made before others were, and which are committed after these."""
        table = self.maker.table.refresh()
        task = prepare_write(table.store, table.latest_snapshot(), commit_user="late")
        messages = write_counted(table.store, to_arrow(table, rows).to_batches(), task)
        self.ours(before)
        table.commit(messages, "late")
        self.maker._put(rows)

    def theirs(self, rows: list[tuple[int, str]], hint: str = "") -> None:
        values = ", ".join(f"({key}, '{value}')" for key, value in rows)
        self.flink.sql(f"INSERT INTO {self.name} {hint} VALUES {values}")
        self.maker._put(rows)

    def pending(self) -> list[str]:
        """The names of pending files."""
        store = self.maker.table.refresh().store
        found = live_entries(store, store.latest_snapshot())
        return [entry.file.file_name for entry in found if entry.bucket == -2]

    def agree(self, merging: bool = False, flink: bool = True) -> None:
        """Both engines read what the model says. `flink=False`: it orders pending rows of one writer only."""
        table = self.maker.table.refresh()
        options = SEEING if merging else {}
        assert canonical(arrow_rows(table.to_arrow(**options), table.schema.fields)) == self.maker.expected()
        if not flink:
            return
        if merging:
            theirs = result_rows(self.flink.sql(f"SELECT * FROM {self.name} {HINT}"))
        else:
            theirs = read_by_flink(self.flink, [table])[self.name]
        assert theirs == self.maker.expected()


def compact_by_flink(turns: Turns) -> None:
    turns.flink.sql(f"CALL sys.compact(`table` => '{turns.name}')")
    assert turns.pending() == []


def compact_here(turns: Turns) -> None:
    turns.maker.table.refresh().compact()
    assert turns.pending() == []


@pytest.mark.parametrize("form", first(["parquet", "orc", "avro"], 1))
def test_each_compacts_what_the_other_left_pending(
    flink: FlinkPaimon, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns(
        flink,
        tmp_path,
        Case("turns", "", KV, lambda maker: None, [], ["k"], {"bucket": "-2", **PENDING, "file.format": form}),
    )
    turns.ours(kv(0, 30, "ours"))
    with monkeypatch.context() as patch:
        patch.setattr(dealt, "DEALT_BYTES", 1)  # as if there were many rows
        turns.ours(kv(10, 20, "ours again"))
        turns.ours(kv(12, 16, "ours once more"))
    turns.ours_late(kv(18, 25, "ours late"), before=kv(16, 22, "ours meanwhile"))
    assert len([name for name in turns.pending() if "-w-r" not in name]) == 3
    assert len(turns.pending()) > 6 and all(name.endswith(form) for name in turns.pending())
    assert turns.maker.table.to_arrow().num_rows == 0
    assert flink.sql(f"SELECT * FROM {turns.name}").rows == []
    turns.agree(merging=True)
    compact_by_flink(turns)
    turns.agree()
    turns.theirs(kv(15, 40, "theirs"))
    turns.theirs(kv(30, 50, "theirs again"))
    assert len(turns.pending()) >= 2
    turns.agree(merging=True, flink=False)
    compact_here(turns)
    turns.agree()
    assert listing(flink, [turns.name])[turns.name] == listed_here(turns.maker.table.refresh())
    turns.ours(kv(45, 60, "pending"))
    turns.maker.table = turns.maker.table.with_options(SEEING)
    turns.maker.delete("k in (1, 31, 46)", lambda row: row["k"] in (1, 31, 46))
    turns.agree(merging=True)
    compact_by_flink(turns)
    turns.agree()
    turns.maker.table = turns.maker.table.refresh()
    turns.theirs(kv(46, 48, "back"))
    turns.ours(kv(47, 49, "ours last"))
    turns.agree(merging=True, flink=False)
    compact_here(turns)
    turns.agree()


def test_flink_goes_on_with_files_that_were_copied(
    flink: FlinkPaimon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"bucket": "-2", **PENDING, "postpone.default-bucket-num": "8"}
    turns = Turns(flink, tmp_path, Case("copied", "", KV, lambda maker: None, [], ["k"], options))
    copied = []
    monkeypatch.setattr(pending_whole, "join_files", lambda *given: copied.append(given) or join_files(*given))
    monkeypatch.setattr(pending_whole, "JOINED_BYTES", 1)
    monkeypatch.setattr(dealt, "DEALT_BYTES", 1)
    for first_key in (200, 0):
        turns.ours(kv(first_key, first_key + 200, "ours"))
    place_pending(turns.maker.table.refresh().store)
    assert len(copied) == 8 and not turns.pending()
    turns.agree()
    turns.theirs(kv(150, 250, "theirs"))
    compact_by_flink(turns)
    turns.agree()
    turns.ours(kv(100, 300, "ours again"))
    compact_here(turns)
    assert len(copied) == 16
    turns.agree()
    assert listing(flink, [turns.name])[turns.name] == listed_here(turns.maker.table.refresh())


@pytest.mark.slow
def test_writes_to_real_buckets_and_pending_ones_mix(flink: FlinkPaimon, tmp_path: Path) -> None:
    options = {"bucket": "-2", **PENDING}
    turns = Turns(flink, tmp_path, Case("mixed", "", KV, lambda maker: None, [], ["k"], options))
    fixed = "/*+ OPTIONS('postpone.batch-write-fixed-bucket'='true') */"
    turns.theirs(kv(0, 20, "theirs"), fixed)
    turns.agree()
    turns.ours(kv(10, 30, "ours"), postpone_batch_write_fixed_bucket="true")
    turns.agree()
    turns.theirs(kv(25, 40, "theirs pending"))
    turns.ours(kv(40, 60, "ours pending"))
    compact_here(turns)
    turns.agree()
    turns.ours(kv(0, 5, "ours pending"))
    turns.theirs(kv(60, 70, "theirs"), fixed)
    compact_by_flink(turns)
    turns.agree()
    totals = {file.total_buckets for file in turns.maker.table.refresh().files()}
    assert len(totals) == 1


def test_partitions_have_numbers_of_their_own(flink: FlinkPaimon, tmp_path: Path) -> None:
    columns, options = {"pt": "STRING", "k": "BIGINT", "v": "STRING"}, {"bucket": "-2", **PENDING}
    case = Case("parts", "", columns, lambda maker: None, ["pt"], ["pt", "k"], options)
    catalog = bucketlake.open(tmp_path)
    catalog.create_database(DATABASE)
    flink.use(tmp_path)
    maker = Maker(case.create(catalog, DATABASE))
    maker.write(*[("a", k, "ours") for k in range(20)], postpone_batch_write_fixed_bucket="true")
    maker.write(*[(pt, k, "pending") for pt in "ab" for k in range(10, 30)])
    flink.sql(f"CALL sys.compact(`table` => '{maker.table.name}')")
    table = maker.table.refresh()
    assert {(file.partition["pt"], file.total_buckets) for file in table.files()} == {("a", 1), ("b", 3)}
    assert canonical(arrow_rows(table.to_arrow(), table.schema.fields)) == maker.expected()
    maker.table = table
    maker.write(*[(pt, k, "last") for pt in "abc" for k in range(25, 35)])
    maker.table.compact(partitions=[{"pt": "c"}])
    maker.table.compact()
    assert {(f.partition["pt"], f.total_buckets) for f in maker.table.files()} == {("a", 1), ("b", 3), ("c", 3)}
    assert read_by_flink(flink, [maker.table])[maker.table.name] == maker.expected()


@pytest.mark.slow
@pytest.mark.spark
def test_pending_rows_of_spark_s_tasks(flink: FlinkPaimon, classic_session: SparkSession, tmp_path: Path) -> None:
    case = Case("spark", "", KV, lambda maker: None, [], ["k"], {"bucket": "-2", **PENDING})
    turns = Turns(flink, tmp_path, case)
    lake = bucketlake.connect(str(tmp_path), spark=classic_session)
    rows = classic_session.range(0, 60_000, 1, 2)
    for value in ("first", "last"):
        lake.table(turns.name).write(rows.select(F.col("id").alias("k"), F.lit(value).alias("v")))
        rows = rows.where("id < 45000")
    assert len(turns.pending()) == 4
    turns.theirs(kv(60_000, 60_010, "theirs"))
    result = flink.sql(f"SELECT v, COUNT(*) FROM {turns.name} {HINT} WHERE k < 60000 GROUP BY v")
    assert sorted(map(tuple, result.rows)) == [("first", 15_000), ("last", 45_000)]
    compact_by_flink(turns)
    found = (
        turns.maker.table.refresh().to_arrow(where="k < 60000").group_by("v").aggregate([([], "count_all")]).to_pylist()
    )
    assert {row["v"]: row["count_all"] for row in found} == {"first": 15_000, "last": 45_000}
