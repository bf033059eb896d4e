"""Tags: snapshots that keep their files, by name.

    create_tag(store, name, snapshot_id, lifetime)      exclusive: of several callers one makes it
    replace_tag, rename_tag, delete_tag                 what a deleted tag alone kept goes with it
    expire_tags(store, older_than)                      those whose life is over

A tag is a snapshot's file under another name; with a lifetime it has two fields more. First the tag is put, then its
source is looked up once more: expiry and deletion take names away first and look at tags again before they remove
files, so that a tag either finds its source gone and takes itself back, or is honoured.

Spec: docs/spec/tags.md
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import SupportsIndex

from bucketlake.env.new_file import put_new
from bucketlake.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptError,
    InvalidError,
    NotFoundError,
    already_done,
    check_types,
)
from bucketlake.format.metadata.snapshot import Snapshot, encode_snapshot
from bucketlake.ops.clean.removal import Removal, remove, tag_removal
from bucketlake.ops.commit.strays import unsettled
from bucketlake.ops.refs.success import mark_tag, unmark_tag
from bucketlake.ops.table.remedies import snapshot_remedy, tag_remedy
from bucketlake.ops.table.store import Store

__all__ = [
    "create_tag",
    "delete_tag",
    "expire_tags",
    "find_source",
    "is_held",
    "plain_snapshot",
    "revived",
    "rename_tag",
    "replace_tag",
    "tag_created",
    "tag_lifetime",
]

CREATED, LIFETIME = "tagCreateTime", "tagTimeRetained"
ATTEMPTS = 5


# ---------------------------------------------------------------------------------------------- what a tag says


def plain_snapshot(tag: Snapshot) -> Snapshot:
    """The snapshot that a tag holds, without the tag's own fields."""
    return replace(tag, unknown={key: value for key, value in tag.unknown.items() if key not in (CREATED, LIFETIME)})


def revived(store: Store, tag: Snapshot) -> Snapshot:
    """The snapshot that a tag gives back to its history, or to a branch: without a changelog where its own snapshot has
    expired, and its changelog with it, which tags do not keep."""
    plain = plain_snapshot(tag)
    for found in (store.find_snapshot(tag.id), store.find_changelog(tag.id)):
        if found is not None and (found.uuid, found.delta_manifest_list) == (tag.uuid, tag.delta_manifest_list):
            return plain
    return without_changelog(plain)


def without_changelog(tag: Snapshot) -> Snapshot:
    """The snapshot that a tag holds, without its changelog."""
    return replace(
        plain_snapshot(tag),
        changelog_manifest_list=None,
        changelog_manifest_list_size=None,
        changelog_record_count=None,
    )


def tags_that_are_whole(store: Store) -> list[Snapshot]:
    """What tags hold, without those whose files are damaged or gone meanwhile."""
    found = []
    for name in store.tag_names():
        with suppress(CorruptError, NotFoundError):
            found.append(store.tag(name))
    return found


def tag_created(tag: Snapshot) -> datetime | None:
    """When a tag with a lifetime was made, in the local time of its maker; None for other tags."""
    parts = tag.unknown.get(CREATED)
    if not isinstance(parts, list) or not 5 <= len(parts) <= 7 or not all(isinstance(part, int) for part in parts):
        return None
    year, month, day, hour, minute, second, nanos = (*parts, 0, 0)[:7]
    try:
        return datetime(year, month, day, hour, minute, second, nanos // 1000)
    except (ValueError, OverflowError):
        return None


def tag_lifetime(tag: Snapshot) -> timedelta | None:
    """How long a tag is kept, None: for ever."""
    seconds = tag.unknown.get(LIFETIME)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        return None
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        return None


def _tagged(store: Store, snapshot: Snapshot, lifetime: int | None) -> bytes:
    plain = plain_snapshot(snapshot)
    if lifetime is None:
        return encode_snapshot(plain)
    now = _local(store.env.clock.now_millis())
    parts = [now.year, now.month, now.day, now.hour, now.minute, now.second, now.microsecond * 1000]
    own = {CREATED: parts, LIFETIME: lifetime / 1000}
    return encode_snapshot(replace(plain, unknown={**plain.unknown, **own}))


def _local(millis: int) -> datetime:
    return datetime.fromtimestamp(millis // 1000).replace(microsecond=millis % 1000 * 1000)


# ---------------------------------------------------------------------------------------------- making


def create_tag(
    store: Store, name: str, snapshot_id: int | None = None, lifetime: int | None = None, *, if_absent: bool = False
) -> bool:
    """Tag a snapshot, the newest by default; an expired one if another tag has it. `lifetime`: milliseconds; the
    table's default is the caller's affair. `if_absent`: False where there is one of this name, whatever it holds.

    Errors: InvalidError (name), AlreadyExistsError, NotFoundError (no such snapshot), ConflictError (see find_source).
    """
    path = _checked_path(store, name)
    for _ in range(ATTEMPTS):
        if store.env.storage.info(path) is not None:
            if if_absent:
                return False
            remedy = "give it another name, or replace the tag"
            raise AlreadyExistsError(f"Tag '{name}' already exists.", table=store.paths.root, remedy=remedy)
        source = find_source(store, snapshot_id)
        if not put_new(store.env.storage, path, _tagged(store, source, lifetime)):
            continue
        try:
            held = is_held(store, source, name)
        except BaseException:
            with suppress(Exception):
                store.env.storage.delete(path)  # nobody knows whether its files are there
            raise
        if held:
            mark_tag(store, name)
            return True
        store.env.storage.delete(path)  # its snapshot expired before the tag was there
    raise NotFoundError(
        "the snapshot expires while it is tagged", table=store.paths.root, tag=name, snapshot=snapshot_id
    )


def replace_tag(store: Store, name: str, snapshot_id: int | None = None, lifetime: int | None = None) -> None:
    """Let a tag that exists hold another snapshot (the newest by default), or the same with another lifetime.

    Errors: InvalidError (name), NotFoundError (no such tag, no such snapshot).
    """
    path = _checked_path(store, name)
    before = store.find_tag(name)
    if before is None:
        raise _no_tag(store, name)
    for _ in range(ATTEMPTS):
        source = find_source(store, snapshot_id)
        store.env.storage.write(path, _tagged(store, source, lifetime))
        if is_held(store, source, name) or _same(source, before):
            if not _same(source, before):
                _discard(store, before)
            mark_tag(store, name)
            return
        store.env.storage.write(path, encode_snapshot(before))
    raise NotFoundError(
        "the snapshot expires while it is tagged", table=store.paths.root, tag=name, snapshot=snapshot_id
    )


def rename_tag(store: Store, name: str, target: str) -> None:
    """Give a tag another name that is free. The new one is there before the old one goes; what fails between leaves
    both, and says so."""
    source, path = _checked_path(store, name), _checked_path(store, target)
    tag = store.find_tag(name)
    if tag is None:
        raise _no_tag(store, name)
    if not put_new(store.env.storage, path, encode_snapshot(tag)):
        raise AlreadyExistsError(f"Tag '{target}' already exists.", table=store.paths.root)
    both = f"Tag '{target}' is made, and '{name}' may be there still."
    with already_done(both, f"delete the tag '{name}' if it is", table=store.paths.root):
        if store.env.storage.info(source) is None and not is_held(store, tag, target):
            store.env.storage.delete(path)  # somebody deleted it meanwhile, with its files
            raise NotFoundError(f"Tag '{name}' doesn't exist.", table=store.paths.root)
        mark_tag(store, target)
        store.env.storage.delete(source)
        unmark_tag(store, name)


def _no_tag(store: Store, name: str) -> NotFoundError:
    remedy = tag_remedy(name, store.tag_names())
    return NotFoundError(f"Tag '{name}' doesn't exist.", table=store.paths.root, remedy=remedy)


def find_source(store: Store, snapshot_id: int | None) -> Snapshot:
    """The snapshot to tag: the newest for None; one that has expired if a tag has it. NotFoundError; ConflictError for
    one that its writer is about to take back, since it slept through a rollback."""
    if snapshot_id is None:
        found = store.latest_snapshot()
        if found is None:
            raise NotFoundError("Cannot create tag because latest snapshot doesn't exist.", table=store.paths.root)
        return _settled(store, found)
    check_types(SupportsIndex, "give the snapshot's id, a whole number", snapshot_id=snapshot_id)
    found = store.find_snapshot(snapshot_id)
    if found is not None:
        return plain_snapshot(_settled(store, found))
    found = next((tag for tag in store.tags().values() if tag.id == snapshot_id), None)
    if found is None:
        raise NotFoundError(
            f"Cannot create tag because given snapshot #{snapshot_id} doesn't exist.",
            table=store.paths.root,
            remedy=snapshot_remedy(store.snapshot_ids()),
        )
    return plain_snapshot(found)


def _settled(store: Store, snapshot: Snapshot) -> Snapshot:
    first = unsettled(store)
    if first is not None and snapshot.id >= first:
        raise ConflictError(
            "the snapshot stands above a gap that a rollback has made, and its writer may be about to take it back",
            table=store.paths.root,
            snapshot=snapshot.id,
            remedy=f"finish the rollback, or choose a snapshot below {first}",
        )
    return snapshot


def _checked_path(store: Store, name: str) -> str:
    if isinstance(name, str) and not name.strip():
        raise InvalidError("Tag name shouldn't be blank.", table=store.paths.root)
    return store.paths.tag(name)


def _same(left: Snapshot, right: Snapshot) -> bool:
    """Whether these are one commit."""
    marks = [(one.id, one.uuid, one.base_manifest_list, one.delta_manifest_list) for one in (left, right)]
    return marks[0] == marks[1]


def is_held(store: Store, snapshot: Snapshot, but: str) -> bool:
    """Whether the table, or a tag of another name than `but`, still has a snapshot, and with it its files."""
    found = store.find_snapshot(snapshot.id)
    if found is not None and _same(found, snapshot):
        return True
    return any(name != but and _same(tag, snapshot) for name, tag in store.tags().items())


# ---------------------------------------------------------------------------------------------- deleting


def delete_tag(store: Store, name: str) -> bool:
    """Remove a tag, and if its snapshot has expired the files that nothing else needs; False if there is none.

    The name goes first: what dies on the way leaves orphans. So does a tag whose file is damaged.
    """
    path = _checked_path(store, name)
    try:
        tag, damaged = store.find_tag(name), False
    except CorruptError:
        tag, damaged = None, True
    if tag is None and not damaged:
        return False
    store.env.storage.delete(path)
    unmark_tag(store, name)
    if tag is not None:
        _discard(store, tag)
    return True


def _discard(store: Store, tag: Snapshot) -> None:
    """Remove what only a tag needed that is gone. What cannot be told for certain stays, as orphans."""
    for _ in range(ATTEMPTS):
        try:
            if is_held(store, tag, ""):
                return
            removal: Removal = tag_removal(store, tag)
        except NotFoundError:
            continue  # something expired while it was looked at
        except CorruptError:
            return  # of this tag's metadata, or of another's
        remove(store, removal, bool(store.options.get("snapshot.clean-empty-directories")))
        return


def expire_tags(store: Store, older_than: int | None = None) -> list[str]:
    """Remove tags whose lifetime is over, and those made before `older_than` (epoch milliseconds; tags without lifetime
    by their files' times); the names of what went, by snapshot."""
    now = _local(store.env.clock.now_millis())
    limit = None if older_than is None else _local(older_than)
    gone = []
    for name, tag in _by_snapshot(store.known_tags()):
        made, lifetime = tag_created(tag), tag_lifetime(tag)
        if made is None or lifetime is None:
            info = None if limit is None else store.env.storage.info(store.paths.tag(name))
            if info is None:
                continue
            made = _local(info.modified_millis)
        over = lifetime is not None and _after(now, made, lifetime)
        if (over or (limit is not None and limit > made)) and delete_tag(store, name):
            gone.append(name)
    return gone


def _after(now: datetime, made: datetime, lifetime: timedelta) -> bool:
    try:
        return now > made + lifetime
    except OverflowError:
        return False


def _by_snapshot(tags: Mapping[str, Snapshot]) -> Iterable[tuple[str, Snapshot]]:
    return sorted(tags.items(), key=lambda item: (item[1].id, item[0]))
