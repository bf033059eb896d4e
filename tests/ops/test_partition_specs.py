"""Which partitions specs name: many specs against many partitions."""

from __future__ import annotations

import datetime as dt
import math
import random
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import events
from bucketlake.errors import InvalidError
from bucketlake.ops.table import partitions
from bucketlake.ops.table.partitions import partition_values, spec_filter
from bucketlake.table import Table

SCHEMA = pa.schema([("k", pa.int64()), ("a", pa.int32()), ("b", pa.string()), ("f", pa.float64())])
VALUES: dict[str, list[Any]] = {"a": [1, 2, None], "b": ["1", "x", "nan", None], "f": [0.0, 1.5, math.nan, None]}


def made(folder: Path, rows: list[dict[str, Any]]) -> tuple[Table, list[bytes]]:
    table = bucketlake.open(folder).create_table("t", SCHEMA, [*VALUES], options={"bucket": "-1"})
    table.write_arrow(pa.Table.from_pylist([{"k": 1, **row} for row in rows], schema=SCHEMA))
    return table, list({split.partition for split in table.plan().splits})


def _same(left: Any, right: Any) -> bool:
    return left == right or (left != left and right != right)


def test_a_partition_matches_if_any_spec_is_met(tmp_path: Path) -> None:
    rows = [{"a": a, "b": b, "f": f} for a in VALUES["a"] for b in VALUES["b"] for f in VALUES["f"]]
    table, known = made(tmp_path, rows)
    assert len(known) == len(rows)
    chance = random.Random(1)
    for _ in range(100):
        specs = []
        for _ in range(chance.choice([1, 2, 5])):
            columns = chance.sample([*VALUES], chance.choice([0, 1, 1, 2, 2, 3, 3]))
            specs.append({name: chance.choice(VALUES[name]) for name in columns})
        told = [
            {name: chance.choice([value, value if value is None else str(value)]) for name, value in spec.items()}
            for spec in specs
        ]
        matches = spec_filter(table.store, told)
        for partition in known:
            values = dict(zip(VALUES, partition_values(table.store, partition), strict=True))
            wanted = any(all(_same(values[name], value) for name, value in spec.items()) for spec in specs)
            assert matches(partition) == wanted, (told, values)


def test_texts_that_no_partition_can_have_are_refused(tmp_path: Path) -> None:
    """They matched nothing: partitions were "dropped" with a commit, and are still there."""
    table, known = made(tmp_path, [{"a": 7, "b": "x", "f": 1.5}, {"a": None, "b": "x", "f": None}])
    for text in ("x", "1.5", "99999999999", "", "null"):
        with pytest.raises(InvalidError, match="not a value of its partition column .*column=a"):
            table.drop_partitions([{"a": text, "b": "x"}])
        with pytest.raises(InvalidError, match="not a value of its partition column .*column=a"):
            table.compact(partitions=f"a={text}")
    assert len(table.snapshots()) == 1
    null = table.options.get("partition.default-name")
    for text, count in (("007", 1), (" 7 ", 1), (null, 1), ("8", 0)):
        assert sum(map(spec_filter(table.store, [{"a": text}]), known)) == count, text


def test_dropping_partitions_that_are_not_there_commits_nothing(tmp_path: Path) -> None:
    """An empty snapshot told nobody that the value was a slip."""
    table, _ = made(tmp_path, [{"a": 7, "b": "x", "f": 1.5}])
    told: list[object] = []
    stop = events.subscribe(told.append)
    assert table.drop_partitions([{"a": 8}, {"a": 7, "b": "y"}]) is None
    stop()
    assert told == [] and len(table.snapshots()) == 1
    done = table.drop_partitions([{"a": 8}, {"a": 7}])
    assert done is not None and (done.id, done.total_record_count) == (2, 0)


@pytest.mark.parametrize(
    ("kind", "value", "texts"),
    [
        (pa.date32(), dt.date(2024, 1, 2), ("2024-01-02 x", "2024-01-02 10:00:00", "2024-01", "2")),
        (pa.timestamp("ms"), dt.datetime(2024, 1, 2, 3, 4, 5, 123_000), ("2024-01-02 03:04:05.1239",)),
        (pa.decimal128(3, 1), Decimal("1.6"), ("1.55", "1.64", "x")),
    ],
)
def test_texts_that_mean_more_than_a_partition_can_have_are_not_cut(
    tmp_path: Path, kind: pa.DataType, value: object, texts: tuple[str, ...]
) -> None:
    schema = pa.schema([("p", kind), ("v", pa.int64())])
    table = bucketlake.open(str(tmp_path)).create_table("t", schema, ["p"])
    table.write_arrow(pa.table([pa.array([value], kind), pa.array([1])], schema=schema))
    for text in texts:
        with suppress(InvalidError):
            table.drop_partitions([{"p": text}])
        assert table.refresh().to_arrow().num_rows == 1, text
    table.drop_partitions([{"p": str(value)}])
    assert table.refresh().to_arrow().num_rows == 0


def test_each_partition_is_compared_with_few_of_many_specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever column tells them apart."""
    count = 200
    table, known = made(tmp_path, [{"a": number, "b": "x", "f": 0.0} for number in range(count)])
    compared = [0]
    real = partitions._Asked.is_met

    def is_met(self: Any, value: object, text: str) -> bool:
        compared[0] += 1
        return real(self, value, text)

    monkeypatch.setattr(partitions._Asked, "is_met", is_met)
    matches = spec_filter(table.store, [{"b": "x", "a": str(number)} for number in range(0, count, 2)])
    assert sum(map(matches, known)) == count // 2
    assert compared[0] <= 4 * count
