"""Statistics files: the bytes of Apache Paimon's, and what is damaged."""

from __future__ import annotations

import pytest

from bucketlake.errors import CorruptError
from bucketlake.format.metadata.statistics import (
    ColumnStatistics,
    TableStatistics,
    decode_statistics,
    encode_statistics,
)

STATISTICS = TableStatistics(
    2, 0, 4, 1200, {"name": ColumnStatistics(1, 4, None, None, 0, 4, 8), "at": ColumnStatistics(2, 2, "18262", "18263")}
)
TEXT = """{
  "snapshotId" : 2,
  "schemaId" : 0,
  "mergedRecordCount" : 4,
  "mergedRecordSize" : 1200,
  "colStats" : {
    "name" : {
      "colId" : 1,
      "distinctCount" : 4,
      "nullCount" : 0,
      "avgLen" : 4,
      "maxLen" : 8
    },
    "at" : {
      "colId" : 2,
      "distinctCount" : 2,
      "min" : "18262",
      "max" : "18263"
    }
  }
}"""


def test_bytes() -> None:
    assert encode_statistics(STATISTICS).decode() == TEXT
    assert decode_statistics(TEXT.encode()) == STATISTICS


def test_what_others_add_is_passed_over() -> None:
    text = '{"snapshotId": 1, "schemaId": 0, "later": 5, "colStats": {"a": {"colId": 0, "more": 1}}}'
    assert decode_statistics(text.encode()) == TableStatistics(1, 0, columns={"a": ColumnStatistics(0)})


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"snapshotId": "x", "schemaId": 0}', '{"snapshotId": 1, "schemaId": 0, "colStats": {"a": {}}}'],
)
def test_damage(text: str) -> None:
    with pytest.raises(CorruptError, match="statistics"):
        decode_statistics(text.encode(), "statistics/stat-1")
