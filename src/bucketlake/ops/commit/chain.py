"""What overwrites of a chain table's branches do to one another.

    Guard.of(store)                  None: the handle is of no branch of a chain
    guard.check(view, …)             refuses a commit that would leave deltas without what they build on
    guard.after(snapshot, …)         partitions whose deltas were overwritten go from the snapshot branch

Spec: docs/spec/chain_table.md#overwrites
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial

from bucketlake.errors import BucketlakeError, CommitError, InvalidError, NotFoundError
from bucketlake.format.metadata.manifest import FileKind
from bucketlake.format.metadata.snapshot import CommitKind, Snapshot
from bucketlake.ops.scan.chain import Chain, Place, by_group, opened, places, told_chain
from bucketlake.ops.scan.scan import delta_entries, live_entries
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.entries import deletion, entry_key
from bucketlake.ops.table.store import Store
from bucketlake.paths import MAIN
from bucketlake.values import dataclass

Plan = Callable[[View], Changes]
Partitions = frozenset[bytes]


EXPIRY = "expire-partitions-"  # how names of those begin who commit an expiry of partitions


class NothingLeftError(Exception):
    """There is nothing to commit."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A branch of a chain table. `is_delta`: the branch of deltas, else that of whole partitions."""

    store: Store
    chain: Chain
    is_delta: bool

    @classmethod
    def of(cls, store: Store) -> Guard | None:
        """None where the handle is of neither branch. Where its options name none, those of the main branch do."""
        own = store.branch_name.lower()
        chain = None if own == MAIN else told_chain(store)
        if chain is None or own not in (chain.snapshot.lower(), chain.delta.lower()):
            return None
        return cls(store, chain, own == chain.delta.lower())

    def check(
        self, view: View, kind: CommitKind, changes: Changes, rows_stay: bool, follows: Partitions = frozenset()
    ) -> None:
        """InvalidError for an overwrite after which a delta would have no snapshot partition to build on, though it had
        one. Of the delta branch: for what `after` would take away. `follows`: deltas that the overwrite before, of the
        other branch, wrote."""
        if kind is not CommitKind.OVERWRITE or rows_stay:
            return
        kept = _left(view, changes)
        if not self.is_delta:
            gone = changes.partitions - kept
            if gone:
                every = {entry.partition for entry in view.entries(None)}
                self._refuse(gone, every, _partitions(_other(self.store, self.chain.delta)), follows)
            return
        whole = _partitions(_other(self.store, self.chain.snapshot))
        gone = changes.partitions & whole
        if gone:
            others = {entry.partition for entry in view.entries(None)} - changes.partitions
            self._refuse(gone, whole, others | kept, kept)

    def after(self, snapshot: Snapshot, rows_stay: bool, publish: Callable[[Store, Plan, Partitions], object]) -> None:
        """Take the partitions of an overwrite of the delta branch out of the snapshot branch, which would hide them.
        May be asked again for the same commit. `publish`: an OVERWRITE of a branch, by its plan and what it follows.

        Errors: CommitError where that fails, the overwrite itself being committed.
        """
        if not self.is_delta or snapshot.commit_kind is not CommitKind.OVERWRITE or rows_stay:
            return
        changed = delta_entries(self.store, snapshot)
        touched = frozenset(entry.partition for entry in changed)
        whole = _other(self.store, self.chain.snapshot)
        if whole is None or not touched & _partitions(whole):
            return
        written = frozenset(entry.partition for entry in changed if entry.kind is FileKind.ADD)
        try:
            with suppress(NothingLeftError):
                publish(whole, partial(dropping, touched), written)
        except BucketlakeError as error:
            raise CommitError(
                "deltas were overwritten, and partitions of the snapshot branch that hide them are still there",
                table=self.store.paths.root,
                partitions=[self.store.paths.partition_texts(partition) for partition in sorted(touched)],
                reason=str(error),
                remedy=f"drop them from t$branch_{self.chain.snapshot}",
            ) from error

    def _refuse(
        self,
        gone: Collection[bytes],
        whole: Collection[bytes],
        deltas: Collection[bytes],
        anew: Partitions = frozenset(),
    ) -> None:
        """InvalidError where deltas follow a partition that goes, before the next that stays, with none before it.
        `anew`: deltas that the overwrite itself writes; a chain that is nothing else, and no whole partition, is
        another one."""
        staying = by_group(places(self.store, set(whole) - set(gone)))
        following = by_group(places(self.store, deltas))
        for partition, place in places(self.store, gone).items():
            anchors = [chain for chain, _ in staying.get(place.group, [])]
            replaced = not anchors and anew.issuperset(one for _, one in following.get(place.group, []))
            before = max((chain for chain in anchors if chain < place.chain), default=None)
            if before is not None:
                self._refuse_gap(partition, Place(place.group, before), place)
            if replaced or before is not None:
                continue
            end = min((chain for chain in anchors if chain > place.chain), default=None)
            behind = [chain for chain, _ in following.get(place.group, []) if chain > place.chain]
            if any(end is None or chain < end for chain in behind):
                raise self._refusal(
                    partition,
                    reason="deltas behind it are read on top of it, and no snapshot partition is before it",
                    remedy="write an earlier snapshot partition first, or one behind those deltas, or drop them",
                )

    def _refuse_gap(self, partition: bytes, anchor: Place, place: Place) -> None:
        """InvalidError where what follows a partition that goes would build on an older one instead, and an expiry that
        has still to drop that one has dropped deltas between the two: its first commit is there, its second is not."""
        deltas = self.store if self.is_delta else _other(self.store, self.chain.delta)
        gone = _expired(deltas) if deltas is not None else frozenset()
        between = places(self.store, gone).values()
        if any(one.group == place.group and anchor.chain < one.chain < place.chain for one in between):
            raise self._refusal(
                partition,
                reason="an expiry that builds on it is half done: it has dropped deltas, not what they built on",
                remedy="CALL sys.expire_partitions, which ends it, then try again",
            )

    def _refusal(self, partition: bytes, reason: str, remedy: str) -> InvalidError:
        paths = self.store.paths
        what = "Snapshot partition cannot be dropped."
        told = paths.partition_texts(partition)
        return InvalidError(what, table=paths.root, partition=told, reason=reason, remedy=remedy)


def _expired(deltas: Store) -> frozenset[bytes]:
    """The partitions that expiries dropped from the delta branch, of the snapshots that are left."""
    found = [one for one in deltas.snapshots(newest_first=True) if one.commit_user.startswith(EXPIRY)]
    return frozenset(entry.partition for one in found for entry in delta_entries(deltas, one))


def _other(store: Store, name: str) -> Store | None:
    """The other branch; None where it is not there (yet, or any more)."""
    with suppress(NotFoundError):
        return opened(store, name)
    return None


def _partitions(store: Store | None) -> frozenset[bytes]:
    snapshot = None if store is None else store.latest_snapshot()
    if store is None or snapshot is None:
        return frozenset()
    return frozenset(entry.partition for entry in live_entries(store, snapshot))


def _left(view: View, changes: Changes) -> frozenset[bytes]:
    """The partitions of a change that have files after it."""
    gone = {entry_key(entry) for entry in changes.table if entry.kind is FileKind.DELETE}
    stay = [entry for entry in view.entries(changes.partitions) if entry_key(entry) not in gone]
    return frozenset(e.partition for e in (*stay, *(one for one in changes.table if one.kind is FileKind.ADD)))


def dropping(wanted: Partitions, view: View) -> Changes:
    """What drops those of the partitions that are there; NothingLeftError where none is."""
    found = view.entries(wanted) if wanted else ()
    if not found:
        raise NothingLeftError
    gone = [replace(e, kind=FileKind.DELETE) for e in view.indexes if e.partition in wanted]
    return Changes(tuple(deletion(entry) for entry in found), (), tuple(gone))
