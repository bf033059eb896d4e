"""A table's changelog as its files hold it, and what it makes of a dict."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from tests.histories.engines import DELETE, INSERT, KEYS, UPDATE_AFTER, UPDATE_BEFORE, Values

from bucketlake import Table
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.rows.one_file import read_key_values
from bucketlake.ops.scan.scan import changelog_entries
from bucketlake.schema.schema import KIND_FIELD

Change = tuple[int, Values]


def changes_of(table: Table, snapshot: Snapshot) -> list[Change]:
    """(row kind, row) of a snapshot's changelog files, in order."""
    store = table.store
    names = [KIND_FIELD.name, *table.schema.field_names]
    found = []
    for entry in changelog_entries(store, snapshot):
        folder = store.paths.bucket_dir(entry.partition, entry.bucket)
        for batch in read_key_values(store, folder, entry.file):
            for row in batch.select(names).to_pylist():
                found.append((row.pop(KIND_FIELD.name), row))
    return found


def replay(
    state: dict[Any, Values], changes: Sequence[Change], strict: bool, keys: Sequence[str] = KEYS, pairs: bool = True
) -> None:
    """Apply changes; `strict`: each says truly what was there before. Without `pairs`, updates change something."""
    halfway: Mapping[str, Any] | None = None
    for kind, row in changes:
        key: Hashable = tuple(row[name] for name in keys)
        if strict:
            assert (halfway is None) == (kind != UPDATE_AFTER), "an update without its other half"
            assert halfway is None or [halfway[name] for name in keys] == list(key)  # type: ignore[call-overload]
            assert pairs or halfway != row, "an update that changes nothing"
            assert kind != INSERT or key not in state, f"inserted twice: {key}"
            assert kind not in (UPDATE_BEFORE, DELETE) or state.get(key) == row, "not what was there before"
            halfway = row if kind == UPDATE_BEFORE else None
        if kind in (INSERT, UPDATE_AFTER):
            state[key] = row
        elif kind == DELETE or not strict:
            state.pop(key, None)
    assert halfway is None, "an update without its other half"
