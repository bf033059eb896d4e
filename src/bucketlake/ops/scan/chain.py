"""Chain tables: a partition that only the delta branch has is read as the nearest earlier partition of the snapshot
branch, with the deltas behind that one merged over it.

    chain_of(store) -> Chain | None            which branches; None: what this handle reads is no chain
    links(store, wanted, snapshots, deltas)    which partitions make up which, from their values alone
    plan_chain(snapshots, deltas, links)       the splits that give these partitions, by branch

Spec: docs/spec/chain_table.md
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

from bucketlake.errors import InvalidError, NotFoundError, UnsupportedError
from bucketlake.format.metadata.manifest import ManifestEntry
from bucketlake.format.row.binary_row import without_arity_header
from bucketlake.format.row.order import NULL, Rank, ranked_row
from bucketlake.lsm.levels import key_range_of
from bucketlake.ops.scan.pruning import Pruner
from bucketlake.ops.scan.scan import Plan, Scan, check_vectors, entry_filter, keyed_entries
from bucketlake.ops.scan.splits import Section, deletion_files, overlapping, pack, split_of, without_deletes
from bucketlake.ops.table.messages import BucketVectors, Split
from bucketlake.ops.table.newest import newest_schema
from bucketlake.ops.table.partition_times import partition_time
from bucketlake.ops.table.store import Store
from bucketlake.options.merge import COMPUTING
from bucketlake.paths import MAIN
from bucketlake.predicate.tree import Predicate, restrict
from bucketlake.schema.chain import chain_keys
from bucketlake.schema.clustering import refuse_clustered
from bucketlake.values import dataclass

CHAIN_KEYS = ("scan.fallback-snapshot-branch", "scan.fallback-delta-branch")


@dataclass(frozen=True, slots=True)
class Chain:
    """The branches of a chain table, by name: of whole partitions, and of what came after them."""

    snapshot: str
    delta: str


def named_chain(store: Store) -> Chain | None:
    """The branches that the options name, whichever branch this handle is of; None where they do not name both, or the
    table is no chain table."""
    if not store.options.get("chain-table.enabled"):
        return None
    snapshot = (store.options.text("scan.fallback-snapshot-branch") or "").strip()
    delta = (store.options.text("scan.fallback-delta-branch") or "").strip()
    return Chain(snapshot, delta) if snapshot and delta else None


def told_chain(store: Store) -> Chain | None:
    """As `named_chain`; where the options of another branch name none, those of the main branch do."""
    found = named_chain(store)
    if found is not None or store.branch_name == MAIN or not store.options.get("chain-table.enabled"):
        return found
    with suppress(NotFoundError):
        return named_chain(opened(store, MAIN))
    return None


def chain_of(store: Store) -> Chain | None:
    """The branches that a read of this handle chains; None where it reads its own branch alone."""
    found = named_chain(store)
    own = store.branch_name.lower()
    return None if found is None or own in (found.snapshot.lower(), found.delta.lower()) else found


def opened(store: Store, name: str) -> Store:
    """Another branch under its own newest schema, without this handle's dynamic options. NotFoundError."""
    schema = newest_schema(store.env, store.on_branch(name).paths)
    return Store.of(store.env, store.paths.root, replace(schema, options={**schema.options, "branch": name}))


def refuse_stream(store: Store, what: str = "a chain table is not read as a stream") -> None:
    """UnsupportedError where a read that goes on with changes would be of a chain: it has no changes of its own."""
    found = chain_of(store)
    if found is not None:
        raise UnsupportedError(
            what,
            table=store.paths.root,
            remedy=f"read one branch: t$branch_{found.delta} tells what is added, t$branch_{found.snapshot} is whole",
        )


# ---------------------------------------------------------------------------------------------- partitions


@dataclass(frozen=True, slots=True)
class Link:
    """How a partition is read: `anchor`, the partition of the snapshot branch, None without an earlier one, and under
    the deltas, oldest first. The last of them is the partition itself."""

    partition: bytes
    anchor: bytes | None
    deltas: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a partition stands: its group (the columns that do not chain), and its place in the group's chain."""

    group: tuple[Rank, ...]
    chain: tuple[Rank, ...]

    @property
    def chains(self) -> bool:
        """Whether it has a place at all: null is before and behind nothing."""
        return all(rank is not NULL for rank in self.chain)


def places(store: Store, partitions: Iterable[bytes]) -> dict[bytes, Place]:
    """Where partitions stand, by the order of their values."""
    types = [item.type for item in store.schema.partition_fields]
    cut = len(types) - len(chain_keys(store.schema))
    found = {}
    for partition in partitions:
        ranks = ranked_row(without_arity_header(partition), types)
        found[partition] = Place(ranks[:cut], ranks[cut:])
    return found


def by_group(found: Mapping[bytes, Place]) -> dict[tuple[Rank, ...], list[tuple[tuple[Rank, ...], bytes]]]:
    """The partitions of each group that have a place in its chain, with it, in order."""
    groups: dict[tuple[Rank, ...], list[tuple[tuple[Rank, ...], bytes]]] = {}
    for partition, place in found.items():
        if place.chains:
            groups.setdefault(place.group, []).append((place.chain, partition))
    return {group: sorted(members) for group, members in groups.items()}


def links(
    store: Store, wanted: Collection[bytes], snapshots: Collection[bytes], deltas: Collection[bytes]
) -> list[Link]:
    """How each wanted partition of the delta branch is read, of all partitions that the branches have.

    Errors: UnsupportedError for a partition without a place in the chain; InvalidError where the order of values is
    not that of the times that they stand for, by `partition.timestamp-*`.
    """
    asked = places(store, wanted)
    anchors, changes = by_group(places(store, snapshots)), by_group(places(store, deltas))
    found = []
    for partition, place in asked.items():
        if not place.chains:
            raise UnsupportedError(
                "a partition of the delta branch has no place in the chain, because a value is null",
                table=store.paths.root,
                partition=store.paths.partition_texts(partition),
                remedy="drop it, or read the branch itself",
            )
        earlier, later = anchors.get(place.group, []), changes[place.group]
        at = bisect_left(earlier, place.chain, key=lambda member: member[0])
        anchor = earlier[at - 1] if at else None
        start = 0 if anchor is None else bisect_right(later, anchor[0], key=lambda member: member[0])
        end = bisect_right(later, place.chain, key=lambda member: member[0])
        own = tuple(member for _, member in later[start:end])
        found.append(Link(partition, None if anchor is None else anchor[1], own))
    _check_times(store, found)
    return found


def _check_times(store: Store, found: Sequence[Link]) -> None:
    """Paimon finds an anchor by the order of values, and what lies between by their times: they must agree."""
    chained = [(link.anchor, *link.deltas) for link in found if link.anchor is not None]
    times = {one: partition_time(store, one) for one in {one for whole in chained for one in whole}}
    for whole in chained:
        for one, two in pairwise(whole):
            before, after = times[one], times[two]
            if before is None or after is None or before >= after:
                raise InvalidError(
                    "partitions of a chain are not in the order of the times that their values stand for",
                    table=store.paths.root,
                    partitions=[store.paths.partition_texts(place) for place in (one, two)],
                    remedy="set 'partition.timestamp-pattern' and 'partition.timestamp-formatter' by the values",
                )


# ---------------------------------------------------------------------------------------------- plan


@dataclass(frozen=True)
class _Side:
    """One branch's part: its files by partition, the `id`s of their entries and of those with rows that may match, and
    where deletion vectors lie."""

    store: Store
    snapshot_id: int
    files: Mapping[bytes, list[ManifestEntry]]
    own: frozenset[int]
    matching: frozenset[int]
    vectors: BucketVectors

    @classmethod
    def of(cls, store: Store, scan: Scan, partitions: Collection[bytes], where: Predicate | None) -> _Side:
        snapshot = scan.selection.snapshot if scan.selection is not None else None
        if snapshot is None or not partitions:
            return cls(store, 0, {}, frozenset(), frozenset(), {})
        wanted = entry_filter(store, replace(scan, where=where, partitions=frozenset(partitions)))
        found = keyed_entries(store, snapshot, wanted)
        check_vectors(store, snapshot, found)
        pruner = Pruner(store, where)
        files: dict[bytes, list[ManifestEntry]] = {}
        kept = pruner.by_key(found)
        for entry in kept:
            files.setdefault(entry.partition, []).append(entry)
        matching = frozenset(id(entry) for entry in pruner.by_value(kept))
        vectors = deletion_files(store, store.index_manifest(snapshot))
        return cls(store, snapshot.id, files, frozenset(map(id, kept)), matching, vectors)

    def plan(self, scan: Scan, splits: Iterable[Split], taken: Collection[int]) -> Plan:
        """The part of the plan that this branch's store reads; `taken`: the `id`s of the entries that are read."""
        snapshot = scan.selection.snapshot if scan.selection is not None else None
        entries = tuple(e for found in self.files.values() for e in found if id(e) in taken)
        return Plan(snapshot, entries, tuple(splits))


def plan_chain(snapshots: tuple[Store, Scan], deltas: tuple[Store, Scan], found: Sequence[Link]) -> tuple[Plan, Plan]:
    """What of the two branches gives these partitions: the parts of the plan for the store of the one and of the other.
    Rows that are merged are in the second.

    Conditions on partition columns are about the partitions that are shown, not about those that rows lie in: they were
    asked before. Of the others, those on keys leave out files; all leave out sections in which no file has a match.
    """
    store, where = deltas[0], _without_partitions(deltas[0], deltas[1].where)
    anchors = {link.anchor for link in found if link.anchor is not None}
    sides = (
        _Side.of(*snapshots, anchors, where),
        _Side.of(*deltas, {delta for link in found for delta in link.deltas}, where),
    )
    _check_alike(snapshots[0], store)
    refuse_clustered(store.schema, "chains do not work for a table")
    uses = Counter(place for link in found for place in ((0, link.anchor), *((1, one) for one in link.deltas)))
    many = str(store.options.get("merge-engine")) in COMPUTING
    splits: tuple[list[Split], list[Split]] = ([], [])
    taken: set[int] = set()
    for link in found:
        for sections in _sections(store, link, sides):
            chosen = [s for s in sections if _may_match(s, sides, many)]
            taken.update(id(entry) for section in chosen for entry in section)
            raw = [s for s in chosen if _is_raw(s, sides, uses)]
            alone = {id(section) for section in raw}
            for side, split in _raw_splits(store, link, sides, raw):
                splits[side].append(split)
            merged = [section for section in chosen if id(section) not in alone]
            splits[1].extend(_merged_split(link, sides, group) for group in pack(store, merged))
    return sides[0].plan(snapshots[1], splits[0], taken), sides[1].plan(deltas[1], splits[1], taken)


def _without_partitions(store: Store, where: Predicate | None) -> Predicate | None:
    keys = store.schema.partition_keys
    return None if where is None else restrict(where, [name for name in store.schema.field_names if name not in keys])


def _check_alike(snapshots: Store, deltas: Store) -> None:
    if snapshots.schema.primary_keys != deltas.schema.primary_keys:
        raise InvalidError(
            "the branches of a chain table have different primary keys",
            table=deltas.paths.root,
            snapshot=list(snapshots.schema.primary_keys),
            delta=list(deltas.schema.primary_keys),
        )


def _sections(store: Store, link: Link, sides: tuple[_Side, _Side]) -> list[list[Section]]:
    """The files of a partition and of what it is made of, bucket by bucket, in groups whose keys meet."""
    whole = [] if link.anchor is None else sides[0].files.get(link.anchor, [])
    found = [*whole, *(entry for delta in link.deltas for entry in sides[1].files.get(delta, []))]
    totals = {entry.total_buckets for entry in found}
    if len(totals) > 1:
        raise InvalidError(
            "partitions of a chain have different numbers of buckets",
            table=store.paths.root,
            partition=store.paths.partition_texts(link.partition),
            buckets=sorted(totals),
            remedy="rescale them to one number, or write the snapshot partition anew",
        )
    buckets: dict[int, Section] = {}
    for entry in found:
        buckets.setdefault(entry.bucket, []).append(entry)
    key_range = key_range_of(store.schema.key_fields)
    return [overlapping(entries, key_range) for _, entries in sorted(buckets.items())]


def _may_match(section: Section, sides: tuple[_Side, _Side], many: bool) -> bool:
    """Whether some row, after merging, may match: it is the row of a file, but where rows are made of several."""
    return (many and len(section) > 1) or any(id(e) in side.matching for e in section for side in sides)


def _is_raw(section: Section, sides: tuple[_Side, _Side], uses: Mapping[tuple[int, bytes | None], int]) -> bool:
    """Whether a file's rows are the section's. A scan cannot give one file's rows in several partitions at once."""
    if len(section) > 1 or not without_deletes(section[0].file):
        return False
    return uses[_side_of(section[0], sides), section[0].partition] == 1


def _side_of(entry: ManifestEntry, sides: tuple[_Side, _Side]) -> int:
    """0: the entry is of the snapshot branch, 1: of the delta branch."""
    return 0 if id(entry) in sides[0].own else 1


def _raw_splits(
    store: Store, link: Link, sides: tuple[_Side, _Side], raw: Sequence[Section]
) -> Iterable[tuple[int, Split]]:
    groups: dict[tuple[int, bytes], list[Section]] = {}
    for section in raw:
        groups.setdefault((_side_of(section[0], sides), section[0].partition), []).append(section)
    for (side, _), own in groups.items():
        for part in pack(store, own):
            yield side, _shown(link, sides[side], [entry for section in part for entry in section], raw=True)


def _merged_split(link: Link, sides: tuple[_Side, _Side], group: Sequence[Section]) -> Split:
    """Sections whose rows are merged: files by the folder that they lie in, oldest first."""
    folders: dict[tuple[int, bytes], Section] = {}
    for section in group:
        for entry in section:
            folders.setdefault((_side_of(entry, sides), entry.partition), []).append(entry)
    order = [(0, link.anchor), *((1, delta) for delta in link.deltas)]
    ordered = [(place[0], folders[place]) for place in order if place[1] is not None and place in folders]
    parts = tuple(replace(_shown(link, sides[at], own, raw=False), store=sides[at].store) for at, own in ordered)
    return replace(parts[-1], files=(), deletions={}, parts=parts, store=None)


def _shown(link: Link, side: _Side, entries: Section, raw: bool) -> Split:
    """Files of one folder as rows of the link's partition."""
    return replace(split_of(side.store, side.snapshot_id, entries, raw, side.vectors), partition=link.partition)
