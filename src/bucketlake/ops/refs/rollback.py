"""Going back: to a snapshot or a tag, taking what came later away, or by a new snapshot that holds the old state.

    rollback(store, snapshot)              later snapshots, tags and changelogs go, as Paimon's rollback
    rollback_as_latest(store, snapshot)    nothing goes: an OVERWRITE follows that restores the state
    find_version, earlier_than, …          which snapshot is meant

A rollback takes names away oldest first, the newest last: until that one goes readers and writers see the state of
before, then the old one. What a writer commits meanwhile comes before the rollback and goes with it; one that was
still on its way finds its base gone and takes itself back (`ops.commit.publish`). A tag of its own keeps the target's
files as long as it runs, so that no expiry beside it leaves a table without snapshots. Data files stay: they are
orphans, as with Paimon.

Spec: docs/spec/tags.md#rollback
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import SupportsIndex

from bucketlake.errors import (
    ConflictError,
    CorruptError,
    InvalidError,
    NotFoundError,
    StorageError,
    already_done,
    check_types,
)
from bucketlake.format.metadata.manifest import FileKind, ManifestEntry, ManifestFile
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot, encode_snapshot
from bucketlake.ops.buckets.postpone import in_commit_order
from bucketlake.ops.clean.removal import delete_name
from bucketlake.ops.commit.conflicts import CommitName, row_range
from bucketlake.ops.commit.manifests import write_manifests
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.commit.schemas import refuse_leaving_pending, refuse_other_merges
from bucketlake.ops.commit.strays import take_back
from bucketlake.ops.refs.success import unmark_tag
from bucketlake.ops.refs.tags import (
    create_tag,
    delete_tag,
    is_held,
    plain_snapshot,
    revived,
    tags_that_are_whole,
    without_changelog,
)
from bucketlake.ops.scan.scan import chosen_entries, live_entries
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.entries import deletion, entry_key
from bucketlake.ops.table.publishing import by_catalog, is_managed, write_hint
from bucketlake.ops.table.remedies import snapshot_remedy
from bucketlake.ops.table.store import Store
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.schema.versions import is_replaced

ATTEMPTS = 100  # commits that a rollback chases
GUARD, AS_LATEST = "rollback-guard-", "rollback-to-as-latest-"
GUARD_LIFE = 48 * 3600_000  # milliseconds; longer than zones are apart in which tags' times are written and read


def find_version(store: Store, snapshot_id: int) -> Snapshot:
    """The snapshot with an id, or what a tag holds of it where it has expired; NotFoundError."""
    check_types(SupportsIndex, "give a snapshot's id, or a tag's name", version=snapshot_id)
    found = store.find_snapshot(snapshot_id)
    if found is None:
        found = next((tag for tag in store.tags().values() if tag.id == snapshot_id), None)
    if found is None:
        raise _gone(store, snapshot_id)
    return plain_snapshot(found)


def _gone(store: Store, snapshot_id: int) -> NotFoundError:
    what = f"Rollback snapshot '{snapshot_id}' doesn't exist."
    return NotFoundError(what, table=store.paths.root, remedy=snapshot_remedy(store.snapshot_ids()))


def earlier_than(store: Store, millis: int) -> Snapshot:
    """The newest snapshot committed at or before a time; NotFoundError."""
    found = store.snapshot_at(millis)
    if found is None:
        raise NotFoundError(f"Can not find snapshot earlier than {millis}", table=store.paths.root)
    return found


def earlier_watermark(store: Store, watermark: int) -> Snapshot:
    """The newest snapshot whose watermark is not later; NotFoundError."""
    for snapshot in store.snapshots(newest_first=True):
        if snapshot.watermark is not None and snapshot.watermark <= watermark:
            return snapshot
    raise NotFoundError(f"Can not find snapshot earlier than {watermark}", table=store.paths.root)


def latest_or_refuse(store: Store) -> int:
    """The newest snapshot's id, also where its file is damaged, which a rollback takes away; NotFoundError for a table
    that has none."""
    found = store.newest_id()
    if found is None:
        raise NotFoundError("Latest snapshot is null, can not rollback.", table=store.paths.root)
    return found


# ---------------------------------------------------------------------------------------------- taking away


def rollback(store: Store, target: Snapshot, tag: str | None = None) -> None:
    """Make a snapshot, perhaps one that only a tag still has, the newest: later snapshots, changelogs and tags go.
    `tag`: the name that it was found by. Files of later snapshots may be damaged: only their names are looked at. That
    of the target is written anew where a tag has what it held.

    Errors: those of `require_metadata`, and CorruptError for a tag that cannot be read, before anything goes;
    InvalidError where REPLACE TABLE came after the target, or its rows would be merged otherwise by now; ConflictError
    where writers commit faster than they can be taken back; StorageError. A rollback that died is finished by another
    one to the same snapshot.
    """
    require_metadata(store, target)
    _refuse_other_meaning(store, target)
    if by_catalog(store, "rollback", snapshot=target.id, tag=tag):
        return
    store.tags()  # which of them go must be known by then
    _write_anew(store, target)
    begun = already_done(
        "snapshots behind the one to go back to may be gone", "roll back again", table=store.paths.root
    )
    with guarded(store, f"{GUARD}{target.id}-", target), begun:
        if not store.has_snapshot(target.id):
            _restore(store, target)
        take_after(store, target, lambda: _refuse_other_meaning(store, target))
        write_hint(store, store.paths.latest_hint, target.id)
        _drop_changelogs(store, target.id)
        drop_tags_after(store, target.id)
        if max(store.snapshot_ids(), default=0) < target.id:
            _restore_expired(store, target)  # by an expiry that began before; its files are tagged still


def require_metadata(store: Store, target: Snapshot) -> None:
    """CorruptError or NotFoundError, by the file, where schema or manifests of a snapshot, indexes too, cannot be read.
    What can be read must not go for what cannot. Data files are not looked at."""
    store.schema_of(target.schema_id)
    chosen_entries(store, target, lambda entry: False)
    store.index_manifest(target)


def go_back_to_intact(store: Store, broken: int) -> bool:
    """Make the table what it was before a newest snapshot whose file is damaged: of the same id if a tag has it, else
    the newest below that can be read, or that a tag has; commits behind that are lost. False, and nothing done, where
    another is the newest, or it can be read.

    Nothing above `broken` goes: what a writer that had read it commits meanwhile is whole, and stays, or its writer
    finds its base gone, takes it back and says so (`ops.commit.publish`). The hint is set first: readers that go by it
    alone find the target once the others are gone; and again at the end, behind what their writers set.

    Errors: NotFoundError where nothing can be read, InvalidError as `rollback`, StorageError; done again, it goes on.
    """
    ids = store.snapshot_ids()
    if max(ids, default=0) != broken or not is_damaged(store.find_snapshot, broken):
        return False
    held = {tag.id: tag for tag in tags_that_are_whole(store)}
    readable = (number for number in reversed(ids) if number in held or not is_damaged(store.find_snapshot, number))
    number = next(readable, None)
    target = None if number is None else held.get(number) or store.find_snapshot(number)
    if target is None:
        raise NotFoundError("no snapshot can be read", table=store.paths.root, remedy="restore one from a copy")
    _refuse_other_meaning(store, target)
    if by_catalog(store, "rollback", snapshot=target.id, tag=None):
        return True
    _write_anew(store, target)
    with guarded(store, f"{GUARD}{target.id}-", target):
        write_hint(store, store.paths.latest_hint, target.id)
        for number in ids:
            if number > target.id:
                store.env.storage.delete(store.paths.snapshot(number))
        if not store.has_snapshot(target.id):
            _restore_expired(store, target)
        write_hint(store, store.paths.latest_hint, max(store.snapshot_ids(), default=target.id))
    return True


def _write_anew(store: Store, target: Snapshot) -> None:
    """Give the target its file back where that is damaged, and a tag says what it held."""
    if is_damaged(store.find_snapshot, target.id):
        store.env.storage.write(store.paths.snapshot(target.id), encode_snapshot(without_changelog(target)))


def is_damaged(find: Callable[[int], Snapshot | None], number: int) -> bool:
    """Whether the file of a snapshot, or a changelog, is there and cannot be read."""
    try:
        find(number)
    except CorruptError:
        return True
    return False


def _refuse_other_meaning(store: Store, target: Snapshot) -> None:
    """The schema stays the newest one, by which the target's rows must mean what they meant. InvalidError."""
    newest = store.latest_schema()
    if target.schema_id != newest.id:
        if is_replaced(store.schema_of(target.schema_id), newest) and any(True for _ in live_entries(store, target)):
            raise InvalidError(
                "the table was replaced since: under its columns of today the snapshot's rows would be nulls",
                table=store.paths.root,
                snapshot=target.id,
                remedy="tag the snapshot, create a branch from the tag and fast-forward to it, which brings back the "
                "definition of then with the rows; VERSION AS OF reads them",
            )
        back = "SET these options as they were then, roll back, CALL sys.compact and SET them again"
        for refuse in (refuse_leaving_pending, refuse_other_merges):
            refuse(store, target, (store.schema_of(target.schema_id), newest), back)


@contextmanager
def guarded(store: Store, prefix: str, target: Snapshot) -> Iterator[None]:
    """Let a tag of our own keep a snapshot's files in the block. One that a death leaves goes with the tags whose life
    is over. Errors: those of `create_tag_of`."""
    name = f"{prefix}{store.env.clock.new_uuid()}"
    try:
        create_tag_of(store, name, target, GUARD_LIFE)
        yield
    finally:
        with suppress(StorageError):
            delete_name(store, store.paths.tag(name))
            unmark_tag(store, name)


def create_tag_of(store: Store, name: str, target: Snapshot, lifetime: int | None = None) -> None:
    """Tag what was found a moment ago; NotFoundError if it is gone, or another commit has its id; ConflictError if its
    writer may be about to take it back."""
    create_tag(store, name, target.id, lifetime)
    tagged = store.tag(name)
    if (tagged.uuid, tagged.delta_manifest_list) != (target.uuid, target.delta_manifest_list):
        delete_tag(store, name)
        raise _gone(store, target.id)


def _restore(store: Store, target: Snapshot) -> None:
    """Give a snapshot that has expired its name back; the hint first, which keeps it from passing for a stray. Errors:
    as `Store.check_same`: what was dropped gets no snapshot."""
    store.check_same()
    write_hint(store, store.paths.earliest_hint, target.id)
    store.env.storage.put_if_absent(store.paths.snapshot(target.id), encode_snapshot(revived(store, target)))


def _restore_expired(store: Store, target: Snapshot) -> None:
    """As `_restore`, of a target that vanished beside the rollback. ConflictError where its own writer took it back,
    which had slept through another rollback: an expiry takes the oldest first, and writes down what it leaves."""
    hint = store.hint(store.paths.earliest_hint)
    if hint is not None and hint < target.id and store.has_snapshot(hint):
        raise ConflictError(
            "the snapshot that the table was to go back to was taken back by its writer",
            table=store.paths.root,
            snapshot=target.id,
            remedy="choose another snapshot or a tag",
        )
    _restore(store, target)


def take_after(store: Store, target: Snapshot | None, check: Callable[[], None] = lambda: None) -> None:
    """Take the names of all snapshots after one (None: of all) away, oldest first, the newest last. `check`: raises
    where the newest must not go. The hint goes first: readers that go by it alone (Apache Paimon) find what is there,
    also where this ends half-way.

    The newest may stand above a gap, put by a writer that slept through another rollback: then commits come below it,
    too, on snapshots that are still to go.
    """
    floor = 0 if target is None else target.id
    going = [number for number in store.snapshot_ids() if number > floor]
    if going:
        _lower_hint(store, target)
    for _ in range(ATTEMPTS):
        if not going:
            return
        store.check_same()  # another table may lie there by now, whose snapshots these are
        check()
        newest = max(going)
        for number in sorted(going)[:-1]:
            store.env.storage.delete(store.paths.snapshot(number))
        others = [number for number in store.snapshot_ids() if number > floor and number != newest]
        if not others:
            if target is not None and not store.has_snapshot(target.id):
                _restore_expired(store, target)  # meanwhile; its files are tagged
            _take_newest(store, target, newest, check)
            floor, others = newest, [number for number in store.snapshot_ids() if number > newest]
            if others and store.has_snapshot(newest):
                return  # new commits have come that far: they stand on the target
        going = [newest, *others] if store.has_snapshot(newest) else others
    raise ConflictError("writers commit faster than the rollback", table=store.paths.root, remedy="stop them, or again")


def _lower_hint(store: Store, target: Snapshot | None) -> None:
    store.check_same()
    if target is not None:
        write_hint(store, store.paths.latest_hint, target.id)
        return
    with suppress(StorageError, NotFoundError):
        store.env.storage.delete(store.paths.latest_hint)


def _take_newest(store: Store, target: Snapshot | None, newest: int, check: Callable[[], None]) -> None:
    """Take the newest snapshot's name away; it gets it back where an ALTER or REPLACE TABLE beside shows only then, and
    nothing has come behind the target."""
    path, floor = store.paths.snapshot(newest), 0 if target is None else target.id
    check()
    try:
        data = store.env.storage.read(path)
    except NotFoundError:
        return
    store.env.storage.delete(path)
    try:
        check()
    except InvalidError:
        if max(store.snapshot_ids(), default=0) <= floor:
            store.env.storage.put_if_absent(path, data)
        raise


def drop_tags_after(store: Store, snapshot_id: int) -> None:
    """Remove tags of later snapshots. Files that they alone kept are orphans."""
    for name, tag in store.tags().items():
        if tag.id > snapshot_id:
            store.env.storage.delete(store.paths.tag(name))
            unmark_tag(store, name)


def _drop_changelogs(store: Store, snapshot_id: int) -> None:
    ids = store.changelog_ids()
    later = [number for number in ids if number > snapshot_id]
    if not later:
        return
    write_hint(store, store.paths.changelog_latest_hint, later[0] - 1 if later[0] > ids[0] else -1)
    for number in reversed(later):
        store.env.storage.delete(store.paths.changelog(number))


# ---------------------------------------------------------------------------------------------- going on


def rollback_as_latest(store: Store, target: Snapshot, tagged: bool = False) -> Snapshot:
    """Publish a snapshot that holds what another one held; nothing is taken away. `tagged`: a tag of the caller's keeps
    the target's files; else one is made, and stays, because Paimon's expiry does not know of files that come back.

    Errors: those of a commit; NotFoundError if the target is gone; InvalidError as `rollback`.
    """
    _refuse_other_meaning(store, target)
    name = f"{AS_LATEST}{target.id}-{store.env.clock.new_uuid()}"
    if not tagged:
        create_tag_of(store, name, target)
    user = f"rollback-to-as-latest-{store.env.clock.new_uuid()}"
    try:
        done = _restoring(store, target, user)
        if not is_managed(store):  # a catalog's snapshots are not ours to take away
            with already_done("the old state is published", "look for it before doing so again", snapshot=done.id):
                _require_held(store, target, done)
        return done
    except BaseException:
        if not tagged and not _may_have_come(store, user):
            with suppress(StorageError, NotFoundError):
                delete_tag(store, name)
        raise


def _restoring(store: Store, target: Snapshot, user: str) -> Snapshot:
    held = in_commit_order(store, target, list(live_entries(store, target)))
    wanted = {entry_key(entry): entry for entry in held}
    ours = {entry.file.file_name: entry for entry in store.index_manifest(target)}

    def plan(view: View) -> Changes:
        _require_held(store, target)
        live = {entry_key(entry): entry for entry in view.entries(None)}
        missing = wanted.keys() - live.keys()
        # What is pending goes by the snapshot that brought it: all of a partition comes anew, or nothing of it.
        mixed = {wanted[key].partition for key in missing if wanted[key].bucket == POSTPONE_BUCKET}
        anew = {key for key, one in wanted.items() if one.bucket == POSTPONE_BUCKET and one.partition in mixed}
        both = wanted.keys() & live.keys()
        anew |= {key for key in both if row_range(wanted[key].file) != row_range(live[key].file)}  # they got other ids
        gone = [deletion(entry) for key, entry in live.items() if key not in wanted or key in anew]
        back = [entry for key, entry in wanted.items() if key in missing or key in anew]
        theirs = {entry.file.file_name: entry for entry in view.indexes}
        indexes = [replace(entry, kind=FileKind.DELETE) for name, entry in theirs.items() if ours.get(name) != entry]
        indexes += [entry for name, entry in ours.items() if theirs.get(name) != entry]
        return Changes(tuple(gone + back), (), tuple(indexes), retold=_only(store, tuple(live.values())))

    request = Request(CommitName(0, user, BATCH_COMMIT_IDENTIFIER, CommitKind.OVERWRITE), plan, restores=True)
    return Publisher(store).publish(request)


def _require_held(store: Store, target: Snapshot, done: Snapshot | None = None) -> None:
    """NotFoundError where a rollback took the target and its tags away: its files are orphans, and may go. `done`: what
    was published meanwhile, which is taken back."""
    if not is_held(store, target, ""):
        if done is not None:
            take_back(store, done)
        raise NotFoundError(
            "the snapshot was taken away by a rollback meanwhile", table=store.paths.root, snapshot=target.id
        )


def _only(store: Store, live: Sequence[ManifestEntry]) -> Callable[[ManifestFile], Sequence[ManifestFile]]:
    """What tells the base's live files anew, without what was deleted: Paimon, where it merges all manifests, forgets a
    file that one of them deletes, also where a later one brings it back."""
    written: list[ManifestFile] = []

    def retold(manifest: ManifestFile) -> Sequence[ManifestFile]:
        if written:
            return ()
        written.extend(write_manifests(store, live))
        return written

    return retold


def _may_have_come(store: Store, user: str) -> bool:
    try:
        return any(snapshot.commit_user == user for snapshot in store.snapshots(newest_first=True))
    except (StorageError, NotFoundError):
        return True
