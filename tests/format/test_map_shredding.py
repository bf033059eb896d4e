"""MAP columns that files hold shredded: what was written comes back, its keys lie where Paimon's policies put them, and
files that speak of themselves wrongly are refused."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.format.datafile_values import kind, types, values
from tests.format.reading import read_data_file
from tests.profile import examples

from bucketlake.env.local import LocalStorage
from bucketlake.errors import CorruptError, InvalidError
from bucketlake.format.data import map_placement, map_reading, map_writing
from bucketlake.format.data.datafile import DataFileWriter
from bucketlake.format.data.file_format import FileFormat, format_of
from bucketlake.format.data.map_placement import Placer
from bucketlake.format.data.map_writing import Widths
from bucketlake.format.metadata.stats import ColumnStats, StatsMode
from bucketlake.options.map_layout import MapLayout
from bucketlake.types.model import DataField, DataType, Root, arrow_schema

STORAGE = LocalStorage()
POLICIES = ("plain", "sequential", "lru")
PREFIX = "paimon.map.shared-shredding."
NUMBERS = [DataField(0, "id", kind("INT")), DataField(1, "m", kind("MAP<STRING NOT NULL, BIGINT>"))]
Row = dict[str, Any]


def write(path: str, fields: list[DataField], batches: Iterable[pa.RecordBatch], **maps: MapLayout) -> ColumnStats:
    form = FileFormat(format_of(path), maps=maps)
    writer = DataFileWriter(STORAGE, path, fields, form, [StatsMode("full")] * len(fields))
    for batch in batches:
        writer.write(batch)
        writer.flush()
    return writer.close().stats[-1]


def read(path: str, fields: list[DataField], columns: Sequence[str] | None = None) -> pa.Table:
    wanted = [item for item in fields if columns is None or item.name in columns]
    found = pa.Table.from_batches(read_data_file(STORAGE, path, format_of(path), fields, columns), arrow_schema(wanted))
    found.validate(full=True)
    return found


def batch_of(fields: list[DataField], *columns: list[Any]) -> pa.RecordBatch:
    schema = arrow_schema(fields)
    arrays = [pa.array(column, item.type) for column, item in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def of_maps(*maps: dict[str, int | None] | None) -> pa.RecordBatch:
    return batch_of(NUMBERS, list(range(len(maps))), [None if one is None else list(one.items()) for one in maps])


def unordered(column: pa.ChunkedArray) -> list[dict[str, Any] | None]:
    found = column.to_pylist()
    assert all(one is None or len(dict(one)) == len(one) for one in found)
    return [None if one is None else dict(one) for one in found]


def metadata(path: str, column: str = "m") -> dict[str, Any]:
    """What a file says of a shredded column."""
    notes = pq.read_metadata(path).metadata if path.endswith("parquet") else orc.ORCFile(path).metadata
    said = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(notes[b"ARROW:schema"]))).field(column).metadata
    assert said[b"paimon.map.storage-layout"] == b"shared-shredding"
    found = {key.decode().removeprefix(PREFIX): value.decode() for key, value in said.items()}
    packed = found["field-dict"].encode("latin-1")
    if found["field-dict-compression"] == "zstd":
        packed = pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read()
    if found["field-dict-compression"] == "lz4":
        packed = pa.decompress(packed[8:], int(found["field-dict-original-size"]), "lz4_raw", asbytes=True)
    assert len(packed) == int(found["field-dict-original-size"])
    return {**found, "names": json.loads(packed), "places": json.loads(found["field-columns"])}


# ---------------------------------------------------------------------------------------------- round trips


@st.composite
def shredded(draw: st.DrawFn) -> tuple[list[DataField], list[pa.RecordBatch], MapLayout]:
    """Rows of a map of any values, some keys in many rows, in several batches."""
    value = draw(types(2))
    item = DataType(Root.MAP, draw(st.booleans()), key=kind("STRING").with_nullable(False), element=value)
    fields = [DataField(0, "id", kind("INT")), DataField(7, "m", item)]
    entry = st.tuples(st.sampled_from("abcdeéf日") | st.text(max_size=3), values(value, True))
    rows = st.lists(entry, max_size=5, unique_by=lambda pair: pair[0])
    some = st.lists(st.none() | rows if item.nullable else rows, max_size=6)
    batches = [batch_of(fields, [1] * len(part), part) for part in draw(st.lists(some, min_size=1, max_size=3))]
    return fields, batches, MapLayout(draw(st.integers(1, 4)), draw(st.sampled_from(POLICIES)))


@settings(max_examples=examples(40, 800), deadline=None)
@given(shredded(), st.sampled_from(("parquet", "orc")))
def test_round_trip(made: tuple[list[DataField], list[pa.RecordBatch], MapLayout], name: str) -> None:
    fields, batches, layout = made
    given = pa.Table.from_batches(batches)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/data.{name}"
        stats = write(path, fields, batches, m=layout)
        assert (stats.min, stats.max, stats.null_count) == (None, None, given.column("m").null_count)
        found = read(path, fields)
        assert unordered(found.column("m")) == unordered(given.column("m"))
        assert read(path, fields, ["m"]).column("m") == found.column("m")
        assert read(path, fields, ["id"]).num_rows == given.num_rows
        said = metadata(path)
        assert int(said["num-columns"]) == layout.columns
        assert int(said["max-row-width"]) == max((len(one or ()) for one in given.column("m").to_pylist()), default=0)


@pytest.mark.parametrize("name", ["parquet", "orc"])
@pytest.mark.parametrize("policy", POLICIES)
def test_many_rows_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, policy: Any) -> None:
    """Pieces, blocks and batches of few rows, and far more keys than columns."""
    monkeypatch.setattr(map_writing, "CELLS", 1 << 8)
    monkeypatch.setattr(map_reading, "CELLS", 1 << 8)
    monkeypatch.setattr(map_placement, "_BLOCK", 16)
    chance = np.random.default_rng(7)
    maps = [{f"k{k}": int(k) for k in chance.choice(40, chance.integers(0, 7), False)} for _ in range(500)]
    given = of_maps(*maps)
    path = f"{tmp_path}/data.{name}"
    write(path, NUMBERS, [given.slice(0, 333), given.slice(333)], m=MapLayout(5, policy))
    found = read(path, NUMBERS)
    assert unordered(found.column("m")) == maps
    assert found.column("id").to_pylist() == list(range(500))


def test_two_maps_and_a_plain_one(tmp_path: Path) -> None:
    fields = [*NUMBERS, DataField(2, "p", NUMBERS[1].type), DataField(3, "n", NUMBERS[1].type)]
    one, other = [[("a", 1)], None, []], [[("a", 5), ("b", 6)], [], None]
    path = f"{tmp_path}/data.parquet"
    write(path, fields, [batch_of(fields, [1, 2, 3], one, one, other)], m=MapLayout(1), n=MapLayout(1))
    found = read(path, fields)
    assert [found.column(name).to_pylist() for name in "mpn"] == [one, one, other]
    assert pa.types.is_map(pq.read_schema(path).field("p").type)
    assert pa.types.is_struct(pq.read_schema(path).field("n").type)


def test_rows_are_decoded_up_to_a_limit_of_values(tmp_path: Path) -> None:
    """Null values take no room in a file, so that its size says nothing of what its batches take."""
    path = f"{tmp_path}/data.parquet"
    write(path, NUMBERS, [of_maps(*[{"a": 1}] * 40_000)], m=MapLayout(1024))
    sizes = [batch.num_rows for batch in read_data_file(STORAGE, path, "parquet", NUMBERS)]
    assert sum(sizes) == 40_000
    assert max(sizes) <= map_reading.CELLS // 1024


def test_a_key_twice_is_refused(tmp_path: Path) -> None:
    twice = batch_of(NUMBERS, [1], [[("a", 1), ("a", 2)]])
    with pytest.raises(InvalidError, match="a map has a key twice"):
        write(f"{tmp_path}/data.parquet", NUMBERS, [twice], m=MapLayout(2))


def test_a_file_takes_no_more_rows_than_its_footer_may_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_writing, "MOST_TOLD", 100)
    form = FileFormat("parquet", maps={"m": MapLayout(2)})
    writer = DataFileWriter(STORAGE, f"{tmp_path}/data.parquet", NUMBERS, form, [StatsMode("none")] * 2)
    batch = of_maps(*[{f"key {number}": number} for number in range(20)])
    assert writer.room(batch, 1 << 30) == 20
    writer.write(batch)
    writer.flush()
    assert writer.room(batch, 1 << 30) == 0
    assert writer.close().rows == 20


# ---------------------------------------------------------------------------------------------- placement


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_told_of_a_column(tmp_path: Path, policy: Any) -> None:
    """The rows of Paimon's test of its policies. Where its `lru` overflows c, that of fewer columns than keys d."""
    path = f"{tmp_path}/data.parquet"
    rows = of_maps({"a": 10, "b": 20, "c": 30}, {"a": 40, "b": 50}, {"d": 60}, {"a": 70, "b": 80, "c": 90, "d": 100})
    write(path, NUMBERS, [rows], m=MapLayout(3, policy))
    said = metadata(path)
    assert said["version"] == "1"
    assert said["names"] == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert said["overflow-set"] == "[3]"
    assert said["places"] == {"0": [0], "1": [1], "2": [2], "3": [0]}
    assert (said["num-columns"], said["max-row-width"]) == ("3", "4")


def test_keys_are_numbered_as_they_come(tmp_path: Path) -> None:
    path = f"{tmp_path}/data.parquet"
    write(path, NUMBERS, [of_maps({"z": 1, "a": 2}), of_maps({"b": 3, "z": 1})], m=MapLayout(3, "plain"))
    said = metadata(path)
    assert said["names"] == {"z": 0, "a": 1, "b": 2}
    assert list(said["names"]) == ["a", "b", "z"]
    assert said["places"] == {"0": [0, 1], "1": [1], "2": [0]}


def test_files_without_keys(tmp_path: Path) -> None:
    for number, maps in enumerate(([None, None], [{}, {}], [])):
        path = f"{tmp_path}/data-{number}.parquet"
        write(path, NUMBERS, [of_maps(*maps)], m=MapLayout(3))
        said = metadata(path)
        assert (said["names"], said["places"], said["overflow-set"], said["max-row-width"]) == ({}, {}, "[]", "0")
        assert unordered(read(path, NUMBERS).column("m")) == maps


def evicting(columns: int, rows: Iterable[list[int]]) -> list[dict[int, int]]:
    """Paimon's `lru`, row by row: number of a key -> column."""
    resident, used = [-1] * columns, [0] * columns
    found = []
    for clock, numbers in enumerate(rows):
        own = {number: resident.index(number) for number in numbers if number in resident}
        for number in sorted(set(numbers) - own.keys()):
            free = [at for at in range(columns) if at not in own.values()]
            if free:
                own[number] = next((at for at in free if resident[at] < 0), min(free, key=lambda at: used[at]))
        for number, at in own.items():
            resident[at], used[at] = number, clock
        found.append(own)
    return found


@settings(max_examples=examples(60, 600), deadline=None)
@given(st.data(), st.sampled_from(POLICIES), st.integers(1, 6))
def test_placement(data: st.DataObject, policy: Any, columns: int) -> None:
    """Each key has one column or overflows, which none does where its row has no more keys than there are columns."""
    raw = data.draw(st.lists(st.lists(st.integers(0, 9), unique=True, max_size=8), min_size=1, max_size=12))
    numbered: dict[int, int] = {}
    rows = [[numbered.setdefault(key, len(numbered)) for key in row] for row in raw]
    cut = data.draw(st.integers(0, len(rows)))
    placer, found = Placer(MapLayout(columns, policy)), []
    for part in (rows[:cut], rows[cut:]):
        part = [sorted(row) for row in part] if placer.by_number else part
        numbers = np.array([number for row in part for number in row], np.int64)
        at = np.repeat(np.arange(len(part)), [len(row) for row in part]).astype(np.int64)
        slots = placer.placed(at, numbers, len(part))
        for row in range(len(part)):
            own = at == row
            found.append(dict(zip(numbers[own].tolist(), slots[own].tolist(), strict=True)))
    for row, placed in zip(rows, found, strict=True):
        inside = [slot for slot in placed.values() if slot >= 0]
        assert placed.keys() == set(row)
        assert len(set(inside)) == len(inside) == min(len(row), columns)
        assert all(slot < columns for slot in inside)
        if policy == "plain":
            assert placed == {number: at if at < columns else -1 for at, number in enumerate(row)}
        if policy == "sequential":
            assert placed == {number: at if at < columns else -1 for at, number in enumerate(sorted(row))}
    if policy == "lru" and len(numbered) <= columns:
        assert found == evicting(columns, rows)


def test_the_key_not_seen_for_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block by block, what Paimon's `lru` does row by row."""
    monkeypatch.setattr(map_placement, "_BLOCK", 1)
    chance = np.random.default_rng(3)
    rows: list[list[int]] = []
    known = 0
    for _ in range(300):
        fresh = range(known, known := min(known + int(chance.integers(0, 2)), 30))
        old = chance.choice(known, int(chance.integers(0, min(known, 4) + 1)), False).tolist() if known else []
        rows.append(sorted({*old, *fresh}))
    numbers = np.array([number for row in rows for number in row], np.int64)
    at = np.repeat(np.arange(len(rows)), [len(row) for row in rows]).astype(np.int64)
    slots = Placer(MapLayout(8, "lru")).placed(at, numbers, len(rows))
    found: list[dict[int, int]] = [{} for _ in rows]
    for row, number, slot in zip(at.tolist(), numbers.tolist(), slots.tolist(), strict=True):
        found[row][number] = slot
    assert found == evicting(8, rows)


@pytest.mark.parametrize(
    ("met", "columns"),
    [
        ([], 256),
        ([3], 3),
        ([0], 1),
        ([1000], 256),
        ([10] * 19 + [14], 14),  # at most 4 wider: all
        ([100] * 19 + [120], 120),  # at most a quarter wider: all
        ([10] * 19 + [40], 10),
        ([10] * 17 + [40] * 3, 40),
        ([200] + [10] * 20, 10),  # the oldest is forgotten
    ],
)
def test_how_many_columns_the_next_file_has(met: list[int], columns: int) -> None:
    widths = Widths({"m": MapLayout(256, "plain"), "n": MapLayout(4)})
    for width in met:
        widths.met({"m": width})
    assert widths.layouts() == {"m": MapLayout(columns, "plain"), "n": MapLayout(4)}


# ---------------------------------------------------------------------------------------------- what Paimon wrote


VALUE = pa.struct([pa.field("a", pa.int32())])


def forged(
    path: Path, change: Callable[[dict[bytes, bytes]], object] = lambda said: None, rows: pa.Array | None = None
) -> str:
    """A file of one row {"a": 1} and another {"b": 2, "c": 3}, with other metadata or other columns."""
    said = {
        b"paimon.map.storage-layout": b"shared-shredding",
        **{f"{PREFIX}{key}".encode(): value for key, value in SAID.items()},
    }
    change(said)
    column = PHYSICAL if rows is None else rows
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("m", column.type, metadata=said)])
    with pq.ParquetWriter(path / "data.parquet", schema.remove_metadata(), store_schema=False) as writer:
        writer.write_table(pa.Table.from_arrays([pa.array([1, 2], pa.int32()), column], schema=schema))
        notes = base64.b64encode(schema.serialize().to_pybytes())
        writer.add_key_value_metadata({"ARROW:schema": notes.decode()})
    return str(path / "data.parquet")


SAID = {
    "version": b"1",
    "field-dict": b'{"a":0,"b":1,"c":2}',
    "field-dict-compression": b"none",
    "field-dict-original-size": b"19",
    "field-columns": b"{}",
    "overflow-set": b"[]",
    "num-columns": b"1",
    "max-row-width": b"2",
}
STORED = pa.struct(
    [
        pa.field("__field_mapping", pa.list_(pa.int32())),
        pa.field("__col_0", pa.int64()),
        pa.field("__overflow", pa.map_(pa.int32(), pa.int64())),
    ]
)


def stored(*rows: tuple[list[int | None] | None, int | None, list[tuple[int, int]] | None] | None) -> pa.Array:
    names = [item.name for item in STORED.fields]
    return pa.array([None if row is None else dict(zip(names, row, strict=True)) for row in rows], STORED)


PHYSICAL = stored(([0], 1, None), ([1], 2, [(2, 3)]))


def test_a_file_as_it_stands_in_the_specification(tmp_path: Path) -> None:
    assert read(forged(tmp_path), NUMBERS).column("m").to_pylist() == [[("a", 1)], [("b", 2), ("c", 3)]]


def test_a_column_without_the_metadata_is_none(tmp_path: Path) -> None:
    """What says nothing of itself is read as the map that the schema has, and is none."""
    with pytest.raises(CorruptError, match="wrong type"):
        read(forged(tmp_path, lambda said: said.pop(b"paimon.map.storage-layout")), NUMBERS)


def put(key: str, value: bytes) -> Callable[[dict[bytes, bytes]], object]:
    return lambda said: said.update({f"{PREFIX}{key}".encode(): value})


def keyed(data: bytes, codec: bytes = b"none", size: int | None = None) -> Callable[[dict[bytes, bytes]], object]:
    def change(said: dict[bytes, bytes]) -> None:
        put("field-dict", data.decode("latin-1").encode())(said)
        put("field-dict-compression", codec)(said)
        put("field-dict-original-size", str(len(data) if size is None else size).encode())(said)

    return change


BOMB = pa.Codec("zstd").compress(b" " * (1 << 28), asbytes=True)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (put("version", b"2"), "unknown version"),
        (put("version", b""), "unknown version"),
        (lambda said: said.pop(b"paimon.map.shared-shredding.num-columns"), "not whole"),
        (put("num-columns", b"-1"), "not whole"),
        (put("num-columns", b"99999999999"), "not whole"),
        (put("num-columns", b"0"), "no value columns"),
        (put("num-columns", b"2"), "does not have the columns"),
        (put("num-columns", b"2147483647"), "does not have the columns"),
        (put("max-row-width", b"x"), "not whole"),
        (keyed(b"[]"), "cannot be read"),
        (keyed(b'{"a":0'), "cannot be read"),
        (keyed(b'{"a":-1}'), "not numbered"),
        (keyed(b'{"a":4294967296}'), "not numbered"),
        (keyed(b'{"a":"0"}'), "not numbered"),
        (keyed(b'{"a":0,"b":0}'), "one number"),
        (keyed(b'{"a":0,"b":1}'), "key without a name"),
        (keyed(b"{}"), "key without a name"),
        (keyed(b"{}", b"snappy"), "unknown compression"),
        (keyed(b"{}", size=3), "not as long"),
        (keyed(b"{}", size=2147483647), "more keys than any file"),
        (keyed(b"no zstd", b"zstd"), "cannot be read"),
        (keyed(BOMB, b"zstd", 19), "not as long"),
        (keyed(BOMB, b"zstd", 1 << 28), "more keys than any file"),
        (keyed(b"\x01\0\0\0\0\0\0\x04\0", b"lz4", 1 << 26), "do not decompress"),
        (keyed(b"\x01", b"lz4"), "cannot be read"),
    ],
)
def test_metadata_that_is_wrong_is_refused(tmp_path: Path, change: Any, what: str) -> None:
    with pytest.raises(CorruptError, match=what) as caught:
        read(forged(tmp_path, change), NUMBERS)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (stored(([0], 1, None), ([7], 2, None)), "key without a name"),
        (stored(([0], 1, None), ([0], 2, [(7, 1)])), "key without a name"),
        (stored(([0], 1, None), ([0], 2, [(-1, 1)])), "key without a name"),
        (stored(([0], 1, None), ([], 2, None)), "where their keys are"),
        (stored(([0, 1], 1, None), ([1], 2, None)), "where their keys are"),
        (stored(([0], 1, None), (None, 2, None)), "where their keys are"),
        (stored(([0], 1, None), ([None], 2, None)), "where their keys are"),
        (PHYSICAL.field(1), "does not have the columns"),
        (pa.StructArray.from_arrays(PHYSICAL.flatten()[:2], ["__field_mapping", "__col_0"]), "does not have"),
    ],
)
def test_rows_that_are_wrong_are_refused(tmp_path: Path, rows: pa.Array, what: str) -> None:
    with pytest.raises(CorruptError, match=what):
        read(forged(tmp_path, rows=rows), NUMBERS)


def test_nulls_where_the_type_has_none_are_refused(tmp_path: Path) -> None:
    rows = stored(None, ([1], None, None))
    assert read(forged(tmp_path, rows=rows), NUMBERS).column("m").to_pylist() == [None, [("b", None)]]
    for text in ("MAP<STRING NOT NULL, BIGINT> NOT NULL", "MAP<STRING NOT NULL, BIGINT NOT NULL>"):
        with pytest.raises(CorruptError, match="null"):
            read(forged(tmp_path, rows=rows), [NUMBERS[0], DataField(1, "m", kind(text))])


@pytest.mark.parametrize("maps", [{}, {"m": MapLayout(1)}])
@pytest.mark.parametrize("name", ["parquet", "orc"])
def test_null_rows_with_not_null_members_are_written_again(
    tmp_path: Path, name: str, maps: dict[str, MapLayout]
) -> None:
    """As a compaction does with what it has read: below such rows files have nulls that no one sees."""
    fields = [NUMBERS[0], DataField(1, "m", kind("MAP<STRING NOT NULL, ROW<f BOOLEAN NOT NULL, g INT>>"))]
    rows = [[("a", None), ("b", {"f": True, "g": 1})], [("a", None)]]
    given = batch_of(fields, [1, 2], rows)
    for path in (f"{tmp_path}/first.{name}", f"{tmp_path}/second.{name}"):
        write(path, fields, [given], **maps)
        (given,) = read(path, fields).to_batches()
    assert [dict(row) for row in given.column("m").to_pylist()] == [dict(row) for row in rows]
