"""The file `consumer/consumer-<name>`: the snapshot that a reader reads next, which keeps it and all later ones.

Spec: docs/spec/tags.md#consumers
"""

from __future__ import annotations

from typing import Any

from bucketlake.format.guard import decoding, integer, json_object

CONSUMER_REMEDY = "restore the file, or let the consumer begin elsewhere: CALL sys.reset_consumer"


def next_snapshot(data: bytes, path: str) -> int:
    """The snapshot that the consumer in a file reads next. CorruptError."""
    with decoding("not a consumer", path, CONSUMER_REMEDY):
        following: Any = json_object(data).get("nextSnapshot")
        if not integer(following):
            raise ValueError(f"nextSnapshot is {following!r:.100}")
        return int(following)
