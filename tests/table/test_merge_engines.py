"""Merge engines, row kinds and the order of rows, from a table's options to the rows that it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.histories.changes import changes_of, replay
from tests.profile import examples

import bucketlake
from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError
from bucketlake.format.metadata.manifest import FileSource
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.messages import Split
from bucketlake.table import Table

TYPES = {"k": pa.int64(), "v": pa.int64(), "w": pa.int64(), "s": pa.int64(), "t": pa.string(), "_VALUE_KIND": pa.int8()}
Row = Mapping[str, Any]


def create(folder: Path, options: Mapping[str, Any], columns: str = "kvwst") -> Table:
    catalog = bucketlake.open(str(folder))
    catalog.create_database("db", ignore_if_exists=True)
    schema = pa.schema([pa.field(name, TYPES[name]) for name in columns])
    return catalog.create_table(
        "db.t", schema, primary_keys=["k"], options={"bucket": 1, "write-only": True, **options}
    )


def write(table: Table, rows: Sequence[Row], **options: Any) -> None:
    names = [*table.schema.field_names, *(["_VALUE_KIND"] if any("_VALUE_KIND" in row for row in rows) else [])]
    table.write_arrow(pa.table({n: pa.array([row.get(n) for row in rows], TYPES[n]) for n in names}), **options)


def read(table: Table, columns: str | None = None, **options: Any) -> list[tuple[Any, ...]]:
    names = None if columns is None else list(columns)
    found = table.to_arrow(columns=names, **options)
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=lambda row: (row[0] is None, row))


def row(k: int, v: Any = None, w: Any = None, s: Any = None, t: Any = None, kind: int | None = None) -> Row:
    values = {"k": k, "v": v, "w": w, "s": s, "t": t}
    return values if kind is None else {**values, "_VALUE_KIND": kind}


# options; batches; what is read

CASES: dict[str, tuple[dict[str, str], list[list[Row]], list[tuple[Any, ...]]]] = {
    "deduplicate": (
        {},
        [[row(1, 1), row(2, 1)], [row(1, 2, kind=0), row(2, 1, kind=3)]],
        [(1, 2, None, None, None)],
    ),
    "deduplicate, deletes ignored": (
        {"ignore-delete": "true"},
        [[row(1, 1), row(2, 1)], [row(1, 2, kind=0), row(2, 1, kind=3), row(1, 9, kind=1)]],
        [(1, 2, None, None, None), (2, 1, None, None, None)],
    ),
    "deduplicate, the older spelling": (
        {"deduplicate.ignore-delete": "true"},
        [[row(1, 1)], [row(1, 1, kind=3)]],
        [(1, 1, None, None, None)],
    ),
    "updates' old rows ignored": (
        {"ignore-update-before": "true"},
        [[row(1, 1), row(2, 2)], [row(1, 1, kind=1), row(2, 2, kind=3)]],
        [(1, 1, None, None, None)],
    ),
    "aggregation": (
        {
            "merge-engine": "aggregation",
            "fields.v.aggregate-function": "sum",
            "fields.w.aggregate-function": "max",
            "fields.s.aggregate-function": "first_value",
        },
        [[row(1, 1, 5, 1, "a"), row(1, 2, 3, 2)], [row(1, 10, None, 3, "b")], [row(1, None, 4, 4, None)]],
        [(1, 13, 5, 1, "b")],
    ),
    "aggregation with a default": (
        {"merge-engine": "aggregation", "fields.default-aggregate-function": "max"},
        [[row(1, 1, 5, 1, "a")], [row(1, 0, 6, 0, "b")]],
        [(1, 1, 6, 1, "b")],
    ),
    "aggregation, retraction": (
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        [[row(1, 10)], [row(1, 3, kind=1), row(1, 5, kind=2)]],
        [(1, 12, None, None, None)],
    ),
    "aggregation, retraction ignored": (
        {
            "merge-engine": "aggregation",
            "fields.default-aggregate-function": "max",
            **{f"fields.{name}.ignore-retract": "true" for name in "vwst"},
        },
        [[row(1, 10, 1)], [row(1, 30, 9, kind=3)]],
        [(1, 10, 1, None, None)],
    ),
    "aggregation, records removed": (
        {
            "merge-engine": "aggregation",
            "aggregation.remove-record-on-delete": "true",
            "fields.v.aggregate-function": "sum",
        },
        [[row(1, 10), row(2, 1)], [row(1, 10, kind=3)]],
        [(2, 1, None, None, None)],
    ),
    "partial-update": (
        {"merge-engine": "partial-update"},
        [[row(1, 23, 10)], [row(1, None, None, None, "This is a book")], [row(1, 25)]],
        [(1, 25, 10, None, "This is a book")],
    ),
    "partial-update, records removed": (
        {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
        [[row(1, 1, 1), row(2, 1, 1)], [row(1, kind=3), row(2, kind=1)], [row(1, 7, None, kind=0)]],
        [(1, 7, None, None, None), (2, 1, 1, None, None)],
    ),
    "sequence groups": (
        {"merge-engine": "partial-update", "fields.s.sequence-group": "v,w"},
        [[row(1, 1, 1, 1)], [row(1, 2, None, 3)], [row(1, 3, 3, 2, "t")], [row(1, 4, 4, None)]],
        [(1, 2, None, 3, "t")],
    ),
    "sequence groups with aggregates": (
        {"merge-engine": "partial-update", "fields.s.sequence-group": "v,w", "fields.v.aggregate-function": "sum"},
        [[row(1, 1, 1, 1)], [row(1, 2, 2, 2)], [row(1, 3, 3, 1)]],
        [(1, 6, 2, 2, None)],
    ),
    "records removed by a sequence group": (
        {
            "merge-engine": "partial-update",
            "fields.s.sequence-group": "v,w",
            "partial-update.remove-record-on-sequence-group": "s",
        },
        [[row(1, 1, 1, 5), row(2, 1, 1, 5)], [row(1, 1, 1, 4, kind=3), row(2, 1, 1, 6, kind=3)]],
        [(1, 1, 1, 5, None)],
    ),
    "sequence field": (
        {"sequence.field": "s"},
        [[row(1, 1, None, 5)], [row(1, 2, None, 3)], [row(1, 3)], [row(2, 1, None, 1), row(2, 2, None, 1)]],
        [(1, 1, None, 5, None), (2, 2, None, 1, None)],
    ),
    "sequence field, descending": (
        {"sequence.field": "s", "sequence.field.sort-order": "descending"},
        [[row(1, 1, None, 5)], [row(1, 2, None, 3)], [row(1, 3)]],
        [(1, 2, None, 3, None)],
    ),
    "sequence fields": (
        {"sequence.field": "s,w"},
        [[row(1, 1, 2, 5)], [row(1, 2, 3, 5)], [row(1, 3, 1, 5), row(1, 4, 9, 4)]],
        [(1, 2, 3, 5, None)],
    ),
    "sequence field and aggregation": (
        {"merge-engine": "aggregation", "sequence.field": "s", "fields.v.aggregate-function": "sum"},
        [[row(1, 1, 1, 5)], [row(1, 2, 2, 3)]],
        [(1, 3, 1, 5, None)],
    ),
    "kinds in a column": (
        {"rowkind.field": "t"},
        [[row(1, 1, t="+I"), row(2, 1, t="+I")], [row(1, 2, t="+U"), row(2, 1, t="-D")]],
        [(1, 2, None, None, "+U")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_read(case: str, tmp_path: Path) -> None:
    options, batches, expected = CASES[case]
    table = create(tmp_path, options)
    for rows in batches:
        write(table, rows)
    assert read(table) == expected
    for columns in ("k", "v", "kw", "tv", "s"):
        places = ["kvwst".index(name) for name in columns]
        wanted = sorted([tuple(found[p] for p in places) for found in expected], key=lambda r: (r[0] is None, r))
        assert read(table, columns) == wanted, "a projection gives the same rows"
    for found in expected:
        assert read(table, where=f"k = {found[0]}") == [found]
        if found[1] is not None:
            assert found in read(table, where=f"v = {found[1]}")


@pytest.mark.parametrize("case", CASES)
def test_flushes_of_one_write(case: str, tmp_path: Path) -> None:
    """All rows in one write, spilled row by row: the result of several commits, where no row is a retraction."""
    options, batches, expected = CASES[case]
    rows = [{"_VALUE_KIND": 0, **found} for rows in batches for found in rows]
    if options.get("rowkind.field"):
        rows = [{name: value for name, value in found.items() if name != "_VALUE_KIND"} for found in rows]
    table = create(tmp_path, {**options, "write-buffer-size": "64 b"})
    write(table, rows)
    assert len(table.files()) == 1
    assert read(table) == expected


def test_first_row(tmp_path: Path) -> None:
    table = create(tmp_path, {"merge-engine": "first-row"})
    write(table, [row(1, 1), row(1, 2), row(2, 1)])
    write(table, [row(1, 3), row(3, 1)])
    assert read(table) == [], "what is not compacted is not shown"
    assert [found[:2] for found in everything(table)] == [(1, 1), (2, 1), (3, 1)]
    with pytest.raises(InvalidError, match="First row merge engine can not accept DELETE/UPDATE_BEFORE"):
        write(table, [row(1, 1, kind=3)])
    lenient = create(tmp_path / "lenient", {"merge-engine": "first-row", "first-row.ignore-delete": "true"})
    write(lenient, [row(1, 1, kind=3), row(1, 2, kind=0)])
    assert everything(lenient) == [(1, 2, None, None, None)]


def test_refusals_at_write(tmp_path: Path) -> None:
    table = create(tmp_path / "a", {"merge-engine": "partial-update"})
    write(table, [row(1, 1, kind=0)])
    with pytest.raises(InvalidError, match="By default, Partial update can not accept delete records"):
        write(table, [row(1, 1, kind=3)])
    with pytest.raises(InvalidError, match="did you mean 'sum'"):
        create(tmp_path / "c", {"merge-engine": "aggregation", "fields.t.aggregate-function": "summ"})
    kinds = create(tmp_path / "b", {"rowkind.field": "t"})
    with pytest.raises(InvalidError, match="Row kind cannot be null"):
        write(kinds, [row(1, 1)])
    with pytest.raises(InvalidError, match=r"not a row kind \[column=\w+, value="):
        write(kinds, [row(1, 1, t="I")])
    with pytest.raises(InvalidError, match="not a row kind"):
        write(table, [row(1, 1, kind=7)])
    assert read(table) == [(1, 1, None, None, None)]


def test_overflow_fails_the_write(tmp_path: Path) -> None:
    table = create(tmp_path, {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"})
    with pytest.raises(InvalidError, match="v"):
        write(table, [row(1, 2**62), row(1, 2**62)])
    assert read(table) == [] and table.latest_snapshot() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge-engine": "first-row", "sequence.field": "s"}, "Do not support use sequence field on FIRST_ROW"),
        ({"sequence.field": "s", "fields.s.aggregate-function": "max"}, "Should not define aggregation on sequence"),
        ({"merge-engine": "aggregation", "fields.v.aggregate-function": "count"}, "identifier 'count'"),
        ({"merge-engine": "partial-update", "fields.v.aggregate-function": "sum"}, "Must use sequence group for"),
        ({"merge-engine": "partial-update", "fields.s.sequence-group": "k"}, "contains primary key field 'k'"),
        ({"merge-engine": "partial-update", "fields.s.sequence-group": "q"}, "Field q can not be found in table"),
        (
            {"merge-engine": "partial-update", "fields.s.sequence-group": "v", "fields.w.sequence-group": "v"},
            "Field v is defined repeatedly by multiple groups",
        ),
        (
            {
                "merge-engine": "partial-update",
                "ignore-delete": "true",
                "partial-update.remove-record-on-delete": "true",
            },
            "ignore-delete and partial-update.remove-record-on-delete have conflicting behavior",
        ),
        (
            {
                "merge-engine": "partial-update",
                "fields.s.sequence-group": "v",
                "partial-update.remove-record-on-delete": "true",
            },
            "sequence-group and partial-update.remove-record-on-delete have conflicting behavior",
        ),
        (
            {"merge-engine": "partial-update", "partial-update.remove-record-on-sequence-group": "s"},
            "must be part of sequence groups",
        ),
        (
            {
                "merge-engine": "aggregation",
                "aggregation.remove-record-on-delete": "true",
                "fields.v.ignore-retract": "true",
            },
            "have conflicting behavior",
        ),
        ({"rowkind.field": "v"}, "only support string type for rowkind"),
        ({"sequence.snapshot-ordering": "true", "sequence.field": "s"}, "is mutually exclusive with sequence.field"),
        ({"sequence.snapshot-ordering": "true", "write-only": "false"}, "requires write-only = true"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_table(options: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidError) as caught:
        create(tmp_path, options)
    assert message in str(caught.value)


def test_nested_sequence_fields_are_refused_by_name(tmp_path: Path) -> None:
    catalog = bucketlake.open(str(tmp_path))
    catalog.create_database("db")
    schema = pa.schema([("k", pa.int64()), ("l", pa.list_(pa.int64()))])
    with pytest.raises(UnsupportedError, match=r"sequence\.field"):
        catalog.create_table("db.t", schema, primary_keys=["k"], options={"bucket": 1, "sequence.field": "l"})


# ---- the order of snapshots


def test_snapshot_ordering(tmp_path: Path) -> None:
    """A writer whose sequence numbers are behind still wins if its snapshot is later."""
    table = create(tmp_path, {"sequence.snapshot-ordering": "true"})
    write(table, [row(k, 1) for k in range(5)])
    write(table, [row(0, 2), row(0, 3), row(1, 2)])
    files = [found.file for found in table.files()]
    assert [(f.min_sequence_number, f.max_sequence_number) for f in files] == [(1, 1), (2, 2)]
    assert all(file.file_source is FileSource.APPEND for file in files)
    expected = [(0, 3), (1, 2), (2, 1), (3, 1), (4, 1)]
    assert [found[:2] for found in read(table)] == expected
    table.compact()
    (file,) = [found.file for found in table.files()]
    assert (file.min_sequence_number, file.max_sequence_number) == (1, 2), "each row keeps its snapshot"
    assert [found[:2] for found in read(table)] == expected
    write(table, [row(0, 4), row(4, 4)])
    assert [found[:2] for found in read(table)] == [(0, 4), (1, 2), (2, 1), (3, 1), (4, 4)]


def test_snapshot_ordering_of_aggregates(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "first_value"}
    table = create(tmp_path, {"sequence.snapshot-ordering": "true", **options})
    for value in (5, 6, 7):
        write(table, [row(1, value, value)])
    assert read(table) == [(1, 5, 7, None, None)]


# ---- random operations

ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "first-row": {"merge-engine": "first-row"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.w.aggregate-function": "min",
        "fields.s.aggregate-function": "last_value",
    },
    "partial-update": {"merge-engine": "partial-update"},
    "sequence-group": {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "v,w",
        "fields.w.aggregate-function": "sum",
    },
    "sequence-field": {"sequence.field": "s"},
}


def folded(engine: str, rows: Sequence[Row]) -> Row:
    """What a key's rows, oldest first, come to."""
    if len(rows) == 1:
        return rows[0]
    held = dict(rows[0])
    if engine == "sequence-group" and held["s"] is None:
        held.update(v=None, w=None)
    for new in rows[1:]:
        held = step(engine, held, new)
    return held


def step(engine: str, held: dict[str, Any], new: Row) -> dict[str, Any]:
    """What a key holds after one more row."""
    if engine == "first-row":
        return held
    if engine == "deduplicate":
        return dict(new)
    if engine == "sequence-field":
        return held if _before(new["s"], held["s"]) else dict(new)
    if engine == "partial-update":
        return {name: new[name] if new[name] is not None else held[name] for name in held}
    both = dict(held)
    added = [value for value in (held["w"], new["w"]) if value is not None]
    if engine == "aggregation":
        sums = [value for value in (held["v"], new["v"]) if value is not None]
        both.update(v=sum(sums) if sums else None, w=min(added, default=None), s=new["s"])
    elif new["s"] is not None:
        both["w"] = sum(added) if added else None
        if held["s"] is None or new["s"] >= held["s"]:
            both.update(v=new["v"], s=new["s"])
    if new["t"] is not None:
        both["t"] = new["t"]
    return both


def _before(one: int | None, other: int | None) -> bool:
    return (one is not None, one or 0) < (other is not None, other or 0)


small = st.none() | st.integers(0, 5)
rows = st.lists(
    st.builds(row, st.integers(0, 4), small, small, small, st.none() | st.sampled_from("abc")), min_size=1, max_size=10
)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=examples(4, 200), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    writes=st.lists(
        st.tuples(rows, st.sampled_from(["64 b", "300 b", "1 mb"]), st.sampled_from([None, None, False, True])),
        min_size=1,
        max_size=5,
    )
)
def test_any_writes(
    engine: str, writes: list[tuple[list[Row], str, bool | None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Reads after each write, and after each compaction, give the fold of all rows so far, whatever the size of the
    write buffer; those of one key as those of all."""
    table = create(tmp_path_factory.mktemp("t"), ENGINES[engine])
    model: dict[int, list[Row]] = {}
    for batch, buffer, full in writes:
        write(table, batch, **{"write-buffer-size": buffer})
        for new in batch:
            model.setdefault(new["k"], []).append(new)
        expected = [tuple(folded(engine, model[key]).values()) for key in sorted(model)]
        assert everything(table) == expected
        if full is not None:
            table.compact(full=full)
            assert everything(table) == expected
            assert not full or read(table) == expected
        if engine != "first-row":
            assert [found for key in sorted(model) for found in read(table, where=f"k = {key}")] == expected


def test_a_key_is_read_from_the_newest_files_that_have_it(tmp_path: Path) -> None:
    table = create(tmp_path, {}, "kv")
    write(table, [row(key, 0) for key in range(10)])
    older = [file.path for file in table.files()]
    write(table, [row(key, 1) for key in (0, 3, 9)])
    write(table, [row(5, None, kind=3), row(9, 2, kind=0)])
    for path in older:
        Path(path).unlink()
    assert [read(table, where=f"k = {key}") for key in (0, 3, 5, 9)] == [[(0, 1)], [(3, 1)], [], [(9, 2)]]
    assert read(table, where="k IN (3) AND v = 1") == [(3, 1)]
    for where in ("k = 4", "k IN (3, 4)", "v = 1", "k = 3 OR v = 1"):
        with pytest.raises(NotFoundError):
            read(table, where=where)


@pytest.mark.parametrize(
    "options",
    [{"sequence.field": "s"}, {"merge-engine": "partial-update"}, {"ignore-delete": "true"}],
    ids=lambda options: next(iter(options)),
)
def test_older_files_count_where_more_than_the_last_row_does(options: dict[str, str], tmp_path: Path) -> None:
    table = create(tmp_path, options, "kvs")
    write(table, [row(key, 7, s=9) for key in range(3)])
    write(table, [row(0, 1, s=1), row(2)] if "sequence.field" in options else [row(0, None, s=1), row(2)])
    if "ignore-delete" in options:
        write(table, [row(1, 1, s=1, kind=3)])
    assert [read(table, where=f"k = {key}") for key in range(3)] == [[found] for found in read(table)]


def everything(table: Table) -> list[tuple[Any, ...]]:
    """The table's rows, those of a first-row table that wait for compaction too."""
    if table.options.get("merge-engine") != "first-row":
        return read(table)
    store = table.store
    entries = list(live_entries(store, store.latest_snapshot()))
    files = tuple(entry.file for entry in entries)
    folder = store.paths.bucket_dir(entries[0].partition, 0)
    split = Split(1, entries[0].partition, 0, 1, folder, files, raw=False)
    return sorted(tuple(found.values()) for batch in read_split(store, split) for found in batch.to_pylist())


# What compaction that looks up (changelog-producer lookup, deletion vectors) makes of a key's only row: it is merged with
# nothing. Options; the first row, what is there after it; the second row, what is there after it.
ALONE: dict[str, tuple[dict[str, str], Row, list[tuple[Any, ...]], Row, list[tuple[Any, ...]]]] = {
    "a sum that begins with a retraction": (
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        row(1, 5, kind=1),
        [(1, -5, None, None, None)],
        row(1, 7, kind=0),
        [(1, 2, None, None, None)],
    ),
    "a group without its sequence": (
        {"merge-engine": "partial-update", "fields.s.sequence-group": "v,w"},
        row(1, 5, 6, t="a", kind=0),
        [(1, None, None, None, "a")],
        row(1, s=1, w=2, kind=0),
        [(1, None, 2, 1, "a")],
    ),
}
LOOKS_UP = ({"changelog-producer": "lookup"}, {"deletion-vectors.enabled": "true"}, {"force-lookup": "true"})


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("looks", LOOKS_UP, ids=["lookup", "vectors", "forced"])
def test_looking_up_merges_a_row_that_is_alone(tmp_path: Path, looks: Mapping[str, str], name: str) -> None:
    options, first, between, second, after = ALONE[name]
    table = create(tmp_path, {**options, **looks, "write-only": False})
    write(table, [row(2, 1, s=1, kind=0)])
    table.compact()
    other = read(table, where="k = 2")
    write(table, [first])
    table.compact(full=False)
    assert read(table) == sorted([*between, *other])
    write(table, [second])
    table.compact(full=False)
    assert read(table) == sorted([*after, *other])


def test_changelog_of_a_row_that_is_alone(tmp_path: Path) -> None:
    """Told is what is read: a file that is moved to the top as it is hides its retraction, one that is rewritten does
    not."""
    options, *_ = ALONE["a sum that begins with a retraction"]
    table = create(tmp_path, {**options, "changelog-producer": "lookup", "write-only": False}, "kv")
    held: dict[Any, dict[str, Any]] = {}
    for rows in [[row(1, 5, kind=1)], [row(1, 7, kind=0)], [row(2, 3, kind=1), row(1, 1, kind=1)], [row(2, 9, kind=0)]]:
        write(table, rows)
        newest = table.refresh().snapshots()[-2:]
        replay(held, [change for at in newest for change in changes_of(table, at)], True, keys=["k"])
        assert sorted(tuple(each.values()) for each in held.values()) == read(table)
    assert read(table) == [(1, 1), (2, 6)]
