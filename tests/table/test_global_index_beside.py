"""Global indexes beside other programs: what comes between, fails or dies; any condition against a table without."""

from __future__ import annotations

import contextlib
import random
import warnings
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.profile import later, seeds
from tests.sim.clock import FakeClock
from tests.sim.storage import (
    FAIL_AFTER,
    FAIL_BEFORE,
    KILL_AFTER,
    KILL_BEFORE,
    FaultStorage,
    Killed,
    MapStorage,
)
from tests.table.indexed import (
    ACTION,
    EVOLVING,
    SCHEMA,
    VECTORS,
    create,
    files,
    ids,
    indexes,
    insert,
    of,
    rivalled,
)

from bucketlake.catalog import Catalog
from bucketlake.env.env import Env
from bucketlake.errors import BucketlakeError, UnsupportedError
from bucketlake.format.index import bitmap_index
from bucketlake.ops.global_index import build
from bucketlake.ops.rows import global_index
from bucketlake.ops.table.store import clear_cache
from bucketlake.table import Table


def test_a_column_that_changes_while_it_is_indexed_is_indexed_as_it_is_then() -> None:
    storage, table, fired = rivalled(lambda other: other.update({"id": 99}, "id = 7"))
    assert table.create_global_index("id") == 1 and fired
    table = of(storage)
    assert ids(table, "id = 99") == [99] and ids(table, "id = 7") == [] and files(table, "id = 8") == 1


def test_an_index_that_comes_while_its_column_changes() -> None:
    storage, table, fired = rivalled(lambda other: other.create_global_index("id"))
    with pytest.raises(UnsupportedError, match="globally indexed"):
        table.update({"id": 99}, "id = 7")
    assert fired and ids(of(storage), "id = 7") == [7]
    storage, table, fired = rivalled(lambda other: other.create_global_index("id"))
    table.update({"id": 99}, "id = 7", **{ACTION: "DROP_PARTITION_INDEX"})
    assert fired and ids(of(storage), "id = 99") == [99] and not indexes(of(storage))


def test_rows_are_indexed_once() -> None:
    storage, table, fired = rivalled(lambda other: other.create_global_index("id"))
    assert table.create_global_index("id") == 0 and fired
    assert len(indexes(of(storage))) == 1
    assert len([item for item in storage.walk("memory://wh") if "btree" in item.path]) == 1, (
        "what was written in vain is gone"
    )


@pytest.mark.parametrize("first", ["index", "ids"])
@pytest.mark.parametrize("change", ["materialize", "reassign"])
def test_ids_that_change_while_a_column_is_indexed(first: str, change: str) -> None:
    """Whichever is committed first, no index finds rows by ids that they have no more."""

    def index(table: Table) -> None:
        table.create_global_index("id")

    def renumber(table: Table) -> None:
        table.materialize_deletion_vectors() if change == "materialize" else table.reassign_row_ids()

    storage = MapStorage()
    table = create(Catalog(Env(storage, FakeClock()), "memory://wh"), by=("p",), name="default.t")
    for value in range(0, 12, 2):
        insert(table, value, value + 1, p=value // 2 % 2)
    table.delete("id = 3")
    fired: list[int] = []

    def plan(k: int, operation: str, path: str) -> None:
        if operation == "put_if_absent" and "/snapshot/" in path and not fired:
            fired.append(k)
            (index if first == "index" else renumber)(of(storage, 2))

    (renumber if first == "index" else index)(of(FaultStorage(storage, plan), 3))
    table = of(storage, 4)
    assert fired and ids(table, "id >= 0") == [i for i in range(12) if i != 3]
    assert all(ids(table, f"id = {i}") == ([] if i == 3 else [i]) for i in range(12))
    table.create_global_index("id")
    assert all(ids(table, f"id = {i}") == [i] and files(table, f"id = {i}") == 1 for i in range(12) if i != 3)
    assert not table.fsck(level="rows").findings


def test_rows_that_come_or_go_meanwhile() -> None:
    storage, table, fired = rivalled(lambda other: (other.delete("id = 7"), insert(other, 8)))
    table.create_global_index("id")
    assert fired and ids(of(storage), "id IN (7, 8)") == [8, 8]
    storage, table, fired = rivalled(lambda other: other.compact())
    table.create_global_index("id")
    assert fired and ids(of(storage), "id IN (7, 8)") == [7, 8]
    storage, table, fired = rivalled(
        lambda other: other.write_arrow(pa.table({"id": [7], "b": ["x"], "p": [0]}, SCHEMA), mode="overwrite")
    )
    table.create_global_index("id")
    assert fired and ids(of(storage), "id IN (7, 8)") == [7]


FAULTS = [
    (action, fault) for fault in (KILL_AFTER, FAIL_BEFORE, FAIL_AFTER, KILL_BEFORE) for action in ("create", "drop")
]


@pytest.mark.parametrize(("action", "fault"), later(FAULTS, 3))
def test_any_call_may_fail_or_be_the_last(fault: str, action: str) -> None:
    """The index is there whole or not at all, and who repeats the call gets what it was to do."""

    def made() -> MapStorage:
        storage = rivalled(lambda other: None)[0]
        if action == "drop":
            of(storage).create_global_index("id")
        return storage

    def act(table: Table) -> None:
        table.create_global_index("id") if action == "create" else table.drop_global_index("id")

    counting = FaultStorage(made())
    act(of(counting, 3))
    for call in range(len(counting.calls)):
        storage = made()
        broken = FaultStorage(storage, lambda k, operation, path, call=call: fault if k == call else None)  # type: ignore[misc]
        with contextlib.suppress(BucketlakeError, Killed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            act(of(broken, 3))
        clear_cache()
        table = of(storage, 4)
        assert len(indexes(table)) in (0, 1) and ids(table, "id IN (7, 8)") == [7, 8], (call, counting.calls[call])
        assert {finding.code for finding in table.fsck(level="rows").findings} <= {"orphan-file", "hint-latest"}
        act(table)
        assert len(indexes(of(storage, 5))) == (action == "create")


@pytest.mark.parametrize("seed", seeds(5, 200))
def test_against_a_table_without_indexes(catalog: Catalog, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(build, "MOST_ROWS", chance.choice([3, 10, 1 << 20]))
    table = create(catalog, by=chance.choice([(), ("p",)]))

    def some() -> dict[str, list[Any]]:
        count = chance.randint(1, 12)
        values = [chance.choice([None, *range(8)]) for _ in range(count)]
        return {
            "id": values,
            "b": [None if v is None else f"b{v % 3}" for v in values],
            "p": [chance.randint(0, 1)] * count,
        }

    def change(column: str) -> None:
        value = chance.randint(0, 9) if column != "b" else f"b{chance.randint(0, 4)}"
        action = chance.choice(["THROW_ERROR", "DROP_PARTITION_INDEX", "IGNORE"])
        try:
            table.update({column: value}, f"id = {chance.randint(0, 9)}", **{ACTION: action})
        except UnsupportedError:
            assert action == "THROW_ERROR" and indexes(table)

    steps: list[Any] = [
        *[lambda: table.write_arrow(pa.table(some(), SCHEMA))] * 3,
        *[lambda: table.create_global_index(chance.choice(["id", "b"]), chance.choice(["btree", "bitmap"]))] * 2,
        *[lambda: change("id"), lambda: change("b")] * 2,
        lambda: table.drop_global_index(chance.choice(["id", "b"]), chance.choice(["btree", "bitmap"])),
        lambda: table.delete(f"id = {chance.randint(0, 9)}"),
        lambda: table.compact(),
        lambda: table.materialize_deletion_vectors(),
        lambda: table.reassign_row_ids() if table.latest_snapshot() else None,
    ]
    for _ in range(30):
        chance.choice(steps)()
        table = table.refresh()
        every = table.to_arrow().to_pylist()
        for column, value in (("id", chance.randint(0, 9)), ("b", f"b{chance.randint(0, 4)}"), ("id", None)):
            text = f"{column} IS NULL" if value is None else f"{column} = {value!r}"
            expected = [row for row in every if row[column] == value]
            found = table.to_arrow(text).to_pylist()
            assert sorted(map(repr, found)) == sorted(map(repr, expected)), (seed, text)


WIDE = pa.schema(
    [("k", pa.int32()), ("n", pa.int64()), ("s", pa.string()), ("d", pa.decimal128(38, 2)), ("f", pa.float64())]
)
VALUES: dict[str, list[Any]] = {
    "n": [None, -(1 << 40), -1, 0, 1, 2, 300, 70_000],
    "s": [None, "", "a", "ab", "abc", "b", "ä", "äx"],
    "d": [None, *(Decimal(n).scaleb(-2) for n in (-(10**20), -129, -1, 0, 127, 128, 10**19))],
    "f": [None, float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.5, -2.25],
}


def condition(chance: random.Random, depth: int = 2) -> str:
    if depth and chance.random() < 0.6:
        parts = [condition(chance, depth - 1) for _ in range(chance.randint(2, 3))]
        return "(" + chance.choice([" AND ", " OR "]).join(parts) + ")"
    column = chance.choice(list(VALUES))
    if column == "f":
        texts = ["CAST('NaN' AS DOUBLE)", "CAST('Infinity' AS DOUBLE)", "0.0", "-0.0", "1.5", "-2.25", "-0.5"]
    else:
        known = [value for value in VALUES[column] if value is not None]
        texts = [repr(value) if column == "s" else str(value) for value in known]
        texts += ["'aa'", "'c'"] if column == "s" else ["5", "-70000"]
    one, other = chance.choice(texts), chance.choice(texts)
    forms = [
        *[f"{column} {op} {one}" for op in ("=", "<>", "<", "<=", ">", ">=", "<=>")],
        f"NOT {column} <=> {one}",
        f"{column} BETWEEN {one} AND {other}",
        f"{column} IN ({one}, {other})",
        f"{column} NOT IN ({one}, {other})",
        f"{column} NOT IN ({one}, NULL)",
        f"{column} IS NULL",
        f"{column} IS NOT NULL",
        "k < 50",
    ]
    if column == "s":
        forms += [f"s LIKE {text}" for text in ("'a%'", "'%b'", "'a_'", "'ab'", "'ä%x'")]
        forms += [f"NOT s LIKE {one}", f"startswith(s, {one})", f"NOT startswith(s, {one})", f"contains(s, {one})"]
    return chance.choice(forms)


@pytest.mark.parametrize("seed", seeds(6, 300))
def test_conditions_of_every_form(catalog: Catalog, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(build, "MOST_ROWS", chance.choice([5, 40, 1 << 20]))
    monkeypatch.setattr(global_index, "ONE_BLOCK", chance.choice([0, 300, 1 << 20]))
    monkeypatch.setattr(bitmap_index, "ALONE", chance.choice([0, 1024]))
    monkeypatch.setattr(bitmap_index, "MOST_KEYS", chance.choice([2, 1024]))
    table = catalog.create_table("db.w", WIDE, options={**EVOLVING, **VECTORS})

    def some(first: int) -> pa.Table:
        few = {name: chance.sample(values, chance.randint(1, 4)) for name, values in VALUES.items()}
        count = chance.randint(1, 30)
        rows = {name: [chance.choice(values) for _ in range(count)] for name, values in few.items()}
        return pa.table({"k": list(range(first, first + count)), **rows}, WIDE)

    def index() -> None:
        column, kind = chance.choice(list(VALUES)), chance.choice(["btree", "bitmap"])
        options = {"btree_index_block_size": "40 b", "bitmap_index_dictionary_block_size": "40 b"}
        codec = chance.choice(["none", "zstd", "lz4"])
        options |= {"btree_index_compression": codec, "bitmap_index_compression": codec}
        table.create_global_index(column, kind, **options if chance.random() < 0.8 else {})

    for number in range(6):
        table.write_arrow(some(30 * number))
    for _ in range(4):
        index()
        if chance.random() < 0.3:
            table.write_arrow(some(1000))
        if chance.random() < 0.3:
            table.delete(f"k = {chance.randint(0, 200)}")
        if chance.random() < 0.3:
            table.update({"s": "ab"}, f"k = {chance.randint(0, 200)}", **{ACTION: "IGNORE"})
        table = table.refresh()
        plain = table.with_options({"global-index.enabled": "false"})
        for _ in range(8):
            where = condition(chance)
            expected, found = plain.to_arrow(where).to_pylist(), table.to_arrow(where).to_pylist()
            assert sorted(map(repr, found)) == sorted(map(repr, expected)), (seed, where)
