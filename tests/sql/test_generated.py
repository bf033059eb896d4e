"""Generated queries and changes over lake tables against Spark over its own rows.

`BUCKETLAKE_QUERIES` and `BUCKETLAKE_CHANGES` say how many, `BUCKETLAKE_SEED` where they start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from tests.profile import SOAK, number
from tests.queries import changes
from tests.queries.grammar import query
from tests.queries.run import QUICK, Bench, batches, cases_of, settings

from bucketlake.errors import BucketlakeError
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake

pytestmark = pytest.mark.spark

QUERIES = number("BUCKETLAKE_QUERIES", 30, 50_000)
CHANGES = number("BUCKETLAKE_CHANGES", 28, 3000)
SEED = number("BUCKETLAKE_SEED", 0, 0)
WHOLE = 20 if SOAK else 50  # of so many queries that leave no row out, one is run; the others' columns are compared


@pytest.fixture
def quick(classic: Lake) -> Iterator[Lake]:
    """A session in which a small query costs little."""
    with settings(classic.spark, QUICK):
        yield classic


@pytest.mark.parametrize("ansi", ["false", "true"])
def test_generated_queries(quick: Lake, monkeypatch: pytest.MonkeyPatch, ansi: str) -> None:
    quick.spark.conf.set("spark.sql.ansi.enabled", ansi)
    count = QUERIES * 9 // 10 if ansi == "false" else QUERIES // 10
    first = SEED if ansi == "false" else SEED + 10_000_000
    bench = Bench(quick, monkeypatch)
    bench.load()
    found: list[str] = []
    compared = []
    for place, case in enumerate(cases_of(bench, (query(seed) for seed in range(first, first + count)))):
        if case.prunes or place % WHOLE == 0:
            compared.append(case)
        elif place % (4 if SOAK else 10) == 0:
            found += filter(None, [bench.shapes(case)])
    assert sum(case.prunes for case in compared) > count // 10 or count < 20  # of few there may be none
    for batch in batches(compared, 25):
        found += bench.differences(batch)
    bench.close()
    assert not found, f"{len(found)} of {count} queries from seed {first} differ:\n" + "\n".join(found[:5])


KINDS = {
    "keyed": "PARTITIONED BY (q) TBLPROPERTIES ('primary-key' = 'k,q', 'bucket' = '2')",
    "vectors": "TBLPROPERTIES ('bucket' = '-1', 'deletion-vectors.enabled' = 'true')",
    "rewriting": "PARTITIONED BY (q) TBLPROPERTIES ('bucket' = '-1')",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("small", [True, False], ids=["driver", "tasks"])
def test_generated_changes(quick: Lake, monkeypatch: pytest.MonkeyPatch, kind: str, small: bool) -> None:
    """Random changes against the same done by Spark to rows of its own; keys stay unique."""
    if not small:
        monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    quick.sql(f"CREATE TABLE db.c ({changes.SCHEMA}) {KINDS[kind]}")
    spark = quick.spark
    model = pa.table(spark.createDataFrame([], changes.SCHEMA).toArrow())
    first = SEED + 100_000 * (2 * list(KINDS).index(kind) + small)
    for seed in range(first, first + CHANGES // 6):
        made = changes.change(seed)
        statement = made.statement.replace("{t}", "db.c").replace("{own}", "db.c")
        spark.createDataFrame(model, changes.SCHEMA).createOrReplaceTempView("model_rows")
        after = made.model.replace("{m}", "model_rows").replace("{own}", "model_rows")
        expected = _outcome(lambda text=after: spark.sql(text).toArrow())
        if made.keys and kind != "keyed":
            quick.sql(f"DELETE FROM db.c WHERE k IN ({', '.join(map(str, made.keys))})")
        done = _outcome(lambda text=statement: quick.sql(text))
        assert (done is None) == (expected is None), statement
        model = model if expected is None else expected
        found = quick.catalog.table("db.c").to_arrow()
        assert _rows(found) == _rows(model), f"seed {seed}: {statement}"
    spark.catalog.dropTempView("model_rows")


def _outcome(action: Callable[[], Any]) -> Any:
    """What an action gives, None where Spark or the lake refuses it."""
    try:
        return action()
    except (PySparkException, BucketlakeError):
        return None


def _rows(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))
