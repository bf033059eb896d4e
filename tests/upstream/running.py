"""What runs beside a test: futures and latches as threads, a memory stream as files that a streaming query reads."""

from __future__ import annotations

import json
import tempfile
import threading
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyspark.sql.types as T
from pyspark.sql import DataFrame, SparkSession

from .functions import Instance
from .judged import by_name
from .session import NAMED_TYPES, plain, to_frame
from .values import Unknown

if TYPE_CHECKING:
    from .harness import Bench

TYPES = {**NAMED_TYPES, "Date": T.DateType(), "Timestamp": T.TimestampType()}


class Future:
    """A body in a thread of its own; `result` waits for it and raises what it raised."""

    def __init__(self, body: Any) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self.play, args=(body,), daemon=True)
        self.thread.start()

    def play(self, body: Any) -> None:
        try:
            self.value = body()
        except BaseException as error:  # told to whoever waits
            self.error = error

    def result(self) -> Any:
        self.thread.join()
        if self.error is not None:
            raise self.error
        return self.value

    def get(self, *time: Any) -> Any:
        return self.result()

    def isCompleted(self) -> bool:
        return not self.thread.is_alive()


class Latch:
    """java.util.concurrent.CountDownLatch."""

    def __init__(self, count: int) -> None:
        self.count, self.changed = count, threading.Condition()

    def countDown(self) -> None:
        with self.changed:
            self.count -= 1
            self.changed.notify_all()

    def getCount(self) -> int:
        return self.count

    def await_(self, *time: Any) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.count <= 0, min(time[0], 30) if time else 60)

    def __getattr__(self, word: str) -> Any:
        if word == "await":
            return self.await_
        raise AttributeError(word)


class Pool:
    """java.util.concurrent.Executors and what they make: a thread each."""

    def newFixedThreadPool(self, *count: Any) -> Pool:
        return self

    newCachedThreadPool = newSingleThreadExecutor = newFixedThreadPool

    def submit(self, given: Any) -> Future:
        run = given.member("run", 0, 0) if isinstance(given, Instance) else None
        return Future(run.value if run is not None else given)

    execute = submit

    def shutdown(self) -> None:
        pass

    shutdownNow = shutdown


class Await:
    def result(self, future: Any, *time: Any) -> Any:
        return future.result() if isinstance(future, Future) else future

    ready = result


class MemoryStream:
    """Rows that a test hands to a streaming query: each `addData` is a file, what lies there is one batch."""

    def __init__(self, bench: Bench, types: list[str]) -> None:
        words = [one.strip() for one in types[0].strip("()").split(",")]
        if any(one not in TYPES for one in words):
            raise Unknown("a stream of other types")
        self.session: SparkSession = bench.session
        self.kinds = [TYPES[one] for one in words]
        self.place = Path(tempfile.mkdtemp(dir=bench.folder))
        bench.temporary.append(self.place)
        self.names = ["value"] if len(words) == 1 else [f"_{at + 1}" for at in range(len(words))]

    def addData(self, *rows: Any) -> None:
        found: list[Any] = []
        for one in rows:
            found.extend(one if isinstance(one, list) else [one])
        frame = to_frame(self.session, found, self.names, self.kinds)
        lines = frame.toJSON().collect() if hasattr(frame, "toJSON") else [json.dumps(plain(one)) for one in found]
        written = self.place / f".{uuid.uuid4().hex}"
        written.write_text("\n".join(lines) + "\n")
        written.rename(self.place / f"{uuid.uuid4().hex}.json")

    def toDF(self, *names: str) -> DataFrame:
        schema = T.StructType([T.StructField(n, k) for n, k in zip(self.names, self.kinds, strict=True)])
        frame = self.session.readStream.schema(schema).json(str(self.place))
        return frame.toDF(*names) if names else frame

    def toDS(self, *names: str) -> DataFrame:
        return self.toDF(*names)


class Trigger:
    """How often a stream looks: words of `DataStreamWriter.trigger`."""

    @staticmethod
    def AvailableNow() -> Any:
        return SimpleNamespace(said={"availableNow": True})

    @staticmethod
    def Once() -> Any:
        return SimpleNamespace(said={"once": True})

    @staticmethod
    def ProcessingTime(time: Any, unit: Any = None) -> Any:
        return SimpleNamespace(said={"processingTime": time if isinstance(time, str) else f"{time} milliseconds"})


future = by_name(lambda *words: Future(words[-1]))
