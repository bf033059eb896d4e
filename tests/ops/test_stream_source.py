"""Tables read as streams: what a reader that stops, starts again and reads in small batches has in the end is what the
table has, for every way in which a table tells its changes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.check.forged import live, settle, with_file
from tests.profile import seeds

import bucketlake
from bucketlake.catalog import new_schema
from bucketlake.errors import ConflictError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.ops.commit.replacement import draft_replacement
from bucketlake.ops.scan.system_tables import read_view
from bucketlake.ops.stream.limits import Limits
from bucketlake.ops.stream.position import Position
from bucketlake.ops.stream.source import Source
from bucketlake.schema.change import AddColumn, SetOption
from bucketlake.table import Table

from .streams import ALL, KEYED, SCHEMA, Reader, make, rows_of


@pytest.mark.parametrize("producer", KEYED)
@pytest.mark.parametrize("seed", seeds(1, 60))
def test_a_reader_has_in_the_end_what_the_table_has(tmp_path: Path, producer: str, seed: int) -> None:
    chance, table = random.Random(f"{producer} {seed}"), make(tmp_path, True, KEYED[producer])
    readers = [Reader(table)]
    for _ in range(12):
        action = chance.random()
        if action < 0.6:
            keys = chance.sample(range(12), chance.randint(1, 6))
            given = pa.table({"k": keys, "v": [chance.randint(0, 99) for _ in keys]}, schema=SCHEMA)
            table.write_arrow(given, write_only=chance.random() < 0.3)  # its changes may be told later
        elif action < 0.75 and table.latest_snapshot() is not None:
            table.delete(f"k IN ({chance.randint(0, 11)}, {chance.randint(0, 11)})")
        elif action < 0.85:
            table.compact()
        for reader in readers:
            if chance.random() < 0.5:
                reader.step(chance.choice([None, ALL, Limits(max_files=1), Limits(max_rows=3), Limits(max_bytes=1)]))
        if chance.random() < 0.2:
            readers.append(Reader(table))
    table.compact()
    wanted = {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}
    for reader in readers:
        reader.read_all(chance.choice([ALL, Limits(max_files=1)]))
        assert reader.state == wanted


@pytest.mark.parametrize("options", [{}, {"bucket": "2", "bucket-key": "k"}], ids=["unaware", "bucketed"])
@pytest.mark.parametrize("seed", seeds(1, 60))
def test_append_tables_give_every_row_once(tmp_path: Path, options: dict[str, str], seed: int) -> None:
    chance, table = random.Random(seed), make(tmp_path, False, options)
    reader, written = Reader(table), []
    for number in range(12):
        keys = [chance.randint(0, 3) for _ in range(chance.randint(1, 5))]
        table.write_arrow(pa.table({"k": keys, "v": [number] * len(keys)}, schema=SCHEMA))
        written += [("+I", key, number) for key in keys]
        if chance.random() < 0.3:
            table.compact()
        if chance.random() < 0.5:
            reader.step(chance.choice([ALL, Limits(max_files=1), Limits(max_rows=4)]))
    reader.read_all(Limits(max_files=2))
    assert sorted(reader.told) == sorted(written)
    if options:
        for key in range(4):
            ages = [value for _, found, value in reader.told if found == key]
            assert ages == sorted(ages), "the rows of a bucket come in another order"


def test_where_a_stream_starts(tmp_path: Path) -> None:
    table = make(tmp_path, True, {"bucket": "1"})
    assert Source.of(table.store).origin().place == Position(1).place
    times = []
    for key in range(4):
        made = table.write_arrow(rows_of(table, k=key, v=key))
        assert made is not None
        times.append(made.time_millis)
    table.compact()  # snapshot 5

    def told(**options: Any) -> list[int]:
        reader = Reader(table, **options)
        reader.read_all()
        return sorted(key for _, key, _ in reader.told)

    assert told() == told(scan_mode="latest-full") == told(scan_mode="full") == [0, 1, 2, 3]
    assert told(scan_mode="latest") == told(scan_snapshot_id=5) == []  # what a compaction changed
    assert told(scan_mode="compacted-full") == [0, 1, 2, 3]
    assert told(scan_snapshot_id=3) == told(scan_mode="from-snapshot", scan_snapshot_id=3) == [2, 3]
    assert told(scan_mode="from-snapshot-full", scan_snapshot_id=3) == [0, 1, 2, 3]
    assert told(scan_timestamp_millis=0) == [0, 1, 2, 3]
    assert told(scan_timestamp_millis=times[-1] + 10**9) == []
    assert told(scan_mode="from-file-creation-time", scan_file_creation_time_millis=10**15) == []
    assert told(scan_snapshot_id=9) == []


@pytest.mark.parametrize("name", [None, "me"])
def test_files_since_a_time_stay_those_of_the_start(tmp_path: Path, name: str | None) -> None:
    """A reader in the midst of them goes on with them, whatever its options say now: no file is left out or told twice."""
    table = make(tmp_path, False, {"bucket": "-1"})
    for key in range(4):
        table.write_arrow(rows_of(table, k=key, v=key))
    entries = live(table)
    times = sorted(entry.file.creation_time or 0 for entry in entries)
    settle(table, [with_file(entry, creation_time=times[0] + 1000 * at) for at, entry in enumerate(entries)])
    since = {"scan_mode": "from-file-creation-time", "scan_file_creation_time_millis": times[0] + 1000}
    reader = Reader(table.refresh(), consumer_id=name, **since)
    reader.step(Limits(max_files=1))
    Source.of(reader.table.store).progress(Position.of(json.loads(reader.offset)))
    later = Reader(table.refresh(), consumer_id=name)
    later.told, later.offset = reader.told, later.offset if name else reader.offset
    later.read_all(Limits(max_files=1))
    whole = Reader(table.refresh(), **since)
    whole.read_all()
    assert len(whole.told) == 3
    assert sorted(later.told) == sorted(whole.told)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"incremental_between": "1,2"}, "Cannot read incremental in streaming mode"),
        ({"scan_tag_name": "x"}, "cannot start there"),
        ({"scan_snapshot_id": "1", "scan_timestamp_millis": "5"}, "one place"),
        ({"scan_mode": "from-snapshot"}, "scan.snapshot-id"),
        ({"scan_mode": "from-timestamp"}, "scan.timestamp-millis"),
    ],
)
def test_starts_that_are_refused(tmp_path: Path, options: dict[str, str], says: str) -> None:
    table = make(tmp_path, True, {"bucket": "1"})
    with pytest.raises((UnsupportedError, InvalidError), match=says):
        Source.of(table.with_options(options).store).origin()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"read.stream.maxRowsPerTrigger": "0"}, "less than one"),
        ({"read.stream.minRowsPerTrigger": "5"}, "only one of"),
        (
            {
                "read.stream.minRowsPerTrigger": "5",
                "read.stream.maxTriggerDelayMs": "5",
                "read.stream.maxRowsPerTrigger": "4",
            },
            "above",
        ),
    ],
)
def test_limits_that_contradict_each_other(tmp_path: Path, options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidError, match=says):
        Limits.of(make(tmp_path, True, {"bucket": "1"}).with_options(options).options)


def test_a_batch_waits_for_rows_but_not_for_ever(tmp_path: Path) -> None:
    table = make(tmp_path, True, {"bucket": "1"})
    reader = Reader(table)
    table.write_arrow(rows_of(table, k=1, v=1))
    source, start = Source.of(table.store), Position.of(json.loads(reader.offset))
    waiting = Limits(min_rows=2, max_delay=10**9)
    first = source.following(start, waiting)
    assert first.snapshot == 2  # the first batch waits for nothing
    table.write_arrow(rows_of(table, k=2, v=1))
    assert source.following(first, waiting) == first
    table.write_arrow(rows_of(table, k=3, v=1))
    assert source.following(first, waiting).snapshot == 4
    assert source.following(first, Limits(min_rows=9, max_delay=10**9)) == first
    assert source.following(first, Limits(min_rows=9, max_delay=0)).snapshot == 4
    full = Limits(max_rows=1, min_rows=9, max_delay=10**9)
    assert source.following(first, full) != first, "nothing more goes into the batch: it waits for nothing"


def test_overwrites_are_told_if_asked(tmp_path: Path) -> None:
    table = make(tmp_path, True, {"bucket": "1"})
    for value in (1, 2):
        table.write_arrow(pa.table({"k": [1, value + 1], "v": [value] * 2}, schema=SCHEMA))
    plain, told = Reader(table), Reader(table, streaming_read_overwrite="true")
    table.write_arrow(rows_of(table, k=1, v=9), mode="overwrite")
    for reader in (plain, told):
        reader.read_all()
    assert plain.state == {1: 2, 2: 1, 3: 2}
    assert told.state == {1: 9}


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_a_state_that_comes_back_is_told_with_the_rows_that_newer_files_hid(tmp_path: Path, engine: str) -> None:
    table = make(tmp_path, True, {"bucket": "1", "streaming-read-overwrite": "true", "merge-engine": engine})
    table.write_arrow(pa.table({"k": [1, 2], "v": [10, 20]}, schema=SCHEMA), write_only=True)
    reader = Reader(table)
    table.write_arrow(pa.table({"k": [1, 3], "v": [11, 30]}, schema=SCHEMA), write_only=True)
    reader.read_all()
    table.rollback_to_as_latest(1)
    reader.read_all()
    assert reader.state == {1: 10, 2: 20}
    table.rollback_to_as_latest(2)
    reader.read_all()
    assert reader.state == {1: 11, 2: 20, 3: 30}


def test_overwrites_of_append_tables(tmp_path: Path) -> None:
    table = make(tmp_path, False, {})
    table.write_arrow(pa.table({"k": [1, 2], "v": [1, 1]}, schema=SCHEMA))
    plain, told = Reader(table), Reader(table, streaming_read_append_overwrite="true")
    table.delete("k = 1")  # writes the file's other row again
    table.write_arrow(rows_of(table, k=3, v=3), mode="overwrite")
    for reader in (plain, told):
        reader.read_all()
    assert sorted(plain.told) == [("+I", 1, 1), ("+I", 2, 1)]
    assert sorted(told.told) == [("+I", 1, 1), ("+I", 2, 1), ("+I", 2, 1), ("+I", 3, 3)]


def test_what_has_expired_is_not_passed_over_unless_asked(tmp_path: Path) -> None:
    table = make(tmp_path, True, {"bucket": "1"})
    table.write_arrow(rows_of(table, k=0, v=0))
    late = Reader(table)
    late.read_all()
    held = Reader(table, consumer_id="slow")
    for key in range(1, 4):
        table.write_arrow(rows_of(table, k=key, v=key))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
    assert [snapshot.id for snapshot in table.snapshots()] == [1, 2, 3, 4]
    held.read_all()
    assert held.state == {0: 0, 1: 1, 2: 2, 3: 3}
    source = Source.of(held.table.store)
    source.progress(Position.of(json.loads(held.offset)))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
    assert [snapshot.id for snapshot in table.snapshots()] == [4]
    with pytest.raises(NotFoundError, match=r"(?s)snapshot with id 2 has expired.*ignore-expired"):
        late.step()
    going = Reader(table.with_options({"read.stream.ignore-expired": "true"}))
    going.offset, going.told = late.offset, late.told
    going.read_all()
    assert going.state == {0: 0, 3: 3}


def test_a_rollback_behind_the_reader_is_noticed(tmp_path: Path) -> None:
    table = make(tmp_path, True, {"bucket": "1"})
    for key in range(3):
        table.write_arrow(rows_of(table, k=key, v=key))
    reader = Reader(table)
    reader.read_all()
    table.rollback_to(1)
    with pytest.raises(InvalidError, match="rolled back"):
        reader.step()
    for key in range(5, 9):
        table.write_arrow(rows_of(table, k=key, v=key))
    with pytest.raises(InvalidError, match="rolled back"):
        reader.step()


def test_a_stream_ends_at_a_watermark_and_stays_behind(tmp_path: Path) -> None:
    table = make(tmp_path, True, {"bucket": "1"})
    table.write_arrow(rows_of(table, k=0, v=0))
    behind = Reader(table, scan_snapshot_id=1, streaming_read_snapshot_delay="1 h")
    behind.read_all()
    assert behind.told == []


@pytest.mark.parametrize("producer", ["none", "input"])
def test_the_first_commit_of_all_may_be_an_overwrite_that_is_told(tmp_path: Path, producer: str) -> None:
    options = {"bucket": "1", "streaming-read-overwrite": "true", "changelog-producer": producer}
    table = make(tmp_path, True, options)
    reader = Reader(table)
    table.write_arrow(rows_of(table, k=1, v=1), mode="overwrite")
    reader.read_all()
    assert reader.told == [("+I", 1, 1)]


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize(("before", "after"), [("none", "input"), ("none", "lookup"), ("input", "none")])
def test_what_was_committed_under_another_changelog_producer_is_told_as_it_was_then(
    tmp_path: Path, before: str, after: str, compacted: bool
) -> None:
    table = make(tmp_path, True, {"bucket": "1", "changelog-producer": before})
    table.write_arrow(rows_of(table, k=0, v=0))
    reader = Reader(table)
    reader.read_all()
    for key in (1, 2):
        table.write_arrow(rows_of(table, k=key, v=1), write_only=True)
    reader.step(Limits(max_files=1))
    if compacted:
        table.compact(full=True)
    table = table.alter(SetOption("changelog-producer", after))
    table.write_arrow(rows_of(table, k=3, v=3))
    table.compact(full=True)
    reader.table = table
    reader.read_all()
    assert {key: value for _, key, value in reader.told} == {0: 0, 1: 1, 2: 1, 3: 3}


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "expired"])
@pytest.mark.parametrize("then", ["write", "compact"])
@pytest.mark.parametrize(
    ("before", "after"),
    [("lookup", "none"), ("lookup", "input"), ("full-compaction", "none"), ("full-compaction", "lookup")],
)
@pytest.mark.parametrize("bucket", ["1", "-1", "-2"])
def test_rows_that_wait_when_the_changelog_producer_is_altered_are_told(
    tmp_path: Path, bucket: str, before: str, after: str, then: str, kept: bool
) -> None:
    """The compaction that would have told them tells nothing any more, or counts them as told."""
    pending = {"postpone.batch-write-fixed-bucket": "false"} if bucket == "-2" else {}
    table = make(tmp_path, True, {"bucket": bucket, "changelog-producer": before, **pending})
    table.write_arrow([{"k": 0, "v": 0}, {"k": 1, "v": 0}])
    table.compact(full=True)
    reader = Reader(table)
    reader.read_all()
    for value in (1, 2):
        table.write_arrow([{"k": 1, "v": value}, {"k": value + 1, "v": value}], write_only=True)
        if value == 1:
            table.compact(full=False)  # to a level between, where full-compaction does not tell yet
    reader.read_all()
    table = table.alter(SetOption("changelog-producer", after))
    if not kept:
        table.expire_snapshots(retain_max=1, retain_min=1)
    if then == "write":
        table.write_arrow([{"k": 5, "v": 5}], write_only=True)
        if not kept:
            table.expire_snapshots(retain_max=1, retain_min=1)
    table.compact(full=True)
    wanted = {row["k"]: row["v"] for row in table.to_arrow().to_pylist()}
    reader.table = table
    while True:
        offset = reader.offset
        reader.step(Limits(max_files=1))
        if reader.offset == offset:
            break
    assert wanted == {0: 0, 1: 2, 2: 1, 3: 2, **({5: 5} if then == "write" else {})}
    assert {key: value for kind, key, value in reader.told if kind[0] == "+"} == wanted


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_stream_inside_of_a_whole_snapshot_goes_on_there_whatever_is_altered(tmp_path: Path, producer: str) -> None:
    """Which rows a snapshot holds, and in which place, was settled where the stream began."""
    table, old = make(tmp_path, True, {"bucket": "2", "changelog-producer": "none"}), range(7)
    table.write_arrow([{"k": key, "v": 0} for key in old])
    table.compact(full=True)
    table.write_arrow(rows_of(table, k=7, v=7), write_only=True)
    table = table.alter(SetOption("changelog-producer", producer))
    reader = Reader(table, consumer_id="c")
    told = reader.step(Limits(max_files=1))
    Source.of(reader.table.store).progress(Position.of(json.loads(reader.offset)))
    table = table.alter(SetOption("changelog-producer", "none" if producer == "lookup" else "lookup"))
    resumed = Reader(table, consumer_id="c")
    assert json.loads(resumed.offset)["producer"] == producer
    for one in (reader, resumed):
        one.table = table
        one.read_all()
    assert {key for _, key, _ in reader.told} == {*old, 7} - ({7} if producer == "lookup" else set())
    assert {key for _, key, _ in [*reader.told[:told], *resumed.told]} == {key for _, key, _ in reader.told}


def test_pending_rows_come_behind_those_that_have_their_buckets(tmp_path: Path) -> None:
    """Batch writes of a postpone table may bring rows into buckets, beside others that wait."""
    table = make(tmp_path, True, {"bucket": "-2"})
    table.write_arrow([{"k": 1, "v": 0}])
    reader = Reader(table)
    reader.read_all()
    for value in (1, 3):
        table.with_options({"postpone.batch-write-fixed-bucket": "false"}).write_arrow([{"k": 1, "v": value}])
        table.write_arrow([{"k": 1, "v": value + 1}])
    source, start = Source.of(table.store), Position.of(json.loads(reader.offset))
    groups = source.batch(start, source.following(start))
    assert len(groups) == 1, "versions of a key are read by one task"
    reader.read_all()
    assert [value for _, _, value in reader.told] == [0, 1, 2, 3, 4]


def test_a_stream_stops_where_its_table_was_replaced(tmp_path: Path) -> None:
    """Columns are known by ids: the rows of the other table would come as nulls."""
    table = make(tmp_path, True, {"bucket": "1"})
    table.write_arrow(rows_of(table, k=0, v=0))
    late, running, behind = Reader(table), Reader(table), Reader(table)
    for reader in (running, behind):
        reader.read_all()
    table.write_arrow(rows_of(table, k=1, v=1))
    running.read_all()
    other = pa.schema([pa.field("name", pa.string(), nullable=False), pa.field("k", pa.int64())])
    schema = new_schema(other, (), ("name",), {"bucket": "1"}, None)
    replacement = draft_replacement(table.store, schema, "db.t")
    replacement.switch()
    replacement.finish()
    new = bucketlake.open(str(tmp_path / "wh")).table("db.t")
    new.write_arrow(pa.table({"name": ["a"], "k": [5]}, schema=other))
    for reader in (late, running):
        with pytest.raises(ConflictError, match="was replaced since it was opened"):
            reader.read_all()
    with pytest.raises(ConflictError, match="was replaced since it was opened"):
        table.to_arrow()
    source, start = Source.of(new.store), Position.of(json.loads(behind.offset))
    with pytest.raises(ConflictError, match="was replaced since the stream was here"):
        source.batch(start, source.following(start))
    start = Position.of(json.loads(running.offset))
    told = source.batch(start, source.following(start))
    found = [batch.to_pydict() for group in told for split in group for batch in read_view(new.store, None, split)]
    assert found == [{"name": ["a"], "k": [5]}]


@pytest.mark.parametrize("options", [{}, {"bucket": "1"}, {"bucket": "1", "merge-engine": "aggregation"}])
def test_a_data_file_that_is_gone_is_named_with_what_to_do(tmp_path: Path, options: dict[str, str]) -> None:
    table = make(tmp_path, bool(options), options)
    reader = Reader(table)
    for value in (1, 2):
        table.write_arrow(rows_of(table, k=1, v=value), write_only=True)
    newest = max(table.files(), key=lambda found: found.file.max_sequence_number).path
    Path(newest).unlink()
    for read in (table.to_arrow, reader.read_all):
        with pytest.raises(NotFoundError, match=r"a data file is gone.*wh/db.db/t.*data-.*read again.*fsck") as raised:
            read()
        assert newest in str(raised.value)


RETOLD = {
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    "dynamic, input": {"bucket": "-1", "dynamic-bucket.target-row-num": "2", "changelog-producer": "input"},
    "postpone": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
}


@pytest.mark.parametrize("mode", RETOLD)
def test_overwrites_that_are_told_where_keys_come_back_in_other_buckets(tmp_path: Path, mode: str) -> None:
    """Tasks read the groups of a batch beside each other: in whatever order, the newest row of a key comes last."""
    table = make(tmp_path, True, {**RETOLD[mode], "streaming-read-overwrite": "true"})

    def write(keys: list[int], value: int, **how: Any) -> None:
        table.write_arrow(pa.table({"k": keys, "v": [value] * len(keys)}, schema=SCHEMA), write_only=True, **how)

    reader = Reader(table)
    write([0, 1, 2, 3], 1)
    if mode == "postpone":
        table.compact()
        write([1, 4], 5)
    first = table.snapshots()[-1].id
    write([4, 5], 2, mode="overwrite")
    write([3, 2, 1, 0], 3)
    source, start = Source.of(table.store), Position.of(json.loads(reader.offset))
    for end in (source.following(start), None):
        if end is None:
            table.rollback_to_as_latest(first)
            write([6], 4)
            source = Source.of(table.store)
            end = source.following(start)
        groups = [reader._rows(group) for group in source.batch(start, end)]
        wanted = {row["k"]: row["v"] for row in table.to_arrow(postpone_merge_on_read=True).to_pylist()}
        for order in (groups, groups[::-1]):
            found: dict[int, int | None] = {}
            for kind, key, value in (row for group in order for row in group):
                if kind in ("-D", "-U"):
                    found.pop(key, None)
                else:
                    found[key] = value
            assert found == wanted


def told_by_a_sink(table: Table, groups: list[list[tuple[str, int, int | None]]]) -> dict[int, int | None]:
    """What an upserting sink has of groups that tasks read beside each other: the worst order of them."""
    worst: dict[int, int | None] = {}
    for group in sorted(groups, key=lambda rows: max(int(row[2] or 0) for row in rows), reverse=True):
        for kind, key, value in group:
            if kind in ("-D", "-U"):
                worst.pop(key, None)
            else:
                worst[key] = value
    return worst


@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
@pytest.mark.parametrize("numbers", [(2, 4), (4, 2), (2, 3)])
def test_a_keys_changes_stay_in_order_over_a_rescale_within_one_batch(
    tmp_path: Path, producer: str, numbers: tuple[int, int]
) -> None:
    """Each task reads its groups by itself: a key's versions have to be in one, though its bucket is another since."""
    table = make(tmp_path, True, {"bucket": str(numbers[0]), "changelog-producer": producer})
    table.write_arrow(rows_of(table, k=100, v=0))
    reader = Reader(table, scan_snapshot_id=table.snapshots()[-1].id + 1)
    table.write_arrow(pa.table({"k": range(8), "v": [1] * 8}, schema=SCHEMA))
    table.alter(SetOption("bucket", str(numbers[1])))
    table = bucketlake.open(str(tmp_path / "wh")).table("db.t")
    table.rescale()
    table.write_arrow(pa.table({"k": range(8), "v": [2] * 8}, schema=SCHEMA))
    source, start = Source.of(table.store), Position.of(json.loads(reader.offset))
    groups = [reader._rows(group) for group in source.batch(start, source.following(start, ALL))]
    homes = [{row[1] for row in group} for group in groups]
    assert sum(map(len, homes)) == len(set().union(*homes)) == 8
    assert told_by_a_sink(table, groups) == dict.fromkeys(range(8), 2)


@pytest.mark.parametrize("numbers", [(2, 4), (4, 2), (2, 3)])
def test_a_rescale_that_is_told_as_an_overwrite_loses_no_key(tmp_path: Path, numbers: tuple[int, int]) -> None:
    table = make(tmp_path, True, {"bucket": str(numbers[0]), "streaming-read-overwrite": "true"})
    table.write_arrow(pa.table({"k": range(8), "v": range(8)}, schema=SCHEMA))
    reader = Reader(table)
    reader.read_all()
    table.alter(SetOption("bucket", str(numbers[1])))
    table = bucketlake.open(str(tmp_path / "wh")).table("db.t")
    table.rescale()
    reader.table = table
    one_by_one = Reader(table)
    one_by_one.offset, one_by_one.told = reader.offset, list(reader.told)
    for limits, each in ((ALL, reader), (Limits(max_files=1), one_by_one)):
        each.read_all(limits)
        assert each.state == {key: key for key in range(8)}
    table.write_arrow(pa.table({"k": [1], "v": [9]}, schema=SCHEMA))
    reader.read_all()
    assert reader.state == {**{key: key for key in range(8)}, 1: 9}


@pytest.mark.parametrize("change", ["rescale", "back"])
def test_an_overwrite_of_real_buckets_does_not_tell_what_pending_rows_hide(tmp_path: Path, change: str) -> None:
    """Pending rows, told as they came, are newer than those of real buckets, which the overwrite tells anew."""
    table = make(tmp_path, True, {**KEYED["postpone"], "streaming-read-overwrite": "true"})
    table.write_arrow(pa.table({"k": [1, 2], "v": [1, 1]}, schema=SCHEMA))
    table.compact()
    reader, one_by_one = Reader(table), Reader(table)
    if change == "back":
        table.write_arrow(rows_of(table, k=3, v=1), postpone_batch_write_fixed_bucket="true")
        table.write_arrow(rows_of(table, k=2, v=2))
        table.write_arrow(rows_of(table, k=2, v=3), postpone_batch_write_fixed_bucket="true")
        table.rollback_to_as_latest(table.snapshots()[-2].id)
    else:
        table.write_arrow(pa.table({"k": [1, 3], "v": [2, 2]}, schema=SCHEMA))
        table.rescale(4)
    wanted = {row["k"]: row["v"] for row in table.refresh().to_arrow(postpone_merge_on_read=True).to_pylist()}
    for each, limits in ((reader, ALL), (one_by_one, Limits(max_files=1))):
        each.read_all(limits)
        assert each.state == wanted == {1: 1 if change == "back" else 2, 2: 2 if change == "back" else 1, 3: wanted[3]}


def test_a_stream_that_runs_while_a_branch_takes_the_tables_place_is_started_again(tmp_path: Path) -> None:
    """It reads by a schema whose number is another's now: files of that were called damaged."""
    table = make(tmp_path, True, {"bucket": "1"})
    table.write_arrow(rows_of(table, k=1, v=1))
    reader = Reader(table)
    reader.read_all()
    table.create_tag("then")
    table.create_branch("other", "then")
    reader.table = table.alter(AddColumn("mine", "INT"))
    branch = bucketlake.open(str(tmp_path / "wh")).table("db.t$branch_other").alter(AddColumn("theirs", "INT"))
    branch.write_arrow([{"k": 2, "v": 2, "theirs": 3}])
    table.refresh().fast_forward("other")
    for _ in range(2):
        with pytest.raises(ConflictError, match=r"not the table's any more.*start the query again"):
            reader.step()
    reader.table = bucketlake.open(str(tmp_path / "wh")).table("db.t")
    reader.read_all()
    assert reader.state == {1: 1, 2: 2}


def test_a_table_that_is_gone_is_not_an_empty_one(tmp_path: Path) -> None:
    table = make(tmp_path, True, {"bucket": "1"})
    waiting = Reader(table)
    table.write_arrow(rows_of(table, k=0, v=0))
    reader = Reader(table)
    reader.read_all()
    catalog = bucketlake.open(str(tmp_path / "wh"))
    catalog.rename_table("db.t", "db.u")
    for each in (waiting, reader):
        with pytest.raises(NotFoundError, match="not there any more"):
            each.step()
    other = make(tmp_path, True, {"bucket": "1"})
    with pytest.raises(InvalidError, match="was dropped, and another one has its name"):
        reader.step()
    for key in range(3):
        other.write_arrow(rows_of(other, k=key, v=7))
    for kept in (3, 1):  # the last: of what the reader has read, the other table has nothing any more
        other.expire_snapshots(retain_max=kept, retain_min=kept, older_than="2100-01-01")
        for each in (waiting, reader):
            each.offset = json.dumps({**json.loads(each.offset), "snapshot": 4 - kept})
            with pytest.raises(InvalidError, match="was dropped, and another one has its name"):
                each.step()
    assert catalog.table("db.u").to_arrow().num_rows == 1


@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_a_keys_changes_stay_in_order_over_the_files_that_they_fill(tmp_path: Path, producer: str) -> None:
    """A file that is full in the midst of a key's changes is followed by one whose other rows may be older."""
    options = {"bucket": "1", "changelog-producer": producer, "target-file-size": "600 b"}
    table, chance = make(tmp_path, True, options), random.Random(7)
    reader = Reader(table)
    for number in range(3):
        keys, kinds = chance.sample(range(12), 12), [0] * 12
        if producer == "input" and number:
            keys, kinds = keys * 2, [1] * 12 + [2] * 12
        columns = {"k": pa.array(keys, pa.int64()), "v": pa.array([number - (kind == 1) for kind in kinds], pa.int64())}
        table.write_arrow(pa.table({**columns, "_VALUE_KIND": pa.array(kinds, pa.int8())}))
        table.compact(full=True)
    reader.read_all(ALL)
    span = {"incremental-between": f"0,{len(table.snapshots())}"}
    log = bucketlake.open(tmp_path / "wh").table("db.t$audit_log").with_options(span).to_arrow().to_pylist()
    wanted = [("+I", 0), ("-U", 0), ("+U", 1), ("-U", 1), ("+U", 2)]
    for key in range(12):
        assert [(kind, v) for kind, k, v in reader.told if k == key] == wanted
        assert [(row["rowkind"], row["v"]) for row in log if row["k"] == key] == wanted
