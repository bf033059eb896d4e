"""JSON files that Apache Paimon writes in place, emptied first: consumers, tags, changelogs, and the snapshots of
branches and of rollbacks. Who reads one meanwhile finds nothing, or its beginning."""

from __future__ import annotations

from bucketlake.env.env import Env

ATTEMPTS = 6
PAUSE = 0.01  # seconds, doubled each time


def read_overwritten(env: Env, path: str) -> bytes:
    """The file's bytes; what does not end as an object does is read again for a third of a second, and then returned
    as it is. NotFoundError without such a file."""
    for attempt in range(ATTEMPTS):
        if attempt:
            env.clock.sleep(PAUSE * 2 ** (attempt - 1))
        data = env.storage.read(path)
        if data.rstrip().endswith(b"}"):
            break
    return data
