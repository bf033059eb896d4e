"""Text for CHAR(n) and VARCHAR(n) as Spark stores it, of Arrow values at any depth."""

from __future__ import annotations

import pyarrow as pa

from bucketlake.types.model import DataField
from bucketlake.types.parse import parse_type_text
from bucketlake.types.spaced import spaced_batch

COLUMNS = {
    "CHAR(4)": (["x", None, "abcd  ", "abcdef", "äö"], ["x   ", None, "abcd", "abcdef", "äö  "]),
    "VARCHAR(3)": (["abc  ", "ab", None, "abcde", "a  b"], ["abc", "ab", None, "abcde", "a  b"]),
    "ARRAY<CHAR(3)>": (
        [["a", None], None, [], ["abc  "], ["abcde"]],
        [["a  ", None], None, [], ["abc"], ["abcde"]],
    ),
    "MAP<CHAR(2), ROW<x VARCHAR(2), y INT>>": (
        [[("a", {"y": 1, "x": "q   "})], None, [], [("bb", None)], [("c", {"y": None, "x": None})]],
        [[("a ", {"x": "q ", "y": 1})], None, [], [("bb", None)], [("c ", {"x": None, "y": None})]],
    ),
    "STRING": (["a  ", "", None, "b", "c"], ["a  ", "", None, "b", "c"]),
}
ENTRIES = pa.map_(pa.string(), pa.struct([("y", pa.int32()), ("x", pa.string())]))


def test_text_is_padded_and_cut() -> None:
    fields = [DataField(i, f"c{i}", parse_type_text(text)) for i, text in enumerate(COLUMNS)]
    given = [pa.array(values, ENTRIES if "MAP" in text else None) for text, (values, _) in COLUMNS.items()]
    batch = pa.RecordBatch.from_arrays(given, names=[item.name for item in fields])
    for start, count in ((0, 5), (1, 3), (4, 1), (2, 0)):
        found = spaced_batch(batch.slice(start, count), fields)
        for column, (_, stored) in zip(found.columns, COLUMNS.values(), strict=True):
            assert column.to_pylist() == stored[start : start + count]
