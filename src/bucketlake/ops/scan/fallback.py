"""Reading two branches as one table: partitions that the one lacks are read from the other.

    scan.fallback-branch = b      what this branch lacks comes from b
    scan.primary-branch = b       what b lacks comes from this branch

A partition belongs to one branch as a whole, whatever condition is on its rows. Writes, deletes and updates concern the
branch of the handle alone.

Spec: docs/spec/reading.md#fallback-branches
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bucketlake.errors import InvalidError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.scan.incremental import plan_read
from bucketlake.ops.scan.scan import EntryFilter, Plan, Scan, live_entries
from bucketlake.ops.scan.select import TRAVEL_KEYS, Selection, select_snapshot, time_of
from bucketlake.ops.scan.system_tables import RowView
from bucketlake.ops.table.newest import newest_schema
from bucketlake.ops.table.store import Store
from bucketlake.predicate.tree import restrict
from bucketlake.schema.column_options import options_under
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.validation import refuse_undelivered
from bucketlake.types.model import DataType

FALLBACK, PRIMARY = "scan.fallback-branch", "scan.primary-branch"
BRANCH_KEYS = (FALLBACK, PRIMARY)
ALONE: Mapping[str, Any] = {FALLBACK: "", PRIMARY: ""}  # dynamic options that read one branch
_OF_ONE = frozenset([*TRAVEL_KEYS, *BRANCH_KEYS, "scan.version", "branch", "bucket"])


def other_branch(store: Store) -> str | None:
    """The branch that is read beside this one, None: none."""
    names = [(store.options.text(key) or "").strip() for key in BRANCH_KEYS]
    return names[0] or names[1] or None


def check_branches(store: Store, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """InvalidError where options come to name a branch that is not there."""
    for key in BRANCH_KEYS:
        name = (after.get(key) or "").strip()
        if name and before.get(key) != after.get(key) and name not in store.branches():
            raise InvalidError(
                f"Cannot set '{key}' = '{name}' because the branch '{name}' does not exist.",
                table=store.paths.root,
                remedy="create the branch first",
            )


def plan_branches(store: Store, scan: Scan, view: RowView | None = None) -> Plan:
    """The plan of a batch read of a table or of a view of its rows: of this branch, and of the other where options name
    one.

    Errors: as `plan_read`; NotFoundError for a branch that is gone, InvalidError where its columns are others.
    """
    selection = scan.selection or select_snapshot(store)
    own = replace(scan, selection=selection)
    name = other_branch(store)
    if name is None or selection.span is not None:
        return plan_read(store, _narrowed(store, own, view))
    other, chosen = beside(store, selection, name)
    theirs = _narrowed(other, replace(scan, selection=chosen), view)
    own = _narrowed(store, own, view)
    if _is_first(store):
        theirs = _less(other, theirs, partitions_of(store, own))
    else:
        own = _less(store, own, partitions_of(other, theirs))
    return replace(plan_read(store, own), beside=((other, plan_read(other, theirs)),))


def _narrowed(store: Store, scan: Scan, view: RowView | None) -> Scan:
    return scan if view is None else view.narrowed(store, scan)


def beside(store: Store, selection: Selection, name: str) -> tuple[Store, Selection]:
    """The other branch as it is read beside what was selected of this one, under this one's types."""
    other = _opened(store, name)
    chosen = _selection(store, other, selection)
    if _travels(store) and chosen.snapshot is not None and chosen.snapshot.schema_id != other.schema.id:
        past = other.schema_of(chosen.snapshot.schema_id)
        other = other.with_schema(replace(past, options=options_under(other.schema.options, past.options)))
    _check_columns(store, other, name)
    typed = zip(other.schema.fields, store.schema.fields, strict=True)
    fields = tuple(replace(theirs, type=own.type) for theirs, own in typed)
    return other.with_schema(replace(other.schema, fields=fields)), chosen


def partitions_of(store: Store, scan: Scan) -> frozenset[bytes]:
    """The partitions that have files, of those that the condition on partition columns lets through."""
    snapshot = scan.selection.snapshot if scan.selection is not None else None
    if snapshot is None:
        return frozenset()
    keys = store.schema.partition_keys
    only = restrict(scan.where, keys) if scan.where is not None and keys else None
    return frozenset(entry.partition for entry in live_entries(store, snapshot, EntryFilter(partition=only)))


def forbid_full_scan(store: Store, found: Plan) -> None:
    """InvalidError where a read of a partitioned table leaves out no file and `read.allow.fullScan` is false."""
    if store.options.get("read.allow.fullScan") or not store.schema.partition_keys:
        return
    parts = [(place, part) for place, part in found.parts(store) if part.snapshot is not None]
    every = sum(len(live_entries(place, part.snapshot)) for place, part in parts if part.snapshot is not None)
    if sum(len(part.entries) for _, part in parts) >= every:
        raise InvalidError(
            "Full scan is not supported.",
            table=store.paths.root,
            remedy="name partitions in the condition, or set 'read.allow.fullScan' = 'true'",
        )


Shown = tuple[Store, Snapshot, "frozenset[bytes] | None"]
"""A branch, the snapshot that a read sees of it, and the partitions that it gives; None: all that it has."""


def shown_branches(store: Store, selection: Selection) -> list[Shown]:
    """What a read of the table takes from which branch; `selection`: of this one."""
    name = other_branch(store)
    if name is None:
        return [(store, selection.snapshot, None)] if selection.snapshot is not None else []
    other, chosen = beside(store, selection, name)
    first, second = (store, selection.snapshot), (other, chosen.snapshot)
    if not _is_first(store):
        first, second = second, first
    found: list[Shown] = []
    known: frozenset[bytes] = frozenset()
    if first[1] is not None:
        found.append((first[0], first[1], None))
        known = partitions_of(first[0], Scan(selection=Selection(first[1])))
    if second[1] is not None:
        theirs = partitions_of(second[0], Scan(selection=Selection(second[1])))
        found.append((second[0], second[1], theirs - known))
    return found


def _is_first(store: Store) -> bool:
    """Whether this branch is read first, rather than the other."""
    return bool((store.options.text(FALLBACK) or "").strip())


def _less(store: Store, scan: Scan, known: frozenset[bytes]) -> Scan:
    if not known:
        return scan
    return replace(scan, partitions=partitions_of(store, scan) - known)


def _opened(store: Store, name: str) -> Store:
    """The store of a branch with its own schema, and this handle's dynamic options but those about one history."""
    dynamic = {key: value for key, value in store.dynamic_options().items() if key not in _OF_ONE}
    paths = store.on_branch(name).paths
    schema = newest_schema(store.env, paths)
    kept = {key: value for key, value in schema.options.items() if key not in BRANCH_KEYS}
    schema = replace(schema, options={**kept, **dynamic, "branch": name})
    refuse_undelivered(schema, for_writing=False)
    return Store.of(store.env, store.paths.root, schema)


def _travels(store: Store) -> bool:
    """Whether a read goes back in time by options that name a snapshot of one branch."""
    return any(store.options.is_set(key) for key in (*TRAVEL_KEYS, "scan.version"))


def _selection(store: Store, other: Store, own: Selection) -> Selection:
    """What is read of the other branch: its own tag of the name, else what it was at the time of this one's."""
    if not _travels(store):
        return select_snapshot(other)
    name = store.options.text("scan.tag-name") or store.options.text("scan.version")
    tag = other.find_tag(name) if name and name in other.tag_names() else None
    if tag is not None:
        return Selection(tag)
    until = time_of(store.options)
    if until is None and own.snapshot is not None:
        until = own.snapshot.time_millis
    if until is None:
        return Selection(None)
    return Selection(other.snapshot_at(until))


def _check_columns(store: Store, other: Store, name: str) -> None:
    own, theirs = _columns(store.schema), _columns(other.schema)
    keys = store.schema.partition_keys, other.schema.partition_keys
    if own == theirs and keys[0] == keys[1]:
        return
    main = store.options.text("branch") or "main"
    raise InvalidError(
        f"Branch {main} and {name} does not have the same row type. This validation is triggered because "
        f"'{FALLBACK if _is_first(store) else PRIMARY}' is configured to '{name}'. "
        "The fallback branch must have the same schema as the main branch.",
        columns=[item.name for item in store.schema.fields],
        columns_beside=[item.name for item in other.schema.fields],
    )


def _columns(schema: TableSchema) -> list[tuple[str, DataType]]:
    return [(item.name, _nullable(item.type)) for item in schema.fields]


def _nullable(kind: DataType) -> DataType:
    """A type without what it says of nulls and of columns' identifiers."""
    return replace(
        kind,
        nullable=True,
        key=None if kind.key is None else _nullable(kind.key),
        element=None if kind.element is None else _nullable(kind.element),
        fields=tuple(replace(f, id=0, type=_nullable(f.type), description=None, default=None) for f in kind.fields),
    )
