"""What upstream's suites stand on, natively: ScalaTest, QueryTest, the session, files, Paimon's table objects as far as tests ask them.

`Bench` runs one test at a time: a warehouse of its own with the database `test`, the session's settings and views as before after it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import bucketlake

from .functions import Env, Function, Instance, Returned, Thunk
from .judged import LIMIT, PRODUCT, Skipped, by_name, is_products, typed
from .library import (
    CONSTANTS,
    PLAIN,
    Constants,
    Counter,
    Engines,
    Formats,
    Lazy,
    Made,
    Maps,
    OptionNames,
    Package,
    Randoms,
    Rows,
    Sequence,
    That,
    TypesByName,
    dropping_functions,
    iterate,
    kind_of,
    set_zone,
    short,
    timestamp,
    to_python,
    too_long,
    unknown,
)
from .running import Await, Latch, MemoryStream, Pool, Trigger, future
from .scala import Machine
from .session import (
    COLUMN,
    FIELD,
    LOCAL,
    STRUCT,
    Local,
    Pattern,
    Session,
    SparkConf,
    frame_words,
    to_frame,
)
from .source import SERVED, Checkout, Template, text
from .tables import BlobPlace, CatalogWords, ColumnWords, FileIO, Identifier, Place, PrintWriter, TableWords
from .values import Float, Long, Opaque, Option, Thrown, Typed, Unknown, equal, shown
from .words import JavaMap, native, of_all


class Bench:
    """The session, and the test that runs."""

    def __init__(self, checkout: Checkout, session: SparkSession, folder: Path) -> None:
        self.checkout, self.session, self.folder = checkout, session, folder
        self.machine = Machine(self.known, self.send, checkout.line)
        self.said: list[str] = []
        self.caught: Exception | None = None
        self.tests: list[tuple[str, Any, Any]] = []
        self.lake: Any = None
        self.warehouse = folder / "none"
        self.database = "test"
        self.spark = Session(self)
        self.frames = frame_words(self)
        self.natives = self._natives()
        self.suite: Instance | None = None
        self.temporary: list[Path] = []

    # One test

    def gather(self, line: list[Template]) -> list[tuple[str, Any, Any]]:
        """The tests that a suite registers: name, body, and whether it is ignored."""
        self.tests = []
        self.suite = Instance(line, self.machine, None)
        self.suite.run()
        return self.tests

    def settings(self) -> dict[str, str]:
        assert self.suite is not None
        found = self.suite.member("sparkConf")
        return dict(self.machine.forced(found.value)) if found is not None else {}

    def run(self, body: Any, settings: dict[str, str]) -> None:
        """Run one test; it raises what went wrong."""
        suite = self.suite
        assert suite is not None
        self.said, self.caught = [], None
        if self.machine.loose is not None:
            self.machine.loose, self.machine.wrong = [], []
        suite.fields = {}
        self.warehouse = self.folder / uuid.uuid4().hex[:8]
        before = dict(self.session.conf.getAll)
        catalog = "spark.sql.catalog.paimon."
        options = {key.removeprefix(catalog): value for key, value in settings.items() if key.startswith(catalog)}
        options.pop("warehouse", None)
        if options.pop("metastore", "filesystem") != "filesystem":
            raise Unknown("another metastore")
        bases = {parent for one in suite.line for parent in one.parents}
        self.database = "default" if "PaimonHiveTestBase" in bases else "test"
        if bases & SERVED:
            options |= {"metastore": "jdbc", "uri": f"jdbc:sqlite:{self.warehouse}.db"}
        zone = os.environ.get("TZ")
        options.setdefault("allowed-external-paths", str(self.folder))  # upstream reads whatever a table names
        self.lake = bucketlake.attach(self.session, str(self.warehouse), catalog="paimon", options=options)
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(LIMIT)
        try:
            for key, value in settings.items():
                if key.startswith(("spark.paimon.", "spark.sql.")) and not key.startswith(
                    ("spark.sql.catalog", "spark.sql.extensions", "spark.sql.warehouse")
                ):
                    self.session.conf.set(key, value)
            self.lake.catalog.create_database(self.database, ignore_if_exists=True)
            self.lake.current_database = self.database
            for word in ("beforeAll", "beforeEach"):
                self.around(suite, word)
            body()
            for word in ("afterEach", "afterAll"):
                self.around(suite, word)
        except Returned:
            pass
        finally:
            signal.alarm(0)
            self.undo(before, zone)

    def around(self, suite: Instance, word: str) -> None:
        found = suite.member(word)
        if found is not None:
            self.machine.forced(found.value)() if isinstance(
                found.value, Function
            ) and found.value.lists else self.machine.forced(found.value)

    def undo(self, before: dict[str, str], zone: str | None) -> None:
        while bucketlake.detach(self.session):
            pass
        for one in self.session.sql("SHOW VIEWS").collect():  # `listTables` analyses each, and so fails where one does
            if one["isTemporary"]:
                self.session.catalog.dropTempView(one["viewName"])
        self.session.catalog.clearCache()
        for key, value in dict(self.session.conf.getAll).items():
            if key not in before:
                self.session.conf.unset(key)
            elif before[key] != value:
                self.session.conf.set(key, before[key])
        if os.environ.get("TZ") != zone:
            set_zone(zone)
        for place in (self.warehouse, *self.temporary):
            shutil.rmtree(place, ignore_errors=True)
        self.temporary = []

    # Methods and names

    def send(self, value: Any, word: str, values: list[Any], names: dict[str, Any]) -> Any:
        if isinstance(value, Opaque):
            return value
        for kind, words in (
            (DataFrame, self.frames),
            (Local, LOCAL),
            (Column, COLUMN),
            (T.StructField, FIELD),
            (T.StructType, STRUCT),
        ):
            if isinstance(value, kind) and word in words:
                return words[word](value, *values, **names)
        if isinstance(value, list | set | range) and word in ("toDF", "toDS"):
            return to_frame(self.session, value, values)
        if callable(value) and word == "apply":
            return value(*values)
        if callable(value) and word == "_":
            return value
        if isinstance(value, Package):
            return self.of_package(value, word, values, names)
        found = native(value, word, values, names)
        if found is not NotImplemented:
            return found
        member = NotImplemented if type(value) in PLAIN else getattr(value, word, NotImplemented)
        if member is NotImplemented:
            found = of_all(value, word, values, names)
            if found is not NotImplemented:
                return found
            if isinstance(value, Local):
                return self.send(value.values, word, values, names)
            raise Unknown(f"{kind_of(value)}.{word}")
        given = [to_python(one) for one in values]
        if callable(member) and not isinstance(member, Column | DataFrame):
            return member(*given, **{key: one for key, one in names.items() if key != "types"})
        return self.send(member, "apply", values, names) if values else member

    def of_package(self, value: Package, word: str, values: list[Any], names: dict[str, Any]) -> Any:
        path = f"{value.name}.{word}"
        if path in self.natives:
            found = self.natives[path]
        elif word in self.natives and word[0].isupper():
            found = self.natives[word]
        elif word in self.checkout.templates:
            found = self.known(word)[0]
        elif not values:
            return Package(path) if word[0].islower() or value.name.split(".")[-1][0].islower() else unknown(path)
        else:
            raise Unknown(path)
        return found(*values, **names) if values else found

    def known(self, name: str) -> Any:
        """A native name, as (value,)."""
        if name in self.natives:
            found = self.natives[name]
            return (found.function() if isinstance(found, Lazy) else found,)
        if re.fullmatch(r"(gteq|is)Spark\d_\d(_\d)?", name):
            return (True,) if name.startswith("gteq") else (False,)
        if name in ("java", "scala", "org", "concurrent", "util"):
            return (Package(name),)
        if hasattr(T, name) and name.endswith("Type"):
            kind = getattr(T, name)
            try:
                return (kind(),) if name not in ("StructType", "DecimalType") else (kind,)
            except TypeError:
                return (kind,)
        found = self.checkout.templates.get(name)
        if found is not None:
            env = Env(None)
            return (self.machine.of_type(found, env),)
        if name.endswith(("Exception", "Error")):
            return (lambda *words: Thrown(*(shown(one) for one in words[:1])),)
        if hasattr(F, name) and name[0].islower():
            return (lambda *words: getattr(F, name)(*(to_python(one) for one in words)),)
        if name in CONSTANTS:
            return (name,)
        raise Unknown(f"name {name}")

    # ScalaTest, QueryTest

    def _natives(self) -> dict[str, Any]:
        @by_name
        def intercept(*_: Any) -> Any:
            (body,) = _[-1:]
            return self.raised(body)

        @typed
        def intercept_typed(types: list[str], *words: Any) -> Any:
            return self.raised(words[-1]) if words else intercept

        intercept_typed.by_name = True

        def test(name: str, *tags: Any) -> Any:
            @by_name
            def register(body: Any) -> None:
                self.tests.append((name, body, False))

            return register

        def ignore(name: str, *tags: Any) -> Any:
            @by_name
            def register(body: Any) -> None:
                self.tests.append((name, body, True))

            return register

        def around(enter: Callable[..., Any]) -> Any:
            def given(*words: Any) -> Any:
                @by_name
                def play(body: Any) -> Any:
                    undo = enter(*words)
                    try:
                        return body()
                    finally:
                        undo()

                return play

            return given

        def dropping(kind: str) -> Any:
            def enter(*names: str) -> Any:
                def undo() -> None:
                    for name in names:
                        self.quietly(f"DROP {kind} IF EXISTS {name}" + (" CASCADE" if kind == "DATABASE" else ""))

                return undo

            return around(enter)

        def configured(*pairs: Any) -> Any:
            before = {key: self.session.conf.get(key, None) for key, _ in pairs}
            for key, value in pairs:
                self.session.conf.set(key, shown(value))

            def undo() -> None:
                for key, value in before.items():
                    self.session.conf.unset(key) if value is None else self.session.conf.set(key, value)

            return undo

        def zoned(zone: Any) -> Any:
            before = os.environ.get("TZ")
            undo = configured(("spark.sql.session.timeZone", zone))
            set_zone(zone)
            return lambda: (undo(), set_zone(before))

        def nothing(*words: Any) -> Any:
            return lambda: None

        def with_folder(function: Any) -> Any:
            return function(Place(self.new_folder()))

        def with_path(function: Any) -> Any:
            place = self.new_folder()
            place.rmdir()
            return function(Place(place))

        def check(condition: Any, *words: Any) -> None:
            said = " ".join(text(condition.node).split()) if isinstance(condition, Thunk) else ""
            if "explainContains(" in said or re.search(r"[pP]lan\.contains", said):
                return  # how Spark plans a change is upstream's own; which rows it leaves is asked behind it
            value = condition() if isinstance(condition, Thunk) else condition
            if not value:
                caught = f"; the error was: {short(str(self.caught))}" if self.caught is not None else ""
                raise AssertionError(f"assert {said}{caught}")

        @by_name
        def holds(condition: Any, *words: Any) -> None:
            check(condition)

        @by_name
        def holds_not(condition: Any, *words: Any) -> None:
            value = condition()
            check(isinstance(value, Opaque) or not value, text(condition.node))

        def same(expected: Any, actual: Any, *words: Any) -> None:
            if not equal(expected, actual):
                raise AssertionError(f"expected {short(expected)}, got {short(actual)}")

        def different(expected: Any, actual: Any, *words: Any) -> None:
            if equal(expected, actual) and not isinstance(expected, Opaque) and not isinstance(actual, Opaque):
                raise AssertionError(f"expected other than {short(expected)}")

        def fail(*words: Any) -> None:
            raise AssertionError("fail: " + " ".join(shown(one) for one in words))

        def assume(condition: Any, *words: Any) -> None:
            if not condition:
                raise Skipped("not assumed")

        def result(expected: Any, *words: Any) -> Any:
            return by_name(lambda body: same(expected, body()))

        @by_name
        def answer(frame: Any, expected: Any) -> None:
            wanted = expected() if isinstance(expected, Thunk) else expected  # before the frame, which is by name
            self.answer(frame(), wanted)

        def eventually(*_: Any) -> Any:
            @by_name
            def play(body: Any) -> Any:
                wrong, self.machine.wrong = (
                    self.machine.wrong,
                    None,
                )  # an assertion that does not hold yet ends the body
                try:
                    for at in range(20):
                        try:
                            return body()
                        except AssertionError:
                            if at == 19:
                                raise
                            time.sleep(0.5)
                finally:
                    self.machine.wrong = wrong
                return None

            return play

        def code(body: Any) -> Any:
            return SimpleNamespace(doesNotThrowAnyException=lambda: body() and None)

        code.by_name = True  # type: ignore[attr-defined]

        def listeners(*_: Any, **__: Any) -> Any:
            raise Unknown("listeners and plans")

        listeners.by_name = True  # type: ignore[attr-defined]
        assertions = SimpleNamespace(
            assertEquals=same,
            assertNotEquals=different,
            assertTrue=holds,
            assertFalse=holds_not,
            assertNull=lambda one, *words: check(one is None),
            assertNotNull=lambda one, *words: check(one is not None),
            assertThrows=lambda kind, body: self.raised(body),
            assertThat=lambda one: That(one),
            assertThatThrownBy=lambda body: That(self.raised(body)),
            assertArrayEquals=same,
            assertThatCode=code,
            fail=fail,
        )
        table = lambda *words: TableWords(self, ".".join(words) if len(words) > 1 else f"{self.database}.{words[0]}")  # noqa: E731
        clock = lambda: Long(time.time() * 1000)  # noqa: E731
        natives: dict[str, Any] = {
            "test": test,
            "ignore": ignore,
            "intercept": intercept_typed,
            "assertThrows": intercept_typed,
            "withTable": dropping("TABLE"),
            "withView": dropping("VIEW"),
            "withTempView": around(lambda *names: lambda: [self.session.catalog.dropTempView(one) for one in names]),
            "withDatabase": dropping("DATABASE"),
            "withNamespace": dropping("DATABASE"),
            "withUserDefinedFunction": dropping_functions(self, around),
            "withSparkSQLConf": around(configured),
            "withSQLConf": around(configured),
            "withTimeZone": around(zoned),
            "withClue": around(nothing),
            "failAfter": around(nothing),
            "withTempDir": with_folder,
            "withTempPath": with_path,
            "withTempDirs": lambda function: function(Place(self.new_folder()), Place(self.new_folder())),
            "streamingTimeout": 60,
            "assert": holds,
            "assertResult": result,
            "assertThat": lambda one: That(one),
            "assertThatThrownBy": lambda body: That(self.raised(body)),
            "Assertions": assertions,
            "assertEquals": same,
            "assertTrue": holds,
            "assertFalse": holds_not,
            "fail": fail,
            "assume": assume,
            "checkAnswer": answer,
            "eventually": eventually,
            "timeout": lambda *_: None,
            "Span": lambda *_: None,
            "interval": lambda *_: None,
            "sql": self.spark.sql,
            "spark": self.spark,
            "sparkConf": SparkConf(),
            "tempDBDir": Lazy(lambda: Place(self.warehouse)),
            "dbName0": "test",
            "tableName0": "T",
            "sparkCatalogName": "paimon",  # one catalog stands for upstream's three, of files, of REST and of Hive
            "paimonHiveCatalogName": "paimon",
            "hiveDbName": "default",
            "bucketModes": [3, -1],
            "withPk": [True, False],
            "fileFormats": Formats(),
            "minorVersion": "4.1",
            "beforeAll": None,
            "beforeEach": None,
            "afterAll": None,
            "afterEach": None,
            "loadTable": table,
            "paimonCatalog": CatalogWords(self),
            "fileIO": FileIO(),
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
            "Arrays": SimpleNamespace(asList=lambda *values: list(values), equals=equal, toString=shown),
            "Collections": SimpleNamespace(
                singletonList=lambda one: [one],
                emptyList=list,
                singletonMap=lambda a, b: JavaMap({a: b}),
                emptyMap=JavaMap,
                singleton=lambda one: {one},
            ),
            "BigDecimal": Made(
                lambda value, *_: Decimal(shown(value)), decimal=lambda value, *_: Decimal(shown(value))
            ),
            "Decimal": Made(
                lambda value, *_: Decimal(shown(value)), fromBigDecimal=lambda value, *_: Decimal(shown(value))
            ),
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
                currentTimeMillis=clock,
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
            "Objects": SimpleNamespace(equals=equal),
            "Iterator": SimpleNamespace(iterate=iterate),
            "AtomicInteger": Counter,
            "StructType": Made(
                lambda *fields: T.StructType(
                    list(fields[0]) if fields and isinstance(fields[0], list) else list(fields)
                ),
                fromDDL=T._parse_datatype_string,
            ),
            "StructField": lambda name, kind, nullable=True, *_, **__: T.StructField(name, kind, nullable),
            "DataTypes": TypesByName(),
            "Encoders": Package("Encoders"),
            "SaveMode": SimpleNamespace(Append="append", Overwrite="overwrite", ErrorIfExists="error", Ignore="ignore"),
            "classOf": typed(lambda types: Typed(types[0])),
            "MemoryStream": typed(lambda types, *_: MemoryStream(self, types)),
            "println": lambda *_: None,
            "print": lambda *_: None,
            "require": check,
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
            "Utils": SimpleNamespace(createTempDir=lambda *_: Place(self.new_folder())),
            "JsonSerdeUtil": SimpleNamespace(),
            "???": Unknown,
            "waitUntilEventEmpty": listeners,
            "SparkListener": listeners,
            "getScan": listeners,
            "getPaimonScan": listeners,
            "getFormatTableScan": listeners,
            "createRelationV2": listeners,
            "withUnreportedListing": listeners,
            "json": json,
            "UTC": UTC,
        }
        return natives

    def raised(self, body: Any) -> Exception:
        try:
            body()
        except Unknown:
            raise
        except Exception as error:
            if is_products(error):
                self.caught = error
                return error
            raise
        raise AssertionError("no error where one is expected")

    def new_folder(self) -> Path:
        made = Path(tempfile.mkdtemp(dir=self.folder))
        self.temporary.append(made)
        return made

    def quietly(self, statement: str) -> None:
        try:
            self.lake.sql(statement)
        except PRODUCT:
            return

    def answer(self, frame: Any, expected: Any) -> None:
        """QueryTest's comparison: rows in any order, unless the query sorts them."""
        rows = frame.values if isinstance(frame, Local) else frame.collect()
        if isinstance(expected, DataFrame | Local):
            expected = expected.values if isinstance(expected, Local) else expected.collect()
        wanted = [expected] if isinstance(expected, Row) else list(expected)
        got = [one if isinstance(one, Row | tuple) else (one,) for one in rows]
        wanted = [one if isinstance(one, Row | tuple) else (one,) for one in wanted]
        statement = getattr(frame, "_replayed", "")
        if re.search(r"ORDER\s+BY[^()]*$", statement, re.IGNORECASE) and equal(got, wanted):
            return
        left = list(wanted)
        if len(got) == len(wanted):
            for one in got:
                at = next((at for at, other in enumerate(left) if equal(list(one), list(other))), None)
                if at is None:
                    break
                left.pop(at)
            if not left:
                if re.search(r"ORDER\s+BY[^()]*$", statement, re.IGNORECASE) and len(
                    {str(sorted(map(str, one))) for one in got}
                ) == len(got):
                    raise AssertionError(f"order: expected {short(wanted)}, got {short(got)} of {short(statement)}")
                return
        raise AssertionError(f"rows: expected {short(wanted)}, got {short(got)} of {short(statement)}")
