"""Random MERGE, UPDATE, DELETE and INSERT in sequences, in SQL and by the builder, against rows in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
from pyspark.sql import functions as F

from bucketlake.errors import BucketlakeError, InvalidError
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake

from ..profile import seeds

pytestmark = pytest.mark.spark

Row = tuple[int, int | None, str]
KINDS = {
    "keyed": "'primary-key' = 'k,p', 'bucket' = '2'",
    "dynamic": "'primary-key' = 'k,p', 'bucket' = '-1'",
    "append": "'bucket' = '-1'",
    "marked": "'deletion-vectors.enabled' = 'true'",
}
STEPS = 5


class _Model:
    """The rows of a table (k, v, p), and what a statement makes of them."""

    def __init__(self, keyed: bool) -> None:
        self.keyed = keyed
        self.rows: list[Row] = []

    def insert(self, rows: list[Row]) -> None:
        if self.keyed:
            new = {(k, p): (k, v, p) for k, v, p in rows}
            self.rows = [row for row in self.rows if (row[0], row[2]) not in new] + list(new.values())
        else:
            self.rows += rows

    def merge(self, source: list[Row], steps: _Steps) -> bool:
        """False, and nothing done, where a row matches several."""
        kept: list[Row] = []
        used: set[int] = set()
        for row in self.rows:
            found = [place for place, (k, _, p) in enumerate(source) if (k, p) == (row[0], row[2])]
            used.update(found)
            if len(found) > 1 and steps.matched is not None and steps.counts:
                return False
            if found and steps.matched is not None:
                kept += steps.matched(row, source[found[0]])
            elif not found and steps.others is not None:
                kept += steps.others(row)
            else:
                kept.append(row)
        self.rows = kept
        if steps.inserts:
            self.insert([one for place, one in enumerate(source) if place not in used])
        return True


class _Steps:
    """A random set of clauses, as SQL, as calls, and in Python."""

    def __init__(self, chance: random.Random) -> None:
        self.clauses: list[str] = []
        self.calls: list[Callable[[object], object]] = []
        self.matched: Callable[[Row, Row], list[Row]] | None = None
        self.others: Callable[[Row], list[Row]] | None = None
        self.counts = True
        bound = chance.randrange(30)
        form = chance.randrange(4)
        if form == 1:
            self._add(
                "WHEN MATCHED THEN UPDATE SET v = s.v + t.v",
                lambda b: b.whenMatched().update({"v": F.col("s.v") + F.col("t.v")}),
            )
            self.matched = lambda t, s: [(t[0], _sum(t[1], s[1]), t[2])]
        elif form == 2:
            self._add("WHEN MATCHED THEN DELETE", lambda b: b.whenMatched().delete())
            self.matched, self.counts = lambda t, s: [], False
        elif form == 3:
            self._add(f"WHEN MATCHED AND t.v < {bound} THEN DELETE", lambda b: b.whenMatched(f"t.v < {bound}").delete())
            self._add("WHEN MATCHED THEN UPDATE SET *", lambda b: b.whenMatched().updateAll())
            self.matched = lambda t, s: [] if t[1] is not None and t[1] < bound else [s]
        self.inserts = chance.random() < 0.6
        if self.inserts:
            self._add("WHEN NOT MATCHED THEN INSERT *", lambda b: b.whenNotMatched().insertAll())
        if not self.clauses or chance.random() < 0.4:
            self._add(
                f"WHEN NOT MATCHED BY SOURCE AND t.v >= {bound} THEN UPDATE SET v = NULL",
                lambda b: b.whenNotMatchedBySource(F.col("t.v") >= bound).update({"v": "NULL"}),
            )
            self.others = lambda t: [(t[0], None if t[1] is not None and t[1] >= bound else t[1], t[2])]

    def _add(self, clause: str, call: Callable[..., object]) -> None:
        self.clauses.append(clause)
        self.calls.append(call)


def _sum(one: int | None, two: int | None) -> int | None:
    return None if one is None or two is None else one + two


def _rows(chance: random.Random, repeats: bool) -> list[Row]:
    rows = [(chance.randrange(6), chance.randrange(30), chance.choice("ab")) for _ in range(chance.randrange(1, 6))]
    return rows if repeats else list({(k, p): (k, v, p) for k, v, p in rows}.values())


def _values(rows: list[Row]) -> str:
    return ", ".join(f"({k}, {v}, '{p}')" for k, v, p in rows)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(1, 40))
def test_histories_equal_a_model(classic: Lake, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int) -> None:
    chance = random.Random(f"{kind} {seed}")
    if (seed + list(KINDS).index(kind) // 2) % 2:  # as tables that are not small
        monkeypatch.setattr(reader, "SMALL_ROWS", 0)
    classic.sql(f"CREATE TABLE db.t (k INT, v INT, p STRING) PARTITIONED BY (p) TBLPROPERTIES ({KINDS[kind]})")
    model = _Model("primary-key" in KINDS[kind])
    told = [f"seed {seed}"]
    for step in range(STEPS):
        form = 1.0 if step == 0 else chance.random()
        if form < 0.1:
            bound = chance.randrange(30)
            told.append(f"DELETE v < {bound}")
            classic.sql(f"DELETE FROM db.t WHERE v < {bound} OR (p = 'a' AND k = 1)")
            model.rows = [r for r in model.rows if not ((r[1] is not None and r[1] < bound) or r[::2] == (1, "a"))]
        elif form < 0.2:
            told.append("UPDATE")
            classic.sql("UPDATE db.t SET v = coalesce(v, 0) + k WHERE k % 2 = 0")
            model.rows = [(k, (v or 0) + k, p) if k % 2 == 0 else (k, v, p) for k, v, p in model.rows]
        elif form < 0.85:
            source, steps = _rows(chance, chance.random() < 0.2), _Steps(chance)
            told.append(f"MERGE {source} {steps.clauses}")
            _merge(classic, chance, source, steps, model)
        else:
            rows = _rows(chance, not model.keyed)
            told.append(f"INSERT {rows}")
            classic.sql(f"INSERT INTO db.t VALUES {_values(rows)}")
            model.insert(rows)
        found = classic.catalog.table("db.t").to_arrow(columns=["k", "v", "p"]).to_pylist()
        assert Counter(tuple(row.values()) for row in found) == Counter(model.rows), "\n".join(told)


def _merge(lake: Lake, chance: random.Random, source: list[Row], steps: _Steps, model: _Model) -> None:
    before = list(model.rows)
    possible = model.merge(source, steps)
    if model.keyed and len({row[::2] for row in source}) < len(source) and steps.inserts:
        model.rows, possible = before, possible  # which of two new rows of a key stays is nobody's promise
        return
    try:
        if chance.random() < 0.5:
            using = f"(SELECT * FROM VALUES {_values(source)} AS v(k, v, p))"
            clauses = " ".join(steps.clauses)
            lake.sql(f"MERGE INTO db.t USING {using} s ON t.k = s.k AND t.p = s.p {clauses}")
        else:
            frame = lake.spark.createDataFrame(source, "k int, v int, p string")
            builder: object = lake.table("db.t").merge(frame, "t.k = s.k AND t.p = s.p", source_alias="s")
            for call in steps.calls:
                builder = call(builder)
            builder.merge()  # type: ignore[attr-defined]
    except BucketlakeError as error:
        assert not possible, error
        assert "MERGE_CARDINALITY_VIOLATION" in str(error)
    else:
        assert possible


def test_a_builder_says_what_it_is(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE db.t (id INT, s STRUCT<a: INT, b: STRING>) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
    )
    lake.sql("INSERT INTO db.t VALUES (1, struct(1, 'x')), (2, struct(2, 'y'))")
    changes = lake.spark.createDataFrame([(2, 20), (3, 30)], "id int, n int")
    table = lake.table("db.t")
    start = table.merge(changes, F.col("t.id") == F.col("c.id"), source_alias="c")
    asked = (
        start.whenMatched(F.col("c.n") > 10)
        .update({"s.a": "c.n", "id": "c.id"})
        .whenNotMatched()
        .insert({"id": F.col("c.id"), "s": F.expr("struct(c.n AS a, 'new' AS b)")})
        .whenNotMatchedBySource("t.id = 1")
        .delete()
    )
    done = asked.merge()
    assert done is not None
    assert done.operation == "MERGE"
    assert sorted(map(tuple, lake.sql("SELECT id, s.a, s.b FROM db.t").collect())) == [(2, 20, "y"), (3, 30, "new")]
    evolved = table.merge(changes, "t.id = c.id", source_alias="c").withSchemaEvolution().whenMatched().updateAll()
    evolved.merge()
    assert list(lake.table("db.t").schema.field_names) == ["id", "s", "n"]
    for owner, name, meant in (
        (start, "when_matched", r"write whenMatched\(…\)$"),
        (start, "whenNotMatchedInsertAll", r"write whenNotMatched\(…\)\.insertAll\(…\)$"),
        (start, "execute", r"write merge\(\)$"),
        (start.whenMatched(), "update_all", r"write updateAll\(…\)$"),
        (start.whenMatched(), "insert", "has no attribute 'insert'$"),
    ):
        with pytest.raises(AttributeError, match=meant):
            getattr(owner, name)
    for wrong, message in (
        (start, "without clauses"),
        (start.whenMatched().updateAll().whenMatched().delete(), "without a condition"),
        (table.merge(changes, "t.id = c.id; DROP", source_alias="c").whenMatched().delete(), "unexpected text"),
        (table.merge(changes, "true", alias="x", source_alias="X").whenMatched().delete(), "have one name"),
        (start.whenMatched().update({"nope": "1"}), "no such column"),
    ):
        with pytest.raises(InvalidError, match=message):
            wrong.merge()
    with pytest.raises(InvalidError, match="sets nothing"):
        start.whenMatched().update({})
