"""File indexes between Apache Paimon and Bucketlake: theirs are made anew to the same bytes, ours are read by Flink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.peers.flink import FlinkPaimon
from tests.profile import first, later

import bucketlake
from bucketlake.format.file_index.container import FileIndex, FileIndexBuilder
from bucketlake.schema.file_indexes import index_specs
from bucketlake.table import Table

pytestmark = pytest.mark.peer

# Column -> Flink's type, Flink's expression over k = 0 … 19 (never null), and the kinds of index that Paimon builds on it.
COLUMNS: dict[str, tuple[str, str, str]] = {
    "b": ("BOOLEAN", "k > 7", "bitmap range-bitmap"),
    "t": ("TINYINT", "CAST(k AS TINYINT)", "bloom-filter bitmap range-bitmap bsi"),
    "s": ("SMALLINT", "CAST(k AS SMALLINT)", "bloom-filter bitmap range-bitmap bsi"),
    "i": ("INT", "k / 2", "bloom-filter bitmap range-bitmap bsi"),
    "n": ("BIGINT", "CAST(k / 3 AS BIGINT) - 3", "bloom-filter range-bitmap bsi"),
    "f": ("FLOAT", "CAST(k AS FLOAT) - 4.5", "bloom-filter range-bitmap"),
    "d": ("DOUBLE", "CAST(k AS DOUBLE) / 3 - 1", "bloom-filter range-bitmap"),
    "m": ("DECIMAL(10, 2)", "CAST(k AS DECIMAL(10, 2)) - 7.25", "range-bitmap bsi"),
    "v": ("STRING", "LPAD(CAST(k AS STRING), 40, 'x')", "bloom-filter range-bitmap"),
    "w": ("STRING", "'only'", "bloom-filter bitmap range-bitmap"),
    "y": ("BYTES", "CAST(CAST(k AS STRING) AS BYTES)", "bloom-filter"),
    "a": ("DATE", "DATE '2024-01-01'", "bloom-filter bitmap range-bitmap bsi"),
    "p": ("TIMESTAMP(3)", "TIMESTAMPADD(SECOND, k, TIMESTAMP '1969-12-31 23:59:50')", "bloom-filter range-bitmap bsi"),
    "q": ("TIMESTAMP(6)", "TIMESTAMPADD(SECOND, k, TIMESTAMP '1969-12-31 23:59:50')", "bloom-filter range-bitmap bsi"),
    "x": ("INT", "CASE WHEN MOD(k, 3) = 0 THEN CAST(NULL AS INT) ELSE k / 4 END", "bitmap range-bitmap bsi"),
    "z": ("INT", "CAST(NULL AS INT)", "bloom-filter bitmap range-bitmap bsi"),
    "u": ("INT", "CASE WHEN k = 5 THEN CAST(NULL AS INT) ELSE k END", "bitmap range-bitmap"),
}
KEYS = "(VALUES " + ", ".join(f"({k})" for k in range(20)) + ") AS r(k)"


def options(columns: list[str], **more: str) -> dict[str, str]:
    kinds = sorted({kind for name in columns for kind in COLUMNS[name][2].split()})
    found = {}
    for kind in kinds:
        names = [name for name in columns if kind in COLUMNS[name][2].split()]
        found[f"file-index.{kind}.columns"] = ",".join(names)
        if kind == "bloom-filter":
            found.update({f"file-index.{kind}.{name}.items": "50" for name in names})
    return {"bucket": "-1", "file-index.in-manifest-threshold": "1 mb", **found, **more}


def create(name: str, columns: list[str], given: dict[str, str]) -> str:
    listed = ", ".join(f"`{column}` {COLUMNS[column][0]}" for column in columns)
    settings = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    return f"CREATE TABLE {name} ({listed}) WITH ({settings})"


def insert(name: str, columns: list[str], keys: str = KEYS) -> str:
    values = [f"CAST({COLUMNS[column][1]} AS {COLUMNS[column][0]})" for column in columns]
    return f"INSERT INTO {name} SELECT {', '.join(values)} FROM {keys}"


@pytest.fixture(scope="module")
def warehouse(flink: FlinkPaimon, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("file_indexes")
    flink.use(folder)
    return folder


def indexes_of(table: Table) -> Iterator[tuple[FileIndex, Any]]:
    for found in table.files():
        data = found.file.embedded_index or Path(found.path + ".index").read_bytes()
        yield FileIndex(lambda at, size, data=data: data[at : at + size], table.schema.fields, 0, found.path), found


VERSION_1 = {f"file-index.bitmap.{name}.version": "1" for name in "btsiwaxzu"}
SMALL = {f"file-index.range-bitmap.{name}.chunk-size": "24b" for name in "tinfdmvpq"} | {
    f"file-index.bitmap.{name}.index-block-size": "64b" for name in "tsixu"
}


@pytest.mark.parametrize("variant", later(["usual", "version_1", "small"], 1))
def test_paimons_indexes_are_made_anew_to_the_same_bytes(flink: FlinkPaimon, warehouse: Path, variant: str) -> None:
    names = list(COLUMNS)
    more = {"usual": {}, "version_1": VERSION_1, "small": SMALL}[variant]
    flink.run([create(variant, names, options(names, **more)), insert(variant, names)])
    table = bucketlake.open(warehouse).table(f"default.{variant}")
    ((index, _),) = indexes_of(table)
    builder = FileIndexBuilder(index_specs(table.schema.options), table.schema.fields)
    builder.update(table.to_arrow().combine_chunks().to_batches()[0])
    data = builder.finish()
    ours = FileIndex(lambda at, size: data[at : at + size], table.schema.fields, 20, "ours")
    compared = [(column, kind) for column, places in index.places.items() for kind in places]
    assert sorted(compared) == sorted((name, kind) for name in names for kind in COLUMNS[name][2].split())
    differing = [at for at in compared if ours.index(*at) != index.index(*at)]
    assert differing == []


CONDITIONS = {
    "i": ["i = 3", "i IN (1, 99)", "i > 8", "i <= 0", "i <> 4"],
    "n": ["n = -3", "n BETWEEN -1 AND 0", "n = 77"],
    "f": ["f > CAST(13.0 AS FLOAT)", "f = CAST(-4.5 AS FLOAT)"],
    "d": ["d < 0", "d = -1"],
    "m": ["m = -7.25", "m >= 10.75"],
    "v": ["v = LPAD('7', 40, 'x')", "v > LPAD('18', 40, 'x')", "v = 'none'"],
    "w": ["w = 'only'", "w <> 'only'"],
    "b": ["b = TRUE", "b = FALSE"],
    "q": ["q > TIMESTAMP '1970-01-01 00:00:05'"],
    "x": ["x IS NULL", "x IS NOT NULL", "x = 2", "x > 3"],
    "u": ["u IS NULL", "u = 19"],
    "z": ["z = 1"],  # IS NULL: Flink takes a range bitmap without values for nulls in the first and last row alone
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", first(["small", "usual", "beside", "version_1"], 1))
def test_flink_reads_by_our_indexes(flink: FlinkPaimon, warehouse: Path, variant: str) -> None:
    """Flink answers conditions by our indexes as it does without."""
    names = list(COLUMNS)
    more = {"usual": {}, "version_1": VERSION_1, "small": SMALL, "beside": {}}[variant]
    if variant == "beside":
        more = {"file-index.in-manifest-threshold": "0 b"}
    flink.run([f"DROP TABLE IF EXISTS source_{variant}", create(f"source_{variant}", names, {"bucket": "-1"})])
    flink.sql(insert(f"source_{variant}", names))
    catalog = bucketlake.open(warehouse)
    source = catalog.table(f"default.source_{variant}")
    ours = catalog.create_table(
        f"default.ours_{variant}",
        source.schema.fields,
        [],
        [],
        options(names, **more) | {"metadata.stats-mode": "none"},
    )
    rows = source.to_arrow()
    for start in range(0, 20, 5):
        ours.write_arrow(rows.slice(start, 5))
    assert all((found.file.embedded_index is None) == (variant == "beside") for _, found in indexes_of(ours))
    questions = [(name, text) for name, texts in CONDITIONS.items() for text in texts]
    hints = {"without": "/*+ OPTIONS('file-index.read.enabled' = 'false') */", "with": ""}
    found = {}
    for way, hint in hints.items():
        parts = [
            f"SELECT {number}, COUNT(*) FROM ours_{variant} {hint} WHERE {text}"
            for number, (_, text) in enumerate(questions)
        ]
        found[way] = sorted(flink.sql(" UNION ALL ".join(parts)).rows)
    assert found["with"] == found["without"]
    assert any(count == 0 for _, count in found["with"])
    assert any(count > 0 for _, count in found["with"])


def test_flink_reads_keyed_tables_by_our_indexes(flink: FlinkPaimon, warehouse: Path) -> None:
    fields = pa.schema([pa.field("k", pa.int32()), pa.field("v", pa.string())])
    given = {
        "bucket": "1",
        "write-only": "true",
        "file-index.bloom-filter.columns": "v,k",
        "file-index.bitmap.columns": "v",
    }
    table = bucketlake.open(warehouse).create_table("default.keyed", fields, [], ["k"], given)
    table.write_arrow(pa.table([[1, 2, 3], ["a", "b", "c"]], schema=fields))
    table.write_arrow(pa.table([[2, 3], ["bb", "c"]], schema=fields))
    asked = {"v = 'b'": [], "v = 'bb'": [(2, "bb")], "v = 'c'": [(3, "c")], "k = 1": [(1, "a")], "v = 'x'": []}
    for where, expected in asked.items():
        assert flink.sql(f"SELECT * FROM keyed WHERE {where}").rows == expected
        assert [tuple(row.values()) for row in table.to_arrow(where).to_pylist()] == expected
