"""Where every reader of a table begins: snapshots, tags and changelogs of all branches, and what says where they are.

    find_roots(store, findings) -> [Root]       branches one after the other, each oldest first

Faults of the roots themselves, of hints, schemas and consumers go to the findings.

Spec: docs/maintenance.md#metadata
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from bucketlake.errors import BucketlakeError, NotFoundError, StorageError
from bucketlake.file_names import number_of
from bucketlake.format.metadata.consumer import next_snapshot
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.check.findings import Findings, Place, shown
from bucketlake.ops.commit.strays import strays
from bucketlake.ops.table.newest import half_made
from bucketlake.ops.table.overwritten import read_overwritten
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.paths import MAIN
from bucketlake.schema.evolution import read_mapping
from bucketlake.schema.schema import TableSchema
from bucketlake.schema.versions import is_replaced
from bucketlake.values import dataclass

T = TypeVar("T")
SNAPSHOT, TAG, CHANGELOG = "snapshot", "tag", "changelog"


@dataclass(frozen=True, slots=True)
class Root:
    """A snapshot, a tag or a changelog of a branch. `stray`: below the history."""

    kind: str
    name: str
    branch: str
    store: Store
    snapshot: Snapshot
    stray: bool = False

    @property
    def label(self) -> str:
        """What findings call it."""
        prefix = "" if self.branch == MAIN else f"branch {self.branch}, "
        return f"{prefix}{self.kind} {self.name}"

    @property
    def may_lack(self) -> bool:
        """Whether what it tells of changes may be gone: with a tag's snapshot go its changelog files, and a commit
        without any, of a table that writes such, tells nothing once it has expired."""
        silent = self.kind == CHANGELOG and self.snapshot.changelog_manifest_list is None
        return self.kind == TAG or (silent and self.store.options.get("changelog-producer") != "none")

    def stands(self) -> bool:
        """Whether it is still there: files of what expires meanwhile are not missing."""
        paths = self.store.paths
        path = {
            SNAPSHOT: paths.snapshot(self.snapshot.id),
            TAG: paths.tag(self.name) if self.kind == TAG else "",
            CHANGELOG: paths.changelog(self.snapshot.id),
        }[self.kind]
        return self.store.env.storage.info(path) is not None


def attempted(action: Callable[[], T]) -> T | BucketlakeError:
    """What an action gives, or the error that says what is wrong with a file. StorageError is raised: try again."""
    try:
        return action()
    except StorageError:
        raise
    except BucketlakeError as error:
        return error


def find_roots(store: Store, findings: Findings) -> list[Root]:
    """All roots of the table, whichever branch the handle is of."""
    found: list[Root] = []
    for branch in (MAIN, *store.branches()):
        found += _of_branch(store.on_branch(branch), branch, findings)
    return found


def _of_branch(store: Store, branch: str, findings: Findings) -> list[Root]:
    schemas = _schemas(store, branch, findings)
    ids = store.snapshot_ids()
    snapshots = _decoded(store, SNAPSHOT, ids, findings)
    changelogs = _decoded(store, CHANGELOG, store.changelog_ids(), findings)
    tags = _tags(store, findings)
    below = set(strays(ids))
    for number in sorted(below):
        cause = f"snapshots go on at {min(i for i in ids if i not in below)}, with a gap before"
        findings.add("snapshot-zombie", cause, Place(store.paths.snapshot(number), snapshot=number, holder=branch))
    if store.schema_ids() and not half_made(store.env, store.paths, max(schemas, default=0)):
        _check_schemas_of([*snapshots, *tags.values()], schemas, store, findings)
    _check_counts([one for one in snapshots if one.id not in below], store, findings)
    history = [number for number in ids if number not in below]
    _check_hints(store, ids, history, findings)
    _check_changelog_hints(store, [one.id for one in changelogs], findings)
    _check_consumers(store, history, {one.id for one in changelogs}, findings)
    roots = [Root(SNAPSHOT, str(one.id), branch, store, one, one.id in below) for one in snapshots]
    roots += [Root(TAG, name, branch, store, one) for name, one in tags.items()]
    return roots + [Root(CHANGELOG, str(one.id), branch, store, one) for one in changelogs]


def _decoded(store: Store, kind: str, ids: Sequence[int], findings: Findings) -> list[Snapshot]:
    """The snapshots, or the changelogs, that can be read."""
    find, path = {
        SNAPSHOT: (store.find_snapshot, store.paths.snapshot),
        CHANGELOG: (store.find_changelog, store.paths.changelog),
    }[kind]
    read = parallel(lambda number: attempted(lambda: find(number)), ids, store.manifest_threads)
    found = []
    older = kind == SNAPSHOT and any(isinstance(one, Snapshot) for one in read)
    for number, one in zip(ids, read, strict=True):
        if isinstance(one, BucketlakeError):
            code = "newest-broken" if older and number == ids[-1] else f"{kind}-broken"
            findings.add(code, shown(one), Place(path(number), snapshot=number))
        elif one is not None:
            found.append(one)
    return found


def _tags(store: Store, findings: Findings) -> dict[str, Snapshot]:
    found = {}
    for name in store.tag_names():
        tag = attempted(lambda name=name: store.find_tag(name))  # type: ignore[misc]
        if isinstance(tag, BucketlakeError):
            findings.add("tag-broken", shown(tag), Place(f"{store.paths.tag_dir}/tag-{name}", holder=f"tag {name}"))
        elif tag is not None:
            found[name] = tag
    return found


# ---------------------------------------------------------------------------------------------- schemas


def _schemas(store: Store, branch: str, findings: Findings) -> dict[int, TableSchema]:
    folder = store.paths.schema_dir
    ids = store.schema_ids()
    if not ids:
        findings.add("branch-dead", "it has no schema", Place(folder, holder=f"branch {branch}"))
    elif half_made(store.env, store.paths, ids[-1]):
        findings.add("branch-dead", "it lacks its newest schema", Place(folder, holder=f"branch {branch}"))
    found: dict[int, TableSchema] = {}
    for number in ids:
        path = store.paths.schema(number)
        one = attempted(lambda path=path, n=number: TableSchema.decode(store.env.storage.read(path), path, n))  # type: ignore[misc]
        if isinstance(one, BucketlakeError):
            findings.add("schema-broken", shown(one), Place(path))
        else:
            found[number] = one
    for low, high in pairwise(ids):
        if high != low + 1:
            cause = f"schema {high} follows schema {low}"
            findings.add("schema-chain", cause, Place(store.paths.schema(high)))
    _check_chain(list(found.values()), store, findings)
    return found


def _check_chain(schemas: Sequence[TableSchema], store: Store, findings: Findings) -> None:
    for past, present in pairwise(schemas):
        place = Place(store.paths.schema(present.id))
        if is_replaced(past, present):
            continue
        if present.highest_field_id < past.highest_field_id:
            cause = f"the greatest id of a column falls from {past.highest_field_id} to {present.highest_field_id}"
            findings.add("schema-chain", cause, place)
        if present.primary_keys and past.primary_keys and present.partition_keys != past.partition_keys:
            findings.add("schema-chain", "the partition columns differ from those of the schema before", place)
        mapped = attempted(lambda a=past, b=present: read_mapping(a.fields, b.fields))  # type: ignore[misc]
        if isinstance(mapped, BucketlakeError):
            findings.add("schema-chain", shown(mapped), place)


def _check_schemas_of(
    snapshots: Sequence[Snapshot], schemas: dict[int, TableSchema], store: Store, findings: Findings
) -> None:
    named: dict[int, int] = {}
    for snapshot in snapshots:
        named.setdefault(snapshot.schema_id, snapshot.id)
    broken = {finding.place.file for finding in findings.kept.get("schema-broken", ())}
    for schema_id, snapshot_id in sorted(named.items()):
        path = store.paths.schema(schema_id)
        if schema_id not in schemas and path not in broken:
            findings.add("schema-missing", f"snapshot {snapshot_id} names it", Place(path, snapshot=snapshot_id))


# ---------------------------------------------------------------------------------------------- snapshots, hints


def _check_counts(snapshots: Sequence[Snapshot], store: Store, findings: Findings) -> None:
    for before, after in pairwise(snapshots):
        wanted = before.total_record_count + after.delta_record_count
        if after.id == before.id + 1 and after.total_record_count != wanted:
            cause = f"it says {after.total_record_count} rows; {before.total_record_count} and "
            cause += f"{after.delta_record_count} more make {wanted}"
            findings.add("snapshot-count", cause, Place(store.paths.snapshot(after.id), snapshot=after.id))


def hint_text(store: Store, path: str) -> str | None:
    """What a hint holds, None if there is none; where it cannot be read, as a folder, the error."""
    found = attempted(lambda: store.env.storage.read(path, 0, 64))
    if isinstance(found, NotFoundError):
        return None
    return found.what if isinstance(found, BucketlakeError) else found.decode("utf-8", "replace").strip()


def _check_hints(store: Store, ids: Sequence[int], history: Sequence[int], findings: Findings) -> None:
    latest, earliest = hint_text(store, store.paths.latest_hint), hint_text(store, store.paths.earliest_hint)
    newest = str(ids[-1]) if ids else "none"
    later = number_of(latest or "") or 0  # committed since the ids were listed
    if latest is not None and latest != newest and not (ids and later > ids[-1] and store.has_snapshot(later)):
        lost = f"; if nobody rolled back, snapshot-{later} is lost, and its commit: restore it before the next commit"
        cause = f"it says {latest[:40]!r}, the newest is {newest}" + lost * (later > (ids[-1] if ids else 0))
        findings.add("hint-latest", cause, Place(store.paths.latest_hint))
    oldest = str(history[0]) if history else "none"
    if earliest is not None and earliest not in (oldest, str(ids[0]) if ids else oldest):
        cause = f"it says {earliest[:40]!r}, the oldest is {oldest}"
        findings.add("hint-earliest", cause, Place(store.paths.earliest_hint))


def _check_changelog_hints(store: Store, ids: Sequence[int], findings: Findings) -> None:
    ends = (
        (store.paths.changelog_earliest_hint, ids[0] if ids else None),
        (store.paths.changelog_latest_hint, ids[-1] if ids else None),
    )
    for path, wanted in ends:
        text = hint_text(store, path)
        if text is not None and wanted is not None and text != str(wanted):
            findings.add("hint-changelog", f"it says {text[:40]!r}, the end is {wanted}", Place(path))


# ---------------------------------------------------------------------------------------------- consumers


def _check_consumers(store: Store, ids: Sequence[int], changelogs: set[int], findings: Findings) -> None:
    for info in store.env.storage.list(store.paths.consumer_dir):
        if info.is_dir or not info.name.startswith("consumer-"):
            continue
        name = info.name.removeprefix("consumer-")
        place = Place(info.path, holder=f"consumer {name}")
        following = attempted(lambda path=info.path: next_snapshot(read_overwritten(store.env, path), path))  # type: ignore[misc]
        if isinstance(following, BucketlakeError):
            findings.add("consumer-broken", shown(following), place)
        elif following > (ids[-1] if ids else 0) + 1:
            newest = ids[-1] if ids else "none"
            findings.add("consumer-ahead", f"it waits for snapshot {following}, the newest is {newest}", place)
        elif ids and following < ids[0] and following not in changelogs:
            findings.add("consumer-behind", f"it waits for snapshot {following}, the oldest is {ids[0]}", place)
