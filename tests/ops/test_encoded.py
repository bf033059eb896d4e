"""Text columns that go from files to files as places in their dictionaries: the rows are the same, whatever meets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.profile import later

from bucketlake import Catalog, Table
from bucketlake.env.local import LocalStorage
from bucketlake.errors import CorruptError
from bucketlake.format.data.datafile import Recorded, read_recorded
from bucketlake.lsm import merge
from bucketlake.schema.change import AddColumn, RenameColumn, UpdateColumnType
from bucketlake.types.encoded import alike, concatenated, plain
from bucketlake.types.model import STRING, DataField
from bucketlake.types.parse import parse_type

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("few", pa.string()),
        pa.field("many", pa.string()),
        pa.field("must", pa.string(), nullable=False),
        pa.field("v", pa.int64()),
    ]
)
ROWS = 20_000  # so that places take less than a text would
KINDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "deduplicate": (("k",), {"bucket": "2"}),
    "deletion vectors": (("k",), {"bucket": "2", "deletion-vectors.enabled": "true"}),
    "first-row": (("k",), {"bucket": "2", "merge-engine": "first-row"}),
    "partial-update": (("k",), {"bucket": "2", "merge-engine": "partial-update"}),
    "changelog": (("k",), {"bucket": "2", "changelog-producer": "full-compaction"}),
    "thin": (("k",), {"bucket": "2", "data-file.thin-mode": "true"}),
    "indexed": (("k",), {"bucket": "2", "file-index.bloom-filter.columns": "few"}),
    "orc at the top": (("k",), {"bucket": "2", "file.format.per.level": "5:orc"}),
    "by text": (("k",), {"bucket": "2", "sequence.field": "few"}),
    "append": ((), {"bucket": "-1"}),
    "append, buckets": ((), {"bucket": "2", "bucket-key": "few"}),
    "append, tracked": ((), {"bucket": "-1", "row-tracking.enabled": "true"}),
}


def make(catalog: Catalog, kind: str) -> Table:
    keys, options = KINDS[kind]
    return catalog.create_table("default.t", SCHEMA, primary_keys=keys, options={"write-only": "true", **options})


def rows(start: int, seed: int, few: int) -> pa.Table:
    """`ROWS` rows from a key on; `few`: how many values the column has."""
    draw = np.random.default_rng(seed)
    texts = [None, "", *(f"text {n}" for n in range(few))]
    chosen = [texts[n] for n in draw.integers(0, len(texts), ROWS)]
    columns: dict[str, Any] = {
        "k": np.arange(start, start + ROWS),
        "few": chosen,
        "many": [f"{seed}-{n}" for n in range(ROWS)],
        "must": [text or "none" for text in chosen],
        "v": draw.integers(0, 1000, ROWS),
    }
    return pa.table(columns, schema=SCHEMA)


def content(table: Table) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=lambda row: (row["k"], repr(row)))


@pytest.mark.parametrize("kind", later([*KINDS], 6))
def test_rewritten_rows_are_the_same(catalog: Catalog, kind: str) -> None:
    """Files with few and with many values, with other dictionaries and with none are merged, compacted and changed."""
    table = make(catalog, kind)
    for number, few in enumerate((3, 5, 900, 5000, 3)):
        table.write_arrow(rows(number * ROWS // 2, number, few))
    before = content(table)
    table.compact(full=True)
    if kind in ("first-row", "deletion vectors"):  # their rows are read only now
        assert not before
        before = content(table)
    assert len(before) == (3 * ROWS if table.schema.primary_keys else 5 * ROWS)
    assert content(table) == before
    if kind not in ("first-row", "partial-update"):
        table.delete("v < 100")
        before = [row for row in before if row["v"] >= 100]
        if kind != "deletion vectors":  # `write-only`: seen once it is compacted
            assert content(table) == before
        table.compact(full=True)
        assert content(table) == before
    assert table.to_arrow(where="few = 'text 1'").num_rows == sum(row["few"] == "text 1" for row in before)


def test_places_of_few_values_stay_in_the_file(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge gathers places, not texts, and the file that it writes holds one dictionary a row group."""
    table = make(catalog, "deduplicate")
    table.write_arrow(rows(0, 1, 3))
    table.write_arrow(rows(ROWS // 2, 2, 4))
    seen: list[bool] = []
    gathered = merge._gathered

    def spied(batch: pa.RecordBatch, merged: Any) -> pa.RecordBatch:
        seen.append(pa.types.is_dictionary(batch.schema.field("few").type))
        assert not pa.types.is_dictionary(batch.schema.field("many").type)
        return gathered(batch, merged)

    monkeypatch.setattr(merge, "_gathered", spied)
    table.compact(full=True)
    assert seen and all(seen)
    for found in table.files():
        chunk = pq.ParquetFile(found.path).metadata.row_group(0).column(4)
        assert chunk.path_in_schema == "few" and chunk.has_dictionary_page
        assert chunk.total_uncompressed_size < found.file.row_count
        assert chunk.statistics.min == "" and chunk.statistics.max == "text 3"


def test_columns_of_another_time(catalog: Catalog) -> None:
    """Renamed, widened and added columns beside files of before."""
    table = make(catalog, "deduplicate")
    table.write_arrow(rows(0, 1, 3))
    table = catalog.alter_table("default.t", RenameColumn("few", "little"), AddColumn("new", STRING))
    second = rows(ROWS // 2, 2, 3).rename_columns(["k", "little", "many", "must", "v"])
    table.write_arrow(second.append_column("new", second.column("little")))
    table = catalog.alter_table("default.t", UpdateColumnType("v", parse_type("STRING")))
    table.write_arrow(table.to_arrow().slice(0, 100))
    before = content(table)
    table.compact(full=True)
    assert content(table) == before


def test_a_file_whose_places_lie_outside(tmp_path: Path) -> None:
    """A damaged file's places are refused before they are looked up: Arrow itself does not check those that it keeps."""
    places = np.arange(ROWS, dtype=np.int32) % 3
    places[77] = 3  # as many bits as the others
    texts = pa.DictionaryArray.from_arrays(pa.array(places), pa.array(["a", "b", "c"]), safe=False)
    path = str(tmp_path / "bad.parquet")
    pq.write_table(pa.table({"few": texts}), path, write_statistics=False, store_schema=False)
    fields = [DataField(0, "few", STRING)]
    for encoded in (frozenset[str](), frozenset({"few"})):
        with pytest.raises(CorruptError):
            list(read_recorded(LocalStorage(), Recorded(path, "parquet", encoded=encoded), fields))


def test_batches_of_both_kinds() -> None:
    encoded = pa.record_batch({"a": pa.array(["x", "y", None]).dictionary_encode(), "b": pa.array([1, 2, 3])})
    other = pa.record_batch({"a": pa.array(["z", "x"]).dictionary_encode(), "b": pa.array([4, 5])})
    values = pa.record_batch({"a": pa.array(["w"]), "b": pa.array([6])})
    both = concatenated([encoded, other])
    assert pa.types.is_dictionary(both.schema.field("a").type)
    assert plain(both).column("a").to_pylist() == ["x", "y", None, "z", "x"]
    assert concatenated([encoded, other, values]).column("a").to_pylist() == ["x", "y", None, "z", "x", "w"]
    assert all(batch.schema == values.schema for batch in alike([encoded, values]))
    two, mixed = (batch.append_column("c", batch.column("a").dictionary_encode()) for batch in (plain(encoded), values))
    two = two.set_column(0, "a", two.column("a").dictionary_encode())
    kinds = {batch.schema.field(name).type for batch in alike([two, mixed]) for name in "a"}
    assert kinds == {pa.string()} and pa.types.is_dictionary(concatenated([two, mixed]).schema.field("c").type)
