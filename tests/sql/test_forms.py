"""Queries of many forms over tables of many kinds against Spark over a table of its own with the same rows.

`BUCKETLAKE_FORMS` says how many, `BUCKETLAKE_SEED` where they start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from tests.profile import number
from tests.queries import forms, rarer_forms
from tests.queries.run import QUICK, settings

from bucketlake.errors import BucketlakeError
from bucketlake.spark.read import hidden, reader
from bucketlake.spark.session import Lake
from bucketlake.sql.query import joined, query

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COUNT = number("BUCKETLAKE_FORMS", len(forms.ALL) // 4, 20 * len(forms.ALL))
SEED = number("BUCKETLAKE_SEED", 0, 0)
MODES = [("true", "UTC", True), ("false", "America/St_Johns", False)]  # ANSI, zone, whether the driver reads


@pytest.fixture
def both(classic: Lake) -> Iterator[Lake]:
    """Tables of every kind, and Spark's own of the same names."""
    spark = classic.spark
    for kind in forms.KINDS:
        forms.load(classic, kind)
    for function in rarer_forms.FUNCTIONS:
        spark.sql(function)
    spark.sql("CREATE DATABASE spark_catalog.db")
    held = pa.Table.from_pylist(forms.rows(), classic.catalog.table("db.plain").arrow_schema)
    frame = spark.createDataFrame(held, classic.table("db.plain").read().schema).coalesce(1)
    for kind in forms.KINDS:
        names = classic.catalog.table(f"db.{kind}").schema.field_names
        frame.select(*names).write.saveAsTable(f"spark_catalog.db.{kind}")
    yield classic
    for name in ("twice", "up_to"):
        spark.sql(f"DROP TEMPORARY FUNCTION {name}")
    spark.sql("DROP DATABASE spark_catalog.db CASCADE")


@pytest.mark.parametrize(("ansi", "zone", "small"), MODES)
def test_forms(both: Lake, monkeypatch: pytest.MonkeyPatch, ansi: str, zone: str, small: bool) -> None:
    spark, wrong = both.spark, []
    if not small:
        for module, name in (
            (reader, "SMALL_ROWS"),
            (hidden, "SMALL_ROWS"),
            (joined, "WORTH_ROWS"),
            (query, "WORTH_ROWS"),
        ):
            monkeypatch.setattr(module, name, 0)
    with settings(spark, {**QUICK, "spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": zone}):
        both.sql("USE db")
        for seed in range(SEED + (not small) * COUNT, SEED + (1 + (not small)) * COUNT):
            text = forms.form(seed)
            spark.sql("USE spark_catalog.db")
            expected = outcome(spark.sql, text)
            spark.sql("USE spark_catalog.default")
            found = outcome(both.sql, text)
            if found != expected:
                wrong.append(f"seed {seed}: {text}\n  Spark {expected}\n  lake {found}"[:2000])
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong[:9])


def outcome(run: Any, text: str) -> Any:
    """Columns and rows, or why there are none."""
    try:
        frame = run(text)
        return frame.schema.simpleString(), sorted(told(tuple(row)) for row in frame.collect())
    except PySparkException as error:
        return error.getCondition()
    except BucketlakeError as error:
        return f"refused: {error}"
    except Py4JError as error:  # of Java's: a rule of Spark that fails, or rows that do
        return re.findall(r"\[([A-Z_.]+)\]", str(error))[:1] or f"broken: {str(error)[:400]}"


def told(value: Any) -> str:
    """A value as text, without what hangs on the order of rows: digits of sums of floats, which zero it is."""
    if isinstance(value, float):
        return f"{value or 0.0:.9g}"
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{told(key)}: {told(item)}" for key, item in value.items())) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(told, value)) + "]"
    return str(value) if type(value).__name__ == "VariantVal" else repr(value)
