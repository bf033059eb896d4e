"""Events: what is told of which commit, that nobody is harmed by those who listen, metrics as Prometheus reads them, and
lineage as a service gets it."""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import Catalog, ConflictError, Table, events
from bucketlake.env.outlets import Page
from bucketlake.errors import InvalidError, StorageError
from bucketlake.events import bus
from bucketlake.events.openlineage import run_events
from bucketlake.ops.commit import telling

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("pt", pa.string())])


@pytest.fixture
def table(catalog: Catalog) -> Table:
    keys = ["pt", "id"]
    return catalog.create_table(
        "db.t", COLUMNS, ["pt"], keys, options={"bucket": "1", "snapshot.num-retained.min": "1"}
    )


@pytest.fixture
def heard() -> Iterator[list[Any]]:
    found: list[Any] = []
    stop = events.subscribe(found.append)
    yield found
    stop()
    assert not bus._subscribers


def rows(*ids: int, pt: str = "a") -> list[dict[str, Any]]:
    return [{"id": number, "pt": pt} for number in ids]


def test_what_is_told(table: Table, heard: list[Any]) -> None:
    snapshot = table.write_arrow(rows(1, 2, 3) + rows(1, pt="b"))
    assert snapshot is not None
    (write,) = heard
    assert type(write) is events.WriteCommitted
    assert (write.table, write.branch, write.name) == (table.path, "main", "db.t")
    assert (write.snapshot_id, write.uuid, write.user) == (1, snapshot.uuid, snapshot.commit_user)
    assert (write.kind, write.operation, write.partitions, write.retries) == ("APPEND", "WRITE", 2, 0)
    sizes = [found.file.file_size for found in table.files()]
    assert (write.added_files, write.added_bytes, write.added_rows) == (2, sum(sizes), 4)
    assert (write.removed_files, write.total_rows, write.changelog_rows) == (0, 4, 0)
    assert write.columns == (("id", "BIGINT NOT NULL"), ("pt", "STRING NOT NULL"))

    heard.clear()
    table.write_arrow(rows(1))
    table.compact(full=True)
    table.rescale(2)
    table.truncate()
    kinds = [(type(event).__name__, event.kind) for event in heard]
    assert kinds[0] == ("WriteCommitted", "APPEND")
    assert ("CompactionCommitted", "COMPACT") in kinds
    assert ("CompactionCommitted", "OVERWRITE") in kinds  # a rescale: the rows are those before
    assert kinds[-1] == ("WriteCommitted", "OVERWRITE")
    assert heard[-1].removed_rows == heard[-2].total_rows

    heard.clear()
    table.expire_snapshots(retain_max=1, retain_min=1)
    (expired,) = heard
    assert type(expired) is events.SnapshotsExpired and expired.snapshots >= 4 and expired.files > 0


def test_moves_between_levels_are_no_files(table: Table, heard: list[Any]) -> None:
    table.write_arrow(rows(1))
    table.compact(full=True)  # one file that overlaps nothing changes its level
    assert (heard[-1].kind, heard[-1].added_files, heard[-1].removed_files) == ("COMPACT", 0, 0)


def test_failures_are_told(table: Table, heard: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    table.write_arrow(rows(1))
    heard.clear()
    storage = type(table.store.env.storage)
    monkeypatch.setattr(storage, "put_if_absent", lambda *_: False)
    with pytest.raises(bucketlake.CommitError):
        table.write_arrow(rows(2), commit_max_retries="0")
    (failed,) = heard
    assert type(failed) is events.CommitFailed and failed.error == "CommitError" and "conflicts" in failed.reason


def test_listeners_harm_no_commit(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(event: events.Event) -> None:
        raise ConflictError("told too late")

    later: list[Any] = []
    stops = [events.subscribe(broken), events.subscribe(later.append)]
    with pytest.warns(RuntimeWarning, match="subscriber of events failed with WriteCommitted: ConflictError"):
        assert table.write_arrow(rows(1)) is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.write_arrow(rows(2)) is not None
    assert len(later) == 2 and table.to_arrow().num_rows == 2
    monkeypatch.setattr(telling, "type_text", lambda _: 1 / 0)
    with pytest.warns(RuntimeWarning, match="could not be told"):
        assert table.write_arrow(rows(3)) is not None
    for stop in (*stops, *stops):
        stop()
    assert not bus._subscribers


def test_nothing_is_made_where_nobody_listens(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "_committed", lambda *_: pytest.fail("made"))
    table.write_arrow(rows(1))
    assert not events.listening()
    stop = events.subscribe(print, events.CompactionCommitted)
    assert events.listening(events.Committed) and not events.listening(events.SnapshotsExpired)
    stop()


def test_kinds(table: Table) -> None:
    found: list[Any] = []
    stop = events.subscribe(found.append, events.CompactionCommitted)
    table.write_arrow(rows(1))
    table.compact(full=True)
    stop()
    assert [type(event) for event in found] == [events.CompactionCommitted]


# ---------------------------------------------------------------------------------------------- metrics


def test_metrics(table: Table, tmp_path: Path) -> None:
    metrics = events.Metrics().start().start()
    table.write_arrow(rows(1, 2))
    table.compact(full=True)
    batch = events.BatchCommitted("/wh/o.db/t", "main", 5, 'q"\\\n', 1, 7, False, 10, 1, 1500, 2)
    events.emit(lambda: batch)
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics.serve(0)}/metrics") as answer:
        text = answer.read().decode()
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    metrics.write(str(tmp_path / "x.prom"))
    assert (tmp_path / "x.prom").read_text() == text == metrics.text()
    metrics.stop()
    table.write_arrow(rows(3))
    assert metrics.text() == text

    own = '{table="db.t",branch="main"'
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}
    assert values[f'bucketlake_commits_total{own},job="write",kind="APPEND"}}'] == 1
    assert values[f'bucketlake_commits_total{own},job="compaction",kind="COMPACT"}}'] == 1
    assert values[f'bucketlake_rows_added_total{own},job="write"}}'] == 2
    assert values[f"bucketlake_snapshot_id{own}}}"] == 2
    assert values[f'bucketlake_commit_duration_seconds_count{own},job="write"}}'] == 1
    assert values[f'bucketlake_commit_duration_seconds_bucket{own},job="write",le="+Inf"}}'] == 1
    query = 'table="o.t",branch="main",query="q\\"\\\\\\n"'
    assert values[f'bucketlake_batch_duration_seconds_bucket{{{query},le="1"}}'] == 0
    assert values[f'bucketlake_batch_duration_seconds_bucket{{{query},le="2.5"}}'] == 1
    assert values[f"bucketlake_batch_compactions_behind{{{query}}}"] == 2
    told = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(told) == len(set(told)) and all(f"# HELP {name} " in text for name in told)


def test_metrics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bucketlake.events.metrics.MOST_SERIES", 3)
    metrics = events.Metrics()
    for number in range(10):
        metrics.hear(events.SnapshotsExpired(f"/wh/t{number}", "main", 0, 1, 0, 1))
    assert metrics.text().count("bucketlake_snapshots_expired_total{") == 3
    assert "bucketlake_series_left_out_total 21" in metrics.text()


def test_a_port_that_is_taken() -> None:
    page = Page("127.0.0.1", 0, "/x", lambda: ("text/plain", b"x"))
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{page.port}/y")
    with pytest.raises(StorageError, match="cannot listen"):
        events.Metrics().serve(page.port)
    page.close()


# ---------------------------------------------------------------------------------------------- lineage


class Service:
    """A lineage service that answers with the statuses given, then 201."""

    def __init__(self, *statuses: int) -> None:
        self.got: list[tuple[str, str | None, dict[str, Any]]] = []
        left = list(statuses)
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = left.pop(0) if left else 201
                if status == 201:
                    service.got.append((self.path, self.headers.get("Authorization"), json.loads(body)))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_lineage_of_a_write_and_a_compaction(table: Table) -> None:
    service = Service(503)
    parent = {"run": {"runId": "0190f1a2-0000-7000-8000-000000000000"}, "job": {"namespace": "dags", "name": "d.t"}}
    lineage = events.OpenLineage(service.url, api_key="secret", parent=parent).start()
    snapshot = table.write_arrow(rows(1, 2))
    table.compact(full=True)
    lineage.stop()
    service.close()
    assert snapshot is not None and lineage.left_out == 0
    assert {(path, key) for path, key, _ in service.got} == {("/api/v1/lineage", "Bearer secret")}
    said = [body for _, _, body in service.got]
    assert [(one["eventType"], one["job"]["name"]) for one in said] == [
        ("START", "db.t.write"),
        ("COMPLETE", "db.t.write"),
        ("START", "db.t.compact"),
        ("COMPLETE", "db.t.compact"),
    ]
    start, end, _, compaction = said
    assert start["run"]["runId"] == end["run"]["runId"] == snapshot.uuid
    assert end["run"]["facets"]["parent"]["job"] == parent["job"]
    (output,) = end["outputs"]
    assert (output["namespace"], output["name"]) == ("file", table.path)
    assert output["facets"]["symlinks"]["identifiers"][0]["name"] == "db.t"
    assert output["facets"]["schema"]["fields"][0] == {"name": "id", "type": "BIGINT NOT NULL"}
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 2
    assert (end["inputs"], len(compaction["inputs"])) == ([], 1)
    assert all(key in one for one in said for key in ("eventTime", "producer", "schemaURL", "run", "job"))


def test_lineage_names_datasets_of_stores() -> None:
    failed = events.CommitFailed("s3://wh/shop.db/orders", "main", 0, "COMPACT", "u", "ConflictError", "lost", 5)
    start, end = run_events(failed)
    assert (start["eventType"], end["eventType"], end["job"]["name"]) == ("START", "FAIL", "shop.orders.compact")
    assert start["eventTime"] == "1969-12-31T23:59:59.995+00:00"
    assert (end["outputs"][0]["namespace"], end["outputs"][0]["name"]) == ("s3://wh", "shop.db/orders")
    assert end["run"]["facets"]["errorMessage"]["message"] == "lost"


def test_a_lineage_service_that_refuses(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(400, 400)
    lineage = events.OpenLineage(service.url).start()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        table.write_arrow(rows(1))
        assert lineage.flush()
    lineage.stop()
    service.close()
    assert lineage.left_out == 2 and table.to_arrow().num_rows == 1
    assert any("refuses events" in str(one.message) for one in told)
    with pytest.raises(InvalidError, match="no target"):
        events.OpenLineage("lineage.example.com")


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "events.md"
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(block, str(page), "exec"), names)
