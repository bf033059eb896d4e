"""ScalaTest and QueryTest as upstream's suites speak to them, natively: names of a `Bench`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .functions import Thunk
from .judged import Skipped, by_name, typed
from .library import Formats, Lazy, That, dropping_functions, set_zone, short
from .running import MemoryStream
from .session import SparkConf
from .source import text
from .tables import CatalogWords, FileIO, Place, TableWords
from .values import Opaque, Unknown, equal, shown

if TYPE_CHECKING:
    from .harness import Bench


def scalatest(bench: Bench) -> dict[str, Any]:
    """ScalaTest's and QueryTest's words, those of upstream's bases of suites, and what is of the test that runs."""

    @by_name
    def intercept(*_: Any) -> Any:
        (body,) = _[-1:]
        return bench.raised(body)

    @typed
    def intercept_typed(types: list[str], *words: Any) -> Any:
        return bench.raised(words[-1]) if words else intercept

    intercept_typed.by_name = True

    def test(name: str, *tags: Any) -> Any:
        @by_name
        def register(body: Any) -> None:
            bench.tests.append((name, body, False))

        return register

    def ignore(name: str, *tags: Any) -> Any:
        @by_name
        def register(body: Any) -> None:
            bench.tests.append((name, body, True))

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
                    bench.quietly(f"DROP {kind} IF EXISTS {name}" + (" CASCADE" if kind == "DATABASE" else ""))

            return undo

        return around(enter)

    def configured(*pairs: Any) -> Any:
        before = {key: bench.session.conf.get(key, None) for key, _ in pairs}
        for key, value in pairs:
            bench.session.conf.set(key, shown(value))

        def undo() -> None:
            for key, value in before.items():
                bench.session.conf.unset(key) if value is None else bench.session.conf.set(key, value)

        return undo

    def zoned(zone: Any) -> Any:
        before = os.environ.get("TZ")
        undo = configured(("spark.sql.session.timeZone", zone))
        set_zone(zone)
        return lambda: (undo(), set_zone(before))

    def nothing(*words: Any) -> Any:
        return lambda: None

    def with_folder(function: Any) -> Any:
        return function(Place(bench.new_folder()))

    def with_path(function: Any) -> Any:
        place = bench.new_folder()
        place.rmdir()
        return function(Place(place))

    def check(condition: Any, *words: Any) -> None:
        said = " ".join(text(condition.node).split()) if isinstance(condition, Thunk) else ""
        if "explainContains(" in said or re.search(r"[pP]lan\.contains", said):
            return  # how Spark plans a change is upstream's own; which rows it leaves is asked behind it
        value = condition() if isinstance(condition, Thunk) else condition
        if not value:
            caught = f"; the error was: {short(str(bench.caught))}" if bench.caught is not None else ""
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
        bench.answer(frame(), wanted)

    def eventually(*_: Any) -> Any:
        @by_name
        def play(body: Any) -> Any:
            wrong, bench.machine.wrong = (
                bench.machine.wrong,
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
                bench.machine.wrong = wrong
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
        assertThrows=lambda kind, body: bench.raised(body),
        assertThat=lambda one: That(one),
        assertThatThrownBy=lambda body: That(bench.raised(body)),
        assertArrayEquals=same,
        assertThatCode=code,
        fail=fail,
    )
    table = lambda *words: TableWords(bench, ".".join(words) if len(words) > 1 else f"{bench.database}.{words[0]}")  # noqa: E731
    return {
        "test": test,
        "ignore": ignore,
        "intercept": intercept_typed,
        "assertThrows": intercept_typed,
        "withTable": dropping("TABLE"),
        "withView": dropping("VIEW"),
        "withTempView": around(lambda *names: lambda: [bench.session.catalog.dropTempView(one) for one in names]),
        "withDatabase": dropping("DATABASE"),
        "withNamespace": dropping("DATABASE"),
        "withUserDefinedFunction": dropping_functions(bench, around),
        "withSparkSQLConf": around(configured),
        "withSQLConf": around(configured),
        "withTimeZone": around(zoned),
        "withClue": around(nothing),
        "failAfter": around(nothing),
        "withTempDir": with_folder,
        "withTempPath": with_path,
        "withTempDirs": lambda function: function(Place(bench.new_folder()), Place(bench.new_folder())),
        "streamingTimeout": 60,
        "assert": holds,
        "assertResult": result,
        "assertThat": lambda one: That(one),
        "assertThatThrownBy": lambda body: That(bench.raised(body)),
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
        "sql": bench.spark.sql,
        "spark": bench.spark,
        "sparkConf": SparkConf(),
        "tempDBDir": Lazy(lambda: Place(bench.warehouse)),
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
        "paimonCatalog": CatalogWords(bench),
        "fileIO": FileIO(),
        "MemoryStream": typed(lambda types, *_: MemoryStream(bench, types)),
        "require": check,
        "Utils": SimpleNamespace(createTempDir=lambda *_: Place(bench.new_folder())),
        "waitUntilEventEmpty": listeners,
        "SparkListener": listeners,
        "getScan": listeners,
        "getPaimonScan": listeners,
        "getFormatTableScan": listeners,
        "createRelationV2": listeners,
        "withUnreportedListing": listeners,
    }
