"""A folder's files become a table's, in place: given a second name in the bucket's folder, committed, and then taken
out of the source.

    plan      every file listed and its footer checked; nothing is changed before all of them hold
    journal   `<location>/_bucketlake_migration`: which files go to which table, as which commit
    link      each file under its own name in `[<column>=<value>/…]bucket-0/`; a copy where the store has no links
    publish   the table, where it is new; then one commit
    sweep     the source's names of what was committed, then the journal; its folders stay

Up to the commit the source is whole, and from it on the table is: a reader of either finds all rows, at the worst of
both. Whoever calls again after a crash goes on: the journal's commit is looked for in the table's history, so that no
row is taken twice. Where the history no longer reaches back to the journal, that is not known, and refused.

Spec: docs/spec/migration.md
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from bucketlake.env.object_store import overlaps
from bucketlake.env.storage import Storage
from bucketlake.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    CorruptError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
)
from bucketlake.format.guard import decoding, json_object
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.ops.commit.commit import Commit, CommitProperties
from bucketlake.ops.migrate.footers import check_columns, data_file, footer_of
from bucketlake.ops.migrate.source import JOURNAL, Source, SourceFile, check_source, data_files
from bucketlake.ops.scan.view import View
from bucketlake.ops.table.messages import CommitMessage
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import BucketMode
from bucketlake.types.model import Root, type_text
from bucketlake.values import dataclass

_IDENTIFIER = 1  # of the one commit that a journal's user makes
_CHUNK = 8 << 20


@dataclass(frozen=True, slots=True)
class Migrated:
    """What was done. `snapshot`: None where there was no file; `files`, `rows`: of the commit, whoever made it."""

    files: int
    rows: int
    snapshot: Snapshot | None


@dataclass(frozen=True, slots=True)
class _Journal:
    """`base`: the table's newest snapshot before, 0 for none; `files`: name and size of each."""

    user: str
    table: str
    base: int
    files: tuple[tuple[str, int], ...]

    def encode(self) -> bytes:
        told = {"user": self.user, "table": self.table, "base": self.base, "files": [list(one) for one in self.files]}
        return json.dumps(told, separators=(",", ":")).encode()


def journal_of(storage: Storage, location: str) -> _Journal | None:
    """What an earlier migration of a folder left, None where there was none or it is done."""
    path = f"{location}/{JOURNAL}"
    try:
        data = storage.read(path)
    except NotFoundError:
        return None
    with decoding("not the journal of a migration", path, "if no migration is under way, remove it"):
        tree = json_object(data)
        files = tuple((str(name), int(size)) for name, size in tree["files"])
        return _Journal(str(tree["user"]), str(tree["table"]), int(tree["base"]), files)


def migrate(
    storage: Storage,
    store: Store,
    source: Source,
    *,
    publish: Callable[[], object] = lambda: None,
    threads: int | None = None,
) -> Migrated:
    """Make a folder's files those of an append table without buckets. `storage`: serves both folders. `publish` makes
    the table be there, if it is new.

    Raises, with nothing changed: NotFoundError, UnsupportedError, InvalidError, CorruptError naming the file;
    AlreadyExistsError where the table has another file of a name. What is raised later leaves the source readable, and
    another call goes on with it.
    """
    check_target(store, source)
    check_source(storage, source)
    _check_partitions(store)
    _refuse_overlap(store.paths.root, source.location)
    journal = _settled(storage, store, source)
    if journal is not None:  # it was committed before
        return _swept(storage, store, source, journal, _left(storage, store, source, journal))
    plan = _Plan.of(storage, store, source, threads)
    if not plan.files:
        publish()
        return Migrated(0, 0, None)
    base = store.latest_snapshot()
    journal = _Journal(_user(store, source, plan.files), store.paths.root, base.id if base else 0, plan.listed)
    plan.refuse_taken(storage)
    if not storage.put_if_absent(f"{source.location}/{JOURNAL}", journal.encode()):
        raise ConflictError("another migration of this folder has just begun", path=source.location)
    parallel(lambda pair: _link(storage, *pair), plan.pairs, threads)
    publish()
    _commit(store, source, journal, plan.messages)
    parallel(lambda pair: _keep(storage, *pair), plan.pairs, threads)
    return _swept(storage, store, source, journal, plan.pairs)


def _commit(store: Store, source: Source, journal: _Journal, messages: Sequence[CommitMessage]) -> None:
    """Commit the files, unless another run of the same migration has just done it."""
    notes = CommitProperties(operation="WRITE", properties={"migrated.from": source.location})
    try:
        Commit(store, journal.user, check=_refuse_live).commit(messages, _IDENTIFIER, notes=notes)
    except ConflictError:
        if _committed(store, journal) is None:
            raise


def _refuse_live(messages: Sequence[CommitMessage], view: View) -> None:
    """ConflictError where a file is the table's already: other checks do not look at what is only added."""
    names = {(message.partition, file.file_name) for message in messages for file in message.new_files}
    live = view.entries(frozenset(message.partition for message in messages))
    taken = next((entry for entry in live if (entry.partition, entry.file.file_name) in names), None)
    if taken is not None:
        raise ConflictError("a file of this name has just come to the table", file=taken.file.file_name)


def check_target(store: Store, source: Source) -> None:
    """InvalidError for tables that no such file can belong to."""
    schema = store.schema
    if schema.primary_keys:
        raise InvalidError("Hive migrator only support append only table target table", table=store.paths.root)
    if schema.bucket_mode is not BucketMode.UNAWARE:
        raise InvalidError(
            "Hive migrator only support unaware-bucket target table, bucket should be -1", table=store.paths.root
        )
    if sorted(key.lower() for key in schema.partition_keys) != sorted(key.lower() for key in source.partition_keys):
        raise InvalidError(
            "Source table partition keys not match target table partition keys.",
            source=list(source.partition_keys),
            target=list(schema.partition_keys),
        )


def _check_partitions(store: Store) -> None:
    """UnsupportedError for partition columns whose folders do not tell their values by themselves."""
    for item in store.schema.partition_fields:
        if item.type.root in (Root.TIMESTAMP_LTZ, Root.BINARY, Root.VARBINARY):
            raise UnsupportedError(
                "partitions of this type cannot be migrated: their folders' names depend on who wrote them",
                column=item.name,
                type=type_text(item.type),
                remedy="CREATE TABLE … AS SELECT copies the rows",
            )


def _refuse_overlap(root: str, location: str) -> None:
    if overlaps(root, location):
        raise InvalidError(
            "the folder to migrate and the table's folder lie in each other",
            location=location,
            table=root,
            remedy="give another target_table",
        )


def _user(store: Store, source: Source, files: Sequence[SourceFile]) -> str:
    """The same for the same files of the same folder: two that migrate it at a time make one commit."""
    digest = hashlib.sha256(f"{store.paths.root}\0{source.location}".encode())
    for file in files:
        digest.update(f"\0{file.name}\0{file.size}".encode())
    return f"migration-{digest.hexdigest()[:32]}"


# ---------------------------------------------------------------------------------------------- what was before


def _settled(storage: Storage, store: Store, source: Source) -> _Journal | None:
    """The journal of an earlier run that was committed; one that certainly was not is taken away."""
    journal = journal_of(storage, source.location)
    if journal is None:
        return None
    if journal.table != store.paths.root:
        raise AlreadyExistsError(
            "a migration of this folder to another table has begun",
            path=f"{source.location}/{JOURNAL}",
            table=journal.table,
            remedy="finish that one, or remove the file if its table is gone",
        )
    if _committed(store, journal) is not None:
        return journal
    earliest = store.earliest_snapshot()
    if earliest is not None and earliest.id > journal.base + 1:
        raise CommitUnknownError(
            "an earlier migration of this folder may have been committed: the snapshots of that time have expired",
            path=f"{source.location}/{JOURNAL}",
            table=journal.table,
            remedy="look whether the table has the rows; if not, remove the file and call again",
        )
    storage.delete(f"{source.location}/{JOURNAL}")
    return None


def _committed(store: Store, journal: _Journal) -> Snapshot | None:
    found = (one for one in store.snapshots(newest_first=True) if one.commit_user == journal.user)
    return next(found, None)


# ---------------------------------------------------------------------------------------------- plan


@dataclass(frozen=True, slots=True)
class _Plan:
    """`pairs`: each file's path and the path that it gets."""

    files: tuple[SourceFile, ...]
    pairs: tuple[tuple[SourceFile, str], ...]
    messages: tuple[CommitMessage, ...]

    @staticmethod
    def of(storage: Storage, store: Store, source: Source, threads: int | None) -> _Plan:
        """Every file with what the manifest will say of it. Errors as `migrate`."""
        inner = getattr(type(storage), "within", None)
        reader = storage if inner is None else inner(storage, (source.location,))
        files = data_files(reader, source)
        partitions = {values: _partition(store, source, values) for values in {file.values for file in files}}
        fields, keys = store.schema.fields, store.schema.partition_keys

        def described(file: SourceFile) -> DataFile:
            footer = footer_of(reader, file, source.file_format, fields)
            check_columns(footer, file, source, fields)
            return data_file(store, file, _named(file, source.file_format), footer, keys)

        told = parallel(described, files, threads)
        by_partition: dict[bytes, list[DataFile]] = {}
        pairs = []
        for file, one in zip(files, told, strict=True):
            partition = partitions[file.values]
            by_partition.setdefault(partition, []).append(one)
            pairs.append((file, f"{store.paths.bucket_dir(partition, 0)}/{one.file_name}"))
        messages = [CommitMessage(p, 0, -1, new_files=tuple(found)) for p, found in by_partition.items()]
        return _Plan(tuple(files), tuple(pairs), tuple(messages))

    @property
    def listed(self) -> tuple[tuple[str, int], ...]:
        """Names and sizes, as a journal has them."""
        return tuple((file.name, file.size) for file in self.files)

    def refuse_taken(self, storage: Storage) -> None:
        """AlreadyExistsError where two files would get one name, or the table has another file of a name."""
        seen: dict[str, SourceFile] = {}
        for file, target in self.pairs:
            twin = seen.setdefault(target, file)
            if twin is not file:
                raise _taken(file, target, twin.path)
        parallel(lambda pair: _check_free(storage, *pair), self.pairs)


def _named(file: SourceFile, file_format: str) -> str:
    """The name that tells the format, as readers need it: `000000_0` becomes `000000_0.orc`."""
    name = file.target_name
    return name if name.endswith(f".{file_format}") else f"{name}.{file_format}"


def _partition(store: Store, source: Source, values: tuple[str | None, ...]) -> bytes:
    names = {key.lower(): key for key in store.schema.partition_keys}
    default = store.options.get("partition.default-name")
    texts = {
        names[key.lower()]: default if value is None else value
        for key, value in zip(source.partition_keys, values, strict=True)
    }
    try:
        return store.paths.partition_bytes(texts)
    except InvalidError as error:
        raise InvalidError(
            "a partition's folder holds no value of its column; nothing was moved",
            path=source.location,
            partition=dict(zip(source.partition_keys, values, strict=True)),
            reason=error.what,
        ) from error


# ---------------------------------------------------------------------------------------------- link, sweep


def _link(storage: Storage, file: SourceFile, target: str) -> None:
    with suppress(AlreadyExistsError):  # by an earlier run: checked before
        storage.link(file.path, target)


def _check_free(storage: Storage, file: SourceFile, target: str) -> None:
    found = storage.info(target)
    if found is not None and not _same(storage, file, target, found.size):
        raise _taken(file, target, "a file of the table")


def _same(storage: Storage, file: SourceFile, target: str, size: int) -> bool:
    """Whether a file is there already byte by byte."""
    if size != file.size:
        return False
    return all(storage.read(file.path, at, _CHUNK) == storage.read(target, at, _CHUNK) for at in range(0, size, _CHUNK))


def _taken(file: SourceFile, target: str, other: str) -> AlreadyExistsError:
    return AlreadyExistsError(
        "two files would have one name in the table, and names are kept; nothing was moved",
        path=file.path,
        name=target,
        other=other,
        remedy="rename the file, or copy the rows: INSERT INTO … SELECT",
    )


def _keep(storage: Storage, file: SourceFile, target: str) -> None:
    """See that a committed file is there: an orphan cleaner that did not know of the commit may have taken it."""
    found = storage.info(target)
    if found is None:
        storage.link(file.path, target)
    elif found.size != file.size:
        raise CorruptError("a migrated file is not as long as its source", path=target, size=found.size)


def _left(storage: Storage, store: Store, source: Source, journal: _Journal) -> list[tuple[SourceFile, str]]:
    """Files that an earlier run committed and did not remove, and where they went."""
    known, found = set(journal.files), []
    for file in data_files(storage, source):
        if (file.name, file.size) not in known:
            continue
        folder = store.paths.bucket_dir(_partition(store, source, file.values), 0)
        target = f"{folder}/{_named(file, source.file_format)}"
        info = storage.info(target)
        if info is None:
            raise CommitUnknownError(
                "a file of the source was migrated, and the table has compacted it since: is it still the same?",
                path=file.path,
                remedy="if nothing was written to the source since, remove the file; else rename it and call again",
            )
        if _same(storage, file, target, info.size):
            found.append((file, target))
    return found


def _swept(
    storage: Storage, store: Store, source: Source, journal: _Journal, pairs: Sequence[tuple[SourceFile, str]]
) -> Migrated:
    """Take what was committed out of the source, the journal last. Files that came meanwhile stay."""

    def remove(pair: tuple[SourceFile, str]) -> None:
        found = storage.info(pair[0].path)
        if found is not None and found.size == pair[0].size:  # else it is another by now
            storage.delete(pair[0].path)

    parallel(remove, pairs)
    storage.delete(f"{source.location}/{JOURNAL}")
    snapshot = _committed(store, journal)
    return Migrated(len(journal.files), _rows(snapshot), snapshot)


def _rows(snapshot: Snapshot | None) -> int:
    return 0 if snapshot is None else int(snapshot.delta_record_count)


def refuse_rest(storage: Storage, source: Source) -> None:
    """ConflictError where files have come to a source since it was migrated: its folder must not be removed."""
    rest: list[Any] = data_files(storage, source) if storage.info(source.location) is not None else []
    if rest:
        raise ConflictError(
            "files came to the source while it was migrated; it was not dropped",
            path=rest[0].path,
            files=len(rest),
            remedy="call again to migrate them, too",
        )
