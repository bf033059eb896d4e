"""The tables that Apache Paimon wrote (tests/corpus), read here: the rows that Flink read, of every table that this
engine takes on, and a refusal by name of every other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests import corpus

import bucketlake
from bucketlake import Catalog, UnsupportedError
from bucketlake.types import DataType, Root

# What later issues deliver, by the word that the refusal names. A line goes when its feature comes.
REFUSED = {
    "dv_pk": "deletion-vectors",
    "dv_pk_bitmap64": "deletion-vectors",
    "engine_aggregation": "merge-engine",
    "engine_first_row": "merge-engine",
    "engine_partial_update": "merge-engine",
    "engine_sequence_field": "sequence.field",
    "index_dir": "deletion-vectors",
    "pk_snapshot_ordering": "sequence.snapshot-ordering",
    "postpone_batch": "bucket",
    "postpone_mixed": "bucket",
    "postpone_pending": "bucket",
    # timestamps of precision 7 to 9 outside of 1677 to 2262: no Arrow type holds them
    "types_far_orc": "nanoseconds",
    "types_far_parquet": "nanoseconds",
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return bucketlake.open(corpus.unpack(tmp_path_factory.mktemp("corpus")))


@pytest.mark.parametrize("name", corpus.names())
def test_rows_are_those_that_paimon_reads(catalog: Catalog, name: str) -> None:
    if name in REFUSED:
        with pytest.raises(UnsupportedError, match=REFUSED[name]):
            catalog.table(f"corpus.{name}").to_arrow()
        return
    table = catalog.table(f"corpus.{name}")
    types = [field.type for field in table.schema.fields]
    rows = [
        tuple(plain(value, kind) for value, kind in zip(row.values(), types, strict=True))
        for row in table.to_arrow().to_pylist()
    ]
    truth = [
        tuple(single(value, kind) for value, kind in zip(row, types, strict=True)) for row in corpus.expected(name).rows
    ]
    assert corpus.encode(corpus.sort_rows(rows)) == corpus.encode(corpus.sort_rows(truth))


def plain(value: Any, kind: DataType) -> Any:
    """A value of ours in the form in which the corpus holds it."""
    if value is None:
        return None
    if kind.root is Root.ROW:
        return tuple(plain(value[field.name], field.type) for field in kind.fields)
    if kind.element is not None and kind.key is None:
        return [plain(item, kind.element) for item in value]
    if kind.element is not None and kind.key is not None:
        return {plain(key, kind.key): plain(item, kind.element) for key, item in value}
    if kind.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ) and (kind.precision or 0) > 6:
        zone = "" if kind.root is Root.TIMESTAMP else "Z"
        return value.tz_localize(None).isoformat(timespec="nanoseconds") + zone
    return value


def single(value: Any, kind: DataType) -> Any:
    """A value of the corpus with its FLOATs as 32 bits hold them; the corpus has their shortest text."""
    if value is None:
        return None
    if kind.root is Root.ROW:
        return tuple(single(item, field.type) for item, field in zip(value, kind.fields, strict=True))
    if kind.element is not None and kind.key is None:
        return [single(item, kind.element) for item in value]
    if kind.element is not None and kind.key is not None:
        return {single(key, kind.key): single(item, kind.element) for key, item in value.items()}
    return float(np.float32(value)) if kind.root is Root.FLOAT else value
