"""Tables that are whole have no findings; damage never crashes a check; repair beside writers; usage; advice."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests import corpus
from tests.check.forged import (
    file_of,
    key_values,
    live,
    newest,
    path_of,
    read,
    rows,
    settle,
    some,
    table_of,
    with_file,
)
from tests.hostile import tables as hostile
from tests.profile import SOAK, examples
from tests.sim.clock import FakeClock
from tests.sim.storage import MapStorage
from tests.sim.tables import create_table, data_file, message, partition, table_schema

import bucketlake
from bucketlake.errors import BucketlakeError, InvalidError, NotFoundError
from bucketlake.format.metadata.snapshot import CommitKind
from bucketlake.format.metadata.statistics import ColumnStatistics, TableStatistics
from bucketlake.ops.check import advise as advising
from bucketlake.ops.check import mending
from bucketlake.ops.check.advise import Advice, advise_table
from bucketlake.ops.check.faults import FAULTS
from bucketlake.ops.check.findings import MOST, Findings
from bucketlake.ops.commit.analyze import commit_statistics, statistics_of
from bucketlake.ops.commit.commit import Commit
from bucketlake.ops.commit.loads import SourceFile, record_loaded
from bucketlake.ops.progress import Progress
from bucketlake.ops.table.store import clear_cache
from bucketlake.ops.table.wall_clock import local_from_epoch
from bucketlake.schema.change import AddColumn
from bucketlake.sql.procedures import call
from bucketlake.sql.text.cursor import Cursor
from bucketlake.table import Table
from bucketlake.types.model import BIGINT


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    hostile.make(folder)
    return folder


def folder_bytes(table: Table) -> int:
    return sum(path.stat().st_size for path in Path(table.path).rglob("*") if path.is_file())


# ---- whole tables


def test_our_tables_are_whole_and_their_bytes_counted(tables: Path) -> None:
    for name in hostile.TABLES:
        table = bucketlake.open(tables).table(name)
        steps: list[Progress] = []
        report = table.fsck("rows", on_progress=steps.append)
        assert report.findings == (), name
        assert report.files == len(table.files()) and steps[-1].units == steps[-1].total_units and steps[-1].done
        assert table.usage().total == folder_bytes(table)


def test_what_a_table_keeps_beside_its_rows_is_its_own(tmp_path: Path) -> None:
    """Notes of COPY INTO and of streams, the claim of a branch that is being made."""
    table = table_of(tmp_path, bucket="1")
    table.write_arrow(rows(("x", 1, "a")))
    table.create_branch("b")
    record_loaded(table.store, [(SourceFile("/from/a.csv", 7, 1), 1)], 1)
    for place in (table.store.paths.stream("q"), f"{table.store.paths.branch('b')}/.creating"):
        table.store.env.storage.write(place, b"{}")
    assert table.fsck().findings == ()
    assert table.usage().total == folder_bytes(table)
    assert all(held.kind != "foreign" for held in table.usage().held)


def test_a_branch_is_checked_by_its_own_schemas(tmp_path: Path) -> None:
    table = table_of(tmp_path, bucket="1", **{"changelog-producer": "input"})
    table.write_arrow(rows(("x", 1, "a")))
    table.create_tag("v")
    table.create_branch("b", "v")
    branch = bucketlake.open(tmp_path).table(f"{table.name}$branch_b")
    for handle, names in ((table, "c"), (branch, "de")):
        for name in names:
            handle = handle.alter(AddColumn(name, BIGINT))
            handle.write_arrow(rows(("x", 2, name)))
            handle.compact()
    for handle in (table, branch):
        assert handle.refresh().fsck("rows").findings == ()


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_a_tag_outlives_the_changelog_of_its_snapshot(tmp_path: Path, producer: str) -> None:
    """An expiry keeps what the tag's rows need: its changelog goes, as in Apache Paimon, and the tag is whole."""
    options = {"bucket": "1", "changelog-producer": producer}
    table = bucketlake.open(str(tmp_path)).create_table(
        "t", pa.schema([("k", pa.int64()), ("v", pa.int64())]), [], ["k"], options
    )
    for value in range(3):
        table.write_arrow(pa.table({"k": [1, 2], "v": [value, value]}))
        table.compact(full=True)
    for snapshot in table.snapshots()[:-1]:
        table.create_tag(f"of-{snapshot.id}", snapshot.id)
    held = [tag.changelog_manifest_list for tag in table.tags().values() if tag.changelog_manifest_list]
    table.expire_snapshots(retain_max=1, retain_min=1)
    assert held and not any(Path(table.store.paths.manifest(name)).exists() for name in held)
    assert not table.fsck().findings
    assert {table.with_options({"scan.tag-name": tag}).to_arrow().num_rows for tag in table.tags()} == {2}


@pytest.mark.parametrize("producer", ["lookup", "none"])
def test_changelogs_outlive_their_snapshots(tmp_path: Path, producer: str) -> None:
    """Of commits without changelog files, in a table that writes such, the files go with the snapshot: they tell
    nothing. In one that writes none these files are what they tell."""
    schema = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])
    options = {"bucket": "1", "changelog-producer": producer, "changelog.num-retained.max": "50"}
    table = bucketlake.open(tmp_path).create_table("t", schema, [], ["k"], options)
    for number in range(5):
        table.write_arrow(pa.table({"k": [1, number + 2], "v": [number, number]}, schema=schema))
    assert table.expire_snapshots(retain_max=2, retain_min=1).snapshots > 2
    assert len(table.store.changelog_ids()) > 2
    assert table.fsck("rows").findings == ()
    if producer == "none":
        (Path(table.path) / "manifest" / next(table.store.changelogs()).delta_manifest_list).unlink()
        clear_cache()
        assert {one.code for one in table.fsck().findings} >= {"manifest-list-missing"}


def test_paimons_tables_are_whole(tmp_path: Path) -> None:
    catalog = bucketlake.open(corpus.unpack(tmp_path))
    for name in corpus.names():
        table = catalog.table(f"corpus.{name}")
        report = table.fsck("rows")
        assert not report.errors, (name, report.errors)
        assert not report.codes - {"foreign-file", "data-file-unread", "sequence-behind", "sequence-tie"}, (
            name,
            report,
        )
        if SOAK:
            assert table.usage().total == folder_bytes(table), name
            assert all(advice.measure > advice.threshold for advice in table.advise())


def test_levels_and_partitions(tmp_path: Path) -> None:
    table = table_of(tmp_path, bucket="1")
    table.write_arrow(rows(("x", 1, "a"), ("y", 2, "b")))
    for entry in live(table):
        path = path_of(table, entry)
        path.write_bytes(b"x" * path.stat().st_size)
    assert table.fsck().findings == ()
    assert len(table.fsck("footers").findings) == 2
    (one,) = table.fsck("footers", partitions=[{"p": "x"}]).findings
    assert (one.code, one.place.partition_text, one.place.bucket, one.repair) == ("data-file-broken", "p=x", 0, "named")
    found = table.fsck("footers").to_arrow().to_pylist()
    assert {row["code"] for row in found} == {"data-file-broken"} and {row["severity"] for row in found} == {"error"}
    with pytest.raises(InvalidError):
        table.fsck("deep")
    with pytest.raises(NotFoundError):
        table.fsck(snapshot=9)
    assert table.fsck("keys", snapshot=1).snapshot == 1


def test_findings_are_bounded() -> None:
    found = Findings()
    for number in range(MOST + 500):
        found.add("orphan-file", f"{number} bytes")
    listed = found.listed()
    assert len(listed) == MOST + 1 and (listed[-1].count, listed[-1].cause) == (500, "500 more")


# ---- damage


def test_damaged_files_are_findings(tables: Path) -> None:
    """Every file of every table, one after the other, with a few bytes changed, cut, or gone."""
    rng = random.Random(17)
    names = list(hostile.TABLES)
    for _ in range(examples(40)):
        table = bucketlake.open(tables).table(rng.choice(names))
        path = rng.choice(sorted(p for p in Path(table.path).rglob("*") if p.is_file() and "schema" not in p.parts))
        data = path.read_bytes()
        try:
            spoilt = damage_of(data, rng)
            if spoilt is None:
                path.unlink()
            else:
                path.write_bytes(spoilt)
            clear_cache()
            report = table.fsck("rows")
            table.usage()
            table.repair(report, [code for code, fault in FAULTS.items() if fault.loses])
            clear_cache()
            try:
                table.refresh().to_arrow()
            except BucketlakeError:
                assert report.findings, path
        finally:
            path.write_bytes(data)
            clear_cache()


def damage_of(data: bytes, rng: random.Random) -> bytes | None:
    kind = rng.randrange(3)
    if kind == 0 or not data:
        return None
    if kind == 1:
        return data[: rng.randrange(len(data))]
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


# ---- repair


def test_repair_can_be_rolled_back(tmp_path: Path) -> None:
    table = table_of(tmp_path, bucket="1")
    table.write_arrow(some(0, 10))
    table.write_arrow(some(5, 12, "b"))
    settle(table, [with_file(entry, level=5) for entry in live(table)])
    before = newest(table)
    done = table.repair(dry_run=False)
    assert done.snapshot is not None and done.snapshot.commit_kind is CommitKind.COMPACT
    assert table.fsck("rows").findings == ()
    table.rollback_to(before.id)
    assert table.fsck("keys").codes == {"level-overlap"}
    with pytest.raises(InvalidError):
        table.repair(allow=["level-overlap"])
    with pytest.raises(InvalidError):
        table.repair(allow=["no-such-code"])


def test_repair_gives_way_to_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another commit to the same buckets comes between: it is planned again, and nothing is lost."""
    table = table_of(tmp_path, bucket="2")
    table.write_arrow(some(0, 10))
    table.compact()
    wrong = [file_of(table, e, key_values(table, [(k, 50, 0, "w") for k in (1, 2)]), 0) for e in live(table)]
    settle(table, [*live(table), *wrong])
    report = table.fsck("keys")
    assert "bucket-wrong" in report.codes
    orphans = table.usage().orphans
    changes, seen = mending.Draft.changes, []

    def interrupted(draft: mending.Draft) -> object:
        made = changes(draft)
        if not seen:
            seen.append(1)
            table.compact()
            table.write_arrow(some(20, 22, "late"))
        return made

    monkeypatch.setattr(mending.Draft, "changes", interrupted)
    table.repair(report, dry_run=False)
    expected = [("x", k, "w" if k in (1, 2) else f"a{k}") for k in range(10)]
    assert read(table) == sorted([*expected, ("x", 20, "late20"), ("x", 21, "late21")])
    assert table.fsck("rows").findings == ()
    assert table.usage().orphans == orphans, "a lost attempt leaves nothing"


@pytest.mark.parametrize("engine", ["deduplicate", "first-row", "aggregation", "partial-update"])
@pytest.mark.parametrize("more", [{}, {"deletion-vectors.enabled": "true"}, {"changelog-producer": "lookup"}])
def test_repair_keeps_the_rows_of_every_engine(tmp_path: Path, engine: str, more: dict[str, str]) -> None:
    if engine == "first-row" and more:
        more = {}
    given = {"bucket": "2", "write-only": "false", "merge-engine": engine, **more}
    table = table_of(tmp_path, **given)
    for start in range(0, 12, 3):
        table.write_arrow(some(start, start + 8, f"m{start}-"))
    table.compact()
    wanted = read(table)
    wrong = with_file(live(table)[0], min_sequence_number=90, max_sequence_number=3)
    settle(table, [wrong, *live(table)[1:]])
    assert table.fsck("keys").codes <= {"sequence-range", "sequence-beyond", "sequence-outside"}
    table.repair(dry_run=False)
    assert table.fsck("rows").findings == ()
    assert read(table) == wanted


@pytest.mark.parametrize(
    ("of", "cause"),
    [
        (TableStatistics(99, 0), "snapshot 99"),
        (TableStatistics(1, 9), "schema 9, which is not there"),
        (TableStatistics(1, 0, 1, 1, {"k": ColumnStatistics(2)}), "columns that schema 0 has not: k"),
    ],
)
def test_statistics_of_another_table_are_told_and_dropped(tmp_path: Path, of: TableStatistics, cause: str) -> None:
    table = table_of(tmp_path)
    table.write_arrow(some(0, 3))
    commit_statistics(table.store, "analyst", TableStatistics(1, 0, 3, 9, {"k": ColumnStatistics(1)}))
    assert table.fsck().findings == ()
    commit_statistics(table.store, "analyst", of)
    (found,) = table.fsck().findings
    assert (found.code, found.cause) == ("statistics-broken", f"they are of {cause}")
    table.repair(dry_run=False)
    assert statistics_of(table.store, newest(table)) == TableStatistics(3, 0)


# ---- usage and advice


def test_bytes_are_counted_once_whatever_happened(tmp_path: Path) -> None:
    rng = random.Random(5)
    for number in range(examples(4)):
        options = {"bucket": rng.choice(["1", "-1"]), "changelog-producer": rng.choice(["none", "input"])}
        table = table_of(tmp_path / str(number), **options)
        table.write_arrow(some(0, 5))
        for step in range(8):
            action = rng.randrange(6)
            if action < 3:
                table.write_arrow(some(step, step + 5, f"s{step}"))
            elif action == 3:
                table.compact()
            elif action == 4:
                table.create_tag(f"t{step}")
            elif f"b{step - 1}" not in table.branches():
                table.create_branch(f"b{step}")
        table.expire_snapshots(retain_max=3, retain_min=1)
        stray = path_of(table, live(table)[0]).with_name("data-nobody-0.parquet")
        stray.write_bytes(b"12345")
        used = table.usage()
        parts = (used.live, used.history, used.changelog, used.index, used.metadata, used.orphans, used.foreign)
        assert sum(parts) == used.total == folder_bytes(table)
        assert used.orphans == 5
        assert used.live == sum(entry.file.file_size for entry in live(table))
        assert used.to_arrow().column("bytes").to_pylist() == [one.bytes for one in used.held]


def test_advice_names_commands_that_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advising, "LITTLE", 0)
    append = table_of(tmp_path / "a", (), bucket="-1")
    for number in range(22):
        append.write_arrow(rows(*[("x" if number else f"p{k}", k, f"v{k}") for k in range(50)]))
    scattered = table_of(tmp_path / "s", (), (), bucket="-1")
    for number in range(12):
        scattered.write_arrow(rows(("a", 0, "v"), ("a", number + 9, "w")))
    keyed = table_of(tmp_path / "k", bucket="4")
    for number in range(12):
        keyed.write_arrow(some(0, 3, f"n{number}"))
    keyed.create_tag("old", 1)
    keyed.write_arrow(rows(("x", 1, "z")), mode="overwrite")
    stray = path_of(keyed, live(keyed)[0]).with_name("data-nobody-0.parquet")
    stray.write_bytes(b"x" * 100_000)
    found = {one.topic: one for one in (*append.advise(), *scattered.advise(), *keyed.advise())}
    assert {"small-files", "hot-partition", "buckets", "history", "orphans", "pruning"} <= set(found)
    for advice in found.values():
        assert advice.measure > advice.threshold and advice.reason
        if advice.command and advice.command.startswith("CALL"):
            assert call.parse(Cursor(advice.command)) is not None


def test_shares_of_little_data_are_not_told(tmp_path: Path) -> None:
    """A table of some KiB is read at once however it lies, and what it holds in vain nobody misses."""
    table = table_of(tmp_path, bucket="1", **{"num-sorted-run.compaction-trigger": "20"})
    for number in range(12):
        table.write_arrow(some(0, 3, f"n{number}"))
    table.compact(full=True)
    assert [one for one in table.advise() if one.topic not in ("options", "buckets")] == []


def test_writers_that_commit_beside_each_other() -> None:
    def advice(pause: int | None) -> list[str]:
        """Twelve commits to one bucket, each by another writer: its file was whole so long after the commit before;
        None: it does not say when."""
        store = create_table(MapStorage(), clock := FakeClock(), table_schema(bucket=1))
        for number in range(12):
            places = (10 * number, 10 * number + 9)
            made = None if pause is None else local_from_epoch(clock.now_millis() + pause)
            file = data_file(f"data-{number}-0.parquet", sequences=places, creation_time=made)
            clock.sleep(1)
            Commit(store, f"writer {number}").commit([message(file, total=1)])
        return [one.topic for one in advise_table(store, "db.t")]

    assert "writers" in advice(-500)
    assert "writers" not in advice(500)
    assert "writers" not in advice(None)


def test_advice_on_sorted_runs_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advising, "LITTLE", 0)
    table = table_of(tmp_path, bucket="1")
    for number in range(12):
        table.write_arrow(some(0, 3, f"n{number}"))
    topics = {one.topic for one in table.advise()}
    (runs,) = [one for one in table.advise() if one.topic == "sorted-runs"]
    assert repr(runs) == (
        f"Advice('sorted-runs', {runs.reason!r}, measure={runs.measure}, threshold={runs.threshold}, "
        f"partition={runs.partition!r}, command={runs.command!r})"
    )
    assert {"sorted-runs", "read-amplification", "options"} <= topics
    table.compact()
    assert not {"sorted-runs", "read-amplification"} & {one.topic for one in table.advise()}


def test_partitions_that_are_too_many() -> None:
    def advice(sizes: list[int], **more: Any) -> list[Advice]:
        store = create_table(MapStorage(), FakeClock(), table_schema(**more))
        files = [(day, data_file(f"f{day}", file_size=size)) for day, size in enumerate(sizes)]
        total = store.schema.bucket
        Commit(store, "me").commit([message(f, part=partition(day), total=total) for day, f in files])
        return advise_table(store, "db.t")

    few, many, large = [1000] * 500, [1000] * 501, [1000] * 501 + [200 << 20] * 501
    assert "partitions" not in {one.topic for sizes in (few, large) for one in advice(sizes, bucket=1)}
    (found,) = [one for one in advice(many, bucket=1) if one.topic == "partitions"]
    assert (found.measure, found.threshold, found.partition) == (501, 500, None)
    assert found.reason.startswith("501 of 501 partitions hold less than 32.0 MiB, 1000 B on average")
    assert found.command == (
        "CREATE TABLE db.t_anew TBLPROPERTIES ('scan.manifest.parallelism' = '1', 'primary-key' = 'pt,k', "
        "'bucket' = '1') AS SELECT * FROM db.t"
    )
    # What is the matter with many of them is not told of each.
    buckets = [one for one in advice(many, bucket=4) if one.topic == "buckets"]
    assert len(buckets) == 21 and all(str(one.partition).startswith("pt=") for one in buckets[:20])
    assert (buckets[-1].partition, buckets[-1].command) == (None, None)
    assert buckets[-1].reason.startswith("481 more partitions as well") and buckets[-1].measure > buckets[-1].threshold


def test_numbers_of_files_that_are_gone_are_not_looked_at(tmp_path: Path) -> None:
    """The first snapshot that is there lists in its base what was added and deleted before."""
    table = table_of(tmp_path, bucket="1")
    table.write_arrow(rows(*(("x", key, "a") for key in range(9))))
    table.write_arrow(rows(("x", 1, "b")), mode="overwrite")
    table.write_arrow(rows(("x", 2, "c")))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
    assert [snapshot.id for snapshot in table.snapshots()] == [3]
    assert table.fsck().findings == ()
