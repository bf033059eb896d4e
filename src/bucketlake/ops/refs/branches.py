"""Branches: histories of their own beside the main one, over the same data files.

    create_branch(store, name, tag)       empty with the newest schema, or from a tag
    delete_branch, rename_branch
    fast_forward(store, name)             the main history becomes the branch's
    merge_branch(store, source, target)   the files of an append table's branch that another one lacks are appended

A branch is a folder with snapshots, schemas and tags. It is claimed by a file first and can be opened once its newest
schema is there, which is written last, so that nobody sees half of it.

Spec: docs/spec/tags.md#branches
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace

from bucketlake.env.new_file import put_new
from bucketlake.errors import (
    AlreadyExistsError,
    BucketlakeError,
    ConflictError,
    InvalidError,
    NotFoundError,
    StorageError,
    already_done,
    check_types,
)
from bucketlake.format.metadata.manifest import ManifestEntry
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot, encode_snapshot
from bucketlake.ops.clean.removal import delete_name
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.commit.strays import remove_from_gone
from bucketlake.ops.refs.rollback import drop_tags_after, guarded, require_metadata, take_after
from bucketlake.ops.refs.tags import is_held, revived
from bucketlake.ops.rows.column_files import refuse_rewriting
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.entries import entry_name
from bucketlake.ops.table.newest import CLAIM, claim
from bucketlake.ops.table.publishing import by_catalog, write_hint
from bucketlake.ops.table.remedies import branch_remedy
from bucketlake.ops.table.store import FIRST_SNAPSHOT_ID, Store
from bucketlake.paths import MAIN
from bucketlake.schema.schema import TableSchema
from bucketlake.values import dataclass

ATTEMPTS = 20  # commits to a branch that whoever takes it over chases


def has_branch(store: Store, name: str) -> bool:
    """Whether there is a branch of this name, made whole or not."""
    return name in store.branches()


def create_branch(store: Store, name: str, tag: str | None = None, *, if_absent: bool = False) -> bool:
    """Make a branch: without rows, or with what a tag holds. False where `if_absent` and there is one of this name.

    Errors: InvalidError (name), AlreadyExistsError, NotFoundError (tag).
    """
    check_branch_name(name)
    folder = store.paths.branch(name)
    # A folder without a file is what a claim leaves that found no room, or died: claiming it is exclusive all the same.
    if has_branch(store, name) and any(True for _ in store.env.storage.walk(folder)):
        if if_absent:
            return False
        whole = store.on_branch(name).schema_ids()
        remedy = None if whole else "it has no schema: unless it is being made right now, delete it and call again"
        raise AlreadyExistsError(f"Branch name '{name}' already exists.", table=store.paths.root, remedy=remedy)
    held = None if tag is None else store.tag(tag)
    if by_catalog(store, "create_branch", name=name, tag=tag):
        return True
    newest = store.latest_schema().id if held is None else held.schema_id
    try:
        claimed = put_new(store.env.storage, f"{folder}/{CLAIM}", claim(store.env.clock.new_uuid(), newest))
    except StorageError:
        with suppress(StorageError):
            store.env.storage.delete_empty(folder)
        raise
    if not claimed:
        raise AlreadyExistsError(f"Branch name '{name}' already exists.", table=store.paths.root)
    try:
        _fill(store, store.on_branch(name), newest, held, tag)
    except BaseException:
        with suppress(StorageError):
            store.env.storage.delete_tree(folder)
        raise
    with suppress(StorageError):  # it is made; what still says that it is being made hinders nobody
        store.env.storage.delete(f"{folder}/{CLAIM}")
    return True


def _fill(store: Store, branch: Store, newest: int, held: Snapshot | None, tag: str | None) -> None:
    storage = store.env.storage
    if held is not None and tag is not None:
        storage.write(branch.paths.tag(tag), encode_snapshot(held))
        storage.write(branch.paths.snapshot(held.id), encode_snapshot(revived(store, held)))
        found = store.find_tag(tag)
        if found is None or found.uuid != held.uuid:
            raise NotFoundError(f"Tag '{tag}' doesn't exist.", table=store.paths.root, remedy="it was deleted")
    for number in [number for number in store.schema_ids() if number <= newest]:
        storage.write(branch.paths.schema(number), _schema_file(store, number))
    store.check_same()


def check_branch_name(name: str) -> None:
    """InvalidError for what cannot be a new branch's name."""
    if name == MAIN:
        raise InvalidError(f"Branch name '{MAIN}' is the default branch and cannot be used.")
    check_types(str, "give the branch's name, a text", name=name)
    if not name.strip():
        raise InvalidError(f"Branch name '{name}' is blank.")
    if name.isascii() and name.isdigit():
        raise InvalidError(f"Branch name cannot be pure numeric string but is '{name}'.")


def delete_branches(store: Store, names: Sequence[str]) -> None:
    """Remove branches: all of them, or none where `delete_branch` refuses one."""
    for name in names:
        _check_deletable(store, name)
    for name in dict.fromkeys(names):
        delete_branch(store, name)


def _check_deletable(store: Store, name: str) -> None:
    _stays_read(store, name, "delete")
    _require(store, name)


def delete_branch(store: Store, name: str) -> None:
    """Remove a branch; files that it alone has are orphans. InvalidError for one that reads fall back to.

    Its schemas go first: what dies on the way leaves nothing that could be opened.
    """
    _check_deletable(store, name)
    if by_catalog(store, "drop_branch", name=name):
        return
    store.env.storage.delete_tree(store.on_branch(name).paths.schema_dir)
    store.env.storage.delete_tree(store.paths.branch(name))


def rename_branch(store: Store, name: str, target: str) -> None:
    """Give a branch another name that is free. Not atomic on object stores. InvalidError for one that reads fall back
    to."""
    if name == MAIN:
        raise InvalidError("Cannot rename the main branch.")
    _require(store, name)
    _stays_read(store, name, "rename")
    if has_branch(store, target):
        raise AlreadyExistsError(f"Branch name '{target}' already exists.", table=store.paths.root)
    check_branch_name(target)
    if not by_catalog(store, "rename_branch", name=name, target=target):
        store.env.storage.rename(store.paths.branch(name), store.paths.branch(target))


def _stays_read(store: Store, name: str, what: str) -> None:
    """InvalidError where reads of the table take rows from a branch."""
    for key in (
        "scan.fallback-branch",
        "scan.primary-branch",
        "scan.fallback-snapshot-branch",
        "scan.fallback-delta-branch",
    ):
        if store.options.text(key) == name:
            raise InvalidError(
                f"Cannot {what} branch '{name}' because it is configured as '{key}'. Unset '{key}' first.",
                table=store.paths.root,
            )


def _require(store: Store, name: str) -> None:
    if not isinstance(name, str) or not name.strip() or not has_branch(store, name):
        remedy = branch_remedy(name, store.branches())
        raise NotFoundError(f"Branch name '{name}' doesn't exist.", table=store.paths.root, remedy=remedy)


# ---------------------------------------------------------------------------------------------- fast-forward


def fast_forward(store: Store, name: str) -> None:
    """Give this branch, mostly the main one, the history of another: its own snapshots, tags and schemas from the
    other's first snapshot on go, and the other's take their place, oldest first. What expires on the other meanwhile
    is not taken, nor what lies before it.

    Errors: InvalidError, NotFoundError (also where the table is dropped meanwhile), CorruptError where the branch has
    schemas or metadata of its newest snapshot, or one of the two a tag, that cannot be read; ConflictError where a
    writer commits between: what was taken over stays.
    """
    current = store.branch_name
    if name == MAIN:
        raise InvalidError(f"Branch name '{name}' do not use in fast-forward.")
    if not str(name).strip():
        raise InvalidError(f"Branch name '{name}' is blank.")
    if name == current:
        raise InvalidError(f"Fast-forward from the current branch '{name}' is not allowed.")
    _require(store, name)
    branch = store.on_branch(name)
    for _ in range(ATTEMPTS):
        line = _line_of(branch, name)
        if by_catalog(store, "forward_branch", name=name):
            return
        with guarded(branch, "fast-forward-", line.newest):
            if _is_newest(branch, line.newest):
                _take_over(store, branch, line)
                return
    raise _commits_faster(branch)


@dataclass(frozen=True, slots=True)
class _Line:
    """What a fast-forward takes of a branch: snapshots, oldest first, schemas as they are stored, what tags hold."""

    snapshots: list[Snapshot]
    schemas: dict[int, bytes]
    tags: dict[str, Snapshot]

    @property
    def newest(self) -> Snapshot:
        """The last snapshot."""
        return self.snapshots[-1]


def _line_of(branch: Store, name: str) -> _Line:
    """All of it, read before anything goes."""
    taken = list(branch.snapshots())
    if not taken:
        raise InvalidError(f"Cannot fast forward branch {name}, because it does not have snapshot.")
    line = _Line(taken, _schemas_for(branch, taken, name), branch.tags())
    require_metadata(branch, line.newest)
    return line


def _newest_of(branch: Store) -> Snapshot:
    """The newest snapshot of a branch that had one a moment ago; NotFoundError where it was deleted since."""
    found = branch.latest_snapshot()
    if found is None:
        name = branch.branch_name
        raise NotFoundError(f"Branch '{name}' doesn't exist.", table=branch.paths.root, remedy="it was deleted")
    return found


def _is_newest(branch: Store, snapshot: Snapshot) -> bool:
    """Whether a snapshot that a tag of ours holds is still a branch's newest: then no expiry that began before the tag
    was there takes a file that is live in it."""
    found = branch.latest_snapshot()
    return found is not None and found == snapshot


def _commits_faster(branch: Store) -> ConflictError:
    what = "writers of the branch commit faster than it is taken over"
    return ConflictError(what, table=branch.paths.root, branch=branch.branch_name, remedy="stop them, or again")


def _take_over(store: Store, branch: Store, line: _Line) -> None:
    taken, schemas = line.snapshots, line.schemas
    base, own = _common(store, taken[0]), _own_schemas(store)
    store.tags()  # which of them go must be known by then
    shared = {number: data for number, data in own.items() if schemas.get(number) == data}
    brought = {store.paths.schema(number): data for number, data in schemas.items() if number not in shared}
    brought |= {store.paths.tag(tag): encode_snapshot(held) for tag, held in line.tags.items()}
    said = "the table's own snapshots may be gone, and not all of the branch's there"
    begun = already_done(said, "fast-forward again", table=store.paths.root, branch=branch.branch_name)
    try:
        with nullcontext() if base is None else guarded(store, "fast-forward-", base), begun:
            take_after(store, base)
            if base is None:  # nothing stays: the hint first, which says where the history begins
                write_hint(store, store.paths.earliest_hint, taken[0].id)
            drop_tags_after(store, taken[0].id - 1 if base is None or base.id < taken[0].id else taken[0].id)
            _take_schemas(store, schemas, own, taken[0].schema_id)
            new = [one for one in taken if base is None or one.id > base.id]
            _take_snapshots(store, new)
            write_hint(store, store.paths.latest_hint, line.newest.id)
            for tag, held in line.tags.items():
                store.env.storage.write(store.paths.tag(tag), encode_snapshot(held))
            _drop_expired(store, branch, new, line.tags)
    except BucketlakeError:
        _refuse_gone(store, shared, brought, taken)
        raise
    _refuse_gone(store, shared, brought, taken)


def _drop_expired(store: Store, branch: Store, taken: Sequence[Snapshot], tags: Mapping[str, Snapshot]) -> None:
    """Take away what has expired on the branch since it was read, and all before it, since a history has no gaps; and
    tags that were deleted there. Whoever took them away looked for what needs their files before they were here. A
    branch that was deleted leaves its files."""
    for tag, held in tags.items():
        if branch.find_tag(tag) is None and has_branch(store, branch.branch_name) and not is_held(store, held, tag):
            store.env.storage.delete(store.paths.tag(tag))
    there = branch.snapshot_ids()
    expired = [one.id for one in taken[:-1] if there and one.id not in there]
    if not expired:
        return
    for number in store.snapshot_ids():
        if number <= expired[-1]:
            delete_name(store, store.paths.snapshot(number))
    write_hint(store, store.paths.earliest_hint, store.snapshot_ids()[0])


def _own_schemas(store: Store) -> dict[int, bytes]:
    """The schemas as they are stored. Errors: as `Store.check_same`."""
    found = {number: store.env.storage.read(store.paths.schema(number)) for number in store.schema_ids()}
    store.check_same()
    return found


def _refuse_gone(store: Store, kept: Mapping[int, bytes], brought: Mapping[str, bytes], ours: list[Snapshot]) -> None:
    """Take away what was put into the place of a table that was dropped, or made anew, meanwhile, and raise
    NotFoundError. `kept`: schemas that were not touched; `brought`: paths and what was written there; `ours`: the
    snapshots."""
    if all(_holds(store, store.paths.schema(number), data) for number, data in kept.items()):
        return
    for path, data in brought.items():
        with suppress(StorageError):
            if _holds(store, path, data):
                store.env.storage.delete(path)
    for snapshot in reversed(ours):
        remove_from_gone(store, snapshot)
    remedy = "it was dropped while a branch took its place"
    raise NotFoundError("no such table", path=store.paths.root, remedy=remedy)


def _holds(store: Store, path: str, data: bytes) -> bool:
    try:
        return store.env.storage.read(path) == data
    except NotFoundError:
        return False


def _common(store: Store, first: Snapshot) -> Snapshot | None:
    """The snapshot that stays and that the branch's go on from: its first one if both have it, else the one before."""
    own = store.find_snapshot(first.id)
    if own is not None and own.uuid == first.uuid:
        return own
    return next((one for one in store.snapshots(newest_first=True) if one.id < first.id), None)


def _schemas_for(branch: Store, taken: list[Snapshot], name: str) -> dict[int, bytes]:
    """A branch's schemas as they are stored; NotFoundError where some are gone: it is being deleted. CorruptError for
    those that are none."""
    try:
        found = {number: _schema_file(branch, number) for number in branch.schema_ids()}
    except NotFoundError:
        found = {}
    if not {snapshot.schema_id for snapshot in taken} <= found.keys():
        raise NotFoundError(f"Branch name '{name}' doesn't exist.", path=branch.paths.root, remedy="it was deleted")
    return found


def _schema_file(store: Store, number: int) -> bytes:
    """A schema as it is stored. CorruptError where it is none: what is copied must be one."""
    path = store.paths.schema(number)
    data = store.env.storage.read(path)
    TableSchema.decode(data, path, number)
    return data


def _take_schemas(store: Store, theirs: Mapping[int, bytes], own: Mapping[int, bytes], first: int) -> None:
    """Those that both have are not written again: they tell a table that was dropped from one that is there."""
    storage = store.env.storage
    for number, data in theirs.items():
        if own.get(number) != data:
            storage.write(store.paths.schema(number), data)
    for number in store.schema_ids():
        if number >= first and number not in theirs:
            storage.delete(store.paths.schema(number))


def _take_snapshots(store: Store, taken: list[Snapshot]) -> None:
    for snapshot in taken:
        if not put_new(store.env.storage, store.paths.snapshot(snapshot.id), encode_snapshot(snapshot)):
            raise ConflictError(
                "another writer committed while the branch was taken over",
                table=store.paths.root,
                snapshot=snapshot.id,
                remedy="fast-forward again to take the rest, which takes that commit away",
            )


# ---------------------------------------------------------------------------------------------- merge


def merge_branch(store: Store, source: str, target: str, opened: Callable[[str], Store]) -> Snapshot | None:
    """Append to a branch of an append table the files that another one has and it has not; None where there are none.

    `opened`: the store of a branch with its own schema. Both must have their whole history, of appends alone.
    Errors: InvalidError, NotFoundError, and those of a commit.
    """
    for what, name in (("Source", source), ("Target", target)):
        if not str(name).strip():
            raise InvalidError(f"{what} branch name '{name}' is blank.")
    refuse_rewriting(store.schema, "merging branches", "fast_forward, or INSERT the rows of one branch into the other")
    if source == target:
        raise InvalidError(f"Cannot merge branch '{source}' into itself.")
    for name in (source, target):
        if name != MAIN and not has_branch(store, name):
            raise NotFoundError(f"Branch '{name}' doesn't exist.", table=store.paths.root)
    stores = {name: opened(name) for name in (source, target)}
    for name, words in ((source, "Cannot merge branch"), (target, "Cannot merge into branch")):
        if stores[name].latest_snapshot() is None:
            raise InvalidError(f"{words} '{name}', because it does not have snapshot.", table=store.paths.root)
    for name, one in stores.items():
        _check_mergeable(name, one)
    ours, theirs = stores[target], stores[source]
    if ours.schema.tracks_rows != theirs.schema.tracks_rows:
        raise InvalidError(
            f"Cannot merge branch '{source}' into '{target}': row-tracking settings must match between branches.",
            table=store.paths.root,
        )
    if ours.schema.fields != theirs.schema.fields:
        raise InvalidError(f"Cannot merge branch '{source}' into '{target}', schema mismatch.", table=store.paths.root)
    for _ in range(ATTEMPTS):
        newest = _newest_of(theirs)
        with guarded(theirs, "merge-", newest):
            if _is_newest(theirs, newest):
                return _appended(ours, theirs, newest)
    raise _commits_faster(theirs)


def _appended(ours: Store, theirs: Store, newest: Snapshot) -> Snapshot | None:
    """Append the files of a branch's newest snapshot that ours has not."""
    source, target = theirs.branch_name, ours.branch_name
    files = {entry_name(entry): _without_ids(entry) for entry in live_entries(theirs, newest)}
    last = _newest_of(ours)
    if files.keys() <= {entry_name(entry) for entry in live_entries(ours, last)}:
        return None
    _check_file_schemas(source, target, {source: theirs, target: ours}, files.values())

    def plan(view: View) -> Changes:
        if not is_held(theirs, newest, ""):  # deleted: its files are orphans, and may go
            root = theirs.paths.root
            raise NotFoundError(f"Branch '{source}' has changed meanwhile.", table=root, snapshot=newest.id)
        live = {entry_name(entry) for entry in view.entries(None)}
        return Changes(tuple(entry for place, entry in files.items() if place not in live))

    user = f"merge-branch-{ours.env.clock.new_uuid()}"
    request = Request(CommitName(0, user, BATCH_COMMIT_IDENTIFIER, CommitKind.APPEND), plan, operation="WRITE")
    return Publisher(ours).publish(request)


def _without_ids(entry: ManifestEntry) -> ManifestEntry:
    """A file whose rows get ids of the branch that they come to: theirs are taken there."""
    return entry if entry.file.first_row_id is None else replace(entry, file=replace(entry.file, first_row_id=None))


def _check_mergeable(name: str, store: Store) -> None:
    """InvalidError unless a branch is of an append table and has its whole history, of appends alone."""
    if store.schema.primary_keys:
        raise InvalidError(
            f"Branch merge is only supported for append-only tables, but branch '{name}' has primary keys."
        )
    whole = "Branch merge requires complete append-only snapshot history."
    ids = store.snapshot_ids()
    if ids and ids[0] != FIRST_SNAPSHOT_ID:
        raise InvalidError(
            f"Cannot merge: branch '{name}' does not start at snapshot {FIRST_SNAPSHOT_ID} "
            f"(earliest is {ids[0]}). {whole}"
        )
    for number in range(FIRST_SNAPSHOT_ID, ids[-1] + 1 if ids else 0):
        found = store.find_snapshot(number)
        if found is None:
            raise InvalidError(f"Cannot merge: snapshot {number} is missing on branch '{name}'. {whole}")
        if found.commit_kind not in (CommitKind.APPEND, CommitKind.ANALYZE):
            kind = found.commit_kind.value
            raise InvalidError(f"Cannot merge: snapshot {number} on branch '{name}' has commit kind '{kind}'. {whole}")


def _check_file_schemas(
    source: str, target: str, stores: Mapping[str, Store], entries: Iterable[ManifestEntry]
) -> None:
    """InvalidError unless the schemas of the files are the same in both branches."""
    words = f"Cannot merge branch '{source}' into '{target}', "
    known = stores[target].schema_ids()
    for number in sorted({entry.file.schema_id for entry in entries}):
        if number not in known:
            raise InvalidError(
                f"{words}because target branch does not contain schema id {number} required by source files."
            )
        read = [stores[name].env.storage.read(stores[name].paths.schema(number)) for name in (source, target)]
        left, right = (TableSchema.decode(data, "schema", number) for data in read)
        if left != right:
            raise InvalidError(f"{words}schema history mismatch for schema id {number}.")
