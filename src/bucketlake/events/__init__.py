"""What happens to tables in this process, for those who want to know: commits, expiries, batches of streams.

from bucketlake import events
stop = events.subscribe(print)                    # every event, in the thread that commits
metrics = events.Metrics().start()                # for Prometheus: metrics.text(), metrics.serve(9464)
lineage = events.OpenLineage("https://lineage.example.com").start()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bucketlake.events.bus import (
    BatchCommitted,
    CommitFailed,
    Committed,
    CompactionCommitted,
    Event,
    SnapshotsExpired,
    WriteCommitted,
    emit,
    listening,
    subscribe,
)

if TYPE_CHECKING:
    from bucketlake.events.metrics import Metrics
    from bucketlake.events.openlineage import OpenLineage

# Loaded when first asked for: every commit imports this package.
_LATE = {"Metrics": "bucketlake.events.metrics", "OpenLineage": "bucketlake.events.openlineage"}


def __getattr__(name: str) -> Any:
    """The exporters."""
    if name not in _LATE:
        raise AttributeError(f"module 'bucketlake.events' has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)


__all__ = [
    "BatchCommitted",
    "CommitFailed",
    "Committed",
    "CompactionCommitted",
    "Event",
    "Metrics",
    "OpenLineage",
    "SnapshotsExpired",
    "WriteCommitted",
    "emit",
    "listening",
    "subscribe",
]
