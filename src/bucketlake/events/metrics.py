"""Events as metrics for Prometheus: counters, gauges and histograms a table, in its text format.

    metrics = Metrics().start()
    metrics.text()                  the exposition
    metrics.serve(9464)             the same at http://127.0.0.1:9464/metrics
    metrics.write("/var/lib/node_exporter/bucketlake.prom")

What is counted is what this process does; several processes are several targets.

Spec: docs/events.md#metrics
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from os.path import abspath

from bucketlake.env.local import LocalStorage
from bucketlake.env.outlets import Page
from bucketlake.errors import InvalidError
from bucketlake.events.bus import (
    BatchCommitted,
    CommitFailed,
    Committed,
    CompactionCommitted,
    Event,
    SnapshotsExpired,
    subscribe,
)
from bucketlake.values import dataclass

MOST_SERIES = 20_000
CONTENT = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
Labels = tuple[tuple[str, str], ...]

COUNTERS = {
    "bucketlake_commits_total": "Snapshots published.",
    "bucketlake_commit_failures_total": "Commits that were not published, or nobody knows, by error.",
    "bucketlake_commit_retries_total": "Times that another commit came first.",
    "bucketlake_files_added_total": "Data files that commits added.",
    "bucketlake_bytes_added_total": "Bytes of data files that commits added.",
    "bucketlake_rows_added_total": "Rows of data files that commits added.",
    "bucketlake_files_removed_total": "Data files that commits removed.",
    "bucketlake_bytes_removed_total": "Bytes of data files that commits removed.",
    "bucketlake_changelog_rows_total": "Rows of changelog files.",
    "bucketlake_snapshots_expired_total": "Snapshots that expired.",
    "bucketlake_changelogs_expired_total": "Changelogs without a snapshot that expired.",
    "bucketlake_files_expired_total": "Files that were deleted by expiry.",
    "bucketlake_batches_total": "Micro-batches of streams that were committed.",
    "bucketlake_batch_rows_total": "Rows of micro-batches.",
}
GAUGES = {
    "bucketlake_rows": "Rows stored in the newest snapshot committed here, superseded ones included.",
    "bucketlake_snapshot_id": "The newest snapshot committed here.",
    "bucketlake_last_commit_timestamp_seconds": "When a snapshot was last committed here.",
    "bucketlake_watermark_timestamp_seconds": "The watermark of the newest snapshot committed here.",
    "bucketlake_batch_compactions_behind": "Batches of a stream whose compaction is still to come.",
}
HISTOGRAMS = {
    "bucketlake_commit_duration_seconds": "From the first look at the base until a snapshot was published.",
    "bucketlake_batch_duration_seconds": "What a micro-batch took.",
}


@dataclass(slots=True)
class _Histogram:
    """How many values were at most each bound, and their sum."""

    counts: list[int]
    total: float = 0.0

    def add(self, value: float) -> None:
        self.total += value
        for place, bound in enumerate((*SECONDS, float("inf"))):
            self.counts[place] += value <= bound


class Metrics:
    """What happened since `start`, as metrics. For any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, float]] = {name: {} for name in (*COUNTERS, *GAUGES)}
        self._spans: dict[str, dict[Labels, _Histogram]] = {name: {} for name in HISTOGRAMS}
        self._left_out = 0
        self._stop: Callable[[], None] | None = None
        self._pages: list[Page] = []

    # ---- life

    def start(self) -> Metrics:
        """Count from now on."""
        if self._stop is None:
            self._stop = subscribe(self.hear)
        return self

    def stop(self) -> None:
        """Count and serve no more; what was counted stays."""
        if self._stop is not None:
            self._stop()
            self._stop = None
        for page in self._pages:
            page.close()
        self._pages.clear()

    def serve(self, port: int, host: str = "127.0.0.1") -> int:
        """Answer at `/metrics` until `stop`; the port (0: any free one). StorageError where it is taken."""
        page = Page(host, port, "/metrics", lambda: (CONTENT, self.text().encode()))
        self._pages.append(page)
        return page.port

    def write(self, path: str) -> None:
        """Put the text into a local file, replaced as a whole: for the textfile collector of the node exporter."""
        if "://" in path:
            raise InvalidError("not a local file", path=path)
        LocalStorage().write(abspath(path), self.text().encode())

    # ---- what is heard

    def hear(self, event: Event) -> None:
        """Count an event."""
        table: Labels = (("table", event.name), ("branch", event.branch))
        with self._lock:
            if isinstance(event, Committed):
                self._committed(event, table)
            elif isinstance(event, CommitFailed):
                self._count("bucketlake_commit_failures_total", (*table, ("error", event.error)), 1)
            elif isinstance(event, SnapshotsExpired):
                self._count("bucketlake_snapshots_expired_total", table, event.snapshots)
                self._count("bucketlake_changelogs_expired_total", table, event.changelogs)
                self._count("bucketlake_files_expired_total", table, event.files)
            elif isinstance(event, BatchCommitted):
                self._batch(event, (*table, ("query", event.query)))

    def _committed(self, event: Committed, table: Labels) -> None:
        job = "compaction" if isinstance(event, CompactionCommitted) else "write"
        kind = (*table, ("job", job))
        self._count("bucketlake_commits_total", (*kind, ("kind", event.kind)), 1)
        self._count("bucketlake_commit_retries_total", kind, event.retries)
        for name in ("files_added", "bytes_added", "rows_added", "files_removed", "bytes_removed"):
            what, done = name.split("_")
            self._count(f"bucketlake_{name}_total", kind, getattr(event, f"{done}_{what}"))
        self._count("bucketlake_changelog_rows_total", kind, event.changelog_rows)
        self._time("bucketlake_commit_duration_seconds", kind, event.millis / 1000)
        newest = self._values["bucketlake_snapshot_id"].get(table, 0)
        if event.snapshot_id < newest:  # another thread's commit, told late; a rollback starts anew
            return
        self._set("bucketlake_snapshot_id", table, event.snapshot_id)
        self._set("bucketlake_rows", table, event.total_rows)
        self._set("bucketlake_last_commit_timestamp_seconds", table, event.time_millis / 1000)
        if event.watermark is not None:
            self._set("bucketlake_watermark_timestamp_seconds", table, event.watermark / 1000)

    def _batch(self, event: BatchCommitted, labels: Labels) -> None:
        self._count("bucketlake_batches_total", labels, 1)
        self._count("bucketlake_batch_rows_total", labels, event.rows)
        self._time("bucketlake_batch_duration_seconds", labels, event.millis / 1000)
        self._set("bucketlake_batch_compactions_behind", labels, event.behind)

    def _count(self, name: str, labels: Labels, more: float) -> None:
        if self._has_room(self._values[name], labels):
            self._values[name][labels] = self._values[name].get(labels, 0) + more

    def _set(self, name: str, labels: Labels, value: float) -> None:
        if self._has_room(self._values[name], labels):
            self._values[name][labels] = value

    def _time(self, name: str, labels: Labels, seconds: float) -> None:
        series = self._spans[name]
        if self._has_room(series, labels):
            series.setdefault(labels, _Histogram([0] * (len(SECONDS) + 1))).add(seconds)

    def _has_room(self, series: dict[Labels, float] | dict[Labels, _Histogram], labels: Labels) -> bool:
        """Memory is bounded: beyond so many series of a name new ones are only counted."""
        room = labels in series or len(series) < MOST_SERIES
        self._left_out += not room
        return room

    # ---- what is shown

    def text(self) -> str:
        """All metrics in Prometheus' text format, version 0.0.4."""
        with self._lock:
            lines: list[str] = []
            for name, about in {**COUNTERS, **GAUGES}.items():
                lines += _head(name, about, "counter" if name in COUNTERS else "gauge")
                lines += [f"{name}{_braced(labels)} {_number(value)}" for labels, value in self._values[name].items()]
            for name, about in HISTOGRAMS.items():
                lines += _head(name, about, "histogram")
                for labels, found in self._spans[name].items():
                    lines += _spans(name, labels, found)
            lines += _head("bucketlake_series_left_out_total", "Values of series beyond the most.", "counter")
            lines.append(f"bucketlake_series_left_out_total {self._left_out}")
        return "\n".join(lines) + "\n"


def _head(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _spans(name: str, labels: Labels, found: _Histogram) -> list[str]:
    bounds = [*(_number(bound) for bound in SECONDS), "+Inf"]
    lines = [
        f"{name}_bucket{_braced((*labels, ('le', bound)))} {count}"
        for bound, count in zip(bounds, found.counts, strict=True)
    ]
    total, count = f"{name}_sum{_braced(labels)}", f"{name}_count{_braced(labels)}"
    return [*lines, f"{total} {found.total:.3f}", f"{count} {found.counts[-1]}"]


def _braced(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
