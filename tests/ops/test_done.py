"""Partitions that are done: who is told, when, and what happens where nobody can be told; work beside the committer."""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.sim.clock import FakeClock

import bucketlake
from bucketlake.env.env import Env
from bucketlake.errors import InvalidError, StorageError, UnsupportedError
from bucketlake.ops.clean import done
from bucketlake.ops.clean.background import Background, finish
from bucketlake.ops.clean.done import IdleRule, Pending
from bucketlake.table import Table

SCHEMA = pa.schema([pa.field("k", pa.int64()), pa.field("dt", pa.string())])
END = {"partition.end-input-to-done": "true"}
HTTP = {"partition.mark-done-action": "http-report"}


def made(folder: Path, clock: Any = None, keyed: bool = False, **options: str) -> Table:
    keys, texts = (["dt", "k"], {"bucket": "1"}) if keyed else ([], {"bucket": "-1"})
    table = bucketlake.open(folder).create_table("t", SCHEMA, ["dt"], keys, {**texts, **options})
    if clock is None:
        return table
    store = table.store
    env = Env(store.env.storage, clock)
    return Table(type(store)(env, store.paths, store.schema, store.options), table.name)


def put(table: Table, *days: str) -> None:
    table.write_arrow(pa.table({"k": list(range(len(days))), "dt": list(days)}, schema=SCHEMA))


def marked(table: Table) -> dict[str, Any]:
    found = {path.parent.name: json.loads(path.read_text()) for path in Path(table.path).rglob("_SUCCESS")}
    return dict(sorted(found.items()))


@pytest.mark.parametrize("keyed", [False, True])
def test_a_write_marks_its_partitions(tmp_path: Path, keyed: bool) -> None:
    table = made(tmp_path / str(keyed), FakeClock(), keyed, **END)
    put(table, "a", "b")
    first = marked(table)
    assert list(first) == ["dt=a", "dt=b"] and set(first["dt=a"]) == {"creationTime", "modificationTime"}
    put(table, "b", "c")
    again = marked(table)
    assert list(again) == ["dt=a", "dt=b", "dt=c"] and again["dt=a"] == first["dt=a"]
    assert again["dt=b"]["creationTime"] == first["dt=b"]["creationTime"]
    assert again["dt=b"]["modificationTime"] > first["dt=b"]["modificationTime"]
    table.compact()
    assert marked(table) == again, "maintenance writes no rows"
    table.delete("dt = 'c' AND k = 1" if keyed else "k = 1 AND dt = 'c'")
    assert marked(table)["dt=a"] == first["dt=a"] and marked(table)["dt=c"] != again["dt=c"]


def test_vectors_and_other_branches(tmp_path: Path) -> None:
    table = made(tmp_path, FakeClock(), **{"deletion-vectors.enabled": "true"}, **END)
    put(table, "a", "b", "b")
    before = marked(table)
    table.delete("k = 1")
    after = marked(table)
    assert after["dt=a"] == before["dt=a"] and after["dt=b"] != before["dt=b"]


@dataclass
class Service:
    """Takes reports; `answers`: status and body, the last one over and over."""

    answers: list[tuple[int, str]]
    told: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def service() -> Iterator[Service]:
    state = Service([(200, '{"result": "success", "more": 1}')])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            state.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            status, body = state.answers[0] if len(state.answers) == 1 else state.answers.pop(0)
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    state.url = f"http://127.0.0.1:{server.server_port}/report"
    yield state
    server.shutdown()
    server.server_close()


def test_reports(tmp_path: Path, service: Service) -> None:
    url = {"partition.mark-done-action.http.url": service.url, "partition.mark-done-action.http.params": "p=1"}
    table = made(tmp_path, **HTTP, **url, **END)
    put(table, "a")
    assert service.told == [{"params": "p=1", "table": "default.t", "path": table.path, "partition": "dt=a/"}]
    assert marked(table) == {}
    for status, body, message in [
        (200, '{"result": "failed"}', "should be 'SUCCESS' but is 'failed'"),
        (200, '{"other": 1}', "should be 'SUCCESS' but is 'null'"),
        (200, "", "ResponseBody is null or empty"),
        (400, '{"result": "success"}', "Response is not successful"),
        (302, "", "Response is not successful"),
        (200, "no json", "not JSON"),
    ]:
        service.answers = [(status, body)]
        with pytest.raises(StorageError, match=message):
            table.mark_partitions_done([{"dt": "a"}])
    told = len(service.told)
    with pytest.warns(UserWarning, match="committed, but partitions were not marked done: not JSON|answer is not JSON"):
        put(table, "b")
    assert len(service.told) == told + 1 and len(table.snapshots()) == 2


def test_what_cannot_be_told(tmp_path: Path) -> None:
    table = made(tmp_path)
    put(table, "a")

    def told(**options: str) -> None:
        table.with_options(options).mark_partitions_done([{"dt": "a"}])

    nobody = {"partition.mark-done-action.http.url": "http://127.0.0.1:9/x"}
    with pytest.raises(StorageError, match=r"no answer from a service.*127\.0\.0\.1.*: look whether it runs"):
        told(**HTTP, **nobody)
    with pytest.raises(InvalidError, match="must be non-empty when you use `http-report`"):
        told(**HTTP)
    with pytest.raises(InvalidError, match="not a URL of a service"):
        told(**HTTP, **{"partition.mark-done-action.http.url": "file:///etc/passwd"})
    with pytest.raises(InvalidError, match=r"should enable metastore\.partitioned-table"):
        told(**{"partition.mark-done-action": "success-file,mark-event"})
    assert marked(table) == {}, "nobody is told before all is checked"
    for name in ("custom", "done-partition"):
        with pytest.raises(UnsupportedError, match=r"partition\.mark-done-action"):
            made(tmp_path / name, **{"partition.mark-done-action": f"success-file,{name}"})
    with pytest.raises(InvalidError, match="no such way"):
        made(tmp_path / "odd", **{"partition.mark-done-action": "shout"})
    with pytest.raises(InvalidError):
        table.mark_partitions_done([{"dt": "a", "k": "1"}])


def test_idle_partitions(tmp_path: Path) -> None:
    """By the clock: a partition's own time has to be over, and then nobody may have written for a while."""
    clock = FakeClock()
    today = datetime.fromtimestamp(clock.millis / 1000).replace(hour=0, minute=0, second=0, microsecond=0)
    old, now = f"{today - timedelta(days=3):%Y-%m-%d}", f"{today:%Y-%m-%d}"
    idle = {"partition.idle-time-to-done": "1 h", "partition.time-interval": "1 d"}
    table = made(tmp_path, clock, **idle)
    put(table, old, now, "never")
    assert marked(table) == {}
    clock.sleep(1800)
    put(table, old)
    clock.sleep(3000)
    put(table, now)
    assert marked(table) == {}, "written again meanwhile"
    clock.sleep(1200)
    put(table, now)
    assert list(marked(table)) == [f"dt={old}"]
    clock.sleep(2 * 86400)
    put(table, "never")
    assert list(marked(table)) == [f"dt={old}", f"dt={now}"]


def test_what_could_not_be_told_is_told_later(tmp_path: Path, service: Service) -> None:
    clock = FakeClock()
    url = {"partition.mark-done-action.http.url": service.url}
    idle = {"partition.idle-time-to-done": "1 s", "partition.time-interval": "1 d"}
    table = made(tmp_path, clock, **idle, **HTTP, **url)
    put(table, "2020-01-01", "2020-01-02")
    clock.sleep(2)
    service.answers = [(200, '{"result": "success"}'), (500, ""), (200, '{"result": "success"}')]
    with pytest.warns(UserWarning, match="not marked done"):
        put(table, "9000-01-01")
    put(table, "9000-01-01")
    told = [one["partition"] for one in service.told]
    assert sorted(told[:2]) == ["dt=2020-01-01/", "dt=2020-01-02/"] and told[2:] == [told[1]]


def test_partitions_become_done_while_nobody_commits_and_are_remembered_by_the_next_process(tmp_path: Path) -> None:
    clock = FakeClock()
    rule = {
        "partition.idle-time-to-done": "1 h",
        "partition.time-interval": "1 d",
        "partition.timestamp-pattern": "$dt",
    }
    table = made(tmp_path, clock, **rule)
    clock.millis = int(datetime(2024, 1, 2, 12).timestamp() * 1000)
    put(table, "2024-01-01", "2024-01-02")
    done.mark_idle(table.store)
    assert marked(table) == {}
    done._PENDING.clear()  # the process dies, another takes up
    done.remember_unmarked(table.store)
    clock.millis = int(datetime(2024, 1, 2, 14).timestamp() * 1000)
    done.mark_idle(table.store)
    assert list(marked(table)) == ["dt=2024-01-01"], "the other is not over yet"
    clock.millis = int(datetime(2024, 1, 4).timestamp() * 1000)
    done.mark_idle(table.store)
    assert list(marked(table)) == ["dt=2024-01-01", "dt=2024-01-02"]
    done._PENDING.clear()
    done.remember_unmarked(table.store)
    before = marked(table)
    done.mark_idle(table.store)
    assert marked(table) == before, "what is marked is not marked again"


def test_partitions_at_the_ends_of_the_calendar_are_done_in_every_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = IdleRule(10_000, 86_400_000)
    for zone in ("America/New_York", "Asia/Tokyo"):
        with monkeypatch.context() as changed:
            changed.setenv("TZ", zone)
            time.tzset()
            assert rule.is_done(datetime(1, 1, 1), 0, 1_700_000_000_000)
            assert not rule.is_done(datetime(9999, 12, 31, 23), 0, 1_700_000_000_000)
    time.tzset()


def test_watermarks_as_the_clock() -> None:
    rule, start = IdleRule(10_000, 86_400_000, by_watermark=True), datetime(2024, 1, 1)
    end = 1_704_067_200_000 + 86_400_000
    assert not rule.is_done(start, 0, end + 10_000) and rule.is_done(start, 0, end + 10_001)
    assert not rule.is_done(start, end + 5_000, end + 10_001)
    pending = Pending()
    pending.write([b"a", b"b"], end)
    assert pending.take_done(rule, lambda one: start if one == b"a" else None, end + 20_000) == [b"a"]
    assert pending.written == {}
    assert done.IdleRule.of(bucketlake.options.options.TableOptions({"partition.idle-time-to-done": "1 s"})) is None


# ---------------------------------------------------------------------------------------------- beside the committer


def test_jobs_wait_once_a_table() -> None:
    background, go, ran = Background(), threading.Event(), []

    def job(name: str) -> None:
        go.wait(10)
        ran.append(name)
        if name == "b":
            raise StorageError("odd")

    for name in ("a", "b", "b", "c", "b"):
        assert background.run(name if name != "a" else "first", lambda name=name: job(name))  # type: ignore[misc]
    assert not background.finish(0)
    go.set()
    assert background.finish(10) and ran == ["a", "b", "c"]
    assert background.run("d", lambda: ran.append("d")) and background.close(10)


def test_expiry_beside_the_commit(tmp_path: Path) -> None:
    limits = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    table = made(tmp_path, **limits, **{"snapshot.expire.execution-mode": "async"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for day in "abcdef":
            put(table, day)
        assert finish(30)
    put(table, "g")
    assert finish(30) and [one.id for one in table.snapshots()] == [6, 7]
    assert table.to_arrow().num_rows == 7


def test_partitions_are_marked_by_values_as_by_texts(tmp_path: Path) -> None:
    """1.5 marked the partition 1, and dates ended in a TypeError."""
    schema = pa.schema([("k", pa.int64()), ("p", pa.int32()), ("day", pa.date32())])
    table = bucketlake.open(tmp_path).create_table("t", schema, ["p", "day"], options={"bucket": "-1"})
    with pytest.raises(InvalidError, match=r"not a value of its partition column .*column=p, value=1\.5"):
        table.mark_partitions_done([{"p": 1.5, "day": None}])
    assert marked(table) == {}
    table.mark_partitions_done([{"p": 1, "day": date(2026, 1, 31)}, {"p": 2, "day": None}])
    found = {str(path.parent.relative_to(table.path)) for path in Path(table.path).rglob("_SUCCESS")}
    assert found == {"p=1/day=20484", "p=2/day=__DEFAULT_PARTITION__"}
