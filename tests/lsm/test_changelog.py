"""Merging with previous states gives the rows and the changes that a dict of states gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from bucketlake.lsm.changelog import Found, TrackedRun, Tracking, merge_settled, merge_tracked, same_values
from bucketlake.lsm.engines.engines import Deduplicate, FirstRow, Groups, Merged
from bucketlake.lsm.keys import KeyOrder
from bucketlake.lsm.merge import BlockSize
from bucketlake.schema.schema import KIND_FIELD, SEQUENCE_FIELD
from bucketlake.types.model import BIGINT, INT, DataField

from .model import examples

KEY = DataField(0, "_KEY_k", BIGINT.with_nullable(False))
ORDER = KeyOrder([KEY])
BY_VALUE = KeyOrder([KEY], [DataField(1, "v", INT)])
SCHEMA = pa.schema(
    [("_KEY_k", pa.int64()), (SEQUENCE_FIELD.name, pa.int64()), (KIND_FIELD.name, pa.int8()), ("v", pa.int32())]
)
Row = tuple[int, int, int, int]  # key, sequence, kind, value


def batch(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 4
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def rows_of(found: pa.RecordBatch) -> list[Row]:
    return [tuple(row.values()) for row in found.to_pylist()]


@dataclass(frozen=True)
class Sum:
    """The sum of v over a key's rows, as +I; a key whose newest row is a delete gives that."""

    computes: bool = True

    def requires(self, columns: Sequence[str]) -> tuple[str, ...]:
        return ("v",)

    def merge(self, groups: Groups) -> Merged:
        places, kinds = groups.places(), groups.kinds()
        starts = np.arange(groups.rows) if groups.starts is None else groups.starts
        last = groups.lasts()
        last = places if last is None else last
        sums = np.add.reduceat(groups.column("v").to_numpy()[places], starts)
        kept = np.where(kinds[last] == 3, 3, 0).astype(np.int8)
        return Merged(last, {"v": pa.array(sums.astype(np.int32)), KIND_FIELD.name: pa.array(kept)})


ENGINES = {"deduplicate": Deduplicate(), "first-row": FirstRow(), "sum": Sum()}


@dataclass
class Case:
    """Rows of level 0 files, of levels above in the compaction, of levels above it: {key: row} each."""

    fresh: list[dict[int, Row]] = field(default_factory=list)
    old: list[dict[int, Row]] = field(default_factory=list)  # youngest (lowest level) first
    ghosts: dict[int, Row] = field(default_factory=dict)


@st.composite
def cases(draw: st.DrawFn, deletes: bool) -> Case:
    kinds = st.sampled_from([0, 0, 2, 3]) if deletes else st.just(0)
    number = iter(range(10_000))

    def layer() -> dict[int, Row]:
        found = draw(st.dictionaries(st.integers(0, 12), st.tuples(kinds, st.integers(0, 3)), max_size=8))
        return {key: (key, next(number), kind, value) for key, (kind, value) in sorted(found.items())}

    ghosts = layer()
    old = [layer() for _ in range(draw(st.integers(0, 2)))]
    fresh = [layer() for _ in range(draw(st.integers(0, 3)))]
    return Case(fresh, old[::-1], ghosts)


def is_row(row: Row | None) -> bool:
    return row is not None and row[2] in (0, 2)


def expected(case: Case, engine: str, tracking: Tracking, by_value: bool) -> tuple[list[Row], list[Row]]:
    written: list[Row] = []
    told: list[Row] = []
    for key in sorted({key for layer in (*case.fresh, *case.old) for key in layer}):
        fresh = [layer[key] for layer in case.fresh if key in layer]
        old = [layer[key] for layer in case.old if key in layer]
        ghost = case.ghosts.get(key) if fresh and not old else None
        before = old[0] if old else ghost
        if engine == "first-row":
            if ghost is not None:
                continue
            row = before or fresh[0]
            row = min([*fresh, *old], key=lambda r: r[1])
            written.append(row)
            told += [row] if before is None and fresh else []
            continue
        rows = sorted(([before] if before else []) + fresh, key=lambda r: (r[3] if by_value else 0, r[1]))
        after = rows[-1]
        if engine == "sum":
            after = (key, after[1], 3 if after[2] == 3 else 0, sum(row[3] for row in rows))
        if is_row(after) or not tracking.drop_deletes:
            written.append(after)
        if not fresh:
            continue
        if is_row(before) and is_row(after):
            assert before is not None
            if tracking.compared is None or before[3] != after[3]:
                told += [(key, before[1], 1, before[3]), (key, after[1], 2, after[3])]
        elif is_row(before):
            assert before is not None
            told.append((key, before[1], 3, before[3]))
        elif is_row(after):
            told.append((key, after[1], 0, after[3]))
    return written, told


@pytest.mark.parametrize("engine", ENGINES)
@examples
@given(data=st.data(), drop=st.booleans(), compared=st.sampled_from([None, ("v",)]), by_value=st.booleans())
def test_changes_equal_the_model(
    engine: str, data: st.DataObject, drop: bool, compared: tuple[str, ...] | None, by_value: bool
) -> None:
    case = data.draw(cases(deletes=engine != "first-row"))
    by_value = by_value and engine == "sum"
    order = BY_VALUE if by_value else ORDER
    tracking = Tracking(drop, first_wins=engine == "first-row", compared=compared)
    asked: list[int] = []

    def find(keys: pa.RecordBatch) -> Found:
        numbers = keys.column(0).to_pylist()
        asked.extend(numbers)
        places = [place for place, key in enumerate(numbers) if key in case.ghosts]
        found = batch([case.ghosts[numbers[place]] for place in places])
        return Found(np.array(places, np.int64), None if engine == "first-row" else found)

    runs = [TrackedRun([batch(list(layer.values()))], age) for age, layer in enumerate(case.old, 1)][::-1]
    runs += [TrackedRun([batch(list(layer.values()))]) for layer in case.fresh]
    block = BlockSize(rows=data.draw(st.integers(1, 20)))
    changed = list(merge_tracked(runs, order, ENGINES[engine], tracking, find, block))
    written = [row for part in changed for row in rows_of(part.rows)]
    told = [row for part in changed if part.changelog is not None for row in rows_of(part.changelog)]
    assert (written, told) == expected(case, engine, tracking, by_value)
    assert asked == sorted(set(asked)), "keys are asked for once, ascending"


@examples
@given(case=cases(deletes=True))
def test_without_settling_all_rows_count(case: Case) -> None:
    """The producer full-compaction: the top level is before, all else is new."""
    layers = [({}, 0)] + [(layer, 0) for layer in case.fresh]
    top = case.ghosts
    runs = [TrackedRun([batch(list(top.values()))], 1)]
    runs += [TrackedRun([batch(list(layer.values()))], age) for layer, age in layers]
    tracking = Tracking(drop_deletes=True, settles=False)
    changed = list(merge_tracked(runs, ORDER, Sum(), tracking))
    written = {row[0]: row for part in changed for row in rows_of(part.rows)}
    for key in {key for layer in (top, *case.fresh) for key in layer}:
        rows = [layer[key] for layer in (top, *case.fresh) if key in layer]
        if rows[-1][2] == 3:
            assert key not in written
        else:
            assert written[key][3] == sum(row[3] for row in rows)


def test_settled_reads_take_the_newest_previous_row() -> None:
    runs = [
        TrackedRun([batch([(1, 0, 0, 100), (2, 1, 0, 7)])], 5),
        TrackedRun([batch([(1, 2, 0, 103)])], 1),
        TrackedRun([batch([(1, 3, 0, 1), (3, 4, 0, 5)])]),
    ]
    found = [row for part in merge_settled(runs, ORDER, Sum()) for row in rows_of(part)]
    assert [(row[0], row[3]) for row in found] == [(1, 104), (2, 7), (3, 5)]


NESTED = {
    "int": (pa.int32(), [1, None, 3]),
    "text": (pa.string(), ["a", None, ""]),
    "list": (pa.list_(pa.int32()), [[1, 2], [], None, [None], [1], [2, 1]]),
    "struct": (pa.struct([("a", pa.int32()), ("b", pa.string())]), [{"a": 1, "b": None}, None, {"a": None, "b": "x"}]),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1)], [], None, [("a", None)], [("b", 1), ("a", 2)]]),
    "deep": (pa.list_(pa.struct([("a", pa.list_(pa.int8()))])), [[{"a": [1]}, {"a": None}], [None], [{"a": []}], None]),
}


@pytest.mark.parametrize("name", NESTED)
@examples
@given(data=st.data())
def test_same_values(name: str, data: st.DataObject) -> None:
    kind, pool = NESTED[name]
    pairs: list[tuple[Any, Any]] = data.draw(st.lists(st.tuples(*[st.sampled_from(pool)] * 2), max_size=12))
    cut = data.draw(st.integers(0, 3))
    left, right = (pa.array([pair[side] for pair in pairs], kind)[cut:] for side in (0, 1))
    assert same_values(left, right).tolist() == [a == b for a, b in pairs[cut:]]
