"""Data files: what was written comes back, and the physical form is Paimon's."""

from __future__ import annotations

import datetime as dt
import tempfile
from decimal import Decimal
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.format.datafile_values import ATOMIC, kind, tables
from tests.format.reading import read_data_file
from tests.profile import examples

from bucketlake.env.local import LocalStorage
from bucketlake.errors import CorruptError, InvalidError, NotFoundError, UnsupportedError
from bucketlake.format.data import thrift
from bucketlake.format.data.avro import avro_schema
from bucketlake.format.data.datafile import (
    DataFileWriter,
    Recorded,
    WrittenFile,
    read_recorded,
    stats_from_parquet_footer,
)
from bucketlake.format.data.file_format import FileFormat, file_format, format_of
from bucketlake.format.data.parquet_footer import closed, split_tail
from bucketlake.format.metadata.stats import ColumnStats, StatsMode
from bucketlake.options.options import TableOptions
from bucketlake.predicate.tree import Compare
from bucketlake.types.model import DataField, Root, arrow_schema, canonical_batch

STORAGE = LocalStorage()
FULL = StatsMode("full")
Table = tuple[list[DataField], pa.RecordBatch]


def write(
    path: str | Path, fields: list[DataField], *batches: pa.RecordBatch, form: FileFormat | None = None
) -> WrittenFile:
    form = form or FileFormat(format_of(str(path)))
    writer = DataFileWriter(STORAGE, str(path), fields, form, [FULL] * len(fields))
    for batch in batches:
        writer.write(batch)
    return writer.close()


def read(path: str | Path, fields: list[DataField], columns: list[str] | None = None, **more: object) -> pa.Table:
    wanted = _chosen(fields, columns)
    batches = list(read_data_file(STORAGE, str(path), format_of(str(path)), fields, columns, **more))  # type: ignore[arg-type]
    return pa.Table.from_batches(batches, arrow_schema(wanted))


def named(**kinds: str) -> list[DataField]:
    return [DataField(i, name, kind(text)) for i, (name, text) in enumerate(kinds.items())]


def _chosen(fields: list[DataField], columns: list[str] | None) -> list[DataField]:
    return fields if columns is None else [next(f for f in fields if f.name == name) for name in columns]


def rows_of(fields: list[DataField], **columns: object) -> pa.RecordBatch:
    schema = arrow_schema(fields)
    return pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


def round_trip(table: Table, name: str) -> None:
    fields, batch = table
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/data.{name}"
        written = write(path, fields, batch)
        assert written.rows == batch.num_rows
        assert written.size == Path(path).stat().st_size
        found = read(path, fields).combine_chunks()
        found.validate(full=True)
        assert found.to_pylist() == pa.Table.from_batches([batch]).to_pylist()
        column = fields[-1].name
        assert read(path, fields, [column]).to_pylist() == batch.select([column]).to_pylist()


@pytest.mark.parametrize("name", ["parquet", "orc"])
def test_null_rows_with_not_null_members_of_every_type(tmp_path: Path, name: str) -> None:
    fields = named(**{f"r{at}": f"ROW<a {text} NOT NULL, b INT>" for at, text in enumerate(ATOMIC)})
    schema = arrow_schema(fields)
    rows = [
        pa.StructArray.from_arrays(
            [pa.nulls(1, part.type) for part in kind.type.fields], fields=list(kind.type.fields), mask=pa.array([True])
        )
        for kind in schema
    ]
    batch = pa.RecordBatch.from_arrays(rows, schema=schema)
    path = tmp_path / f"data.{name}"
    write(path, fields, batch)
    assert read(path, fields).to_pylist() == batch.to_pylist()


@settings(max_examples=examples(20, 480), deadline=None)
@given(tables())
def test_parquet_round_trip(table: Table) -> None:
    round_trip(table, "parquet")


@settings(max_examples=examples(20, 400), deadline=None)
@given(tables(far=True))
def test_orc_round_trip(table: Table) -> None:
    round_trip(table, "orc")


@settings(max_examples=examples(20, 400), deadline=None)
@given(tables(nanos=False))
def test_avro_round_trip(table: Table) -> None:
    round_trip(table, "avro")


@settings(max_examples=examples(15, 320), deadline=None)
@given(tables(nanos=False))
def test_avro_files_are_what_fastavro_reads(table: Table) -> None:
    fields, batch = table
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/data.avro"
        write(path, fields, batch)
        with open(path, "rb") as file:
            reader = fastavro.reader(file)
            assert reader.writer_schema["fields"][0]["name"] == "c0"
            assert reader.metadata["avro.codec"] == "zstandard"


ALL = {
    "b": "BOOLEAN", "i8": "TINYINT", "i16": "SMALLINT", "i32": "INT", "i64": "BIGINT NOT NULL", "f": "FLOAT",
    "d": "DOUBLE", "d5": "DECIMAL(5, 2)", "d18": "DECIMAL(18, 4)", "d20": "DECIMAL(20, 2)", "d38": "DECIMAL(38, 10)",
    "ch": "CHAR(5)", "s": "STRING", "by": "BYTES", "da": "DATE", "ti": "TIME(3)", "t0": "TIMESTAMP(0)",
    "t6": "TIMESTAMP(6)", "l3": "TIMESTAMP(3) WITH LOCAL TIME ZONE", "l6": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "a": "ARRAY<INT>", "m": "MAP<INT, ARRAY<STRING>>", "r": "ROW<x INT, y ROW<z TIMESTAMP(3)>>",
}  # fmt: skip
PHYSICAL = """optional boolean field_id=0 b;
optional int32 field_id=1 i8 (Int(bitWidth=8, isSigned=true));
optional int32 field_id=2 i16 (Int(bitWidth=16, isSigned=true));
optional int32 field_id=3 i32;
required int64 field_id=4 i64;
optional float field_id=5 f;
optional double field_id=6 d;
optional int32 field_id=7 d5 (Decimal(precision=5, scale=2));
optional int64 field_id=8 d18 (Decimal(precision=18, scale=4));
optional fixed_len_byte_array(9) field_id=9 d20 (Decimal(precision=20, scale=2));
optional fixed_len_byte_array(16) field_id=10 d38 (Decimal(precision=38, scale=10));
optional binary field_id=11 ch (String);
optional binary field_id=12 s (String);
optional binary field_id=13 by;
optional int32 field_id=14 da (Date);
optional int32 field_id=15 ti (Time(isAdjustedToUTC=true, timeUnit=milliseconds));
optional int64 field_id=16 t0 (Timestamp(isAdjustedToUTC=false, timeUnit=milliseconds
optional int64 field_id=17 t6 (Timestamp(isAdjustedToUTC=false, timeUnit=microseconds
optional int64 field_id=18 l3 (Timestamp(isAdjustedToUTC=true, timeUnit=milliseconds
optional int64 field_id=19 l6 (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds
optional group field_id=20 a (List) {
repeated group field_id=-1 list {
optional int32 field_id=536891392 element;
optional group field_id=21 m (Map) {
repeated group field_id=-1 key_value {
required int32 field_id=536849406 key;
optional group field_id=536892416 value (List) {
optional binary field_id=536892417 element (String);
optional group field_id=22 r {"""


@pytest.mark.parametrize("torn", [False, True])
def test_avro_rows_may_be_a_union_with_null(tmp_path: Path, torn: bool) -> None:
    """As Paimon writes them where the row's type is nullable; a row that is null there is refused."""
    fields = named(a="INT", s="STRING", m="MAP<STRING, DECIMAL(5, 2)>", r="ROW<x BIGINT, y ARRAY<DATE>>")
    batch = rows_of(
        fields,
        a=[1, None, 3],
        s=["x", "", None],
        m=[[("k", Decimal("1.50"))], [], None],
        r=[{"x": 1, "y": [dt.date(2024, 1, 1), None]}, None, {"x": None, "y": None}],
    )
    path = tmp_path / "union.avro"
    plain = batch.to_pylist()
    held: list[dict[str, object] | None] = [{**row, "m": None if row["m"] is None else dict(row["m"])} for row in plain]
    with path.open("wb") as file:
        fastavro.writer(file, ["null", avro_schema(fields)], [*held, None] if torn else held, codec="deflate")
    if torn:
        with pytest.raises(CorruptError, match="null"):
            read(path, fields)
        return
    assert read(path, fields).to_pylist() == plain
    assert read(path, fields, ["s"]).to_pylist() == [{"s": "x"}, {"s": ""}, {"s": None}]


def physical(path: str | Path) -> list[str]:
    return [line.strip() for line in str(pq.ParquetFile(path).schema).splitlines()]


@pytest.mark.parametrize("more", [{}, {"n9": "TIMESTAMP(9)", "z9": "TIMESTAMP(9) WITH LOCAL TIME ZONE"}])
def test_parquet_schema_is_paimons(tmp_path: Path, more: dict[str, str]) -> None:
    fields = named(**ALL, **more)
    empty = {name: pa.nulls(1) for name in [f.name for f in fields]}
    write(tmp_path / "x.parquet", fields, rows_of(fields, **{**empty, "i64": [1]}))
    lines = physical(tmp_path / "x.parquet")
    for expected in PHYSICAL.splitlines():
        assert any(line.startswith(expected) for line in lines), expected
    for name in more:
        assert any(line.startswith("optional int96") and line.endswith(f" {name};") for line in lines)
    assert pq.ParquetFile(tmp_path / "x.parquet").metadata.metadata is None


def test_timestamps_of_all_precisions_share_a_file(tmp_path: Path) -> None:
    fields = named(n="TIMESTAMP(9)", u="TIMESTAMP(6)", r="ROW<a TIMESTAMP(3), b TIMESTAMP(9)>", z="ARRAY<TIMESTAMP(9)>")
    n = [-(2**63) + 1, -1, 0, 1, 2**63 - 1, None]
    u = [-(10**15), -1, 0, 1, 10**15, None]
    batch = rows_of(fields, n=n, u=u, r=[{"a": a, "b": b} for a, b in zip(u, n, strict=True)], z=[[x] for x in n])
    write(tmp_path / "x.parquet", fields, batch)
    found = read(tmp_path / "x.parquet", fields).combine_chunks()
    assert found.equals(pa.Table.from_batches([batch]))
    assert pq.read_table(tmp_path / "x.parquet").column("n").cast(pa.int64()).to_pylist() == n
    assert pq.read_table(tmp_path / "x.parquet").column("u").cast(pa.int64()).to_pylist() == u


def test_int96_of_another_writer_is_exact_far_from_today(tmp_path: Path) -> None:
    far = pa.table({"t": pa.array([-62_135_596_800_000_000, 253_402_300_799_999_999, None], pa.timestamp("us"))})
    pq.write_table(far, tmp_path / "x.parquet", use_deprecated_int96_timestamps=True)
    assert (
        read(tmp_path / "x.parquet", named(t="TIMESTAMP(6)"))
        .column(0)
        .combine_chunks()
        .equals(far.column(0).combine_chunks())
    )
    with pytest.raises(UnsupportedError, match="64-bit nanoseconds"):
        read(tmp_path / "x.parquet", named(t="TIMESTAMP(9)"))


def test_orc_carries_field_ids_and_plain_times(tmp_path: Path) -> None:
    fields = named(a="INT", t="TIME(3)", l="ARRAY<STRING>", c="CHAR(3)")
    write(tmp_path / "x.orc", fields, rows_of(fields, a=[1], t=[5], l=[["x"]], c=["a  "]))
    schema = orc.ORCFile(tmp_path / "x.orc").schema
    assert [schema.field(i).metadata[b"paimon.id"] for i in range(4)] == [b"0", b"1", b"2", b"3"]
    assert schema.field("l").type.value_field.metadata[b"paimon.id"] == b"536872960"
    assert schema.field("t").type == pa.int32()
    assert read(tmp_path / "x.orc", fields, ["c"]).to_pylist() == [{"c": "a"}]


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_values_under_null_rows_do_not_move(tmp_path: Path, name: str) -> None:
    fields = named(r="ROW<o ROW<x INT, l ARRAY<INT>>>")
    schema = arrow_schema(fields)
    lists = pa.array([[1], [2], []], pa.list_(pa.int32()))
    members = [pa.array([1, 2, 3], pa.int32()), lists]
    inner = pa.StructArray.from_arrays(members, ["x", "l"], mask=pa.array([True, False, False]))
    outer = pa.StructArray.from_arrays([inner], ["o"]).cast(schema.field(0).type)
    batch = pa.RecordBatch.from_arrays([outer], schema=schema)
    write(tmp_path / f"x.{name}", fields, batch)
    assert read(tmp_path / f"x.{name}", fields).to_pylist() == batch.to_pylist()


def test_avro_schema_is_paimons() -> None:
    fields = named(a="INT NOT NULL", t="TIMESTAMP(3)", z="TIMESTAMP(6) WITH LOCAL TIME ZONE", m="MAP<INT, STRING>")
    assert avro_schema(fields) == {
        "type": "record",
        "name": "org.apache.paimon.avro.generated.record",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "t", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}], "default": None},
            {"name": "z", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}], "default": None},
            {
                "name": "m",
                "type": [
                    "null",
                    {
                        "type": "array",
                        "items": {
                            "type": "record",
                            "name": "org.apache.paimon.avro.generated.record_m",
                            "fields": [
                                {"name": "key", "type": ["null", "int"]},
                                {"name": "value", "type": ["null", "string"], "default": None},
                            ],
                        },
                        "logicalType": "map",
                    },
                ],
                "default": None,
            },
        ],
    }
    with pytest.raises(UnsupportedError, match="avro"):
        avro_schema(named(n="TIMESTAMP(9)"))


CODECS = [
    *(("parquet", name) for name in ("zstd", "snappy", "gzip", "lz4", "none")),
    *(("orc", name) for name in ("zstd", "snappy", "zlib", "lz4", "none")),
    *(("avro", name) for name in ("zstd", "snappy", "deflate", "bzip2", "xz", "null", "none")),
]


@pytest.mark.parametrize(("name", "codec"), CODECS)
def test_codecs(tmp_path: Path, name: str, codec: str) -> None:
    fields = named(a="INT", s="STRING")
    batch = rows_of(fields, a=np.arange(30_000, dtype=np.int32), s=["text"] * 30_000)
    path = tmp_path / f"x.{name}"
    form = file_format(TableOptions({"file.format": name, "file.compression": codec}))
    write(path, fields, batch, batch, form=form)
    assert read(path, fields).equals(pa.Table.from_batches([batch, batch]))


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_unknown_codecs_are_refused_and_leave_nothing(tmp_path: Path, name: str) -> None:
    fields = named(a="INT")
    form = FileFormat(name, "lzo")
    with pytest.raises(UnsupportedError, match="compression"):
        write(tmp_path / f"x.{name}", fields, form=form)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_damaged_and_missing_files_name_their_path(tmp_path: Path, name: str) -> None:
    fields = named(a="INT", s="STRING")
    path = tmp_path / f"x.{name}"
    with pytest.raises(NotFoundError, match="x"):
        read(path, fields)
    batch = rows_of(fields, a=list(range(5000)), s=[str(i * 7919) for i in range(5000)])
    write(path, fields, batch)
    whole = path.read_bytes()
    for damaged in (b"", whole[:40], whole[: len(whole) // 2], b"garbage" * 40):
        path.write_bytes(damaged)
        with pytest.raises(CorruptError, match="x\\."):
            read(path, fields)
    with pytest.raises(CorruptError, match="x\\."):
        path.write_bytes(whole[: len(whole) // 3] + bytes(len(whole) // 3) + whole[2 * len(whole) // 3 :])
        read(path, fields)
    path.write_bytes(whole)
    with pytest.raises(CorruptError, match="x\\."):
        read(path, [*fields, DataField(9, "absent", kind("INT"))])


def test_batches_are_bounded_and_columns_projected(tmp_path: Path) -> None:
    fields = named(a="BIGINT", s="STRING", r="ROW<x INT, y STRING>")
    count = 400_000
    batch = rows_of(
        fields,
        a=np.arange(count),
        s=pa.array(np.arange(count)).cast(pa.string()),
        r=pa.StructArray.from_arrays(
            [pa.array(np.arange(count, dtype=np.int32)), pa.nulls(count, pa.string())], ["x", "y"]
        ),
    )
    for name in ("parquet", "orc", "avro"):
        path = tmp_path / f"x.{name}"
        write(path, fields, batch)
        batches = list(read_data_file(STORAGE, str(path), name, fields, ["r", "a"]))
        assert all(part.schema.names == ["r", "a"] for part in batches)
        assert max(part.num_rows for part in batches) <= 131_072
        assert pa.Table.from_batches(batches).column("a").to_pylist() == list(range(count))
        assert sum(part.num_rows for part in read_data_file(STORAGE, str(path), name, fields, [])) == count


def test_row_groups_are_pruned(tmp_path: Path) -> None:
    fields = named(a="BIGINT", s="STRING", d="DECIMAL(20, 2)", t="TIMESTAMP(3)", da="DATE")
    parts = [
        rows_of(
            fields,
            a=list(range(k, k + 10)),
            s=[f"k{k + i:03}" for i in range(10)],
            d=[Decimal(i) for i in range(k, k + 10)],
            t=list(range(k, k + 10)),
            da=list(range(k, k + 10)),
        )
        for k in range(0, 100, 10)
    ]
    write(tmp_path / "x.parquet", fields, *parts, form=FileFormat(group_bytes=min(part.nbytes for part in parts)))
    assert pq.ParquetFile(tmp_path / "x.parquet").num_row_groups == 10
    epoch = dt.datetime(1970, 1, 1)
    for condition in (
        Compare("a", "=", 42),
        Compare("s", "=", "k042"),
        Compare("d", "=", Decimal("42.00")),
        Compare("t", "=", epoch + dt.timedelta(milliseconds=42)),
        Compare("da", "=", (epoch + dt.timedelta(days=42)).date()),
    ):
        found = read(tmp_path / "x.parquet", fields, row_filter=condition)
        assert set(found.column("a").to_pylist()) <= set(range(40, 50)), condition
        assert 42 in found.column("a").to_pylist(), condition
    assert read(tmp_path / "x.parquet", fields, row_filter=Compare("a", ">", 1000)).num_rows == 0
    assert read(tmp_path / "x.parquet", fields, ["s"], row_filter=Compare("a", "=", 42)).num_rows == 10


WIDE = named(a="INT", b="INT", s="STRING", t="STRING")
A_GROUP = 2000


@settings(max_examples=examples(30, 600), deadline=None)
@given(
    st.lists(st.sets(st.integers(0, A_GROUP - 1), max_size=3), min_size=1, max_size=8),
    st.sampled_from([None, ["s", "a"], ["a", "b", "s", "t"], ["t"], ["b", "a"]]),
)
def test_columns_of_a_filter_are_looked_at_first(places: list[set[int]], columns: list[str] | None) -> None:
    """In each row group rows at some places are wanted; each of its statistics says that there may be some."""
    parts = []
    for number, own in enumerate(places):
        a = np.where(np.arange(A_GROUP) % 2, 0, 9)
        a[list(own)] = 5
        b = np.arange(number * A_GROUP, (number + 1) * A_GROUP)
        texts = [f"{number} {place} and more" for place in range(A_GROUP)]
        parts.append(rows_of(WIDE, a=a, b=b, s=texts, t=texts[::-1]))
    model = pa.Table.from_batches(parts)
    model = model.filter(pa.compute.equal(model.column("a"), 5))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/x.parquet"
        write(path, WIDE, *parts, form=FileFormat("parquet", group_bytes=min(part.nbytes for part in parts)))
        assert pq.ParquetFile(path).num_row_groups == len(places)
        found = list(read_recorded(STORAGE, Recorded(path, "parquet"), WIDE, columns, row_filter=Compare("a", "=", 5)))
    kept = {first + n for first, batch in found for n in range(batch.num_rows)}
    assert kept >= {number * A_GROUP + place for number, own in enumerate(places) for place in own}
    for first, batch in found:
        for name in batch.schema.names:
            whole = pa.Table.from_batches(parts).column(name).combine_chunks()
            assert batch.column(name).equals(whole.slice(first, batch.num_rows))
    if columns is None or "a" in columns:
        rows = pa.Table.from_batches([batch for _, batch in found], arrow_schema(_chosen(WIDE, columns)))
        assert rows.filter(pa.compute.equal(rows.column("a"), 5)).equals(model.select(rows.column_names))


def test_groups_are_decoded_up_to_the_last_row_wanted(tmp_path: Path) -> None:
    wanted = {5: 3, 70: 0, 71: 1999}  # group → place: few of many groups
    parts = []
    for number in range(100):
        a = np.where(np.arange(A_GROUP) % 2, 0, 9)
        a[[wanted[number]] if number in wanted else []] = 5
        texts = [f"{place} and more" for place in range(A_GROUP)]
        parts.append(rows_of(WIDE, a=a, b=np.arange(A_GROUP), s=texts, t=texts))
    path = tmp_path / "x.parquet"
    write(path, WIDE, *parts, form=FileFormat("parquet", group_bytes=min(part.nbytes for part in parts)))
    found = list(read_recorded(STORAGE, Recorded(str(path), "parquet"), WIDE, row_filter=Compare("a", "=", 5)))
    assert [(first // A_GROUP, batch.num_rows) for first, batch in found] == [(5, 1024), (70, 1024), (71, 2000)]


@settings(max_examples=examples(15, 320), deadline=None)
@given(tables(depth=0))
def test_footer_statistics_are_those_of_the_writer(table: Table) -> None:
    fields, batch = table
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/x.parquet"
        written = write(path, fields, batch)
        found = stats_from_parquet_footer(STORAGE, path, fields, [FULL] * len(fields))
        assert (found.rows, found.size) == (written.rows, written.size)
        for item, own, footer in zip(fields, written.stats, found.stats, strict=True):
            if batch.num_rows == 0:
                continue
            int96 = item.type.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and (item.type.precision or 0) > 6
            assert footer == (ColumnStats() if int96 else own), item


def test_statistics_follow_the_mode(tmp_path: Path) -> None:
    fields = named(s="STRING", n="STRING", c="INT")
    modes = [StatsMode.parse("truncate(2)"), StatsMode.parse("none"), StatsMode.parse("counts")]
    writer = DataFileWriter(STORAGE, str(tmp_path / "x.parquet"), fields, FileFormat(), modes)
    writer.write(rows_of(fields, s=["abcd", "zzzz", None], n=["a", "b", "c"], c=[1, None, 3]))
    expected = (ColumnStats("ab", "z{", 1), ColumnStats(), ColumnStats(None, None, 1))
    assert writer.close().stats == expected
    assert stats_from_parquet_footer(STORAGE, str(tmp_path / "x.parquet"), fields, modes).stats == expected


def test_writer_takes_its_own_layout_only(tmp_path: Path) -> None:
    fields = named(a="INT")
    writer = DataFileWriter(STORAGE, str(tmp_path / "x.parquet"), fields, FileFormat(), [FULL])
    with pytest.raises(InvalidError, match="layout"):
        writer.write(pa.record_batch({"a": pa.array([1], pa.int64())}))
    writer.abort()
    assert not list(tmp_path.iterdir())


def test_options_reach_the_file(tmp_path: Path) -> None:
    options = TableOptions(
        {
            "file.compression.per.level": "0:snappy,5:zstd",
            "file.format.per.level": "0:avro",
            "changelog-file.format": "orc",
            "changelog-file.compression": "lz4",
            "parquet.enable.dictionary": "false",
            "parquet.block.size": "1048576",
            "orc.stripe.size": "2097152",
        }
    )
    low, high, log = file_format(options, 0), file_format(options, 5), file_format(options, 0, changelog=True)
    assert (low.name, low.compression) == ("avro", "snappy")
    assert (high.name, high.compression, high.group_bytes) == ("parquet", "zstd", 1 << 20)
    assert (log.name, log.compression, log.group_bytes) == ("orc", "lz4", 2 << 20)
    fields = named(a="STRING", b="STRING")
    form = file_format(TableOptions({"parquet.enable.dictionary": "false", "parquet.enable.dictionary#b": "true"}))
    write(tmp_path / "x.parquet", fields, rows_of(fields, a=["x"] * 100, b=["y"] * 100), form=form)
    group = pq.ParquetFile(tmp_path / "x.parquet").metadata.row_group(0)
    assert [group.column(i).has_dictionary_page for i in range(2)] == [False, True]


@pytest.mark.parametrize("batches", [1, 7])
@pytest.mark.parametrize("name", ["parquet", "avro", "orc"])
def test_groups_are_as_large_as_asked_whatever_the_batches(tmp_path: Path, name: str, batches: int) -> None:
    fields = named(a="BIGINT")
    count = 1 << 18  # 2 MiB of Arrow data
    form = file_format(TableOptions({"file.format": name, "file.block-size": "256 kb"}))
    rows = rows_of(fields, a=list(range(count)))
    writer = DataFileWriter(STORAGE, str(tmp_path / f"x.{name}"), fields, form, [FULL])
    for start in range(0, count, count // batches + 1):
        writer.write(rows.slice(start, count // batches + 1))
    writer.close()
    if name == "parquet":
        metadata = pq.ParquetFile(tmp_path / "x.parquet").metadata
        sizes = [metadata.row_group(n).num_rows * 8 for n in range(metadata.num_row_groups)]
        assert max(sizes) <= (1 << 18) * 5 // 4 and len(sizes) <= 8 + batches
    assert read(tmp_path / f"x.{name}", fields).num_rows == count


def test_names_tell_the_format() -> None:
    assert format_of("/x/data-1-0.parquet") == "parquet"
    assert format_of("s3://b/data-1-0.zst.orc") == "orc"
    assert format_of("changelog-1-0.snappy.avro") == "avro"
    for name in ("data-1", "data-1.csv", "parquet"):
        with pytest.raises(CorruptError, match=name):
            format_of(name)


def test_views_and_dictionaries_of_other_writers_come_back_canonical(tmp_path: Path) -> None:
    strings = pa.array(["a", None, "b"] * 5)
    for layout in (pa.string_view(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        pq.write_table(pa.table({"s": strings.cast(layout)}), tmp_path / "x.parquet")
        fields = named(s="STRING")
        found = read(tmp_path / "x.parquet", fields)
        assert found.schema.equals(arrow_schema(fields))
        assert found.column(0).to_pylist() == strings.to_pylist()
    assert canonical_batch(found.to_batches()[0], fields).num_rows == 15


def test_maps_whose_keys_may_be_null_are_refused_by_their_cause(tmp_path: Path) -> None:
    """As Paimon before 0.9 wrote them; Arrow's reader does not open such a file."""
    path = tmp_path / "data-0.parquet"
    pq.write_table(pa.table({"m": pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int32()))}), path, store_schema=False)
    data = path.read_bytes()
    start, footer = split_tail(data)
    tree = thrift.decode_struct(footer)
    (key,) = [element for element in thrift.get(tree, 2)[1] if thrift.get(element, 4) == b"key"]
    thrift.put(key, 3, thrift.I32, 1)
    path.write_bytes(data[:start] + closed(thrift.encode_struct(tree)))
    with pytest.raises(UnsupportedError, match=r"keys of a MAP column may be null.*before 0\.9.*data-0\.parquet"):
        read(path, named(m="MAP<INT, INT>"))


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
def test_nulls_in_columns_that_are_not_null_are_refused(tmp_path: Path, form: str) -> None:
    """Rows that are taken back merge to such, and ORC files with them could not be read by anybody."""
    fields = [DataField(0, "k", kind("INT NOT NULL")), DataField(1, "v", kind("STRING NOT NULL"))]
    batch = pa.record_batch([pa.array([1], pa.int32()), pa.array([None], pa.string())], schema=arrow_schema(fields))
    with pytest.raises(InvalidError, match=r"non-null column\(v\).*ignore-retract"):
        write(tmp_path / f"f.{form}", fields, batch)
