"""ORC's instants before 1970 and beyond 64-bit nanoseconds. tests/interop and tests/spark have Java read and write them."""

from __future__ import annotations

import io
import random
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.format.datafile_values import kind, tables
from tests.format.reading import read_data_file

from bucketlake.env.local import LocalStorage
from bucketlake.errors import BucketlakeError, CorruptError, InvalidError, UnsupportedError
from bucketlake.format.data.datafile import DataFileWriter
from bucketlake.format.data.file_format import FileFormat
from bucketlake.format.metadata.stats import StatsMode
from bucketlake.types.model import DataField, arrow_schema

STORAGE = LocalStorage()
CODECS = ["zstd", "snappy", "zlib", "lz4", "none"]
SECOND = 10**6
FAR = [-62_135_596_800 * SECOND, 253_402_300_799_999_999, -9_223_372_036_854_776, 9_223_372_036_854_776, -1_000_001]


def named(**kinds: str) -> list[DataField]:
    return [DataField(i, name, kind(text)) for i, (name, text) in enumerate(kinds.items())]


def test_texts_that_fill_the_statistics_are_read_again(tmp_path: Path) -> None:
    """ORC's end holds the least and the greatest text of a column, whole."""
    fields, path = named(v="STRING"), tmp_path / "f.orc"
    texts = [letter * (33 << 20) for letter in "ab"]
    write(path, fields, [rows_of(fields, v=texts)], compression="zstd")
    (found,) = read_data_file(STORAGE, str(path), "orc", fields)
    assert found.column(0).to_pylist() == texts


def rows_of(fields: list[DataField], **columns: object) -> pa.RecordBatch:
    schema = arrow_schema(fields)
    return pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


def write(path: Path, fields: list[DataField], batches: list[pa.RecordBatch], **form: object) -> None:
    settings = {"orc.row.index.stride": "1000"}
    made = FileFormat("orc", settings=settings, **form)  # type: ignore[arg-type]
    writer = DataFileWriter(STORAGE, str(path), fields, made, [StatsMode("full")] * len(fields))
    for batch in batches:
        writer.write(batch)
    writer.close()


def read(path: Path, fields: list[DataField]) -> pa.Table:
    found = pa.Table.from_batches(read_data_file(STORAGE, str(path), "orc", fields), arrow_schema(fields))
    found.validate(full=True)
    return found


@settings(max_examples=60, deadline=None)
@given(
    tables(far=True),
    st.lists(st.integers(0, 400), max_size=4),
    st.sampled_from([1, 20_000, 1 << 20]),
    st.sampled_from(CODECS),
)
def test_rows_come_back_however_they_are_cut(
    table: tuple[list[DataField], pa.RecordBatch],
    cuts: list[int],
    group: int,
    codec: str,
) -> None:
    """Plain stripes and exact ones, several row groups, parts that are slices, nulls at any level."""
    fields, batch = table
    rows = pa.Table.from_batches([batch.slice(at % max(batch.num_rows, 1)) for at in range(100)]).combine_chunks()
    rows = rows.to_batches()[0] if rows.num_rows else batch
    ends = [*sorted(min(cut, rows.num_rows) for cut in cuts), rows.num_rows]
    parts = [rows.slice(start, end - start) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.orc"
        write(path, fields, parts, compression=codec, group_bytes=group)
        assert read(path, fields).combine_chunks().equals(pa.Table.from_batches([rows]))


@pytest.mark.parametrize("codec", CODECS)
def test_the_c_library_reads_instants_before_1970_too(tmp_path: Path, codec: str) -> None:
    """It follows Java's rule where nanoseconds are positive; half of the file is as it writes it itself."""
    fields = named(t="TIMESTAMP(6)", n="TIMESTAMP(9)", r="ROW<s STRING, l ARRAY<TIMESTAMP(6)>>")
    generator = np.random.default_rng(3)
    micros = generator.integers(-8 * 10**15, -SECOND, 20_000)
    later = np.abs(micros)
    stamps = [None if at % 7 == 0 else int(value) for at, value in enumerate([*later[:9000], *micros])]
    rows = rows_of(
        fields,
        t=stamps,
        n=[None if value is None else value * 1000 - 1 for value in stamps],
        r=[None if at % 5 == 0 else {"s": str(at), "l": [value, None]} for at, value in enumerate(stamps)],
    )
    path = tmp_path / "x.orc"
    parts = [rows.slice(start, 3000) for start in range(0, rows.num_rows, 3000)]
    write(path, fields, parts, compression=codec, group_bytes=100_000)
    file = orc.ORCFile(path)
    assert file.nstripes > 3
    found = file.read().cast(pa.Table.from_batches([rows]).schema)
    assert found.combine_chunks().equals(pa.Table.from_batches([rows]))
    assert read(path, fields).combine_chunks().equals(pa.Table.from_batches([rows]))


def test_only_what_no_reader_could_tell_is_refused(tmp_path: Path) -> None:
    fields = named(n="TIMESTAMP(9)")
    held = [-(10**9), -(10**9) + 1, -999_000_001, -999_000_000, -1_000_000, 0, 1, -(2**63) + 1]
    write(tmp_path / "x.orc", fields, [rows_of(fields, n=held)])
    assert read(tmp_path / "x.orc", fields).column("n").cast(pa.int64()).to_pylist() == held
    for nanos in (-998_999_999, -1_000_001, -1):
        with pytest.raises(UnsupportedError, match="last 999 ms before 1970") as failure:
            write(tmp_path / f"{nanos}.orc", fields, [rows_of(fields, n=[5, nanos])])
        assert failure.value.details["nanoseconds"] == nanos


@pytest.mark.parametrize("version", ["0.11", "0.12"])
@pytest.mark.parametrize("codec", ["uncompressed", *CODECS[:4]])
def test_far_instants_of_other_writers_are_read(tmp_path: Path, codec: str, version: str) -> None:
    fields = named(
        i="INT", t="TIMESTAMP(6)", r="ROW<s STRING, m MAP<INT, TIMESTAMP(3) WITH LOCAL TIME ZONE>>", n="TIMESTAMP(9)"
    )
    stamps = [None if at % 9 == 0 else FAR[at % len(FAR)] + at for at in range(3000)]
    batch = rows_of(
        fields,
        i=range(3000),
        t=stamps,
        r=[None if at % 4 == 0 else {"s": str(at), "m": [(at, value)]} for at, value in enumerate(stamps)],
        n=[-1_000_000_001 - at for at in range(3000)],
    )
    written = pa.Table.from_batches([batch]).cast(
        pa.schema([(f.name, pa.int32() if f.name == "i" else f.type) for f in batch.schema])
    )
    orc.write_table(written, tmp_path / "x.orc", compression=codec, file_version=version, stripe_size=20_000)
    assert read(tmp_path / "x.orc", fields).combine_chunks().equals(pa.Table.from_batches([batch]))
    with pytest.raises(UnsupportedError, match="does not fit 64-bit nanoseconds"):
        read(tmp_path / "x.orc", [fields[0], DataField(1, "t", kind("TIMESTAMP(9)"))])


CLOCKS = {  # what is written in UTC, and what it is when the file says that it was in Athens
    "0001-01-01T00:00:00.000001": "0001-01-01T00:00:00.000001",
    "1677-01-01T00:00:00.000000": "1677-01-01T00:00:00.000000",
    "1800-06-01T12:00:00.500000": "1800-06-01T12:00:00.500000",
    "1960-01-01T00:00:00.000000": "1960-01-01T00:00:00.000000",
    "2024-07-01T00:00:00.000000": "2024-07-01T01:00:00.000000",
    "2100-01-31T00:00:00.000000": "2100-01-31T00:00:00.000000",
    "2500-03-28T00:59:59.999999": "2500-03-28T00:59:59.999999",
    "2500-03-28T03:00:00.000000": "2500-03-28T04:00:00.000000",
    "9999-07-01T00:00:00.000000": "9999-07-01T01:00:00.000000",
    "9999-12-31T23:59:59.999999": "9999-12-31T23:59:59.999999",
}


@pytest.mark.parametrize("far", [True, False])
def test_clocks_of_another_zone_are_as_java_has_them(tmp_path: Path, far: bool) -> None:
    """Standard time before 1900, the last rules for ever. Within nanoseconds the C library has local mean time."""
    fields = named(i="INT", t="TIMESTAMP(6)", r="ROW<l ARRAY<TIMESTAMP(6)>>", z="TIMESTAMP(6) WITH LOCAL TIME ZONE")
    kept = [clock for clock in CLOCKS if far or "1700" < clock < "2200"]
    written, expected = (
        [int(value) for value in np.array(clocks, "datetime64[us]").astype(np.int64)]
        for clocks in (kept, [CLOCKS[clock] for clock in kept])
    )
    batches = [
        rows_of(fields, i=range(len(kept)), t=values, r=[{"l": [value, None]} for value in values], z=written)
        for values in (written, expected)
    ]
    out = io.BytesIO()
    orc.write_table(pa.Table.from_batches([batches[0]]), out, compression="uncompressed")
    (tmp_path / "x.orc").write_bytes(out.getvalue().replace(b"GMT", b"EET"))
    assert read(tmp_path / "x.orc", fields).combine_chunks().equals(pa.Table.from_batches([batches[1]]))


def test_far_clocks_of_an_unknown_zone_are_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    fields = named(i="INT", t="TIMESTAMP(6)")
    batch = rows_of(fields, i=[1, 2], t=[0, FAR[0]])
    orc.write_table(pa.Table.from_batches([batch]), out, compression="uncompressed")
    (tmp_path / "x.orc").write_bytes(out.getvalue().replace(b"GMT", b"Moo"))
    with pytest.raises(BucketlakeError) as failure:
        read(tmp_path / "x.orc", fields)
    assert failure.value.details["path"] == str(tmp_path / "x.orc")
    assert read(tmp_path / "x.orc", fields[:1]).to_pylist() == [{"i": 1}, {"i": 2}]


def test_a_column_of_another_type_is_not_taken_for_instants(tmp_path: Path) -> None:
    fields = named(a="BIGINT", t="TIMESTAMP(6)")
    write(tmp_path / "x.orc", fields, [rows_of(fields, a=[1], t=[FAR[1]])])
    other = [DataField(0, "a", kind("TIMESTAMP(6)")), DataField(1, "t", kind("ARRAY<TIMESTAMP(6)>"))]
    with pytest.raises(CorruptError):
        read(tmp_path / "x.orc", other)


def test_damage_is_named_or_harmless(tmp_path: Path) -> None:
    """Bits of streams, and of what says where they are."""
    fields = named(t="TIMESTAMP(6)", l="ARRAY<TIMESTAMP(3)>")
    rows = rows_of(fields, t=[*FAR, None], l=[[value // 1000] for value in [*FAR, 0]])
    for codec in ("none", "zstd", "lz4"):
        path = tmp_path / f"{codec}.orc"
        write(path, fields, [rows], compression=codec)
        whole = path.read_bytes()
        chosen = random.Random(7)
        for at in sorted(chosen.sample(range(len(whole)), 120)):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << chosen.randrange(8)
            path.write_bytes(damaged)
            try:
                read(path, fields)
            except BucketlakeError as error:
                assert error.details["path"] == str(path)


@pytest.mark.parametrize("size", ["1 b", "100 kb", "1 gb"])
def test_any_size_of_chunks_is_taken(tmp_path: Path, size: str) -> None:
    fields = named(n="INT")
    form = FileFormat("orc", settings={"orc.compress.size": size})
    writer = DataFileWriter(STORAGE, str(tmp_path / "x.orc"), fields, form, [StatsMode("full")])
    writer.write(rows_of(fields, n=range(9)))
    writer.close()
    assert read(tmp_path / "x.orc", fields).column("n").to_pylist() == list(range(9))


@pytest.mark.parametrize(
    ("key", "value"),
    [("orc.row.index.stride", "0"), ("orc.dictionary.key.threshold", "much"), ("orc.dictionary.key.threshold", "7")],
)
def test_options_that_orc_does_not_take_are_named(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(InvalidError, match="option of orc"):
        DataFileWriter(
            STORAGE,
            str(tmp_path / "x.orc"),
            named(n="INT"),
            FileFormat("orc", settings={key: value}),
            [StatsMode("full")],
        )
    assert not list(tmp_path.iterdir())


def test_texts_that_are_none_are_noticed(tmp_path: Path) -> None:
    fields = named(s="STRING", r="ARRAY<STRING>")
    for column in fields:
        path = tmp_path / f"{column.name}.orc"
        other = {"s": ["x"], "r": [["x"]], column.name: ["needle"] if column.name == "s" else [["needle"]]}
        write(path, fields, [rows_of(fields, **other)], compression="none")
        path.write_bytes(path.read_bytes().replace(b"needle", b"need\xffe"))
        with pytest.raises(CorruptError) as failure:
            read(path, fields)
        assert failure.value.details["path"] == str(path)


def test_parts_of_rows_that_are_slices_keep_their_places(tmp_path: Path) -> None:
    """Batches are encoded in steps; the library takes a slice's members from the start where rows are null."""
    fields = named(r="ROW<s STRING, n INT, l ARRAY<STRING>>")
    made = [None if at % 5 == 0 else {"s": "x" * 30 + str(at), "n": at, "l": [str(at)]} for at in range(60_000)]
    rows = rows_of(fields, r=made)
    write(tmp_path / "x.orc", fields, [rows])
    assert read(tmp_path / "x.orc", fields).column("r").to_pylist() == made
