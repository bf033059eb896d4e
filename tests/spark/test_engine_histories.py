"""Histories of every merge engine in several table modes through Spark: the rows are those of a model, and those that
the same steps give without Spark. In some of them Spark's tasks do what the driver would do for so few rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.histories.engines import COLUMNS, DELETE, ENGINES, INSERT, Values
from tests.histories.model import MODES, Change, Mode, Model, goes, key_of, mode_of
from tests.histories.tables import KIND_TEXTS, arrow, create, rows_of, some_rows
from tests.profile import first

import bucketlake
from bucketlake.spark.maintain import jobs
from bucketlake.spark.read import filtered as live
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake
from bucketlake.spark.table import LakeTable

pytestmark = pytest.mark.spark

TYPES = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
ROUNDS = 2
SPREAD = 4  # one history of so many


def cases() -> list[Any]:
    found = []
    for number, engine in enumerate(ENGINES):
        possible = [mode for mode in MODES if goes(ENGINES[engine], mode)]
        found.append(pytest.param(engine, possible[number * 5 % len(possible)], number % SPREAD == 1))
    return found


class Both:
    """One table through Spark, one without, and their model."""

    def __init__(self, lake: Lake, folder: Path, engine: str, mode: str, spread: bool) -> None:
        self.lake, self.spread = lake, spread
        catalog = bucketlake.open(folder / "alone")
        catalog.create_database("db")
        options = {"bucket": "2"}
        self.alone = create(catalog, "db.t", ENGINES[engine], MODES[mode], True, options)
        create(lake.catalog, "db.t", ENGINES[engine], MODES[mode], True, options)
        self.model = Model(ENGINES[engine])
        self.mode: Mode = mode_of(ENGINES[engine], mode)

    @property
    def table(self) -> LakeTable:
        return self.lake.table("db.t")

    def write(self, changes: Sequence[Change]) -> None:
        """A DataFrame with row kinds."""
        changes = self.model.put(once(changes))
        rows = [(*(row[name] for name in COLUMNS), KIND_TEXTS[kind]) for kind, row in changes]
        if rows:
            frame = self.lake.spark.createDataFrame(rows, f"{TYPES}, _VALUE_KIND STRING")
            self.table.write(frame.repartition(2) if self.spread else frame)
        self.alone.write_arrow(arrow(changes))

    def insert(self, changes: Sequence[Change]) -> None:
        """An INSERT statement."""
        changes = self.model.put([(INSERT, row) for _, row in once(changes)])
        texts = [", ".join(literal(row[name]) for name in COLUMNS) for _, row in changes]
        if texts:
            self.lake.sql(f"INSERT INTO db.t VALUES {', '.join(f'({text})' for text in texts)}")
        self.alone.write_arrow(arrow(changes))

    def statements(self, low: int) -> None:
        """DELETE and UPDATE, where the engine takes them."""
        if self.model.engine.deletes and self._settled(low):
            self.lake.sql(f"DELETE FROM db.t WHERE k = {low} AND p IN ('a', 'b')")
            self.alone.delete(f"k = {low}")
            self.model.statement(DELETE, self._matching(low))
        if self.model.engine.updates and self._settled(low + 1):
            self.lake.sql(f"UPDATE db.t SET v = 77 WHERE k = {low + 1}")
            self.alone.update({"v": 77}, f"k = {low + 1}")
            self.model.statement(INSERT, [{**row, "v": 77} for row in self._matching(low + 1)])

    def _matching(self, k: int) -> list[Values]:
        return [row for key, row in self.model.rows.items() if key[1] == k]

    def _settled(self, k: int) -> bool:
        return not self.mode.gentle and not any(key[1] == k for key in self.model.waiting)

    def compact(self, full: bool) -> None:
        self.lake.sql(f"CALL sys.compact(table => 'db.t', compact_strategy => '{'full' if full else 'minor'}')")
        self.alone.compact(full=full)
        if full:
            self.model.compacted()

    def check(self, shown: bool) -> None:
        through = [
            tuple(row) for row in self.lake.sql(f"SELECT {', '.join(COLUMNS)} FROM db.t ORDER BY p, k").collect()
        ]
        assert through == rows_of(self.alone)
        if shown or not (self.mode.hides and self.mode.gentle):
            assert through == self.model.expected()
        if not self.spread:
            return
        (total,) = self.lake.sql("SELECT count(*), sum(v) FROM db.t").collect()
        values = [row[2] for row in through if row[2] is not None]
        assert tuple(total) == (len(through), sum(values) if values else None)


def once(changes: Sequence[Change]) -> list[Change]:
    """The first row of each key: rows of one DataFrame come in no order."""
    return list({key_of(row): (kind, row) for kind, row in reversed(changes)}.values())


def literal(value: Any) -> str:
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "mode", "spread"), first(cases(), 3))
def test_through_spark_as_without(
    engine: str, mode: str, spread: bool, classic: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if spread:
        monkeypatch.setattr(reader, "LARGE_MERGE_ROWS", 0)
        monkeypatch.setattr(reader, "SMALL_ROWS", 0)
        monkeypatch.setattr(jobs, "DRIVER_BYTES", 0)
        live.forget()
    chance = random.Random(f"{engine} {mode}")
    both = Both(classic, tmp_path, engine, mode, spread)
    for number in range(ROUNDS):
        both.write(some_rows(chance, 12))
        both.insert(some_rows(chance, 3))
        both.statements(chance.randint(0, 6))
        both.check(False)
        both.compact(bool(number))
    both.check(True)
