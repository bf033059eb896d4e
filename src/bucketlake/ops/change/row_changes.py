"""Which tables rows may be deleted from and updated in, and which deletes touch metadata alone. Pure.

Spec: docs/spec/row_changes.md
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.scan.scan import EntryFilter, live_entries
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.partitions import partition_values
from bucketlake.ops.table.retry import on_newest
from bucketlake.ops.table.store import Store
from bucketlake.predicate.tree import Constant, Predicate, columns_of, is_exact
from bucketlake.schema.schema import TableSchema

_UPDATABLE = ("deduplicate", "partial-update")
_ON_DELETE = "partial-update.remove-record-on-delete"
_ON_GROUP = "partial-update.remove-record-on-sequence-group"
_AGGREGATE_ON_DELETE = "aggregation.remove-record-on-delete"


def refuse_delete(schema: TableSchema) -> None:
    """UnsupportedError, in Paimon's words, for a merge engine to which a delete row says nothing.

    Spec: docs/spec/row_changes.md#which-tables
    """
    options = schema.table_options
    engine = options.get("merge-engine")
    if not schema.primary_keys or engine == "deduplicate":
        return
    unable = f"Merge engine {engine} doesn't support batch delete by default. To support batch delete, "
    if engine == "partial-update":
        if not options.get(_ON_DELETE) and not options.is_set(_ON_GROUP):
            raise UnsupportedError(
                unable + f"please set {_ON_DELETE} to true when there is no sequence-group or set {_ON_GROUP}."
            )
    elif engine == "aggregation":
        if not options.get(_AGGREGATE_ON_DELETE):
            raise UnsupportedError(unable + f"please set {_AGGREGATE_ON_DELETE} to true.")
    else:
        raise UnsupportedError(f"Merge engine {engine} can not support batch delete.")


def deletes_by_rewrite(schema: TableSchema) -> bool:
    """Whether rows of a primary-key table go by rewriting their files: its merge engine takes no delete rows.

    Spec: docs/spec/row_changes.md#by-rewriting
    """
    if not schema.primary_keys or schema.table_options.get("deletion-vectors.enabled"):
        return False
    try:
        refuse_delete(schema)
    except UnsupportedError:
        return True
    return False


def refuse_merging(store: Store, snapshot: Snapshot | None, splits: Sequence[Split]) -> None:
    """UnsupportedError, in Paimon's words, where rows of a primary-key table are not rows of one file each, or some are
    in no split yet."""
    merged = any(not split.raw or any(file.delete_row_count != 0 for file in split.files) for split in splits)
    if not merged and snapshot is not None and store.schema.table_options.get("merge-engine") == "first-row":
        merged = any(entry.file.level == 0 for entry in live_entries(store, snapshot))
    if merged:
        raise UnsupportedError(
            "Only compacted table can generate touched files, please use 'COMPACT' procedure first.",
            remedy="CALL sys.compact(table => '…'), then delete",
        )


def refuse_update(schema: TableSchema, columns: Iterable[str]) -> None:
    """UnsupportedError for a merge engine that would not replace the row, InvalidError for assignments to the primary
    key, both in Paimon's words.

    A partition column that is not part of the key may be assigned: the row moves.
    Spec: docs/spec/row_changes.md#which-tables
    """
    if not schema.primary_keys:
        return
    engine = schema.table_options.get("merge-engine")
    if engine not in _UPDATABLE:
        raise UnsupportedError(
            f"merge engine {engine} can not support Update, currently only {', '.join(_UPDATABLE)} can support Update."
        )
    found = sorted(set(columns) & set(schema.primary_keys))
    if found:
        raise InvalidError("Can't update the primary key column.", columns=found, remedy="delete and insert the rows")


def refuse_merge(schema: TableSchema) -> None:
    """UnsupportedError, in Paimon's words, for a merge engine that would not replace rows.

    Spec: docs/spec/row_changes.md#which-tables
    """
    engine = schema.table_options.get("merge-engine")
    if schema.primary_keys and engine not in _UPDATABLE:
        raise UnsupportedError(
            f"merge engine {engine} can not support MergeInto, "
            f"currently only {', '.join(_UPDATABLE)} can support MergeInto."
        )


def required(where: str | Predicate | None) -> str | Predicate:
    """The condition of a delete; InvalidError where none is given: to delete all rows is said, not left out."""
    if isinstance(where, (str, Predicate)):
        return where
    raise InvalidError("a delete needs a condition", where=repr(where), remedy='say "true" to delete all rows')


def is_everything(predicate: Predicate | None) -> bool:
    """Whether a condition is absent or plainly true: the delete empties the table."""
    return predicate is None or predicate == Constant(True)


def whole_partitions(store: Store, predicate: Predicate) -> list[dict[str, Any]] | None:
    """The partitions, as column → value, whose rows a delete takes whole; None where it must look at rows.

    With `delete.force-produce-changelog` every delete looks at rows.
    Spec: docs/spec/row_changes.md#metadata-only
    """
    keys = store.schema.partition_keys
    named = columns_of(predicate)
    if not named or not is_exact(predicate) or not named <= set(keys):
        return None
    if store.options.get("delete.force-produce-changelog"):
        return None
    found = live_partitions(store, EntryFilter(partition=predicate))
    return [dict(zip(keys, partition_values(store, partition), strict=True)) for partition in found]


def live_partitions(store: Store, wanted: EntryFilter | None = None) -> list[bytes]:
    """The partitions that have files that are wanted."""

    def once() -> list[bytes]:
        snapshot = store.latest_snapshot()
        entries = () if snapshot is None else live_entries(store, snapshot, wanted or EntryFilter())
        return list(dict.fromkeys(entry.partition for entry in entries))

    return on_newest(store, once)
