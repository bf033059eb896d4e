"""Generated conditions over every type, as every way in reads them, against Spark over a table of its own.

Spark evaluates each statement's condition itself. What is read here for it has to hold all rows that Spark finds, and
without Spark just these. `BUCKETLAKE_CONDITIONS` says how many, `BUCKETLAKE_SEED` where they start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyspark.errors import PySparkException
from tests.profile import SOAK, later, number
from tests.queries import every
from tests.queries.run import QUICK, settings

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.ops.rows.read import exact_part
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake
from bucketlake.sql.query import query

pytestmark = pytest.mark.spark

CONDITIONS = number("BUCKETLAKE_CONDITIONS", 40, 6000)
SEED = number("BUCKETLAKE_SEED", 0, 0)
KINDS = list(every.KINDS) if SOAK else ["keyed", "by_ts", "ranged"]
OWN = "spark_catalog.default.every_type"
ROWS = every.rows()
_AT_ONCE = 60


@pytest.fixture
def filled(classic: Lake) -> Iterator[Lake]:
    """The same rows in a table of Spark's own and in lake tables."""
    spark = classic.spark
    with settings(spark, QUICK):
        spark.sql(f"CREATE TABLE {OWN} ({every.DDL}) USING parquet")
        spark.createDataFrame(ROWS).createOrReplaceTempView("every_row")
        spark.sql(f"INSERT INTO {OWN} SELECT /*+ COALESCE(1) */ * FROM every_row")
        for kind in KINDS:
            classic.sql(f"CREATE TABLE db.{kind} ({every.DDL}) {every.KINDS[kind]}")
            every.filled(classic.catalog.table(f"db.{kind}"), ROWS)
        try:
            yield classic
        finally:
            spark.sql(f"DROP TABLE {OWN}")
            spark.catalog.dropTempView("every_row")


def own_answers(lake: Lake, texts: Sequence[str]) -> list[set[int] | None]:
    """The ids of the rows for which Spark finds each condition true, None where it refuses it."""
    found: list[set[int] | None] = [None] * len(texts)
    todo = []
    for place, text in enumerate(texts):
        try:
            lake.spark.sql(f"SELECT ({text}) IS TRUE FROM {OWN}")
            todo.append(place)
        except Exception:  # Spark's own padding of CHAR fails on literals that are no text
            continue
    stack = [todo]
    while stack:
        places = stack.pop()
        shown = ", ".join(f"({texts[place]}) IS TRUE AS c{place}" for place in places)
        try:
            rows = lake.spark.sql(f"SELECT id, {shown} FROM {OWN}").toArrow() if places else None
        except PySparkException:
            half = len(places) // 2
            stack += [places[:half], places[half:]] if half else []
            continue
        for place in places:
            found[place] = set(rows.filter(rows[f"c{place}"])["id"].to_pylist())
    return found


@pytest.mark.parametrize(
    ("ansi", "zone"),
    later([("false", "UTC"), ("true", "Europe/Berlin"), ("true", "UTC"), ("false", "America/St_Johns")], 1),
)
def test_generated_conditions(filled: Lake, monkeypatch: pytest.MonkeyPatch, ansi: str, zone: str) -> None:
    spark = filled.spark
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    spark.conf.set("spark.sql.session.timeZone", zone)
    needs: list[reader.Need] = []
    nothing = filled.table(f"db.{KINDS[0]}").read(where="false")
    monkeypatch.setattr(query, "pruned", lambda spark, table, selection, need, *_: needs.append(need) or nothing)
    tables = {kind: filled.catalog.table(f"db.{kind}") for kind in KINDS}
    held = {kind: set(ids(table.to_arrow(columns=["id"]))) for kind, table in tables.items()}
    wrong, pushed, understood = [], 0, 0
    for start in range(SEED, SEED + CONDITIONS, _AT_ONCE):
        texts = [every.condition(seed) for seed in range(start, min(start + _AT_ONCE, SEED + CONDITIONS))]
        for place, (text, expected) in enumerate(zip(texts, own_answers(filled, texts), strict=True)):
            if expected is None:
                continue
            kind = KINDS[(start + place) % len(KINDS)]
            table, there = tables[kind], expected & held[kind]
            needs.clear()
            query.bind(filled, f"SELECT id FROM db.{kind} WHERE {text}")
            for condition in (needs[0].predicate, reader.predicate_of(spark, table, text)):
                exact = None if condition is None else exact_part(condition)
                if exact is not None:
                    pushed += 1
                    read = ids(table.to_arrow(exact, columns=["id"]))
                    if not there <= set(read) or len(read) != len(set(read)):
                        wrong.append(f"{text}\n  of {kind} by {exact} too few: {sorted(there - set(read))}")
            if zone == "UTC":
                outcome = alone(table, text)
                understood += outcome is not None
                if outcome is not None and outcome != sorted(there):
                    wrong.append(f"{text}\n  of {kind} without Spark {outcome}, with {sorted(there)}")
    assert not wrong, f"{len(wrong)} of {CONDITIONS} from {SEED} on:\n" + "\n".join(wrong[:5])
    assert pushed > CONDITIONS // 2 and (understood > CONDITIONS // 4 or zone != "UTC")


def ids(rows: Any) -> list[int]:
    found: list[int] = rows["id"].to_pylist()
    return found


def alone(table: Any, text: str) -> list[int] | None:
    """What a handle without Spark finds; None where it says that only Spark knows, or that a value is none."""
    try:
        return sorted(ids(table.to_arrow(text, columns=["id"])))
    except UnsupportedError:
        return None
    except InvalidError as error:
        if "is not of type" in str(error):
            return None
        raise
