"""Tables of the engines and modes, and rows for them as Arrow."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from tests.histories.engines import ALL_KINDS, COLUMNS, INSERT, KEYS, Engine, Values
from tests.histories.model import Change, Mode

from bucketlake import Catalog, Table
from bucketlake.schema.schema import KIND_FIELD
from bucketlake.types.model import DataField, arrow_schema
from bucketlake.types.parse import parse_type_text

KIND_TEXTS = ("+I", "-U", "+U", "-D")
FIELDS = [DataField(n, name, parse_type_text(text, "flink")) for n, (name, text) in enumerate(COLUMNS.items())]
SCHEMA = arrow_schema(FIELDS)
PROMPT = {"num-sorted-run.compaction-trigger": "3", "compaction.max-size-amplification-percent": "100000"}


def create(
    catalog: Catalog, name: str, engine: Engine, mode: Mode, partitioned: bool, more: Mapping[str, str]
) -> Table:
    """An empty table of this engine and mode that compacts soon."""
    options = {**PROMPT, **engine.options, **mode.options, **more}
    return catalog.create_table(name, FIELDS, ["p"] if partitioned else [], KEYS, options)


def arrow(changes: Sequence[Change]) -> pa.Table:
    """Rows with their kinds in a column `_VALUE_KIND`."""
    columns = {item.name: pa.array([row[item.name] for _, row in changes], item.type) for item in SCHEMA}
    return pa.table({**columns, KIND_FIELD.name: pa.array([kind for kind, _ in changes], pa.int8())})


def rows_of(table: Table, **options: Any) -> list[tuple[Any, ...]]:
    """All rows as tuples of COLUMNS, in the order of their keys; each key once."""
    found: list[Values] = table.to_arrow(**options).to_pylist()
    rows = sorted((tuple(row[name] for name in COLUMNS) for row in found), key=lambda row: row[: len(KEYS)])
    assert len({row[: len(KEYS)] for row in rows}) == len(rows), "a key was read twice"
    return rows


def some_rows(chance: random.Random, count: int) -> list[Change]:
    """Rows of every kind with few different keys, of which a model takes what has one outcome."""

    def small() -> int | None:
        return chance.choice([None, *range(-3, 7)])

    found: list[Change] = []
    for _ in range(count):
        values: Values = {"p": chance.choice("ab"), "k": chance.randint(0, 7)}
        values.update({name: small() for name in "vwsr"}, t=chance.choice([None, "x", "y", "z" * 20]))
        found.append((chance.choice([*ALL_KINDS, INSERT, INSERT]), values))
    return found
