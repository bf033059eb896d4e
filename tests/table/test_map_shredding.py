"""Tables whose MAP columns are stored shredded: the rows of every kind of table, what a schema may be, and files of both
layouts beside each other."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.profile import examples, later

import bucketlake
from bucketlake import InvalidError, Table
from bucketlake.catalog import Catalog
from bucketlake.catalogs.clone import Cloning
from bucketlake.schema.change import AddColumn, DropColumn, RemoveOption, RenameColumn, SetOption, UpdateColumnType
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import BIGINT, DataField
from bucketlake.types.parse import parse_type_text

LAYOUT = "fields.m.map.storage-layout"
COLUMNS = "fields.m.map.shared-shredding.max-columns"
PLACEMENT = "fields.m.map.shared-shredding.column-placement-policy"
SHREDDED = {LAYOUT: "shared-shredding", COLUMNS: "2"}
MAP = "MAP<STRING NOT NULL, BIGINT>"
SCHEMA = pa.schema([("id", pa.int32()), ("m", pa.map_(pa.string(), pa.int64()))])
FORMATS = ("parquet", "orc")
Maps = dict[int, dict[str, int | None] | None]


def new_table(catalog: Catalog, name: str = "t", keys: str = "", **options: str) -> Table:
    bucket = {"bucket": "1"} if keys else {"bucket": "-1"}
    return catalog.create_table(name, SCHEMA, primary_keys=keys, options={**bucket, **options})


def data(maps: Maps, schema: pa.Schema = SCHEMA) -> pa.Table:
    lists = [None if one is None else list(one.items()) for one in maps.values()]
    return pa.table([pa.array(list(maps), pa.int32()), pa.array(lists, schema.field(1).type)], schema=schema)


def maps_of(table: Table, **read: Any) -> Maps:
    found = table.refresh().to_arrow(**read)
    found.validate(full=True)
    rows = {row["id"]: row[found.schema.names[1]] for row in found.to_pylist()}
    assert len(rows) == found.num_rows
    return {key: None if value is None else dict(value) for key, value in sorted(rows.items())}


def layouts(table: Table) -> list[int | None]:
    """By live file, oldest first: how many value columns `m` has there; None where it is a plain map."""
    found = []
    table = table.refresh()
    for path in [one.path for one in sorted(table.files(), key=lambda one: (one.file.schema_id, one.path))]:
        source = pq.ParquetFile(path) if path.endswith("parquet") else orc.ORCFile(path)
        notes = source.metadata.metadata if path.endswith("parquet") else source.metadata
        kind = (source.schema_arrow if path.endswith("parquet") else source.schema).field("m").type
        said = {}
        if b"ARROW:schema" in (notes or {}):
            said = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(notes[b"ARROW:schema"]))).field("m").metadata
        columns = said.get(b"paimon.map.shared-shredding.num-columns")
        assert pa.types.is_map(kind) == (columns is None)
        found.append(None if columns is None else int(columns))
    return found


# ---------------------------------------------------------------------------------------------- what a schema may be


def create(catalog: Catalog, kind: str, options: dict[str, str], **more: Any) -> Table:
    fields = [DataField(0, "id", parse_type_text("INT")), DataField(1, "m", parse_type_text(kind, "flink"))]
    return catalog.create_table("t", [*fields, *more.pop("others", ())], options=options, **more)


ONLY = "MAP shared-shredding only supports"
WHERE = "Column 'm' is configured with map.storage-layout"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("INT", SHREDDED, f"{WHERE} but its type is not MAP."),
        ("INT", {LAYOUT: "default"}, f"{WHERE} but its type is not MAP."),
        (MAP, {"fields.x.map.storage-layout": "default"}, "Field x can not be found in table schema."),
        ("MAP<INT, BIGINT>", SHREDDED, "its type is not MAP<STRING NOT NULL, T>."),
        ("MAP<CHAR(3) NOT NULL, BIGINT>", SHREDDED, "its type is not MAP<STRING NOT NULL, T>."),
        ("MAP<STRING, BIGINT>", SHREDDED, "its map key type is nullable."),
        (MAP, {LAYOUT: "shredded"}, "option has an invalid value"),
        (MAP, {**SHREDDED, COLUMNS: "0"}, "options map.shared-shredding.max-columns must > 0"),
        (MAP, {**SHREDDED, COLUMNS: "-1"}, "options map.shared-shredding.max-columns must > 0"),
        (MAP, {**SHREDDED, COLUMNS: "many"}, "option has an invalid value"),
        (MAP, {**SHREDDED, COLUMNS: "32769"}, "must be at most 32768"),
        (MAP, {**SHREDDED, PLACEMENT: "first"}, "option has an invalid value"),
        (MAP, {**SHREDDED, "file.format": "avro"}, f"{ONLY} parquet/orc file formats, but file.format is avro."),
        (MAP, {**SHREDDED, "file.format.per.level": "0:avro"}, "but file.format.per.level.0 is avro."),
        (MAP, {**SHREDDED, "changelog-file.format": "avro"}, "but changelog-file.format is avro."),
        (MAP, {**SHREDDED, "file.compression": "snappy"}, f"{ONLY} none/lz4/zstd compression, but file.compression is"),
        (MAP, {**SHREDDED, "file.compression.per.level": "1:gzip"}, "but file.compression.per.level.1 is gzip."),
        (MAP, {**SHREDDED, "changelog-file.compression": "gzip"}, "but changelog-file.compression is gzip."),
        (MAP, {**SHREDDED, "file-index.bloom-filter.columns": "m[a]"}, "which does not support nested file index."),
        ("MAP<STRING NOT NULL, VARIANT>", SHREDDED, "cannot be used with Variant fields."),
    ],
)
def test_what_is_refused(tmp_path: Path, kind: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidError) as caught:
        create(bucketlake.open(tmp_path), kind, {"bucket": "-1", **options})
    assert message in str(caught.value)


def test_a_postpone_table_and_variants_are_refused(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    with pytest.raises(InvalidError, match="does not support postpone bucket mode"):
        create(catalog, MAP, {"bucket": "-2", **SHREDDED}, primary_keys="id")
    with pytest.raises(InvalidError, match="cannot be used with Variant"):
        others = [DataField(2, "v", parse_type_text("VARIANT"))]
        create(catalog, MAP, {"bucket": "-1", **SHREDDED}, others=others)


@pytest.mark.parametrize(
    "options",
    [
        {LAYOUT: "Shared-Shredding", PLACEMENT: "PLAIN"},
        {LAYOUT: "DEFAULT", COLUMNS: "0"},
        {**SHREDDED, "file.compression": "lz4", "file.format.per.level": "5:orc"},
        {**SHREDDED, "file.compression": "none", PLACEMENT: "sequential"},
        {COLUMNS: "7"},
    ],
)
def test_what_is_taken(tmp_path: Path, options: dict[str, str]) -> None:
    table = create(bucketlake.open(tmp_path), MAP, {"bucket": "-1", **options})
    given: Maps = {1: {"a": 1, "b": 2, "c": None}, 2: None, 3: {}}
    table.write_arrow(data(given))
    assert maps_of(table) == given
    assert (layouts(table) == [None]) == (options.get(LAYOUT) in (None, "DEFAULT"))


def test_the_layout_is_the_tables(tmp_path: Path) -> None:
    """Whether Spark's scan can read a file is said by the schema that it was written under."""
    table = new_table(bucketlake.open(tmp_path), **SHREDDED)
    for value in ("default", "DEFAULT"):
        with pytest.raises(InvalidError, match="cannot be set for a call"):
            table.with_options({LAYOUT: value})
    table.with_options({LAYOUT: "Shared-Shredding", COLUMNS: "1"}).write_arrow(data({1: {"a": 1, "b": 2}}))
    assert layouts(table) == [1]
    with pytest.raises(InvalidError, match="how files lie"):
        table_catalog(table).clone_table(table, "u", Cloning(options={LAYOUT: "default"}))


def table_catalog(table: Table) -> Catalog:
    return bucketlake.open(Path(table.path).parent.parent)


def test_options_follow_their_column(tmp_path: Path) -> None:
    catalog = bucketlake.open(tmp_path)
    table = new_table(catalog, **SHREDDED, **{PLACEMENT: "plain"})
    table = table.alter(RenameColumn("m", "n"))
    own = {key.replace(".m.", ".n."): value for key, value in {**SHREDDED, PLACEMENT: "plain"}.items()}
    assert {key: value for key, value in table.schema.options.items() if key.startswith("fields")} == own
    table = table.alter(AddColumn("x", BIGINT), DropColumn("n"))
    assert not [key for key in table.schema.options if key.startswith("fields")]


# ---------------------------------------------------------------------------------------------- kinds of tables

KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "append": ("", {}),
    "append_bucketed": ("", {"bucket": "2", "bucket-key": "id"}),
    "tracked": ("", {"row-tracking.enabled": "true"}),
    "keyed": ("id", {}),
    "thin": ("id", {"data-file.thin-mode": "true"}),
    "dynamic": ("id", {"bucket": "-1"}),
    "vectors": ("id", {"deletion-vectors.enabled": "true"}),
    "lookup": ("id", {"changelog-producer": "lookup"}),
    "full": ("id", {"changelog-producer": "full-compaction"}),
    "input": ("id", {"changelog-producer": "input", "changelog-file.format": "orc"}),
    "partial": ("id", {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}),
    "per_level": ("id", {"file.format.per.level": "0:orc", "file.compression.per.level": "5:lz4"}),
}
FIRST: Maps = {1: {"a": 1, "b": 2, "c": 3}, 2: None, 3: {}, 4: {"d": None}}
SECOND: Maps = {2: {"z": 9, "a": 8, "y": 7, "x": None}, 5: {"a": 1}}


@pytest.mark.parametrize("format", later([*FORMATS], 1))
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table(tmp_path: Path, kind: str, format: str) -> None:
    keys, more = KINDS[kind]
    table = new_table(bucketlake.open(tmp_path), "t", keys, **{"file.format": format, **SHREDDED, **more})
    table.write_arrow(data(FIRST))
    second = SECOND if keys else {10 + key: value for key, value in SECOND.items()}
    table.write_arrow(data(second))
    expected = dict(sorted({**FIRST, **second}.items()))
    assert maps_of(table) == expected
    assert all(found == 2 for found in layouts(table))
    assert maps_of(table, where="id > 1 AND id < 5") == {k: v for k, v in expected.items() if 1 < k < 5}
    assert sorted(table.to_arrow(columns=["id"]).column(0).to_pylist()) == list(expected)
    assert table.to_arrow(columns=["m"]).num_rows == len(expected)
    table.compact(full=True)
    assert maps_of(table) == expected
    assert all(found == 2 for found in layouts(table))
    table.delete("id = 1")
    table.update({"m": [("q", 1)]}, "id = 4")
    del expected[1]
    assert maps_of(table) == {**expected, 4: {"q": 1}}
    assert not table.refresh().fsck("rows").codes


def test_merged_maps(tmp_path: Path) -> None:
    """Values of shredded maps meet in an aggregate."""
    options = {"merge-engine": "aggregation", "fields.m.aggregate-function": "merge_map", **SHREDDED}
    table = new_table(bucketlake.open(tmp_path), "t", "id", **options)
    table.write_arrow(data({1: {"a": 11, "b": 12}, 2: None}))
    table.write_arrow(data({1: {"b": 22, "c": 23}, 2: {"x": 31}}))
    merged: Maps = {1: {"a": 11, "b": 22, "c": 23}, 2: {"x": 31}}
    assert maps_of(table) == merged
    table.compact(full=True)
    assert maps_of(table) == merged
    assert layouts(table) == [2]


def test_changes_are_told_of_shredded_files(tmp_path: Path) -> None:
    table = new_table(bucketlake.open(tmp_path), "t", "id", **{"changelog-producer": "lookup", **SHREDDED})
    table.write_arrow(data({1: {"a": 1, "b": 2, "c": 3}}))
    table.compact(full=True)
    table.write_arrow(data({1: {"z": 1}, 2: {}}))
    table.compact(full=True)
    changes = table_catalog(table).table("t$audit_log").to_arrow(incremental_between="2,4").to_pylist()
    found = sorted((row["rowkind"], row["id"], dict(row["m"])) for row in changes)
    assert found == [("+I", 2, {}), ("+U", 1, {"z": 1}), ("-U", 1, {"a": 1, "b": 2, "c": 3})]


def test_columns_in_files_of_their_own(tmp_path: Path) -> None:
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", **SHREDDED}
    table = new_table(bucketlake.open(tmp_path), **options)
    table.write_arrow(data(FIRST))
    table.update({"id": 11}, "id = 1")
    assert maps_of(table) == {2: None, 3: {}, 4: {"d": None}, 11: FIRST[1]}
    table.update({"m": [("q", 1), ("r", 2), ("s", 3)]}, "id = 2")
    assert maps_of(table) == {2: {"q": 1, "r": 2, "s": 3}, 3: {}, 4: {"d": None}, 11: FIRST[1]}


def test_files_that_roll_have_as_many_columns_as_their_rows_need(tmp_path: Path) -> None:
    """The first has as many as the options allow."""
    options = {**SHREDDED, COLUMNS: "8", "target-file-row-num": "2"}
    table = new_table(bucketlake.open(tmp_path), **options)
    given: Maps = {1: {"a": 11, "b": 12}, 2: {"c": 21, "d": 22, "e": 23}, 3: {"f": 31}, 4: {"g": 41, "h": 42}}
    table.write_arrow(data(given))
    assert sorted(layouts(table), key=str) == [3, 8]
    assert maps_of(table) == given


# ---------------------------------------------------------------------------------------------- layouts that change


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("keys", ["", "id"])
def test_a_layout_that_changes(tmp_path: Path, keys: str, format: str) -> None:
    """Each file says of itself how its maps lie; what is written anew follows the table."""
    catalog = bucketlake.open(tmp_path)
    table = new_table(catalog, "t", keys, **{"file.format": format, "num-sorted-run.compaction-trigger": "99"})
    given: Maps = {1: {"a": 1, "b": 2, "c": 3}}
    table.write_arrow(data(given))
    for number, change in enumerate(
        (
            SetOption(LAYOUT, "shared-shredding"),
            SetOption(COLUMNS, "1"),
            RemoveOption(LAYOUT),
            SetOption(LAYOUT, "shared-shredding"),
        ),
        2,
    ):
        table = table.alter(change)
        rows: Maps = {number: {"a": number, "z": None}}
        table.write_arrow(data(rows))
        given |= rows
    assert maps_of(table) == given
    assert layouts(table) == [None, 256, 1, None, 1]
    assert maps_of(table, scan_snapshot_id=2) == {1: given[1], 2: given[2]}
    table.compact(full=True)
    assert maps_of(table) == given
    assert layouts(table) == [1]


def test_files_of_another_layout_are_rewritten(tmp_path: Path) -> None:
    table = new_table(bucketlake.open(tmp_path))
    table.write_arrow(data({1: {"a": 1, "b": 2, "c": 3}}))
    table = table.alter(SetOption(LAYOUT, "shared-shredding"), SetOption(COLUMNS, "2"))
    table.write_arrow(data({2: None}))
    kept = {file.path for file in table.files()}
    table.rewrite()
    assert layouts(table) == [2, 2]
    assert len(kept & {file.path for file in table.refresh().files()}) == 1
    assert maps_of(table) == {1: {"a": 1, "b": 2, "c": 3}, 2: None}


@pytest.mark.parametrize("format", FORMATS)
def test_columns_that_change(tmp_path: Path, format: str) -> None:
    """Values of another type, and another name, in files of both layouts."""
    table = create(
        bucketlake.open(tmp_path), "MAP<STRING NOT NULL, INT>", {"bucket": "-1", "file.format": format, **SHREDDED}
    )
    narrow = pa.schema([("id", pa.int32()), ("m", pa.map_(pa.string(), pa.int32()))])
    table.write_arrow(data({1: {"a": 1, "b": 2, "c": None}}, narrow))
    table = table.alter(UpdateColumnType(("m", "value"), BIGINT), SetOption(LAYOUT, "default"))
    table.write_arrow(data({2: {"a": 1 << 40}}))
    table = table.alter(RenameColumn("m", "n"), SetOption("fields.n.map.storage-layout", "shared-shredding"))
    wide = pa.schema([SCHEMA.field(0), SCHEMA.field(1).with_name("n")])
    table.write_arrow(data({3: {"x": 1 << 41, "y": 1, "z": 0}}, wide))
    expected: Maps = {1: {"a": 1, "b": 2, "c": None}, 2: {"a": 1 << 40}, 3: {"x": 1 << 41, "y": 1, "z": 0}}
    assert maps_of(table) == expected
    table.compact(full=True)
    assert maps_of(table) == expected


def test_clones_take_files_of_the_same_layout_alone(tmp_path: Path) -> None:
    """A table with these columns whose files have plain maps has no schema for shredded files."""
    catalog = bucketlake.open(tmp_path)
    table = new_table(catalog, **SHREDDED)
    table.write_arrow(data(FIRST))
    catalog.clone_table(table, "u")
    assert maps_of(catalog.table("u")) == FIRST
    new_table(catalog, "plain")
    with pytest.raises(InvalidError):
        catalog.clone_table(table, "plain")
    assert maps_of(catalog.table("plain")) == {}
    schemas = [
        TableSchema.decode(path.read_bytes(), str(path)) for path in Path(catalog.table("u").path, "schema").iterdir()
    ]
    assert [one.options[LAYOUT] for one in schemas] == ["shared-shredding"]


# ---------------------------------------------------------------------------------------------- against plain maps


@settings(max_examples=examples(15, 150), deadline=None)
@given(st.data())
def test_shredded_tables_are_as_plain_ones(tmp_path_factory: pytest.TempPathFactory, data_: st.DataObject) -> None:
    """The same writes, changes and compactions, to a table of each layout, in any order."""
    catalog = bucketlake.open(tmp_path_factory.mktemp("warehouse"))
    keys = data_.draw(st.sampled_from(("", "id")))
    layout = {
        LAYOUT: "shared-shredding",
        COLUMNS: str(data_.draw(st.integers(1, 3))),
        PLACEMENT: data_.draw(st.sampled_from(("plain", "sequential", "lru"))),
        "file.format": data_.draw(st.sampled_from(FORMATS)),
    }
    tables = [new_table(catalog, "shredded", keys, **layout), new_table(catalog, "plain", keys)]
    maps = st.none() | st.dictionaries(st.sampled_from("abcdef"), st.none() | st.integers(0, 9), max_size=5)
    fresh = 0
    for step in data_.draw(st.lists(st.sampled_from(("write", "delete", "update", "compact", "switch")), max_size=6)):
        number = data_.draw(st.integers(0, 9))
        written = data_.draw(st.lists(st.tuples(st.integers(0, 9), maps), max_size=4, unique_by=lambda pair: pair[0]))
        chosen = f"id IN ({', '.join(str(number + ten) for ten in range(0, 60, 10))})"
        for at, table in enumerate(tables):
            if step == "write":
                table.write_arrow(data({(key if keys else fresh + key): one for key, one in written}))
            elif step == "delete":
                table.delete(chosen)
            elif step == "update":
                table.update({"m": None}, chosen)
            elif step == "compact":
                table.compact(full=True)
            elif at == 0:
                now = table.schema.options[LAYOUT] == "default"
                tables[0] = table.alter(SetOption(LAYOUT, "shared-shredding" if now else "default"))
        fresh += 10
        assert maps_of(tables[0]) == maps_of(tables[1])
