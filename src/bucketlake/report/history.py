"""What happened to a table: its commits with all that names them, and what its bytes did over them.

timeline(store, limit) -> Timeline          amplification(store, limit) -> Amplification
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketlake.errors import BucketlakeError, NotFoundError
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from bucketlake.lazy import pl
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.report.facts import Amplification, Branch, Commit, Consumer, Moment, Tag, Timeline
from bucketlake.report.frames import Change, changed, live

COMMITS = 200  # that are shown where nobody says
MOST_COMMITS = 2_000
MOST_MARKS = 500  # tags, branches, consumers
TEXT = 300  # characters of a text that is shown
WORDS = {
    CommitKind.APPEND: "append",
    CommitKind.OVERWRITE: "overwrite",
    CommitKind.COMPACT: "compaction",
    CommitKind.ANALYZE: "statistics",
}


def cut(text: str, most: int = TEXT) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def newest(store: Store, limit: int) -> tuple[list[Snapshot], int]:
    """The newest snapshots, oldest first, and how many are older."""
    limit = max(1, min(limit, MOST_COMMITS))
    ids = store.snapshot_ids()
    if not ids:
        return [], 0
    shown = ids[-limit:]
    return store.snapshots_after(shown[0] - 1)[-limit:], len(ids) - len(shown)


def timeline(store: Store, limit: int = COMMITS) -> Timeline:
    """The newest commits of this branch, and the tags, branches and consumers on them. A commit whose manifests are
    gone or damaged says so. Errors: StorageError, CorruptError of a snapshot."""
    snapshots, left_out = newest(store, limit)
    last = snapshots[-1].id if snapshots else 0
    tags = _tags(store)
    branches = _branches(store, snapshots)
    consumers = _consumers(store, last)
    tagged: dict[int, list[str]] = {}
    for tag in tags:
        tagged.setdefault(tag.snapshot, []).append(tag.name)
    forked: dict[int, list[str]] = {}
    for branch in branches:
        forked.setdefault(branch.forked_from or 0, []).append(branch.name)
    waiting: dict[int, list[str]] = {}
    for one in consumers:
        waiting.setdefault(one.next_snapshot, []).append(one.name)
    changes = parallel(lambda snapshot: changes_of(store, snapshot), snapshots, store.manifest_threads)
    commits = [
        _commit(snapshot, change, (tagged, forked, waiting))
        for snapshot, change in zip(snapshots, changes, strict=True)
    ]
    return Timeline(commits, tags, branches, consumers, left_out)


Names = dict[int, list[str]]


def changes_of(store: Store, snapshot: Snapshot) -> Change | str:
    """What a commit changed, or why nobody can tell."""
    try:
        return changed(store, snapshot)
    except NotFoundError:
        return "a manifest of this commit is gone"
    except BucketlakeError as error:
        return cut(str(error))


def _commit(snapshot: Snapshot, change: Change | str, marks: tuple[Names, Names, Names]) -> Commit:
    known = Change() if isinstance(change, str) else change
    tagged, forked, waiting = marks
    return Commit(
        snapshot=snapshot.id,
        time=snapshot.time_millis,
        kind=snapshot.commit_kind.value,
        operation=None if snapshot.operation is None else cut(snapshot.operation),
        words=_words(snapshot, known),
        user=cut(snapshot.commit_user),
        schema_id=snapshot.schema_id,
        rows=snapshot.total_record_count,
        delta_rows=snapshot.delta_record_count,
        changelog_rows=snapshot.changelog_record_count or 0,
        added_files=known.added_files,
        added_bytes=known.added_bytes,
        removed_files=known.removed_files,
        removed_bytes=known.removed_bytes,
        moved_files=known.moved_files,
        tags=tagged.get(snapshot.id, []),
        branches=forked.get(snapshot.id, []),
        consumers=waiting.get(snapshot.id, []),
        watermark=snapshot.watermark,
        stream=stream_of(snapshot),
        damaged=change if isinstance(change, str) else None,
    )


def _words(snapshot: Snapshot, change: Change) -> str:
    """`delete: append`, `compaction of 12 files into 1`."""
    said = WORDS[snapshot.commit_kind]
    if snapshot.commit_kind is CommitKind.COMPACT:
        if change.added_files or change.removed_files:
            return f"compaction of {change.removed_files:,} files into {change.added_files:,}"
        return f"compaction: {change.moved_files:,} files moved" if change.moved_files else said
    named = (snapshot.operation or "").replace("_", " ").lower()
    return cut(named) if named and named not in ("write", said) else said


def stream_of(snapshot: Snapshot) -> str | None:
    """The batch of a stream that made a snapshot: its number is the commit's identifier."""
    if snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER or snapshot.commit_kind is not CommitKind.APPEND:
        return None
    return f"{cut(snapshot.commit_user, 80)} #{snapshot.commit_identifier}"


def _tags(store: Store) -> list[Tag]:
    there = set(store.snapshot_ids())
    found = [
        Tag(name, tag.id, tag.time_millis, tag.total_record_count, tag.id not in there)
        for name, tag in store.known_tags().items()
    ]
    return sorted(found, key=lambda tag: (tag.snapshot, tag.name))[-MOST_MARKS:]


def _consumers(store: Store, last: int) -> list[Consumer]:
    found = [Consumer(name, following, max(0, last + 1 - following)) for name, following in store.consumers().items()]
    return sorted(found, key=lambda one: -one.lag)[:MOST_MARKS]


def consumers(store: Store) -> list[Consumer]:
    """Who reads the table as a stream, the one that lags most first."""
    return _consumers(store, store.latest_snapshot_id() or 0)


def _branches(store: Store, own: Sequence[Snapshot]) -> list[Branch]:
    mine = {snapshot.id: snapshot.base_manifest_list for snapshot in own}
    found = []
    for name in store.branches()[:MOST_MARKS]:
        other = store.on_branch(name)
        ids = other.snapshot_ids()
        forked = None
        for number in [i for i in ids if i in mine][:COMMITS]:
            snapshot = other.find_snapshot(number)
            if snapshot is None or snapshot.base_manifest_list != mine[number]:
                break
            forked = number
        last = other.latest_snapshot()
        time = None if last is None else last.time_millis
        found.append(Branch(name, forked, None if last is None else last.id, time, len(ids)))
    return found


# ---------------------------------------------------------------------------------------------- bytes over time


def amplification(store: Store, limit: int = COMMITS) -> Amplification:
    """Write and space amplification over the newest snapshots. Errors: those of reading manifests."""
    snapshots, left_out = newest(store, limit)
    if not snapshots:
        return Amplification([], 0)
    changes = parallel(lambda snapshot: changed(store, snapshot), snapshots, store.manifest_threads)
    levels, files = _before(store, snapshots[-1], changes)
    moments: list[Moment] = []
    written = rewritten = gone = 0
    first = True
    for snapshot, change in zip(snapshots, changes, strict=True):
        for level, more, size in change.levels:
            levels[level] = levels.get(level, 0) + size
            files += more
        if snapshot.commit_kind is CommitKind.COMPACT:
            rewritten += change.added_bytes
        else:
            written += change.added_bytes
        gone += 0 if first else change.removed_bytes
        first = False
        moments.append(_moment(snapshot, (written, rewritten, gone), files, levels, bool(store.schema.primary_keys)))
    return Amplification(moments, left_out)


def _before(store: Store, last: Snapshot, changes: Sequence[Change]) -> tuple[dict[int, int], int]:
    """Bytes by level and files before the first of these changes: those of the last snapshot, counted back."""
    now = live(store, last)
    sums = now.group_by("level").agg(pl.col("file_size").sum()).rows()
    levels: dict[int, int] = {int(level): int(size) for level, size in sums}
    files = now.height
    for change in changes:
        for level, more, size in change.levels:
            levels[level] = levels.get(level, 0) - size
            files -= more
    return levels, files


def _moment(snapshot: Snapshot, sums: tuple[int, int, int], files: int, levels: dict[int, int], keyed: bool) -> Moment:
    written, rewritten, gone = sums
    filled = {level: size for level, size in sorted(levels.items()) if size > 0}
    whole = sum(filled.values())
    settled = filled[max(filled)] if filled else 0
    return Moment(
        snapshot=snapshot.id,
        time=snapshot.time_millis,
        kind=snapshot.commit_kind.value,
        written=written,
        rewritten=rewritten,
        write=round((written + rewritten) / written, 4) if written else None,
        files=files,
        live=whole,
        settled=settled,
        held=whole + gone,
        space=round((whole + gone) / whole, 4) if whole else None,
        overlap=round(whole / settled, 4) if settled and keyed else None,
        levels=filled,
    )
