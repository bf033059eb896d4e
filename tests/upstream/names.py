"""Names of Scala, Java, Spark and Paimon that mean the same in every test of upstream's suites."""

from __future__ import annotations

import json
import time
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyspark.sql.types as T

from .judged import typed
from .library import (
    Constants,
    Counter,
    Engines,
    Made,
    Maps,
    OptionNames,
    Package,
    Randoms,
    Rows,
    Sequence,
    TypesByName,
    iterate,
    set_zone,
    timestamp,
)
from .running import Await, Latch, Pool, Trigger, future
from .session import Pattern
from .tables import BlobPlace, ColumnWords, FileIO, Identifier, Place, PrintWriter
from .values import Float, JavaList, Long, Option, Typed, Unknown, equal, shown
from .words import JavaMap

NAMES: dict[str, Any] = {
    "BlobDescriptor": Made(BlobPlace, deserialize=BlobPlace.deserialize),
    "Blob": SimpleNamespace(fromDescriptor=BlobPlace.fromDescriptor),
    "UriReaderFactory": lambda *_: SimpleNamespace(create=lambda uri: uri),
    "CatalogContext": SimpleNamespace(create=lambda *_: None),
    "Options": JavaMap,
    "Identifier": SimpleNamespace(create=Identifier, of=lambda names, name: Identifier(names[-1], name)),
    "LocalFileIO": Made(FileIO, create=FileIO),
    "Path": Place,
    "File": Place,
    "Paths": SimpleNamespace(get=Place),
    "Files": FileIO(),
    "PrintWriter": PrintWriter,
    "Row": Rows(),
    "Nil": [],
    "Seq": Sequence(list),
    "List": Sequence(list),
    "Array": Sequence(list),
    "Vector": Sequence(list),
    "IndexedSeq": Sequence(list),
    "ListBuffer": Sequence(list),
    "ArrayBuffer": Sequence(list),
    "ArrayList": Sequence(list),
    "Set": Sequence(set),
    "Map": Maps(dict),
    "HashMap": Maps(JavaMap),
    "TreeMap": Maps(JavaMap),
    "Some": Option,
    "Option": lambda value: Option() if value is None else Option(value),
    "None": Option(),
    "Optional": SimpleNamespace(of=Option, empty=Option),
    "Arrays": SimpleNamespace(
        asList=lambda *values: JavaList(values), equals=equal, toString=shown, stream=lambda held, *_: list(held)
    ),
    "Collections": SimpleNamespace(
        singletonList=lambda one: [one],
        emptyList=list,
        singletonMap=lambda a, b: JavaMap({a: b}),
        emptyMap=JavaMap,
        singleton=lambda one: {one},
    ),
    "BigDecimal": Made(lambda value, *_: Decimal(shown(value)), decimal=lambda value, *_: Decimal(shown(value))),
    "Decimal": Made(lambda value, *_: Decimal(shown(value)), fromBigDecimal=lambda value, *_: Decimal(shown(value))),
    "Timestamp": Made(
        lambda millis: datetime.fromtimestamp(millis / 1000),
        valueOf=timestamp,
        fromLocalDateTime=lambda one: one,
    ),
    "Date": SimpleNamespace(valueOf=lambda word: date.fromisoformat(word) if isinstance(word, str) else word),
    "LocalDateTime": SimpleNamespace(
        of=lambda *n: datetime(*n[:6], n[6] // 1000 if len(n) > 6 else 0),
        parse=timestamp,
        now=lambda *_: datetime.now(),
    ),
    "ColStats": SimpleNamespace(newColStats=ColumnWords),
    "DateTimeFormatter": SimpleNamespace(ofPattern=Pattern, ISO_LOCAL_DATE=Pattern("yyyy-MM-dd")),
    "LocalDate": SimpleNamespace(
        of=date,
        parse=date.fromisoformat,
        now=date.today,
        ofEpochDay=lambda n: date(1970, 1, 1) + timedelta(days=n),
    ),
    "Instant": SimpleNamespace(
        ofEpochMilli=lambda n: datetime.fromtimestamp(n / 1000), parse=timestamp, now=datetime.now
    ),
    "ZoneId": SimpleNamespace(systemDefault=lambda: None, of=lambda one: one),
    "TimeZone": SimpleNamespace(
        getDefault=lambda: SimpleNamespace(getID=lambda: time.tzname[0]),
        getTimeZone=lambda one: one,
        setDefault=set_zone,
    ),
    "DateTimeUtils": SimpleNamespace(
        formatLocalDateTime=lambda one, digits: (
            one.strftime("%Y-%m-%d %H:%M:%S") + (f".{one.microsecond:06d}"[: digits + 1] if digits else "")
        ),
        timestamp=timestamp,
        toLocalDateTime=lambda n: datetime.fromtimestamp(n / 1000),
        parseTimestampData=lambda word, *_: str(timestamp(word)),
    ),
    "TimeUnit": SimpleNamespace(SECONDS=SimpleNamespace(toMillis=lambda n: Long(n * 1000))),
    "System": SimpleNamespace(
        currentTimeMillis=lambda: Long(time.time() * 1000),
        nanoTime=lambda: Long(time.time_ns()),
        getProperty=lambda *_: None,
        lineSeparator=lambda: "\n",
    ),
    "Thread": SimpleNamespace(sleep=lambda millis: time.sleep(min(millis, 15_000) / 1000)),
    "UUID": SimpleNamespace(randomUUID=lambda: str(uuid.uuid4())),
    "Random": Randoms(),
    "ThreadLocalRandom": SimpleNamespace(current=Randoms),
    "PartitionStatistics": SimpleNamespace(
        FIELD_RECORD_COUNT="recordCount",
        FIELD_FILE_SIZE_IN_BYTES="fileSizeInBytes",
        FIELD_FILE_COUNT="fileCount",
        FIELD_LAST_FILE_CREATION_TIME="lastFileCreationTime",
    ),
    "Math": SimpleNamespace(abs=abs, max=max, min=min),
    "Integer": SimpleNamespace(valueOf=int, parseInt=int, MAX_VALUE=2**31 - 1),
    "Int": SimpleNamespace(MaxValue=2**31 - 1, MinValue=-(2**31), box=int),
    "Long": SimpleNamespace(
        valueOf=Long,
        parseLong=Long,
        MaxValue=Long(2**63 - 1),
        MinValue=Long(-(2**63)),
        MAX_VALUE=Long(2**63 - 1),
        box=Long,
    ),
    "Double": SimpleNamespace(
        valueOf=float, NaN=float("nan"), MaxValue=1.7976931348623157e308, PositiveInfinity=float("inf")
    ),
    "Float": SimpleNamespace(valueOf=Float, NaN=float("nan")),
    "Boolean": SimpleNamespace(valueOf=bool, box=bool),
    "String": SimpleNamespace(
        valueOf=shown,
        format=lambda form, *values: form % values,
        join=lambda by, *values: by.join(values[0] if isinstance(values[0], list) else values),
    ),
    "StringUtils": SimpleNamespace(join=lambda held, by: by.join(shown(one) for one in held)),
    "Objects": SimpleNamespace(equals=equal, requireNonNull=lambda one, *_: one),
    "Iterator": SimpleNamespace(iterate=iterate),
    "AtomicInteger": Counter,
    "AtomicLong": Counter,
    "StructType": Made(
        lambda *fields: T.StructType(list(fields[0]) if fields and isinstance(fields[0], list) else list(fields)),
        fromDDL=T._parse_datatype_string,
    ),
    "StructField": lambda name, kind, nullable=True, *_, **__: T.StructField(name, kind, nullable),
    "DataTypes": TypesByName(),
    "Encoders": Package("Encoders"),
    "SaveMode": SimpleNamespace(Append="append", Overwrite="overwrite", ErrorIfExists="error", Ignore="ignore"),
    "classOf": typed(lambda types: Typed(types[0])),
    "println": lambda *_: None,
    "print": lambda *_: None,
    "Future": future,
    "Await": Await(),
    "Duration": Package("Duration"),
    "CountDownLatch": Latch,
    "Executors": Pool(),
    "getClass": Typed("Suite"),
    "Trigger": Trigger,
    "StreamingQuery": Package("StreamingQuery"),
    "ExecutionContext": Package("ExecutionContext"),
    "CommitKind": Constants(),
    "Snapshot": SimpleNamespace(CommitKind=Constants(), Operation=Constants()),
    "Operation": Constants(),
    "MergeEngine": Engines(),
    "Update": SimpleNamespace(supportedMergeEngine=[Engines.DEDUPLICATE, Engines.PARTIAL_UPDATE]),
    "ChangelogProducer": Constants(),
    "BucketFunctionType": SimpleNamespace(values=lambda: ["default", "mod", "hive"]),
    "CoreOptions": OptionNames(),
    "JsonSerdeUtil": SimpleNamespace(),
    "???": Unknown,
    "json": json,
    "UTC": UTC,
}
