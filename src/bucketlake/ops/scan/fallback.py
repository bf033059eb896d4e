"""Reading two branches as one table: partitions that the one lacks are read from the other.

    scan.fallback-branch = b      what this branch lacks comes from b
    scan.primary-branch = b       what b lacks comes from this branch
    chain-table.enabled           what this branch lacks comes from a chain: `ops/scan/chain.py`

A partition belongs to one branch as a whole, whatever condition is on its rows. Writes, deletes and updates concern the
branch of the handle alone.

Spec: docs/spec/reading.md#fallback-branches
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.buckets.postpone import reads_pending
from bucketlake.ops.scan.chain import CHAIN_KEYS, Chain, chain_of, links, plan_chain
from bucketlake.ops.scan.incremental import plan_read
from bucketlake.ops.scan.scan import EntryFilter, Plan, Scan, live_entries, skips_level_0
from bucketlake.ops.scan.select import TRAVEL_KEYS, Selection, select_snapshot, time_of
from bucketlake.ops.scan.system_tables import RowView
from bucketlake.ops.table.newest import newest_schema
from bucketlake.ops.table.store import Store
from bucketlake.predicate.tree import restrict
from bucketlake.schema.column_options import under_options
from bucketlake.schema.schema import BucketMode, TableSchema
from bucketlake.schema.validation import refuse_undelivered
from bucketlake.types.model import DataType

FALLBACK = "scan.fallback-branch"
PRIMARY = "scan.primary-branch"
BRANCH_KEYS = (FALLBACK, PRIMARY, *CHAIN_KEYS)
ALONE: Mapping[str, Any] = dict.fromkeys(BRANCH_KEYS, "")  # dynamic options that read one branch
_OF_ONE = frozenset([*TRAVEL_KEYS, *BRANCH_KEYS, "scan.version", "branch", "bucket"])


def is_alone(store: Store) -> bool:
    """Whether a read of this handle is of its own branch alone."""
    return other_branch(store) is None and chain_of(store) is None


def other_branch(store: Store) -> str | None:
    """The branch that is read beside this one, None: none, or those of a chain."""
    if store.options.get("chain-table.enabled"):
        return None
    names = [(store.options.text(key) or "").strip() for key in (FALLBACK, PRIMARY)]
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


def selected(store: Store) -> Selection:
    """As `select_snapshot`; of a chain table whose main branch has no snapshot yet, time travel is that of the branches
    that it chains."""
    anew = chain_of(store) is not None and _travels(store) and not store.options.is_set("scan.snapshot-id")
    return Selection(None) if anew and store.latest_snapshot() is None else select_snapshot(store)


def plan_branches(store: Store, scan: Scan, view: RowView | None = None) -> Plan:
    """The plan of a batch read of a table or of a view of its rows: of this branch, and of the other where options name
    one.

    Errors: as `plan_read`; NotFoundError for a branch that is gone, InvalidError where its columns are others.
    """
    selection = scan.selection or select_snapshot(store)
    own = replace(scan, selection=selection)
    name, chain = other_branch(store), chain_of(store)
    if selection.span is not None or (name is None and chain is None):
        return plan_read(store, _narrowed(store, own, view))
    if chain is not None:
        return _plan_chained(store, own, chain, view)
    assert name is not None
    other, chosen = beside(store, selection, name)
    theirs = _narrowed(other, replace(scan, selection=chosen), view)
    own = _narrowed(store, own, view)
    if _is_first(store):
        theirs = _less(other, theirs, read_partitions(store, own))
    else:
        own = _less(store, own, read_partitions(other, theirs))
    return replace(plan_read(store, own), beside=((other, plan_read(other, theirs)),))


def _plan_chained(store: Store, own: Scan, chain: Chain, view: RowView | None) -> Plan:
    """Partitions of this branch, then those of the snapshot branch, then what is chained."""
    selection = own.selection
    assert selection is not None
    if selection.created_since is not None or (view is not None and not view.computes):
        what = "a read by the age of files" if view is None or selection.created_since is not None else f"${view.name}"
        raise UnsupportedError(
            f"{what} of a chain table", table=store.paths.root, remedy="read one branch: t$branch_<name>"
        )
    (snapshots, theirs), (deltas, newest) = (beside(store, selection, name) for name in (chain.snapshot, chain.delta))
    if selection.snapshot is theirs.snapshot is newest.snapshot is None and _travels(store):
        select_snapshot(store)  # no branch was there then, which it says
    whole = _narrowed(snapshots, replace(own, selection=theirs), view)
    changes, own = _narrowed(deltas, replace(own, selection=newest), view), _narrowed(store, own, view)
    known = read_partitions(store, own)
    complete = read_partitions(snapshots, whole) - known
    direct = plan_read(snapshots, replace(whole, partitions=complete)) if complete else Plan(theirs.snapshot, (), ())
    wanted = read_partitions(deltas, changes) - known - complete
    if not wanted:
        return replace(plan_read(store, own), beside=((snapshots, direct),))
    earlier, later = (
        read_partitions(s, replace(scan, where=None)) for s, scan in ((snapshots, whole), (deltas, changes))
    )
    anchors, merged = plan_chain((snapshots, whole), (deltas, changes), links(deltas, wanted, earlier, later))
    # Two plans of one branch: a scan gives no file's rows in two partitions at once.
    parts = ((snapshots, direct), (snapshots, anchors), (deltas, merged))
    return replace(plan_read(store, own), beside=parts)


def _narrowed(store: Store, scan: Scan, view: RowView | None) -> Scan:
    return scan if view is None else view.narrowed(store, scan)


def beside(store: Store, selection: Selection, name: str) -> tuple[Store, Selection]:
    """The other branch as it is read beside what was selected of this one, under this one's types."""
    other = _opened(store, name)
    chosen = _selection(store, other, selection)
    if _travels(store) and chosen.snapshot is not None and chosen.snapshot.schema_id != other.schema.id:
        past = other.schema_of(chosen.snapshot.schema_id)
        other = other.with_schema(under_options(past, other.schema))
    _check_columns(store, other, name)
    typed = zip(other.schema.fields, store.schema.fields, strict=True)
    fields = tuple(replace(theirs, type=own.type) for theirs, own in typed)
    return other.with_schema(replace(other.schema, fields=fields)), chosen


def partitions_of(store: Store, scan: Scan) -> frozenset[bytes]:
    """The partitions that have files, of those that the condition on partition columns lets through."""
    return _partitions(store, scan, EntryFilter())


def read_partitions(store: Store, scan: Scan) -> frozenset[bytes]:
    """Those of `partitions_of` of which this read sees files: a partition that has nothing but level 0, which reads do
    not see before a compaction, or pending rows, is not there yet."""
    level = (1 if skips_level_0(store) else 0) if scan.min_level is None else scan.min_level
    waits = store.schema.bucket_mode is BucketMode.POSTPONE and not reads_pending(store)
    return _partitions(store, scan, EntryFilter(min_level=level, min_bucket=0 if waits else None))


def _partitions(store: Store, scan: Scan, seen: EntryFilter) -> frozenset[bytes]:
    snapshot = scan.selection.snapshot if scan.selection is not None else None
    if snapshot is None:
        return frozenset()
    keys = store.schema.partition_keys
    only = restrict(scan.where, keys) if scan.where is not None and keys else None
    return frozenset(entry.partition for entry in live_entries(store, snapshot, replace(seen, partition=only)))


def forbid_full_scan(store: Store, found: Plan) -> None:
    """InvalidError where a read of a partitioned table leaves out no file and `read.allow.fullScan` is false."""
    if store.options.get("read.allow.fullScan") or not store.schema.partition_keys:
        return
    parts = [(place, part) for place, part in found.parts(store) if part.snapshot is not None]
    live = [live_entries(place, part.snapshot) for place, part in parts if part.snapshot is not None]
    if chain_of(store) is None:
        whole = sum(len(part.entries) for _, part in parts) >= sum(map(len, live))
    else:  # files that no partition is read from are part of no read
        shown = {split.partition for _, part in parts for split in part.splits}
        whole = shown >= {entry.partition for entries in live for entry in entries}
    if whole:
        raise InvalidError(
            "Full scan is not supported.",
            table=store.paths.root,
            remedy="name partitions in the condition, or set 'read.allow.fullScan' = 'true'",
        )


Shown = tuple[Store, Snapshot, "frozenset[bytes] | None"]
"""A branch, the snapshot that a read sees of it, and the partitions that it gives; None: all that it has."""


def shown_branches(store: Store, selection: Selection) -> list[Shown]:
    """What a read of the table takes from which branch; `selection`: of this one."""
    name, chain = other_branch(store), chain_of(store)
    names = [chain.snapshot, chain.delta] if chain is not None else [name] if name is not None else []
    if not names:
        return [(store, selection.snapshot, None)] if selection.snapshot is not None else []
    others = [beside(store, selection, other) for other in names]
    order = [(store, selection.snapshot), *((other, chosen.snapshot) for other, chosen in others)]
    if name is not None and not _is_first(store):
        order.reverse()
    places = [(place, snapshot) for place, snapshot in order if snapshot is not None]
    found = [frozenset[bytes]()] * len(places)
    for of in (read_partitions, partitions_of):  # what no read sees is shown of the first branch that has it
        for at, (place, snapshot) in enumerate(places):
            known = frozenset[bytes]().union(*found)
            found[at] |= of(place, Scan(selection=Selection(snapshot))) - known
    return [(place, snapshot, own) for (place, snapshot), own in zip(places, found, strict=True)]


def _is_first(store: Store) -> bool:
    """Whether this branch is read first, rather than the other."""
    return bool((store.options.text(FALLBACK) or "").strip())


def _less(store: Store, scan: Scan, known: frozenset[bytes]) -> Scan:
    if not known:
        return scan
    return replace(scan, partitions=read_partitions(store, scan) - known)


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
    name = store.options.text("scan.version") or store.options.text("scan.tag-name")
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
        f"'{_key_of(store, name)}' is configured to '{name}'. "
        "The fallback branch must have the same schema as the main branch.",
        columns=[item.name for item in store.schema.fields],
        columns_beside=[item.name for item in other.schema.fields],
    )


def _key_of(store: Store, name: str) -> str:
    """The option that makes reads look into a branch."""
    return next((key for key in BRANCH_KEYS if (store.options.text(key) or "").strip() == name), FALLBACK)


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
