"""ORDER BY with LIMIT: what statistics show to lie behind the first rows is left out, and nothing else."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from sqlglot import exp
from tests.profile import seeds
from tests.sql.test_pushdown import FIELDS, settings

import bucketlake
from bucketlake.ops.scan.select import Selection
from bucketlake.predicate.tree import Compare, IsNull, Or
from bucketlake.spark.session import Lake
from bucketlake.sql.query import query
from bucketlake.sql.query.parser import Source, parse
from bucketlake.sql.query.pushdown import proof
from bucketlake.sql.query.top import Top, bounded, top
from bucketlake.table import Table
from bucketlake.types import parse_type_text
from bucketlake.types.model import DataField


def wanted(statement: str, **given: str) -> tuple[str, bool, int] | None:
    parsed = parse(statement)
    found = proof(parsed, settings(**given)) if parsed is not None else None
    if parsed is None or found is None:
        return None
    node = next(node for node in parsed.tree.find_all(exp.Table) if node.name == "t")
    asked = top(found, Source(node, node.alias_or_name, FIELDS))
    return None if asked is None else (asked.field.name, asked.falling, asked.rows)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT * FROM t ORDER BY id LIMIT 5", ("id", False, 5)),
        ("SELECT id, name FROM t ORDER BY N DESC NULLS FIRST, length(name) LIMIT 7", ("n", True, 7)),
        ("SELECT x.id FROM (SELECT id FROM t ORDER BY day ASC LIMIT 3) x WHERE id > 4", ("day", False, 3)),
        ("WITH c AS (SELECT * FROM t ORDER BY `price` LIMIT 3) SELECT count(*) FROM c", ("price", False, 3)),
        ("SELECT * FROM t ORDER BY id", None),
        ("SELECT * FROM t LIMIT 5", None),
        ("SELECT * FROM t WHERE ok ORDER BY id LIMIT 5", None),
        ("SELECT DISTINCT id FROM t ORDER BY id LIMIT 5", None),
        ("SELECT id FROM t GROUP BY id ORDER BY id LIMIT 5", None),
        ("SELECT n AS id FROM t ORDER BY id LIMIT 5", None),
        ("SELECT -id FROM t ORDER BY id LIMIT 5", None),
        ("SELECT explode(l) FROM t ORDER BY id LIMIT 5", None),
        ("SELECT s.id FROM t ORDER BY id LIMIT 5", None),
        ("SELECT * FROM t ORDER BY id + 1 LIMIT 5", None),
        ("SELECT * FROM t ORDER BY 1 LIMIT 5", None),
        ("SELECT * FROM t ORDER BY t.id LIMIT 5", None),
        ("SELECT * FROM t ORDER BY name LIMIT 5", None),
        ("SELECT * FROM t ORDER BY score LIMIT 5", None),
        ("SELECT * FROM t ORDER BY zt LIMIT 5", None),
        ("SELECT * FROM t ORDER BY fine LIMIT 5", None),
        ("SELECT * FROM t ORDER BY id LIMIT 5 OFFSET 5", None),
        ("SELECT * FROM t ORDER BY id LIMIT 0", None),
        ("SELECT * FROM t ORDER BY id LIMIT 1 + 1", None),
        ("SELECT * FROM t ORDER BY id LIMIT 1000000", None),
        ("SELECT * FROM t SORT BY id LIMIT 5", None),
        ("SELECT * FROM t, u ORDER BY id LIMIT 5", None),
        ("SELECT * FROM t UNION ALL SELECT * FROM u ORDER BY id LIMIT 5", None),
        ("SELECT * FROM u WHERE id IN (SELECT id FROM t) ORDER BY id LIMIT 5", None),
        ("SELECT * FROM t TABLESAMPLE (50 PERCENT) ORDER BY id LIMIT 5", None),
    ],
)
def test_which_statements_ask_for_first_rows(statement: str, expected: tuple[str, bool, int] | None) -> None:
    assert wanted(statement) == expected


def test_names_follow_the_session() -> None:
    assert wanted("SELECT * FROM t ORDER BY ID LIMIT 5", caseSensitive="true") is None


KINDS = {
    "n": lambda number: number,
    "d": lambda number: dt.date(2020, 1, 1) + dt.timedelta(days=number),
    "p": lambda number: Decimal(number) / 100,
    "s": lambda number: dt.datetime(2020, 1, 1) + dt.timedelta(seconds=number),
}
DECLARED = "k INT, n INT, d DATE, p DECIMAL(9, 2), s TIMESTAMP(6), w STRING"


def made(path: Path, chance: random.Random, **options: str) -> Table:
    """A table of some files, which overlap or do not, with nulls, a file of nulls alone and deletes."""
    catalog = bucketlake.open(str(path))
    catalog.create_database("db")
    fields = list(parse_type_text(f"ROW<{DECLARED}>", "flink").fields)
    keyed = options.pop("keyed", "") == "yes"
    table = catalog.create_table("db.t", fields, primary_keys=["k"] if keyed else (), options=options)
    key = 0
    for _ in range(chance.randint(1, 8)):
        start, wide = chance.randint(-500, 500), chance.choice([5, 200])
        rows = []
        for _ in range(chance.randint(1, 30)):
            number = start + chance.randint(0, wide)
            null = chance.random() < chance.choice([0, 0.2, 1])
            key = chance.randint(0, 40) if keyed else key + 1
            rows.append({"k": key, "w": "w", **{c: None if null else f(number) for c, f in KINDS.items()}})
        schema = table.to_arrow().schema
        table.write_arrow(pa.Table.from_pylist(list({row["k"]: row for row in rows}.values()), schema))
        if chance.random() < 0.3:
            table.delete(f"k IN ({', '.join(str(chance.randint(0, key + 1)) for _ in range(9))})")
    return table.refresh()


def first(rows: pa.Table, column: str, falling: bool, nulls: str, count: int) -> list[object]:
    values = [value for value in rows[column].to_pylist() if value is not None]
    missing = [None] * (rows.num_rows - len(values))
    ordered = sorted(values, reverse=falling)
    return (missing + ordered if nulls == "at_start" else ordered + missing)[:count]


@pytest.mark.parametrize("seed", seeds(6, 12))
def test_the_first_rows_stay(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    more = [{}, {"deletion-vectors.enabled": "true"}, {"keyed": "yes", "bucket": "1"}, {"metadata.stats-mode": "none"}]
    table = made(tmp_path, chance, **more[seed % 4])
    everything, told = table.to_arrow(), 0
    plan = table.planned(None, Selection(table.latest_snapshot()))
    for column in KINDS:
        field = DataField(0, column, table.schema.field(column).type)
        for falling in (False, True):
            for count in (1, 3, 20):
                found = bounded(table.store, plan, Top(table.schema.field(field.name), falling, count))
                if found is None:
                    continue
                told += 1
                kept = table.to_arrow(where=found)
                for nulls in ("at_start", "at_end"):
                    ask = (column, falling, nulls, count)
                    assert first(kept, *ask) == first(everything, *ask), (ask, found)
    assert told or seed % 4 in (2, 3) or len(plan.entries) < 2


def test_files_are_left_out(tmp_path: Path) -> None:
    table = made(tmp_path, random.Random(0))
    for number in (1000, 2000, 3000):
        rows = [{"k": number + i, **{c: f(number + i) for c, f in KINDS.items()}, "w": ""} for i in range(5)]
        table.write_arrow(pa.Table.from_pylist(rows, table.to_arrow().schema))
    table = table.refresh()
    selection = Selection(table.latest_snapshot())
    found = bounded(table.store, table.planned(None, selection), Top(table.schema.field("n"), True, 7))
    assert found == Or((Compare("n", ">=", 2000), IsNull("n")))
    assert sum(entry.file.row_count for entry in table.planned(Compare("n", ">=", 2000), selection).entries) == 10


def test_by_statement(classic: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = classic
    monkeypatch.setattr(query, "WORTH_ROWS", 0)
    lake.sql("CREATE TABLE db.t (id INT, n INT, name STRING)")
    for start in (0, 100, 200):
        lake.sql(f"INSERT INTO db.t SELECT id, if(id % 10 = 3, null, 300 - id), 'x' FROM range({start}, {start + 100})")
    for order in ("n", "n DESC", "n DESC NULLS FIRST, id DESC", "n NULLS LAST", "id", "id DESC"):
        text = f"SELECT * FROM {{}} ORDER BY {order}, id LIMIT 12"
        plain = lake.spark.createDataFrame(lake.catalog.table("db.t").to_arrow()).createOrReplaceTempView("plain")
        assert plain is None
        assert lake.sql(text.format("db.t")).collect() == lake.spark.sql(text.format("plain")).collect(), order
    lake.spark.catalog.dropTempView("plain")
