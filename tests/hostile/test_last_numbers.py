"""Tables whose numbers are at the end of what can be stored: what would go beyond is refused before it is published, and
the table stays as it was. It was published once, and nobody read the table any more."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake import CorruptError, Table
from bucketlake.format.metadata.manifest import (
    SEQUENCE,
    DataFile,
    decode_manifest,
    encode_manifest,
    encode_manifest_list,
)
from bucketlake.format.metadata.snapshot import encode_snapshot
from bucketlake.ops.table.store import clear_cache
from bucketlake.schema.change import AddColumn
from bucketlake.types.model import BIGINT

ROWS = pa.table({"k": pa.array([1, 2], pa.int64()), "v": pa.array([1, 2], pa.int64())})
SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])
LONG, INT = (1 << 63) - 1, (1 << 31) - 1
SYSTEM = INT // 2  # from here on ids of fields are the system's


def made(folder: Path, **options: str) -> Table:
    keys = [] if options else ["k"]
    table = bucketlake.open(folder).create_table("t", SCHEMA, primary_keys=keys, options=options or {"bucket": "1"})
    for _ in range(2):
        table.write_arrow(ROWS)
    return table


def opened(table: Table) -> Table:
    clear_cache()
    return bucketlake.open(Path(table.path).parents[1]).table("t")


def snapshot(**changed: Any) -> Callable[[Table], None]:
    def forge(table: Table) -> None:
        last = table.latest_snapshot()
        assert last is not None
        last = replace(last, **changed)
        path = Path(table.path) / "snapshot" / f"snapshot-{last.id}"
        path.write_bytes(encode_snapshot(last))
        path.with_name("LATEST").write_text(str(last.id))

    return forge


def schema(**changed: Any) -> Callable[[Table], None]:
    def forge(table: Table) -> None:
        path = Path(table.path) / "schema" / "schema-0"
        found = {**json.loads(path.read_text()), **changed}
        path.with_name(f"schema-{found['id']}").write_text(json.dumps(found))

    return forge


def file(change: Callable[[DataFile], DataFile]) -> Callable[[Table], None]:
    """Files of the last commit, changed."""

    def forge(table: Table) -> None:
        last = table.latest_snapshot()
        assert last is not None
        (listed,) = table.store.delta_manifests(last)
        path = Path(table.path) / "manifest" / listed.file_name
        entries = [replace(entry, file=change(entry.file)) for entry in decode_manifest(path.read_bytes())]
        path.write_bytes(encode_manifest(entries))
        manifests = encode_manifest_list([replace(listed, file_size=path.stat().st_size)])
        path.with_name(last.delta_manifest_list).write_bytes(manifests)
        snapshot(delta_manifest_list_size=len(manifests))(table)

    return forge


def _write(table: Table) -> object:
    return table.write_arrow(ROWS)


def _alter(table: Table) -> object:
    return table.alter(AddColumn("w", BIGINT))


CASES: dict[str, tuple[dict[str, str], Callable[[Table], None], Callable[[Table], object]]] = {
    "snapshot": ({}, snapshot(id=LONG), _write),
    "rows": ({}, snapshot(total_record_count=LONG), _write),
    "sequence": ({}, file(lambda one: replace(one, max_sequence_number=SEQUENCE[1])), _write),
    "row ids": ({"row-tracking.enabled": "true"}, snapshot(next_row_id=LONG), _write),
    "one row id": ({"row-tracking.enabled": "true"}, snapshot(next_row_id=LONG - 1), _write),
    "schema": ({}, schema(id=INT), _alter),
    "field": ({}, schema(highestFieldId=SYSTEM - 1), _alter),
    "field beyond": ({}, schema(highestFieldId=INT), _alter),
}


@pytest.mark.parametrize("case", CASES)
def test_what_would_go_beyond_is_refused(tmp_path: Path, case: str) -> None:
    options, forge, act = CASES[case]
    table = made(tmp_path, **options)
    forge(table)
    table = opened(table)
    rows = table.to_arrow()
    files = {path for path in Path(table.path).rglob("*") if path.is_file()}
    with pytest.raises(CorruptError, match=r"in range|out of range|no ids are left"):
        act(table)
    assert {path for path in Path(table.path).rglob("*") if path.is_file()} == files
    assert opened(table).to_arrow() == rows


@pytest.mark.parametrize("number", [SYSTEM, INT - 2, INT])
def test_columns_do_not_have_ids_of_the_system(tmp_path: Path, number: int) -> None:
    """One with the id of the rows' kinds had these for its values."""
    table = made(tmp_path)
    fields = json.loads((Path(table.path) / "schema" / "schema-0").read_text())["fields"]
    fields[1]["id"] = number
    schema(fields=fields, highestFieldId=number)(table)
    with pytest.raises(CorruptError, match="schema-0.*field id"):
        opened(table)
