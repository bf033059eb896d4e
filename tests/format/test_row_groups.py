"""Parquet files of other programs in batches: all rows in order, however their groups are made."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from bucketlake.format.data.row_groups import read_row_groups

WIDE = "x" * 40_000
SIZES = st.lists(st.lists(st.sampled_from(["", "a", WIDE, None]), max_size=700), max_size=4)


@given(SIZES, st.booleans())
def test_rows_come_in_order_in_small_batches(groups: list[list[str | None]], threads: bool) -> None:
    sink = pa.BufferOutputStream()
    schema = pa.schema([("n", pa.int64()), ("text", pa.string())])
    with pq.ParquetWriter(sink, schema) as writer:
        for texts in groups:
            writer.write_table(pa.table({"n": list(range(len(texts))), "text": texts}, schema=schema))
    with pq.ParquetFile(pa.BufferReader(sink.getvalue())) as file:
        chosen = [number for number in range(file.num_row_groups) if number != 1]
        found = list(read_row_groups(file, chosen, ["text"], threads))
        whole = [text for number in chosen for text in file.read_row_group(number, ["text"]).column(0).to_pylist()]
    assert [text for batch in found for text in batch.column(0).to_pylist()] == whole
    assert all(batch.nbytes < 64 << 20 for batch in found)


def test_batches_follow_the_rows_before_them(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": ["a"] * 20_000 + [WIDE] * 20_000}), path, row_group_size=10_000)
    with pq.ParquetFile(path) as file:
        sizes = [(batch.num_rows, batch.nbytes) for batch in read_row_groups(file, range(4), ["text"])]
    assert sizes[0][0] == 10_000
    assert sum(rows for rows, _ in sizes) == 40_000
    wide = [rows for rows, size in sizes if size > 10_000 * rows]
    assert max(wide[1:]) <= 200  # the first that is wide is read as those before it were
