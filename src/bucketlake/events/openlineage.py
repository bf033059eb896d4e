"""Events as OpenLineage runs: a START and a COMPLETE or FAIL for every write and compaction, to a service or a file.

    OpenLineage("https://marquez.example.com", api_key=…).start()     POST …/api/v1/lineage
    OpenLineage("file:/var/log/lineage.jsonl").start()                a line an event

Commits do not wait: a thread sends, and what does not fit its queue, or is refused again and again, is left out with a
warning. `flush` waits, and the process does at its end, for a while.

Spec: docs/events.md#openlineage, https://openlineage.io/spec/2-0-2/OpenLineage.json
"""

from __future__ import annotations

import atexit
import json
import queue
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

from bucketlake.env.env import SystemClock
from bucketlake.env.http import post
from bucketlake.env.outlets import append_line
from bucketlake.errors import BucketlakeError, InvalidError, StorageError
from bucketlake.events.bus import CommitFailed, Committed, CompactionCommitted, Event, subscribe

PRODUCER = "https://pypi.org/project/bucketlake"
SPEC = "https://openlineage.io/spec"
QUEUED = 10_000  # events
ATTEMPTS = 4
LAST_WAIT = 10.0  # seconds at the end of the process
_ENDPOINT = "/api/v1/lineage"


class OpenLineage:
    """Tells a lineage service, or a file, of what is committed in this process.

    `namespace`: of the jobs, which are named `<db>.<table>.write` and `….compact`; `parent`: the run that this process
    is part of (`{"run": {"runId": …}, "job": {"namespace": …, "name": …}}`), as Airflow or Dagster tell it.
    """

    def __init__(
        self,
        target: str,
        namespace: str = "bucketlake",
        api_key: str | None = None,
        parent: Mapping[str, Any] | None = None,
    ) -> None:
        if not target.startswith(("http://", "https://", "file:")):
            raise InvalidError("no target for lineage", target=target, remedy="http(s)://host or file:/path")
        self._send = _to_file(target[5:]) if target.startswith("file:") else _to_service(target, api_key)
        self._namespace, self._parent = namespace, parent
        self._queue: queue.Queue[bytes | None] = queue.Queue(QUEUED)
        self._stop: Callable[[], None] | None = None
        self.left_out = 0

    def start(self) -> OpenLineage:
        """Tell from now on."""
        if self._stop is None:
            self._stop = subscribe(self.hear, Committed, CommitFailed)
            threading.Thread(target=self._work, name="bucketlake-lineage", daemon=True).start()
            atexit.register(self.flush, LAST_WAIT)
        return self

    def stop(self) -> None:
        """Send what is queued, and hear no more."""
        if self._stop is not None:
            self._stop()
            self.flush()
            self._stop = None
            self._queue.put(None)
            atexit.unregister(self.flush)

    def flush(self, seconds: float = 60.0) -> bool:
        """Wait until everything was sent or left out; False where it takes longer."""
        done = threading.Event()

        def wait() -> None:
            self._queue.join()
            done.set()

        threading.Thread(target=wait, name="bucketlake-lineage-flush", daemon=True).start()
        return done.wait(seconds)

    def hear(self, event: Event) -> None:
        """Queue what an event says."""
        if not isinstance(event, (Committed, CommitFailed)):
            return
        for said in run_events(event, self._namespace, self._parent):
            try:
                self._queue.put_nowait(json.dumps(said, separators=(",", ":")).encode())
            except queue.Full:
                self._lose("the queue is full")

    def _work(self) -> None:
        clock = SystemClock()
        while (body := self._queue.get()) is not None:
            for attempt in range(ATTEMPTS):
                try:
                    self._send(body)
                    break
                except BucketlakeError as error:
                    if attempt == ATTEMPTS - 1 or not isinstance(error, StorageError):
                        self._lose(str(error))
                        break
                    clock.sleep(0.2 * 4**attempt)
            self._queue.task_done()
        self._queue.task_done()

    def _lose(self, reason: str) -> None:
        self.left_out += 1
        with suppress(Exception):  # warnings may be errors
            warnings.warn(f"a lineage event was left out: {reason}", RuntimeWarning, stacklevel=2)


def run_events(
    event: Committed | CommitFailed, namespace: str = "bucketlake", parent: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The START and the end of the run that an event tells of, as OpenLineage's RunEvents."""
    compacts = isinstance(event, CompactionCommitted) or (isinstance(event, CommitFailed) and event.kind == "COMPACT")
    run: dict[str, Any] = {"runId": _run_id(event), "facets": {}}
    if parent is not None:
        run["facets"]["parent"] = _facet("1-1-0", "ParentRunFacet", **parent)
    kind = _facet("2-0-3", "JobTypeJobFacet", processingType="BATCH", integration="BUCKETLAKE", jobType="JOB")
    name = f"{event.name}.{'compact' if compacts else 'write'}"
    base = {
        "producer": PRODUCER,
        "schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "job": {"namespace": namespace, "name": name, "facets": {"jobType": kind}},
    }
    inputs = [_dataset(event)] if compacts else []
    began = {**base, "eventType": "START", "eventTime": _time(event.time_millis - event.millis), "run": run}
    ended = {**base, "eventTime": _time(event.time_millis), "run": run, "inputs": inputs}
    if isinstance(event, CommitFailed):
        failure = _facet("1-0-1", "ErrorMessageRunFacet", message=event.reason, programmingLanguage="PYTHON")
        told = {"runId": run["runId"], "facets": {**run["facets"], "errorMessage": failure}}
        ended |= {"eventType": "FAIL", "run": told, "outputs": [_dataset(event)]}
    else:
        ended |= {"eventType": "COMPLETE", "outputs": [_output(event)]}
    return [{**began, "inputs": inputs, "outputs": [_dataset(event)]}, ended]


def _run_id(event: Committed | CommitFailed) -> str:
    """The snapshot's own uuid, so that a run told twice is one."""
    known = event.uuid if isinstance(event, Committed) else None
    return known or SystemClock().new_uuid()


def _dataset(event: Event) -> dict[str, Any]:
    """The table by OpenLineage's rules for names: of a store the namespace is its bucket, of a disk `file`."""
    scheme, sign, rest = event.table.partition("://")
    if not sign:
        place = {"namespace": "file", "name": event.table}
    else:
        bucket, _, path = rest.partition("/")
        place = {"namespace": f"{scheme}://{bucket}", "name": path or "/"}
    catalog = {"namespace": place["namespace"], "name": event.name, "type": "TABLE"}
    return {**place, "facets": {"symlinks": _facet("1-0-1", "SymlinksDatasetFacet", identifiers=[catalog])}}


def _output(event: Committed) -> dict[str, Any]:
    found = _dataset(event)
    columns = [{"name": name, "type": kind} for name, kind in event.columns]
    found["facets"] |= {
        "schema": _facet("1-1-1", "SchemaDatasetFacet", fields=columns),
        "version": _facet("1-0-1", "DatasetVersionDatasetFacet", datasetVersion=str(event.snapshot_id)),
        "storage": _facet("1-0-1", "StorageDatasetFacet", storageLayer="paimon"),
    }
    if event.kind == "OVERWRITE" and not isinstance(event, CompactionCommitted):
        change = _facet("1-0-1", "LifecycleStateChangeDatasetFacet", lifecycleStateChange="OVERWRITE")
        found["facets"]["lifecycleStateChange"] = change
    sums = {"rowCount": event.added_rows, "size": event.added_bytes, "fileCount": event.added_files}
    found["outputFacets"] = {"outputStatistics": _facet("1-0-2", "OutputStatisticsOutputDatasetFacet", **sums)}
    return found


def _facet(version: str, name: str, **content: Any) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": f"{SPEC}/facets/{version}/{name}.json#/$defs/{name}", **content}


def _time(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, timezone.utc).isoformat(timespec="milliseconds")


def _to_file(path: str) -> Callable[[bytes], None]:
    return lambda body: append_line(path, body)


def _to_service(target: str, api_key: str | None) -> Callable[[bytes], None]:
    url = target.rstrip("/")
    url = url if url.endswith(_ENDPOINT) else url + _ENDPOINT
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {api_key}"} if api_key else {})}

    def send(body: bytes) -> None:
        status, _ = post(url, body, headers, 10.0)
        if status >= 500 or status == 429:
            raise StorageError("the lineage service is not ready", status=status)
        if status >= 300:
            raise InvalidError("the lineage service refuses events", status=status)

    return send
