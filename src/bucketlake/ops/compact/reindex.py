"""Building the file indexes that a table's options ask for on files that are there already.

A file's rows stay as they are: one COMPACT snapshot tells of every file with its new index.

Spec: docs/spec/file_index.md#rewriting
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from bucketlake.errors import BucketlakeError
from bucketlake.format.file_index.container import FileIndexBuilder
from bucketlake.format.metadata.manifest import DataFile, ManifestEntry
from bucketlake.format.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from bucketlake.ops.commit.conflicts import CommitName
from bucketlake.ops.commit.outcome import Outcome, owned
from bucketlake.ops.commit.publish import Publisher, Request
from bucketlake.ops.rows.column_files import refuse_rewriting
from bucketlake.ops.rows.one_file import file_layout, read_file
from bucketlake.ops.scan.scan import live_entries
from bucketlake.ops.table.changes import Changes
from bucketlake.ops.table.entries import deletion
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.partitions import PartitionFilter
from bucketlake.ops.table.store import Store
from bucketlake.paths import FILE_INDEX_SUFFIX, POSTPONE_BUCKET
from bucketlake.schema.file_indexes import IndexSpec, index_specs
from bucketlake.values import dataclass

Done = tuple[ManifestEntry, DataFile | None]  # a file, and what it is with its new index, None where it stays
Action = Callable[[ManifestEntry], Done]
Run = Callable[[Action, Sequence[ManifestEntry]], list[Done]]  # in any order


@dataclass(frozen=True, slots=True)
class Reindexed:
    """How many partitions, and files in them, have new indexes."""

    partitions: int = 0
    files: int = 0


def run_here(action: Action, entries: Sequence[ManifestEntry]) -> list[Done]:
    """Index files by threads of this process."""
    return parallel(action, entries)


def reindex(store: Store, chosen: PartitionFilter | None = None, run: Run = run_here) -> Reindexed:
    """Build the indexes of all files, or of those in the partitions chosen, and drop what is not asked for any more.

    Writers go on; ConflictError where another commit takes a file away meanwhile: run it again.
    """
    refuse_rewriting(store.schema, "file indexes")
    newest = store.latest_snapshot()
    entries = [] if newest is None else live_entries(store, newest)
    entries = [one for one in entries if one.bucket != POSTPONE_BUCKET and (chosen is None or chosen(one.partition))]
    changed = [(entry, file) for entry, file in run(partial(_indexed, store), entries) if file is not None]
    if not changed:
        return Reindexed()
    made = tuple(replace(entry, file=file) for entry, file in changed)
    changes = Changes(tuple(deletion(entry) for entry, _ in changed) + made)
    user = f"rewrite-file-index-{store.env.clock.new_uuid()}"
    name = CommitName(0, user, BATCH_COMMIT_IDENTIFIER, CommitKind.COMPACT)
    outcome = Outcome()
    with owned(outcome, lambda: _remove_new(store, changed)):
        Publisher(store).publish(Request(name, lambda view: changes), outcome)
    return Reindexed(len({entry.partition for entry, _ in changed}), len(changed))


def _indexed(store: Store, entry: ManifestEntry) -> Done:
    return entry, _with_indexes(store, entry)


def _with_indexes(store: Store, entry: ManifestEntry) -> DataFile | None:
    """The file with the indexes that the table asks for; None where it has none and shall have none."""
    file, schema = entry.file, store.schema_of(entry.file.schema_id)
    specs = _specs(store, {item.id: item.name for item in schema.fields})
    others = tuple(name for name in file.extra_files if not name.endswith(FILE_INDEX_SUFFIX))
    if not specs:
        has = file.embedded_index is not None or others != tuple(file.extra_files)
        return replace(file, extra_files=others, embedded_index=None) if has else None
    fields = [schema.field(name) for name in dict.fromkeys(spec.column for spec in specs)]
    written = store.with_schema(replace(schema, options=store.schema.options))
    layout = file_layout(written, file, fields)
    builder = FileIndexBuilder(specs, fields)
    folder = store.paths.bucket_dir(entry.partition, entry.bucket)
    path = store.paths.file_path(folder, file)
    for batch in read_file(written, path, layout, None):
        builder.update(layout.rows(batch))
    data = builder.finish()
    if len(data) <= store.options.get("file-index.in-manifest-threshold"):
        return replace(file, extra_files=others, embedded_index=data)
    name = f"{file.file_name}-{store.env.clock.new_uuid()}{FILE_INDEX_SUFFIX}"
    store.env.storage.write(store.paths.extra_path(folder, file, name), data)
    return replace(file, extra_files=(*others, name), embedded_index=None)


def _specs(store: Store, stored: Mapping[int, str]) -> list[IndexSpec]:
    """The indexes asked for on columns that files of a schema have, by their names there."""
    ids = {item.name: item.id for item in store.schema.fields}
    found = [(spec, stored.get(ids[spec.column])) for spec in index_specs(store.options.raw) if spec.column in ids]
    return [replace(spec, column=name) for spec, name in found if name is not None]


def _remove_new(store: Store, changed: Sequence[tuple[ManifestEntry, DataFile]]) -> None:
    for entry, file in changed:
        for name in sorted(set(file.extra_files) - set(entry.file.extra_files)):
            folder = store.paths.bucket_dir(entry.partition, entry.bucket)
            try:
                store.env.storage.delete(store.paths.extra_path(folder, entry.file, name))
            except BucketlakeError:
                continue
