"""What a query's checkpoint says of it: its id, what a batch reads, and the watermark of a batch.

    metadata            { "id": … }
    offsets/<batch>     v1, a line of JSON with "batchWatermarkMs", a line a source

Spec: docs/spec/streaming.md#batches
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress

from bucketlake.env.object_store import open_env
from bucketlake.errors import UnsupportedError
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class Noted:
    """Of one batch: a hash of the note of what it reads, and its watermark in epoch milliseconds, if it has one."""

    fingerprint: str = ""
    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The folder of one query."""

    folder: str

    def query(self) -> str:
        """The query's id. UnsupportedError where it cannot be read here."""
        return str(json.loads(self._read("metadata"))["id"])

    def noted(self, batch: int) -> Noted:
        """What is noted of a batch before it runs; nothing where that cannot be read here."""
        with suppress(UnsupportedError):
            data = self._read(f"offsets/{batch}")
            return Noted(hashlib.sha256(data).hexdigest()[:32], _watermark(data))
        return Noted()

    def _read(self, name: str) -> bytes:
        try:
            env, root = open_env(self.folder, {})
            return env.storage.read(f"{root}/{name}")
        except Exception as error:
            raise UnsupportedError(
                "the checkpoint cannot be read here, and says which query this is",
                checkpoint=self.folder,
                reason=str(error),
                remedy="on Spark Connect, use a checkpoint in a file system or object store that the server can read",
            ) from error


def _watermark(note: bytes) -> int | None:
    lines = note.split(b"\n", 2)
    with suppress(ValueError, TypeError, AttributeError):
        millis = int(json.loads(lines[1]).get("batchWatermarkMs") or 0) if len(lines) > 1 else 0
        return millis if millis > 0 else None
    return None
