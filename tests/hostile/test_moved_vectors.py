"""Deletion vectors that an index manifest has under another place, or of another file: no deleted row comes back, neither
to readers nor in files that compaction writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.errors import CorruptError
from bucketlake.format.index.index_manifest import IndexEntry, decode_index_manifest, encode_index_manifest
from bucketlake.format.row.binary_row import encode_row, with_arity_header
from bucketlake.ops.table.store import clear_cache
from bucketlake.table import Table
from bucketlake.types.model import INT

COLUMNS = pa.schema([pa.field("pt", pa.int32(), False), pa.field("k", pa.int64(), False), ("v", pa.string())])
VECTORS = {"deletion-vectors.enabled": "true"}
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "keyed": (["pt", "k"], {"bucket": "2", **VECTORS}),
    "dynamic": (["pt", "k"], {"bucket": "-1", **VECTORS}),
    "append": ([], {**VECTORS, "compaction.min.file-num": "2"}),
    "tracked": ([], {**VECTORS, "row-tracking.enabled": "true", "compaction.min.file-num": "2"}),
}


def _under(partition: bytes) -> Callable[[IndexEntry], IndexEntry]:
    return lambda entry: replace(entry, partition=partition)


def _of_another_file(entry: IndexEntry) -> IndexEntry:
    ranges = tuple(replace(part, data_file_name=f"{part.data_file_name[:-1]}T") for part in entry.file.dv_ranges or ())
    return replace(entry, file=replace(entry.file, dv_ranges=ranges))


def _partition(value: int) -> bytes:
    return with_arity_header(encode_row((value,), [INT]), 1)


DAMAGES: dict[str, Callable[[IndexEntry], IndexEntry]] = {
    "another partition": _under(_partition(1)),
    "a partition that is not there": _under(_partition(7)),
    "no partition": _under(b"\2\0\0\1" + bytes(16)),
    "nothing": _under(b""),
    "another bucket": lambda entry: replace(entry, bucket=entry.bucket + 5),
    "another file": _of_another_file,
}
CALLS: dict[str, Callable[[Table], Any]] = {
    "read": lambda table: table.to_arrow(),
    "read of its partition": lambda table: table.to_arrow("pt = 0"),
    "read of a key": lambda table: table.to_arrow("pt = 0 AND k = 2"),
    "compact": lambda table: table.compact(full=True),
    "delete": lambda table: table.delete("pt = 0 AND k = 0"),
    "rescale": lambda table: table.rescale(3),
    "sort": lambda table: table.compact(order_by=["k"]),
}


def _made(folder: Path, kind: str) -> Table:
    keys, options = KINDS[kind]
    catalog = bucketlake.open(folder)
    catalog.create_database("db")
    table = catalog.create_table("db.t", COLUMNS, ["pt"], keys, options)
    for part in (0, 1):
        for number in range(2):
            keys_of = range(number * 4, number * 4 + 4)
            table.write_arrow([{"pt": part, "k": key, "v": f"{key}"} for key in keys_of])
    if keys:
        table.compact(full=True)
    table.delete("pt = 0 AND k IN (2, 3)")
    table.write_arrow([{"pt": 0, "k": 8, "v": "8"}])
    return table


@pytest.mark.parametrize("kind", KINDS)
def test_no_deleted_row_comes_back(tmp_path: Path, kind: str) -> None:
    table = _made(tmp_path, kind)
    rows = table.to_arrow().sort_by([("pt", "ascending"), ("k", "ascending")])
    newest = table.latest_snapshot()
    assert newest is not None and newest.index_manifest is not None
    path = Path(table.path, "manifest", newest.index_manifest)
    whole = path.read_bytes()
    for damage, of in DAMAGES.items():
        entries = decode_index_manifest(whole)
        path.write_bytes(encode_index_manifest([of(one) if one.file.dv_ranges else one for one in entries]))
        for called, call in CALLS.items():
            if (called == "rescale" and kind != "keyed") or (called == "sort" and KINDS[kind][0]):
                continue
            clear_cache()
            with pytest.raises(CorruptError) as caught:
                call(table.refresh())
                pytest.fail(f"{called} with {damage}")
            assert path.name in str(caught.value), (damage, called)
            assert table.latest_snapshot() == newest, (damage, called)
        clear_cache()
        if "another" in damage and damage != "another partition":  # what is whole can be read
            assert table.to_arrow("pt = 1").num_rows == 8
    path.write_bytes(whole)
    clear_cache()
    assert table.to_arrow().sort_by([("pt", "ascending"), ("k", "ascending")]) == rows
