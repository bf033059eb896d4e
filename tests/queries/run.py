"""Runs queries over lake tables and over Spark's own tables with the same rows, many at once, and compares the answers."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.sql.sessions import session

from bucketlake.errors import BucketlakeError
from bucketlake.spark.read.reader import Need, pruned
from bucketlake.spark.read.united import apart
from bucketlake.spark.session import Lake
from bucketlake.spark.settings import settings_of
from bucketlake.sql.query import joined, query
from bucketlake.sql.text import names

Rows = list[dict[str, Any]]
_ZONE = dt.timezone.utc
DDL = {
    "t": "(k INT, a INT, s STRING, d DOUBLE, p STRING) PARTITIONED BY (p)",
    "u": "(k BIGINT, n DECIMAL(10,2), s STRING, b BOOLEAN, q DATE) PARTITIONED BY (q) "
    "TBLPROPERTIES ('primary-key' = 'k,q', 'bucket' = '2')",
    "w": "(k BIGINT, at TIMESTAMP_NTZ, zt TIMESTAMP, m SMALLINT, f FLOAT) "
    "TBLPROPERTIES ('bucket' = '3', 'bucket-key' = 'k')",
    "v": "(a INT, A INT, s STRING)",
}


def _texts(place: int) -> str | None:
    texts = (None, "x", "y", "O'Brien", "a%", "ab", "back\\slash", 'q"q', "", "é", "{t0}", "a_")
    return texts[place % len(texts)]


def table_rows() -> dict[str, Rows]:
    """What the tables hold, file by file as they are written: nulls, NaN, both zeros, quotes."""
    reals = (None, 0.0, -0.0, 1.5, -1.5, float("nan"), 0.1, 2.0, 10.0)
    day = dt.date(2020, 1, 1)
    at = dt.datetime(2020, 1, 1, 0, 30)
    found: dict[str, Rows] = {name: [] for name in DDL}
    for i in range(18):
        real = reals[i % 9]
        found["t"].append(
            {"k": i, "a": None if i % 5 == 0 else i % 4, "s": _texts(i), "d": real, "p": (None, "x", "y")[i // 3 % 3]}
        )
        found["u"].append(
            {
                "k": i % 9,
                "n": None if i % 7 == 0 else Decimal(i * 25 - 50) / Decimal(100),
                "s": _texts(i + 3),
                "b": (None, True, False)[i % 3],
                "q": day + dt.timedelta(i % 3),
            }
        )
        moment = None if i % 6 == 0 else at + dt.timedelta(days=i % 5, hours=i % 3)
        found["w"].append(
            {
                "k": i * 2 - 6,
                "at": moment,
                "zt": None if moment is None else moment.replace(tzinfo=_ZONE),
                "m": i % 5,
                "f": real,
            }
        )
        found["v"].append({"a": i, "A": -i, "s": _texts(i)})
    return found


@dataclass
class Case:
    """One query: as Spark reads it over views of its own, and as the lake binds it."""

    text: str
    bound: str
    needs: list[Need] = field(default_factory=list)

    @property
    def prunes(self) -> bool:
        """Whether rows were left out of a table: the answers have to be compared."""
        return any(need.predicate is not None or need.limit is not None for need in self.needs)


QUICK = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


@contextmanager
def settings(spark: SparkSession, given: Mapping[str, str]) -> Iterator[None]:
    """A session with these settings, as it was before afterwards."""
    before = {key: spark.conf.get(key, None) for key in given}
    for key, value in given.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)


class _Conf:
    """The session's settings."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    @property
    def getAll(self) -> Mapping[str, str]:
        return settings_of(self._spark)

    def get(self, key: str, *default: str | None) -> str | None:
        return self._spark.conf.get(key, *default)


class _Session:
    """What `query.bind` asks of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self.conf = _Conf(spark)
        self.createDataFrame = spark.createDataFrame


class Bench:
    """The tables in a lake and as Spark's views of the same names. Frames of equal needs are read once."""

    def __init__(self, lake: Lake, monkeypatch: Any) -> None:
        self.lake = lake
        self.spark = lake.spark
        self.frames: dict[tuple[str, Need], str] = {}
        self._needs: list[Need] = []
        self._answered = 0
        self._probe = Lake(_Session(lake.spark), lake.catalog)  # type: ignore[arg-type]
        self._probe.current_database = "db"
        monkeypatch.setattr(query, "pruned", self._pruned)
        monkeypatch.setattr(query, "apart", lambda name: apart(self.spark.table(name)))
        monkeypatch.setattr(names, "is_temp_view", lambda lake, name: False)
        # Every column of every table narrows it by what it is joined with: rows that are missed tell of a wrong proof.
        monkeypatch.setattr(
            joined.Use, "narrows_by", property(lambda use: use.table.schema.field_names if use.plain else ())
        )

    def load(self) -> None:
        """Make the tables, a few rows a file, some keys twice, and the views."""
        for name, rows in table_rows().items():
            with session(self.lake, {"spark.sql.caseSensitive": "true"}):
                self.lake.sql(f"CREATE TABLE db.{name} {DDL[name]}")
            table = self.lake.catalog.table(f"db.{name}")
            for start in range(0, len(rows), 5):
                table.write_arrow(pa.Table.from_pylist(rows[start : start + 5], table.arrow_schema))
            self.view(name)

    def view(self, name: str) -> None:
        """Put the table's rows where Spark finds them under its name."""
        rows = self.lake.table(f"db.{name}").read()
        self.spark.createDataFrame(rows.toArrow(), rows.schema).createOrReplaceTempView(name)

    def close(self) -> None:
        """Forget the views."""
        for name in (*DDL, *self.frames.values()):
            self.spark.catalog.dropTempView(name)

    def _pruned(self, spark: Any, table: Any, selection: Any, need: Need) -> DataFrame:
        self._needs.append(need)
        key = (f"{table.name}", need)
        if key not in self.frames:
            frame = pruned(self.spark, table, selection, need)
            self.frames[key] = f"lake_{len(self.frames)}"
            frame.createOrReplaceTempView(self.frames[key])
        return self.frames[key]  # type: ignore[return-value]

    def case(self, text: str) -> Case:
        """The query as the lake binds it."""
        self._needs = []
        bound, bound_frames, _ = query.bind(self._probe, text)
        frames = {name: self._named(frame) for name, frame in bound_frames.items()}
        return Case(text, bound.format(**frames) if frames else text, self._needs)

    def _named(self, frame: Any) -> str:
        """The view that stands for a frame: of rows read, or of metadata's few."""
        if isinstance(frame, str):
            return frame
        self._answered += 1
        name = f"answered_{self._answered}"
        frame.createOrReplaceTempView(name)
        return name

    # ---- answers

    def shapes(self, case: Case) -> str | None:
        """What differs in the columns of the two answers, or in why there are none; None if nothing does."""
        outcomes = [self._shape(text) for text in dict.fromkeys((case.text, case.bound))]
        return None if len(set(outcomes)) == 1 else f"{case.text}\n  needs {case.needs}\n  {outcomes}"

    def _shape(self, text: str) -> str:
        try:
            return str([(field.name, field.dataType) for field in self.spark.sql(text).schema.fields])
        except PySparkException as error:
            return error.getCondition() or type(error).__name__

    def differences(self, cases: list[Case]) -> Iterator[str]:
        """The queries of which the two answers differ, with both."""
        try:
            found = self._answers(cases)
        except PySparkException:
            if len(cases) > 1:
                for half in (cases[: len(cases) // 2], cases[len(cases) // 2 :]):
                    yield from self.differences(half)
                return
            yield from self._single(cases[0])
            return
        for place, case in enumerate(cases):
            if found[place, 0] != found[place, 1]:
                only = found[place, 0] - found[place, 1], found[place, 1] - found[place, 0]
                yield f"{case.text}\n  needs {case.needs}\n  only Spark: {only[0]}\n  only lake: {only[1]}"

    def _single(self, case: Case) -> Iterator[str]:
        outcomes = [self._outcome(text) for text in (case.text, case.bound)]
        if outcomes[0] != outcomes[1] and not any(
            outcome in OF_ROWS for outcome in outcomes if isinstance(outcome, str)
        ):
            yield f"{case.text}\n  needs {case.needs}\n  Spark: {outcomes[0]}\n  lake: {outcomes[1]}"

    def _outcome(self, text: str) -> Any:
        try:
            return Counter(_clean(str(row[0])) for row in self.spark.sql(_shown(text)).collect())
        except PySparkException as error:
            return error.getCondition() or type(error).__name__

    def _answers(self, cases: list[Case]) -> dict[tuple[int, int], Counter[str]]:
        parts = []
        found: dict[tuple[int, int], Counter[str]] = {}
        for place, case in enumerate(cases):
            for side, text in enumerate((case.text, case.bound)):
                parts.append(f"SELECT {place} AS q, {side} AS side, r FROM ({_shown(text)})")
                found[place, side] = Counter()
        rows = self.spark.sql("\nUNION ALL ".join(parts)).toArrow()
        for place, side, row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            found[place, side][_clean(row)] += 1
        return found


# Raised by rows in ANSI mode: for which rows an expression is evaluated at all is the plan's affair (an empty side of a
# join may come first), and plans over files and over tables of Spark's own differ.
OF_ROWS = frozenset(
    ["CAST_INVALID_INPUT", "CAST_OVERFLOW", "DIVIDE_BY_ZERO", "ARITHMETIC_OVERFLOW", "REMAINDER_BY_ZERO"]
)
OF_ROWS |= {"NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION"}


def _shown(text: str) -> str:
    return f"SELECT to_json(struct(*), map('ignoreNullFields', 'false')) AS r FROM ({text}\n)"


def _clean(row: str) -> str:
    """Which zero a group or a maximum shows depends on the rows' order."""
    return re.sub(r"-0\.0(?![0-9])", "0.0", row)


def batches(cases: Iterable[Case], size: int) -> Iterator[list[Case]]:
    """The cases in lists of so many."""
    kept: list[Case] = []
    for case in cases:
        kept.append(case)
        if len(kept) == size:
            yield kept
            kept = []
    if kept:
        yield kept


def cases_of(bench: Bench, texts: Iterable[str]) -> Iterator[Case]:
    """The cases of texts; those that the lake refuses must be refused by Spark as well, and are left out."""
    for text in texts:
        try:
            yield bench.case(text)
        except BucketlakeError as error:
            raise AssertionError(f"{text}\n  lake: {error}") from error
