"""Overwrites and deletes by Bucketlake and Apache Paimon in turns, for every merge engine: of a partition that is named, of
those that the rows lie in, of the whole table, of some keys, and of all rows of a partition.

All tables go through the same steps together; in each step one half is Flink's, the other Bucketlake's. After each both
engines read the model's rows.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.histories.engines import COLUMNS, DELETE, ENGINES, INSERT
from tests.histories.model import Model, goes, mode_of
from tests.histories.tables import arrow, create, rows_of, some_rows
from tests.interop.engines import DATABASE, select_each
from tests.interop.values import canonical
from tests.peers.flink import FlinkPaimon
from tests.peers.rpc import PeerError
from tests.profile import SOAK, first

import bucketlake
from bucketlake.table import Table

pytestmark = [pytest.mark.peer, pytest.mark.slow]

SEED = 5
STEPS: tuple[str, ...] = ("insert", "overwrite a partition", "overwrite their partitions", "delete keys")
STEPS += ("overwrite all", "delete a partition", "insert")
if SOAK:
    STEPS = tuple(step for each in STEPS for step in (each, "insert"))
FAILS: Mapping[str, str] = {}


def modes() -> dict[str, str]:
    """Every engine in one mode without a changelog, which says nothing of overwrites."""
    return {
        engine: "vectors" if number % 2 and goes(ENGINES[engine], "vectors") else "merge-on-read"
        for number, engine in enumerate(dict.fromkeys([*first(list(ENGINES), 4), "first-row"]))
    }


def literal(value: Any, kind: str) -> str:
    shown = "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)
    return f"CAST({shown} AS {kind})"


@dataclass
class Turn:
    """One table of both engines, and its model."""

    table: Table
    model: Model
    chance: random.Random
    problems: list[str] = field(default_factory=list)

    @property
    def quoted(self) -> str:
        return "`" + self.table.name.replace(".", "`.`") + "`"

    def step(self, what: str, by_flink: bool) -> str | None:
        """Do a step here, or give the statement by which Flink does it."""
        self.table = self.table.refresh()
        if what == "delete keys":
            return self.delete(by_flink)
        if what == "delete a partition":
            self.model.clear("b")
            if by_flink:
                deletes = self.model.engine.deletes
                return f"DELETE FROM {self.quoted} WHERE p = 'b'" if deletes else self.dropped("b")
            self.table.drop_partitions([{"p": "b"}])
            return None
        only = {"overwrite a partition": "a", "overwrite their partitions": "b"}.get(what)
        if what != "insert":
            self.model.clear(only)
        rows = {(row["p"], row["k"]): row for _, row in some_rows(self.chance, 9)}
        found = self.model.put([(INSERT, row) for row in rows.values() if only in (None, row["p"])])
        fixed = {"p": "a"} if what == "overwrite a partition" else None
        if by_flink:
            return self.statement(what, [row for _, row in found], fixed) if found else None
        whole = {"dynamic_partition_overwrite": False} if what == "overwrite all" else {}
        self.table.write_arrow(arrow(found), "append" if what == "insert" else "overwrite", fixed, **whole)
        return None

    def statement(self, what: str, rows: Sequence[Mapping[str, Any]], fixed: Mapping[str, str] | None) -> str:
        names = [name for name in COLUMNS if name not in (fixed or {})]
        values = ", ".join(f"({', '.join(literal(row[name], COLUMNS[name]) for name in names)})" for row in rows)
        verb = "INTO" if what == "insert" else "OVERWRITE"
        hint = " /*+ OPTIONS('dynamic-partition-overwrite'='false') */" if what == "overwrite all" else ""
        partition = f" PARTITION (p = '{fixed['p']}')" if fixed else ""
        return f"INSERT {verb} {self.quoted}{hint}{partition} VALUES {values}"

    def dropped(self, partition: str) -> str:
        return f"ALTER TABLE {self.quoted} DROP IF EXISTS PARTITION (p = '{partition}')"

    def delete(self, by_flink: bool) -> str | None:
        if not self.model.engine.deletes:
            return None
        low = self.chance.randint(0, 6)
        condition = f"k IN ({low}, {low + 1})"
        found = [row for key, row in self.model.rows.items() if key[1] in (low, low + 1)]
        self.model.statement(DELETE, found)
        if by_flink:
            return f"DELETE FROM {self.quoted} WHERE {condition}"
        self.table.delete(condition)
        return None

    def compare(self, when: str, theirs: Any) -> None:
        expected = self.model.expected()
        ours = rows_of(self.table.refresh())
        if ours != expected:
            self.problems.append(f"{when}: here {ours}, expected {expected}")
        if isinstance(theirs, PeerError) or theirs != canonical(expected):
            self.problems.append(f"{when}: Flink reads {theirs}, expected {canonical(expected)}")


@pytest.fixture(scope="module")
def turns(flink: FlinkPaimon, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Turn]:
    """All tables after all steps."""
    catalog = bucketlake.open(tmp_path_factory.mktemp("overwrites"))
    catalog.create_database(DATABASE)
    flink.use(catalog.warehouse)
    found: dict[str, Turn] = {}
    for number, (engine, mode) in enumerate(modes().items()):
        name = f"{DATABASE}.{engine.replace('-', '_')}"
        bucket = {"bucket": ("2", "-1")[number // 2 % 2], "dynamic-bucket.target-row-num": "3"}
        table = create(catalog, name, ENGINES[engine], mode_of(ENGINES[engine], mode), True, bucket)
        found[engine] = Turn(table, Model(ENGINES[engine]), random.Random(f"{SEED} {engine}"))
    for number, what in enumerate(STEPS):
        statements = [turn.step(what, (place + number) % 2 == 0) for place, turn in enumerate(found.values())]
        run(flink, [statement for statement in statements if statement is not None])
        read = select_each(flink, ", ".join(COLUMNS), [turn.table.name for turn in found.values()])
        for turn in found.values():
            turn.compare(f"step {number}, {what}", read[turn.table.name])
    for turn in found.values():
        turn.table.refresh().compact()
    read = select_each(flink, ", ".join(COLUMNS), [turn.table.name for turn in found.values()])
    for turn in found.values():
        turn.compare("compacted", read[turn.table.name])
    return found


def run(flink: FlinkPaimon, statements: Sequence[str]) -> None:
    """Inserts in one job; a DELETE stands alone."""
    inserts = [statement for statement in statements if statement.startswith("INSERT")]
    if inserts:
        flink.sql(f"EXECUTE STATEMENT SET BEGIN {'; '.join(inserts)}; END")
    for statement in statements:
        if statement not in inserts:
            flink.sql(statement)


def known() -> list[Any]:
    return [
        pytest.param(engine, marks=[pytest.mark.xfail(reason=FAILS[engine], strict=True)] if engine in FAILS else [])
        for engine in modes()
    ]


@pytest.mark.parametrize("engine", known())
def test_rows_in_turns(turns: Mapping[str, Turn], engine: str) -> None:
    assert not turns[engine].problems, "\n".join(turns[engine].problems)
