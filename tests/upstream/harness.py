"""What upstream's suites stand on, natively: ScalaTest, QueryTest, the session, files, Paimon's table objects as far as tests ask them.

`Bench` runs one test at a time: a warehouse of its own with the database `test`, the session's settings and views as before after it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pyspark.sql.types as T
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import bucketlake

from .functions import Env, Function, Instance, Returned
from .javatest import javatest
from .judged import LIMIT, PRODUCT, is_products
from .library import CONSTANTS, PLAIN, Lazy, Package, kind_of, set_zone, short, to_python, too_long, unknown
from .names import NAMES
from .scala import Machine
from .scalatest import scalatest
from .session import COLUMN, FIELD, LOCAL, STRUCT, Local, Session, frame_words, to_frame
from .source import SERVED, Checkout, Template
from .values import Opaque, Thrown, Unknown, equal, shown
from .words import native, of_all


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
        self.natives = NAMES | scalatest(self) | javatest(self)
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
        self.said, self.caught, self.spark.own_catalog = [], None, False
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
        self.database = "default" if bases & {"PaimonHiveTestBase", "PaimonJavaTestBase"} else "test"
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

    # What the natives of `scalatest` ask

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
