"""The checkpoint of a process that reads a table in batches: which batch was begun, of what, and which are done.

    metadata            { "version": 1, "id": …, "table": <folder> }
    offsets/<batch>     { "start": <offset>, "end": <offset> }           before the batch is processed
    commits/<batch>     {}                                               after it

A batch that was begun and is not done comes again, with the same rows and number.

Spec: docs/spec/streaming.md#journal
"""

from __future__ import annotations

import json
from typing import Any

from bucketlake.env.env import Env
from bucketlake.errors import ConflictError, CorruptError, InvalidError, NotFoundError
from bucketlake.file_names import number_of
from bucketlake.format.guard import LARGEST_LONG, decoding, json_object
from bucketlake.ops.stream.position import Position
from bucketlake.values import dataclass

VERSION = 1
KEPT = 100  # notes of batches that are done


@dataclass(frozen=True, slots=True)
class Begun:
    """A batch: the changes between two positions."""

    number: int
    start: Position
    end: Position


class Journal:
    """The checkpoint in one folder, of one process at a time."""

    def __init__(self, env: Env, folder: str, table: str) -> None:
        """Open it, or make it for the table in the folder `table`. InvalidError where it is another table's,
        CorruptError where a part of it is missing: what was read would be read again."""
        self._env, self._folder = env, folder.rstrip("/")
        self._done = self._newest("commits")  # first: a process that still runs begins batches before it ends them
        begun = self._newest("offsets")
        self.id = self._opened(table, new=max(begun, self._done) < 0)
        if self._done > begun:
            raise self._lacks(self._path("offsets", self._done))
        self._last = self._read(begun) if begun >= 0 else None

    def pending(self) -> Begun | None:
        """The batch that was begun and is not done."""
        return self._last if self._last is not None and self._last.number > self._done else None

    @property
    def position(self) -> Position | None:
        """Where the next batch starts; None where none was begun."""
        return None if self._last is None else self._last.end

    def begin(self, start: Position, end: Position) -> Begun:
        """Note the next batch. ConflictError where another process has done so; CorruptError behind the last number."""
        if self._done == LARGEST_LONG:
            raise CorruptError(
                "no number is left behind that of a batch",
                path=self._path("commits", self._done),
                remedy="restore the checkpoint, or begin with a new one",
            )
        batch = Begun(self._done + 1, start, end)
        note = json.dumps({"start": start.as_offset(), "end": end.as_offset()}).encode()
        if not self._env.storage.put_if_absent(self._path("offsets", batch.number), note):
            raise ConflictError(
                "another process goes on with this checkpoint",
                checkpoint=self._folder,
                batch=batch.number,
                remedy="run one at a time",
            )
        self._last = batch
        return batch

    def finish(self, batch: Begun) -> None:
        """Note that a batch is done; notes of old ones go."""
        self._env.storage.write(self._path("commits", batch.number), b"{}")
        self._done = batch.number
        old = batch.number - KEPT
        if old >= 0:
            self._env.storage.delete(self._path("offsets", old))
            self._env.storage.delete(self._path("commits", old))

    def _lacks(self, path: str) -> CorruptError:
        return CorruptError(
            "a part of the checkpoint is missing", path=path, remedy="restore it, or begin with a new checkpoint"
        )

    def _opened(self, table: str, new: bool) -> str:
        path, made = f"{self._folder}/metadata", self._env.clock.new_uuid()
        told = json.dumps({"version": VERSION, "id": made, "table": table}).encode()
        try:
            data = self._env.storage.read(path)
        except NotFoundError as error:
            if not new:
                raise self._lacks(path) from error
            data = told if self._env.storage.put_if_absent(path, told) else self._env.storage.read(path)
        with decoding("not a checkpoint of a process that reads a table", path):
            found = json_object(data)
            if found.get("version") != VERSION or not isinstance(found.get("id"), str):
                raise ValueError(f"version {found.get('version')!r:.20}")
        if found.get("table") != table:
            raise InvalidError(
                "the checkpoint is of another table",
                checkpoint=self._folder,
                table=table,
                other=str(found.get("table")),
                remedy="use a checkpoint of its own for each",
            )
        return str(found["id"])

    def _newest(self, kind: str) -> int:
        names = [info.name for info in self._env.storage.list(f"{self._folder}/{kind}")]
        return max((number for name in names if (number := number_of(name)) is not None), default=-1)

    def _read(self, number: int) -> Begun:
        path = self._path("offsets", number)
        with decoding("not the note of a batch", path):
            found: dict[str, Any] = json_object(self._env.storage.read(path))
            return Begun(number, Position.of(found["start"]), Position.of(found["end"]))

    def _path(self, kind: str, number: int) -> str:
        return f"{self._folder}/{kind}/{number}"
