"""How far a reader of a stream is: offsets, consumers, checkpoints; those that are damaged, moved or of another history."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock
from tests.sim.storage import FaultStorage
from tests.sim.world import DAY, TimedStorage

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import ConflictError, CorruptError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.ops.clean.consumers import reset_consumer
from bucketlake.ops.stream.journal import Journal
from bucketlake.ops.stream.limits import Limits
from bucketlake.ops.stream.position import Position
from bucketlake.ops.stream.source import Source
from bucketlake.schema.change import SetOption
from bucketlake.spark.read.stream_reader import ReadAllAvailable, Rows, StreamReader
from bucketlake.spark.stream.checkpoint import Checkpoint, Noted

from .streams import KEYED, SCHEMA, Reader, make, rows_of


def test_a_consumer_goes_on_where_it_stood(tmp_path: Path) -> None:
    table = make(tmp_path, True, {"bucket": "1"})
    table.write_arrow(rows_of(table, k=0, v=0))
    Source.of(Reader(table, consumer_id="me").table.store).progress(Position(2))
    table.write_arrow(rows_of(table, k=1, v=1))
    again = Reader(table, consumer_id="me")
    again.read_all()
    assert again.told == [("+I", 1, 1)]
    anew = Reader(table, consumer_id="me", consumer_ignore_progress="true")
    anew.read_all()
    assert anew.state == {0: 0, 1: 1}


@pytest.mark.parametrize("inside", [{}, {"index": 1}])
def test_a_consumer_beyond_the_newest_snapshot_is_refused(tmp_path: Path, inside: dict[str, int]) -> None:
    """What the table becomes instead of the snapshots that were rolled back would pass it by."""
    table = make(tmp_path, True, {"bucket": "1", "write-only": "true"})
    for key in range(3):
        table.write_arrow(rows_of(table, k=key, v=0))
    consumer = Path(table.store.paths.consumer("me"))
    consumer.parent.mkdir(exist_ok=True)
    consumer.write_text(json.dumps({"nextSnapshot": 4}))
    assert not Reader(table, consumer_id="me").read_all()
    table.rollback_to(1)
    table.write_arrow(rows_of(table, k=9, v=0))
    consumer.write_text(json.dumps({"nextSnapshot": 4, **inside}))
    with pytest.raises(InvalidError, match=r"beyond the newest snapshot.*next=4, newest=2.*reset_consumer"):
        Reader(table, consumer_id="me").read_all()


OFFSET = {"version": 1, "snapshot": 1, "index": 0}


@pytest.mark.parametrize(
    "offset",
    [
        {},
        {"version": 1},
        {"snapshot": "1"},
        *({**OFFSET, **other} for other in ({"snapshot": -1}, {"index": True}, {"full": 1}, {"made": "x"})),
    ],
)
def test_offsets_that_are_none(offset: dict[str, Any]) -> None:
    with pytest.raises(CorruptError):
        Position.of(offset)
    with pytest.raises(UnsupportedError, match="later version"):
        Position.of({"version": 2, "snapshot": 1, "index": 0})


def test_an_offset_beyond_what_its_snapshot_has_is_not_taken_for_one_that_is_read(tmp_path: Path) -> None:
    table = make(tmp_path, True, {"bucket": "1"})
    table.write_arrow(rows_of(table, k=0, v=0))
    source, end = Source.of(table.store), Source.of(table.store).following(Position(1))
    for start in (Position(1, 2), Position(1, 2, full=True)):
        with pytest.raises(CorruptError, match=r"beyond what its snapshot has.*index=2, units=1"):
            source.following(start, Limits(max_files=1))
        with pytest.raises(CorruptError, match="beyond what its snapshot has"):
            source.batch(start, end)
    with pytest.raises(CorruptError, match="beyond what its snapshot has"):
        source.batch(Position(1), Position(1, 9))


def test_a_batch_that_comes_again_on_another_history_is_refused(tmp_path: Path) -> None:
    """It would give other rows than it did."""
    table = make(tmp_path, True, {"bucket": "1"})
    for key in range(3):
        table.write_arrow(rows_of(table, k=key, v=0))
    source = Source.of(table.store)
    start = source.following(Position(1), until=1)
    end = source.following(start)
    table.rollback_to(1)
    for newest in range(3):
        with pytest.raises(InvalidError, match="rolled back"):
            Source.of(table.store).batch(start, end)
        table.write_arrow(rows_of(table, k=newest, v=1))


@pytest.mark.parametrize("stood", [None, 4])
def test_a_consumer_is_not_put_at_a_snapshot_that_expires_meanwhile(tmp_path: Path, stood: int | None) -> None:
    """It would be told only to its reader, later, that what it was to read is gone."""
    table = make(tmp_path, True, {"bucket": "1", "write-only": "true"})
    for value in range(4):
        table.write_arrow(rows_of(table, k=1, v=value))
    if stood is not None:
        table.reset_consumer("me", stood)

    def expire(k: int, operation: str, path: str) -> None:
        if operation == "write":
            table.expire_snapshots(retain_max=2, retain_min=1)

    store = table.store
    faulty = replace(store, env=replace(store.env, storage=FaultStorage(store.env.storage, expire)))
    with pytest.raises(NotFoundError, match=r"expires while.*consumer=me, snapshot=2"):
        reset_consumer(faulty, "me", 2)
    assert table.consumers() == ({} if stood is None else {"me": stood})


def test_a_consumer_keeps_what_tells_the_overwrite_that_it_reads_next(tmp_path: Path) -> None:
    """What an overwrite took away is told by the snapshot before it, which the consumer has read."""
    table = make(tmp_path, True, {"bucket": "1", "streaming-read-overwrite": "true", "write-only": "true"})
    table.write_arrow(rows_of(table, k=1, v=1))
    held, free = Reader(table, consumer_id="me"), Reader(table)
    for reader in (held, free):
        reader.step()
    Source.of(held.table.store).progress(Position.of(json.loads(held.offset)))
    table.write_arrow(rows_of(table, k=2, v=2), mode="overwrite")
    for value in (3, 4):
        table.write_arrow(rows_of(table, k=3, v=value))
    table.expire_snapshots(retain_max=1, retain_min=1)
    held.read_all()
    assert held.told == [("+I", 1, 1), ("-D", 1, 1), ("+I", 2, 2), ("+I", 3, 3), ("+I", 3, 4)]
    table.reset_consumer("me", 2)
    table.expire_snapshots(retain_max=1, retain_min=1)
    earliest = table.store.earliest_snapshot()
    assert earliest is not None and earliest.id == 1
    table.reset_consumer("me", None)

    table.expire_snapshots(retain_max=3, retain_min=1)
    with pytest.raises(NotFoundError, match=r"overwrite has expired.*overwrite=2.*'read.stream.ignore-expired'"):
        free.step()
    free.table = free.table.with_options({"read.stream.ignore-expired": "true"})
    free.read_all()
    assert free.told == [("+I", 1, 1), ("+I", 2, 2), ("+I", 3, 3), ("+I", 3, 4)]


def test_a_consumer_keeps_rows_that_wait_where_another_changelog_producer_tells_them(tmp_path: Path) -> None:
    """They are told with the first compaction under the new one, which takes their files away."""
    table = make(tmp_path, True, {**KEYED["full-compaction"], "write-only": "true"})
    table.write_arrow(rows_of(table, k=1, v=1))
    table.compact(full=True)
    table.write_arrow(rows_of(table, k=1, v=2))
    reader = Reader(table, consumer_id="me")
    reader.read_all()
    assert reader.state == {1: 1}
    Source.of(reader.table.store).progress(Position.of(json.loads(reader.offset)))
    table = table.alter(SetOption("changelog-producer", "none"))
    table.compact(full=True)
    reader.table = table.with_options(consumer_id="me")
    table.write_arrow(rows_of(table, k=2, v=2))
    table.expire_snapshots(retain_max=1, retain_min=1)
    reader.read_all()
    assert reader.state == {1: 2, 2: 2}


@pytest.mark.parametrize("read", [0, 1, 2])
@pytest.mark.parametrize("mode", ["latest-full", "from-snapshot"])
def test_a_consumer_inside_of_a_snapshot_goes_on_there(tmp_path: Path, mode: str, read: int) -> None:
    """A new checkpoint has each row once, also where the one before was lost in its first batches."""
    table = make(tmp_path, True, {"bucket": "4"})
    keys = list(range(20))
    table.write_arrow(pa.table({"k": keys[:10], "v": keys[:10]}, schema=SCHEMA))
    table.write_arrow(pa.table({"k": keys[10:], "v": keys[10:]}, schema=SCHEMA))
    start = {"consumer_id": "me", "scan_mode": mode, **({"scan_snapshot_id": 1} if mode == "from-snapshot" else {})}
    lost = Reader(table, **start)
    for _ in range(read):
        lost.step(Limits(max_files=1))
        Source.of(lost.table.store).progress(Position.of(json.loads(lost.offset)))
    again = Reader(table, **start)
    again.read_all()
    assert sorted(key for _, key, _ in (*lost.told, *again.told)) == keys
    assert {name: int(one) for name, one in table.consumers().items()} == {"me": 2 if mode == "latest-full" else 1}


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"nextSnapshot": 1, "index": -1}', b'{"nextSnapshot": "1"}'])
def test_a_consumer_whose_file_is_damaged_is_named(tmp_path: Path, data: bytes) -> None:
    table = make(tmp_path, True, {"bucket": "1"})
    table.store.env.storage.write(table.store.paths.consumer("me"), data)
    for key in range(2):
        table.write_arrow(rows_of(table, k=key, v=0))
    named = r"not a consumer.*consumer-me.*: restore the file, or .*CALL sys.reset_consumer"
    with pytest.raises(CorruptError, match=named):
        Source.of(table.with_options(consumer_id="me").store).origin()
    if b"index" not in data:
        with pytest.raises(CorruptError, match=named):
            table.expire_snapshots(retain_max=1, retain_min=1)
    table.reset_consumer("other", 1)
    assert table.clear_consumers(excluding="other") == ["me"]
    assert table.consumers() == {"other": 1}


def test_how_far_consumers_are_behind(tmp_path: Path) -> None:
    plain = make(tmp_path / "plain", False, {})
    assert plain.consumers() == {}
    for key in range(4):
        plain.write_arrow(rows_of(plain, k=key, v=key))
    for name, following in (("new", 1), ("half", 3), ("done", 5)):
        plain.store.env.storage.write(
            plain.store.paths.consumer(name), json.dumps({"nextSnapshot": following}).encode()
        )
    found = plain.consumers()
    assert found == {"new": 1, "half": 3, "done": 5}
    assert [(found[n].snapshots, found[n].rows) for n in ("new", "half", "done")] == [(4, 4), (2, 2), (0, 0)]
    assert found["new"].millis >= found["half"].millis > found["done"].millis == 0
    assert found["half"].next_snapshot == 3 and "rows=2" in repr(found["half"])
    keyed = make(tmp_path / "keyed", True, KEYED["lookup"])
    for value in range(2):
        keyed.write_arrow(rows_of(keyed, k=1, v=value))
    keyed.reset_consumer("c", 1)
    assert (keyed.consumers()["c"].snapshots, keyed.consumers()["c"].rows) == (4, 3)


def test_what_a_checkpoint_says_of_a_batch(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    with pytest.raises(UnsupportedError, match="cannot be read here"):
        checkpoint.query()
    assert checkpoint.noted(0) == Noted()
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text('{"id":"q"}')
    (tmp_path / "offsets" / "0").write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":5}\n{}')
    (tmp_path / "offsets" / "1").write_text('v1\n{"batchWatermarkMs":7000,"batchTimestampMs":5}\n{}')
    (tmp_path / "offsets" / "2").write_text("v1\nnot JSON\n{}")
    assert checkpoint.query() == "q"
    assert [checkpoint.noted(number).watermark for number in range(3)] == [None, 7000, None]
    assert len({checkpoint.noted(number).fingerprint for number in range(4)}) == 4


def test_files_that_went_before_a_batch_has_read_them(tmp_path: Path) -> None:
    """As Spark's file stream notes them: a file for each of its batches, every tenth with those before."""
    checkpoint, arrived = Checkpoint(str(tmp_path / "checkpoint")), tmp_path / "in here"
    assert checkpoint.lost_files(0) == []
    arrived.mkdir()
    for folder in ("offsets", "sources/0"):
        (tmp_path / "checkpoint" / folder).mkdir(parents=True)
    entries = []
    for number in range(3):
        path = arrived / f"{number} ä.json"
        path.write_text("")
        entries.append(json.dumps({"path": path.as_uri(), "timestamp": 5, "batchId": number}))
        note = tmp_path / "checkpoint" / "offsets" / str(number)
        note.write_text(f'v1\n{{"batchWatermarkMs":0}}\n{{"logOffset":{number}}}')
    (tmp_path / "checkpoint" / "sources" / "0" / "0").write_text(f"v1\n{entries[0]}")
    (tmp_path / "checkpoint" / "sources" / "0" / "1.compact").write_text("\n".join(["v1", *entries[:2]]))
    (tmp_path / "checkpoint" / "sources" / "0" / "2").write_text(f"v1\n{entries[2]}")
    assert [checkpoint.lost_files(number) for number in range(4)] == [[], [], [], []]
    for number in range(2):
        (arrived / f"{number} ä.json").unlink()
        assert [path[-9:] for path in checkpoint.lost_files(number)] == [f"/{number} ä.json"]
    assert checkpoint.lost_files(2) == []


def test_a_consumer_that_is_moved_or_forgotten_while_its_stream_runs(tmp_path: Path) -> None:
    """The stream goes on where it stands, and says so again; what was let go meanwhile is missed by name."""
    table = make(tmp_path, True, {"bucket": "1"})
    for key in range(4):
        table.write_arrow(rows_of(table, k=key, v=key))
    reader = Reader(table, consumer_id="me", scan_snapshot_id=1)
    source = Source.of(reader.table.store)
    for following in (1, 4, None):
        table.reset_consumer("me", following)
        reader.step(Limits(max_files=1))
        source.progress(Position.of(json.loads(reader.offset)))
    assert [row[1] for row in reader.told] == [0, 1, 2]
    assert {name: int(one) for name, one in table.consumers().items()} == {"me": 4}
    table.reset_consumer("me", None)
    for key in range(4, 7):
        table.write_arrow(rows_of(table, k=key, v=key))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
    with pytest.raises(NotFoundError, match="snapshot with id 4 has expired"):
        reader.step()


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"{}", b'{"id": 7}', b'{"id": ""}', b"[" * 100_000, b"\xff\xfe{", b'{"id": NaN}']
)
def test_a_checkpoint_whose_metadata_are_damaged_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "metadata").write_bytes(data)
    with pytest.raises(CorruptError, match=r"metadata.*start a query with a new one"):
        Checkpoint(str(tmp_path)).query()


@pytest.mark.parametrize("lost", ["metadata", "offsets/0"])
def test_a_checkpoint_of_which_a_part_is_missing_does_not_begin_anew(tmp_path: Path, lost: str) -> None:
    """All that was read would be read again."""
    folder = tmp_path / "checkpoint"
    journal = Journal(Env(), str(folder), "/t")
    journal.finish(journal.begin(Position(1), Position(2)))
    (folder / "offsets" / "\u00b2").write_text("no batch")
    assert Journal(Env(), str(folder), "/t").position == Position(2)
    (folder / lost).unlink()
    with pytest.raises(CorruptError, match=f"missing.*{lost}"):
        Journal(Env(), str(folder), "/t")


def test_a_checkpoint_that_another_process_goes_on_with_is_not_taken_for_broken(tmp_path: Path) -> None:
    """It begins and ends a batch between any two looks of who opens it."""
    env, folder, here = Env(), str(tmp_path / "checkpoint"), Position(1)
    other = Journal(env, folder, "/t")
    other.finish(other.begin(here, here))

    def go_on(k: int, operation: str, path: str) -> None:
        other.finish(other.begin(here, here))

    opened = Journal(Env(FaultStorage(env.storage, go_on), env.clock), folder, "/t")
    with pytest.raises(ConflictError, match="another process"):
        opened.begin(here, here)


def test_a_consumer_that_read_what_a_rollback_took_away_is_refused(tmp_path: Path) -> None:
    """It went on where it stood: what was committed instead was left out."""
    table = make(tmp_path, True, {"bucket": "1", "write-only": "true"})
    for key in range(6):
        table.write_arrow(rows_of(table, k=key, v=key))
    reader = Reader(table, consumer_id="me")
    reader.read_all()
    Source.of(reader.table.store).progress(Position.of(json.loads(reader.offset)))
    assert Reader(table, consumer_id="me").offset
    table.rollback_to(3)
    for key in range(20, 28):
        with pytest.raises(InvalidError, match=r"rolled back.*reset_consumer"):
            Reader(table, consumer_id="me")
        table.write_arrow(rows_of(table, k=key, v=key))
    anew = Reader(table, consumer_id="me", consumer_ignore_progress="true")
    anew.read_all()
    assert sorted(anew.state) == [0, 1, 2, *range(20, 28)]
    table.reset_consumer("me", 9)
    later = Reader(table, consumer_id="me")
    later.read_all()
    assert sorted(later.state) == [25, 26, 27]


def test_a_consumer_whose_stream_waits_for_a_quiet_table_is_not_idle() -> None:
    """It was dropped with the next commit, and what came then expired before the stream had read it."""
    clock = FakeClock()
    few = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "consumer.expiration-time": "1 d"}
    made = Catalog(Env(TimedStorage(clock, lambda path, data: None), clock), "/wh").create_table
    table = made("t", SCHEMA, primary_keys=["k"], options={"bucket": "1", **few})
    table.write_arrow(rows_of(table, k=0, v=0))
    Source.of(table.with_options(consumer_id="left").store).origin()
    query = StreamReader(Rows(table.with_options(consumer_id="me").store, None, (), None))

    def latest(start: Any) -> Any:
        return query.latestOffset(*(() if ReadAllAvailable is None else (start, None)))  # as PySpark 4.1 asks

    read = latest(query.initialOffset())
    query.commit(read)
    for _ in range(9):
        clock.millis += DAY // 2
        assert Position.of(latest(read)) == Position.of(read)
    for key in range(1, 4):
        table.write_arrow(rows_of(table, k=key, v=0))
    assert query.partitions(read, latest(read))
    assert table.consumers() == {"me": 2}


def test_a_stream_that_begins_where_its_consumer_is_lost_says_how_to_go_on(tmp_path: Path) -> None:
    """Another checkpoint begins where the consumer stands: there again."""
    table = make(tmp_path, True, {"bucket": "1"})
    for key in range(3):
        table.write_arrow(rows_of(table, k=key, v=key))
    table.expire_snapshots(retain_max=1, retain_min=1, older_than="2100-01-01")
    table.store.env.storage.write(table.store.paths.consumer("me"), b'{"nextSnapshot": 1}')
    with pytest.raises(NotFoundError, match=r"id 1 has expired.*another checkpoint and by CALL sys.reset_consumer"):
        Reader(table, consumer_id="me").step()
    anew = Reader(table, consumer_id="me", consumer_ignore_progress="true")
    anew.read_all()
    assert anew.state == {0: 0, 1: 1, 2: 2}


def test_what_a_death_before_the_first_batch_left_of_its_note_is_named(tmp_path: Path) -> None:
    """Spark refuses to begin beside it, for good, and its words lead to another checkpoint."""
    notes, checkpoint = tmp_path / "offsets", Checkpoint(str(tmp_path))
    notes.mkdir()
    (tmp_path / "metadata").write_text('{"id": "q"}')
    checkpoint.check()
    part = ".0.d0cf00bd-642b-488b-be98-678f1e7ae9ac.tmp"
    for name in (part, f".{part}.crc"):
        (notes / name).write_text("")
    with pytest.raises(InvalidError, match=r"delete these files.*") as told:
        checkpoint.check()
    assert told.value.details["files"] == [f"offsets/.{part}.crc", f"offsets/{part}"]
    (notes / "0").write_text("v1")
    checkpoint.check()
