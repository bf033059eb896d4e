"""Manifests as columns: the live files of a snapshot, and sums of what each commit changed, without an object a file.

    live(store, snapshot, wanted) -> polars frame      a row a file; columns: `manifest_columns.FRAME`
    changed(store, snapshot) -> Change                 what it added, removed and moved, by level

Manifests never change: frames and sums are remembered, up to a number of files, by what their paths are.
"""

from __future__ import annotations

from bucketlake.errors import CorruptError
from bucketlake.format.guard import check_size
from bucketlake.format.metadata.manifest import FileKind, ManifestFile, decode_manifest
from bucketlake.format.metadata.manifest_columns import FRAME, decode_frame, frame_of
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.lazy import pl
from bucketlake.ops.scan.scan import ALL, EntryFilter
from bucketlake.ops.table.cache import Cache
from bucketlake.ops.table.decoded import identity
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.values import dataclass

REMEMBERED = 1_000_000  # files in frames
SUMS = 20_000  # manifest lists
LARGEST = 5_000_000  # files of one snapshot that are looked at
PLACE = ["partition", "bucket", "level", "file_name", "external_path"]
_frames = Cache(REMEMBERED)
_sums = Cache(SUMS)


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit did to data files; bytes and files by level, `removed` as what they took away. Files that only
    changed their level are in `moved_*` and in `levels`, but neither added nor removed."""

    added_files: int = 0
    added_bytes: int = 0
    removed_files: int = 0
    removed_bytes: int = 0
    moved_files: int = 0
    levels: tuple[tuple[int, int, int], ...] = ()  # (level, files more, bytes more)


def clear() -> None:
    """Forget what was read (tests, benchmarks)."""
    _frames.clear()
    _sums.clear()


def live(store: Store, snapshot: Snapshot | None, wanted: EntryFilter = ALL) -> pl.DataFrame:
    """The live files of a snapshot. `wanted`: manifests that can hold none of its entries are not read, and of the rest
    only partitions and buckets narrow what is returned.

    Errors: CorruptError, StorageError; UnsupportedError beyond `LARGEST` files.
    """
    if snapshot is None:
        return _joined([])
    manifests = store.data_manifests(snapshot)
    if wanted is not ALL:
        manifests = tuple(wanted.prune(store, manifests))
    _refuse_many(snapshot, manifests)
    entries = _joined(parallel(lambda item: _frame(store, item), manifests, store.manifest_threads))
    if wanted.partitions is not None:
        entries = entries.filter(pl.col("partition").is_in(list(wanted.partitions)))
    if wanted.buckets is not None:
        entries = entries.filter(pl.col("bucket").is_in(list(wanted.buckets)))
    return _folded(snapshot, entries)


def _refuse_many(snapshot: Snapshot, manifests: tuple[ManifestFile, ...]) -> None:
    files = sum(item.num_added_files + item.num_deleted_files for item in manifests)
    if files > LARGEST:
        raise CorruptError(
            "a snapshot has more files than are looked at",
            snapshot=snapshot.id,
            files=files,
            most=LARGEST,
            remedy="compact the table, or look at one partition",
        )


def _folded(snapshot: Snapshot, entries: pl.DataFrame) -> pl.DataFrame:
    gone = entries.filter(pl.col("kind") == int(FileKind.DELETE))
    if gone.is_empty():
        return entries
    counted = entries.group_by(PLACE, maintain_order=True).agg(
        (1 - 2 * pl.col("kind")).sum().alias("kind"), pl.exclude(["kind", *PLACE]).last()
    )
    if counted.filter(pl.col("kind") < 0).height:
        raise CorruptError("a manifest deletes a file that was never added", snapshot=snapshot.id)
    return counted.filter(pl.col("kind") > 0).with_columns(kind=pl.lit(0, pl.Int64)).select(list(FRAME))


def _joined(parts: list[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(parts) if parts else frame_of([])


def _frame(store: Store, item: ManifestFile) -> pl.DataFrame:
    """The entries of a manifest. Raises: CorruptError where they are not as many, or as long, as its list says."""
    path = store.paths.manifest(item.file_name)
    key = (identity(store.env.storage), path)
    found: pl.DataFrame | None = _frames.get(key)
    if found is None:
        data = store.env.storage.read(path)
        check_size(path, len(data), item.file_size)
        found = decode_frame(data, path)
        if found is None:
            found = frame_of(decode_manifest(data, path))
        _frames.put(key, found.height + 1, found)
    if found.height != item.num_added_files + item.num_deleted_files:
        raise CorruptError(
            "a manifest has other entries than its manifest list says",
            path=path,
            found=found.height,
            expected=item.num_added_files + item.num_deleted_files,
        )
    return found


def changed(store: Store, snapshot: Snapshot) -> Change:
    """What a commit did. Errors: CorruptError, NotFoundError where its manifests are gone."""
    key = (identity(store.env.storage), store.paths.manifest(snapshot.delta_manifest_list))
    found: Change | None = _sums.get(key)
    if found is None:
        manifests = store.delta_manifests(snapshot)
        _refuse_many(snapshot, manifests)
        found = _summed(_joined([_frame(store, item) for item in manifests]))
        _sums.put(key, 1, found)
    return found


def _summed(entries: pl.DataFrame) -> Change:
    if entries.is_empty():
        return Change()
    files = entries.select("kind", "partition", "bucket", "level", "file_name", "file_size").with_columns(
        sign=1 - 2 * pl.col("kind")
    )
    levels = files.group_by("level").agg(
        pl.col("sign").sum(), (pl.col("sign") * pl.col("file_size")).sum().alias("size")
    )
    # A file that is both added and deleted was put on another level, not written.
    both = ["partition", "bucket", "file_name"]
    kinds = files.group_by(both).agg(
        pl.col("sign").sum(), pl.col("kind").n_unique().alias("kinds"), pl.col("file_size").first()
    )
    one = kinds.filter(pl.col("kinds") == 1)
    added, removed = one.filter(pl.col("sign") > 0), one.filter(pl.col("sign") < 0)
    return Change(
        added_files=added.height,
        added_bytes=int(added["file_size"].sum()),
        removed_files=removed.height,
        removed_bytes=int(removed["file_size"].sum()),
        moved_files=kinds.height - one.height,
        levels=tuple(sorted(levels.select("level", "sign", "size").rows())),
    )
