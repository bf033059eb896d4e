"""What a query's checkpoint says of it: its id, what a batch reads, and the watermark of a batch.

    Checkpoint(folder, env)                read; NotFoundError, UnsupportedError where it cannot be read here
    Query(name, checkpoint, spark, env)    the query that a sink is of: batch(number) -> BatchName

    metadata            { "id": … }
    offsets/<batch>     v1, a line of JSON with "batchWatermarkMs", a line a source
    sources/0/<n>       v1, a line of JSON a file: what a folder's file stream found, up to "logOffset" n of an offset
    state/              what operators keep from batch to batch, if there are any

Spec: docs/spec/streaming.md#batches
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from os import PathLike, fspath
from typing import Any
from urllib.parse import unquote

from bucketlake.env.env import Env
from bucketlake.env.object_store import open_beside
from bucketlake.errors import CorruptError, InvalidError, NotFoundError, UnsupportedError, did_you_mean
from bucketlake.file_names import number_of
from bucketlake.format.guard import decoding, json_object, text
from bucketlake.ops.stream.batches import BatchName
from bucketlake.types.wall_clock import epoch_of
from bucketlake.values import dataclass

_PART = re.compile(r"\.{1,2}[0-9]+\..+\.tmp(\.crc)?")  # Spark's own name of a note until it is whole


@dataclass(frozen=True, slots=True)
class Noted:
    """Of one batch: a hash of the note of what it reads, and its watermark in epoch milliseconds, if it has one."""

    fingerprint: str = ""
    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The folder of one query. `env`: of what the query is of; its settings reach the folder, too."""

    folder: str
    env: Env = field(default_factory=Env)

    def query(self) -> str:
        """The query's id. UnsupportedError where it is not found here."""
        try:
            data = self.read("metadata")
        except NotFoundError as error:
            raise self._unreadable(error) from error
        remedy = "restore the checkpoint, or start a query with a new one"
        with decoding("not the metadata of a checkpoint", f"{self.folder}/metadata", remedy):
            found = json_object(data).get("id")
            if not text(found) or not found:
                raise ValueError(f"id is {found!r:.40}")
            return str(found)

    def check(self) -> None:
        """CorruptError where its metadata is damaged, as by a power failure; Spark tells a parser's error of it.
        InvalidError where a run that died as it noted its first batch left a part of the note, at which Spark refuses
        to begin ever again."""
        with suppress(UnsupportedError):
            self.query()
        left = self._unfinished()
        if left:
            raise InvalidError(
                "a run died as it noted its first batch, and Spark begins no query beside what it left",
                checkpoint=self.folder,
                files=left[:10],
                remedy="delete these files, unless a run of the query is just starting: nothing was written yet",
            )

    def _unfinished(self) -> list[str]:
        """Parts of notes, where no batch is noted; none where that cannot be told here."""
        with suppress(Exception):
            env, root = open_beside(self.env, self.folder)
            names = [info.name for info in env.storage.list(f"{root}/offsets")]
            if names and all(_PART.fullmatch(name) for name in names):
                return sorted(f"offsets/{name}" for name in names)
        return []

    def has_begun(self) -> bool:
        """Whether a batch is noted in it; Spark keeps notes of the newest alone. UnsupportedError as `read`."""
        try:
            env, root = open_beside(self.env, self.folder)
            notes = [info.name for kind in ("offsets", "commits") for info in env.storage.list(f"{root}/{kind}")]
        except Exception as error:
            raise self._unreadable(error) from error
        return any(number_of(name) is not None for name in notes)

    def noted(self, batch: int) -> Noted:
        """What is noted of a batch before it runs; nothing where that cannot be read here."""
        with suppress(UnsupportedError, NotFoundError):
            data = self.read(f"offsets/{batch}")
            return Noted(hashlib.sha256(data).hexdigest()[:32], _watermark(data))
        return Noted()

    def lost_files(self, batch: int) -> list[str]:
        """Files that a batch of a folder's file stream reads and that are gone: Spark passes over them without a word.
        Empty where the checkpoint, or their folder, cannot be looked into here."""
        lost: list[str] = []
        with suppress(Exception):  # Spark may reach what this process does not, and note things otherwise
            last = self._log_offset(batch)
            first = self._log_offset(batch - 1) + 1 if batch else 0
            found = {path for number in range(first, last + 1) for path in self._listed(number)}
            for folder in sorted({path.rpartition("/")[0] for path in found}):
                env, root = open_beside(self.env, folder)
                names = {info.name for info in env.storage.list(root)}
                own = (path for path in found if path.rpartition("/")[0] == folder)
                lost += [path for path in own if path.rpartition("/")[2] not in names]
        return sorted(lost)

    def _log_offset(self, batch: int) -> int:
        return int(json.loads(self.read(f"offsets/{batch}").split(b"\n")[2])["logOffset"])

    def _listed(self, number: int) -> Iterator[str]:
        """The files of the n-th batch of a file stream; a note of every tenth has those before it, too."""
        try:
            data = self.read(f"sources/0/{number}")
        except NotFoundError:
            data = self.read(f"sources/0/{number}.compact")
        for line in data.splitlines()[1:]:
            entry = json.loads(line)
            if entry["batchId"] == number:
                yield unquote(entry["path"])

    def keeps_state(self) -> bool:
        """Whether the query has operators that keep state; True where that is not known here."""
        try:
            env, root = open_beside(self.env, self.folder)
            return bool(env.storage.list(f"{root}/state")) or not env.storage.list(root)
        except Exception:
            return True

    def read(self, name: str) -> bytes:
        """A file of it. NotFoundError without it, UnsupportedError where checkpoints cannot be read here."""
        try:
            env, root = open_beside(self.env, self.folder)
            return env.storage.read(f"{root}/{name}")
        except (NotFoundError, CorruptError):
            raise
        except Exception as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> UnsupportedError:
        return UnsupportedError(
            "the checkpoint cannot be read here, and says which query this is",
            checkpoint=self.folder,
            reason=str(error),
            remedy="on Spark Connect, use a checkpoint in a file system or object store that the server can read",
        )


@dataclass
class Query:
    """The query that a sink is of, by its name. `spark`: the session that started it; None beside a Connect server,
    where the checkpoint alone tells of it. `env`: as Checkpoint has it."""

    name: str
    checkpoint: str
    spark: Any = None
    env: Env = field(default_factory=Env)
    _id: str = field(default="", repr=False)

    @property
    def folder(self) -> Checkpoint:
        """Its checkpoint, to be read."""
        return Checkpoint(self.checkpoint, self.env)

    @property
    def is_known(self) -> bool:
        """Whether a batch was named already."""
        return bool(self._id)

    def batch(self, number: int, first: bool = False) -> BatchName:
        """The name that a batch is committed under. `first`: as BatchName has it."""
        noted, running = self.folder.noted(number), self._running()
        if running is not None:
            self._id = str(running.id)
        elif not self._id:
            self._id = self.folder.query()
        watermark = noted.watermark
        if watermark is None and running is not None:
            watermark = _told_watermark(running)
        return BatchName(self._id, number, noted.fingerprint, watermark, first)

    def goes_on(self) -> bool:
        """Whether the query runs, as far as that can be known here."""
        return self.spark is None or self._running() is not None

    def _running(self) -> Any:
        active = () if self.spark is None else self.spark.streams.active
        return next((query for query in active if query.name == self.name), None)


def check_query(checkpoint: object, **called: object) -> None:
    """InvalidError for a checkpoint that is no folder, of which Spark would make one where the process runs ("None"),
    and for functions that are none."""
    if not isinstance(checkpoint, (str, PathLike)) or not fspath(checkpoint):
        remedy = "give the path of a folder that the query alone has"
        raise InvalidError("a checkpoint is a folder", checkpoint=repr(checkpoint)[:200], remedy=remedy)
    for name, function in called.items():
        if function is not None and not callable(function):
            raise InvalidError("not a function", argument=name, given=type(function).__name__)


TRIGGERS = ("processingTime", "availableNow", "once", "continuous", "realTime")


def check_trigger(trigger: object) -> None:
    """InvalidError for what is no mapping, and for what Spark has no name for."""
    if trigger is not None and not isinstance(trigger, Mapping):
        remedy = """{"processingTime": "5 seconds"}, or {"availableNow": True}"""
        raise InvalidError("a trigger is a mapping", trigger=trigger, remedy=remedy)
    for name in trigger or ():
        if name not in TRIGGERS:
            near = did_you_mean(name, TRIGGERS) or f"one of {', '.join(TRIGGERS)}"
            raise InvalidError("no such trigger", trigger=name, remedy=near)


def _told_watermark(query: Any) -> int | None:
    """Epoch milliseconds of a query's event time as of its last batch."""
    progress = query.lastProgress
    text = None if progress is None else dict(progress.get("eventTime") or {}).get("watermark")
    if not text:
        return None
    millis = epoch_of(datetime.fromisoformat(str(text).replace("Z", "+00:00")))
    return millis if millis > 0 else None


def _watermark(note: bytes) -> int | None:
    lines = note.split(b"\n", 2)
    with suppress(ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        millis = int(json.loads(lines[1]).get("batchWatermarkMs") or 0) if len(lines) > 1 else 0
        return millis if millis > 0 else None
    return None
