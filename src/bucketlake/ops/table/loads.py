"""Which source files COPY INTO has loaded into a table: a small JSON file each, as Paimon's Spark connector keeps them.

    copy-into/history/load-<16 hex digits of the path's SHA-256>-<when>    {"filePath", "fileSize", "lastModified", …}

Spec: docs/sql/copy-into.md#repeated-loads
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from bucketlake.errors import NotFoundError
from bucketlake.ops.table.store import Store, parallel
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to load from: its whole path, bytes, and when it was modified, in epoch milliseconds."""

    path: str
    size: int
    modified_millis: int

    @property
    def name(self) -> str:
        """Its last name."""
        return self.path.rsplit("/", 1)[-1]


def loaded(store: Store, files: Sequence[SourceFile]) -> set[SourceFile]:
    """Those of the files that were loaded as they are now. Records that cannot be read count for nothing."""
    try:
        names = [info.path for info in store.env.storage.list(store.paths.load_history_dir)]
    except NotFoundError:
        return set()
    known = {_hash(file.path): file for file in files}
    wanted = [path for path in names if _hash_of(path) in known]
    return {file for file in parallel(lambda path: _record(store, path), wanted) if file is not None} & set(files)


def record_loaded(store: Store, files: Sequence[tuple[SourceFile, int]], snapshot_id: int) -> None:
    """Remember that files were loaded, each with the rows that came from it."""
    now = store.env.clock.now_millis()

    def write(item: tuple[SourceFile, int]) -> None:
        file, rows = item
        record = {
            "filePath": file.path,
            "fileSize": file.size,
            "lastModified": file.modified_millis,
            "loadedAt": now,
            "snapshotId": snapshot_id,
            "rowsLoaded": rows,
        }
        path = f"{store.paths.load_history_dir}/load-{_hash(file.path)}-{now}"
        store.env.storage.write(path, json.dumps(record).encode())

    parallel(write, files)


def _record(store: Store, path: str) -> SourceFile | None:
    try:
        found = json.loads(store.env.storage.read(path))
        return SourceFile(str(found["filePath"]), int(found["fileSize"]), int(found["lastModified"]))
    except (NotFoundError, ValueError, KeyError, TypeError):
        return None


def _hash(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:16]


def _hash_of(path: str) -> str:
    return path.rsplit("/", 1)[-1].removeprefix("load-").partition("-")[0]
