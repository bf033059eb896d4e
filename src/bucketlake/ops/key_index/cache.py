"""The key index of a cross-partition table: where every live key lies, as of a snapshot; kept as a cache beside the
table, so that a start reads what is new and not the table.

    open_index(store, snapshot) -> KeyIndex       the newest cache brought up to date, else built
    IndexReader(store, index).find(keys)          loads the parts that the keys' hashes need

Layers are immutable: the newest that has a key tells. A cache that is missing, damaged or of another history is not
used; losing one costs time only.

Spec: docs/spec/cross_partition.md#cache
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from bucketlake.errors import BucketlakeError, CorruptError, NotFoundError, StorageError
from bucketlake.file_names import number_of
from bucketlake.format.index.key_index import HASHES, KeyIndexFile, Layer, LayerFile, decode_key_index, encode_key_index
from bucketlake.format.metadata.snapshot import Snapshot
from bucketlake.format.numbers import is_among
from bucketlake.lsm.engines.rules import removing_kinds
from bucketlake.lsm.key_run import ABSENT, GONE, KeyIndex, KeyRun, Keys, Mask, Places
from bucketlake.ops.key_index.key_layers import LayerReader, write_layer_file
from bucketlake.ops.key_index.key_scan import (
    Delta,
    PlaceNumbers,
    delta_since,
    find_live,
    is_young,
    key_fields,
    key_splits,
    last_states,
    live_run,
    live_runs,
)
from bucketlake.ops.scan.scan import EntryFilter
from bucketlake.ops.table.entries import BucketKey
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.types.model import type_text
from bucketlake.values import dataclass

PASS_ROWS = 16 << 20  # keys held at a time while an index is built
FOLD_ROWS = 1 << 20  # and while its layers are folded
LAYERS = 8  # more are folded into one
RECENT_ROWS = 2_000  # changes that travel with an index rather than in a layer of their own
RECENT_COMMITS = 10
REBUILD_ROWS = 200_000  # so many new rows, if they are also more than the index has, are not worth catching up with
DEAD_MILLIS = 24 * 3600 * 1000  # a layer so old that no list has is nobody's
KEPT = 2  # generations whose files stay, for writers that still read them
Span = tuple[int, int]  # of hashes: low <= hash < high
Counts = npt.NDArray[np.int64]
Builder = Callable[[Store, Snapshot], KeyIndex]


@dataclass(slots=True)
class IndexReader:
    """Finds keys, reading of the index what they need, and keeping it. `numbers`: what the places found mean."""

    store: Store
    index: KeyIndex
    numbers: PlaceNumbers = field(default_factory=PlaceNumbers)
    _layers: list[LayerReader] = field(default_factory=list)  # newest first
    _rebuilt: list[tuple[Span, KeyRun]] = field(default_factory=list)  # what the table says, where the cache is lost

    def __post_init__(self) -> None:
        self.numbers = PlaceNumbers.of(self.index.file.places)
        self._layers = [LayerReader(self.store, layer) for layer in reversed(self.index.file.layers)]

    def find(self, keys: Keys) -> Places:
        """The place of each key, ABSENT where the index has none. Quickest for keys ascending by hash."""
        try:
            found = self._in_layers(keys)
        except (NotFoundError, CorruptError):
            found = self._in_table(keys)
        found[found == GONE] = ABSENT
        return found

    def _in_layers(self, keys: Keys) -> Places:
        found = np.full(len(keys), ABSENT, np.int32)
        if self.index.recent is not None:
            found = self.index.recent.find(keys)
        told = np.zeros(len(keys), np.bool_)
        for span, run in self._rebuilt:
            inside = keys.within(span)
            rows = np.flatnonzero(inside & ~told & (found == ABSENT))
            found[rows] = run.find(keys.take(rows))
            told |= inside
        for layer in self._layers:
            unknown = np.flatnonzero(~told & (found == ABSENT))
            if not len(unknown):
                break
            found[unknown] = layer.find(keys if len(unknown) == len(keys) else keys.take(unknown))
        return found

    def _in_table(self, keys: Keys) -> Places:
        """What the table says, in place of a cache that is lost: of all keys whose hashes are like these, for others
        that may follow, unless they are too many."""
        splits = key_splits(self.store, self.store.snapshot(self.index.snapshot))
        low, high = int(keys.hashes.min()), int(keys.hashes.max()) + 1
        if sum(split.row_count for split in splits) * (high - low) // HASHES > PASS_ROWS:
            codes, first = keys.distinct()
            return find_live(self.store, splits, keys.take(first), self.numbers)[codes]
        self._rebuilt.append(((low, high), live_run(self.store, splits, self.numbers, (low, high))))
        return self._in_layers(keys)


# ---- opening


def open_index(store: Store, snapshot: Snapshot, builder: Builder | None = None) -> KeyIndex | None:
    """The index as of a snapshot: the cache, brought up to date, else built anew, by `builder` where one is given; None
    where it cannot be stored."""
    found = cached_index(store, snapshot)
    if found is not None:
        return found
    try:
        return _published(store, (builder or build)(store, snapshot))
    except StorageError:
        return None


def cached_index(store: Store, snapshot: Snapshot) -> KeyIndex | None:
    """The index as of a snapshot from the newest cache and what was committed since; None without a usable cache."""
    try:
        cached = _newest(store, snapshot)
        return None if cached is None else _caught_up(store, cached, snapshot)
    except (NotFoundError, CorruptError, StorageError):
        return None


def _newest(store: Store, snapshot: Snapshot) -> KeyIndex | None:
    now, ttl = store.env.clock.now_millis(), lifetime(store)
    for number, name in _lists(store)[::-1]:
        path = store.paths.key_index(name)
        if number > snapshot.id:
            continue
        try:
            file = decode_key_index(store.env.storage.read(path), path)
        except (NotFoundError, CorruptError):
            continue
        step = snapshot if file.snapshot == snapshot.id else store.find_snapshot(file.snapshot)
        if step is None or step.delta_manifest_list != file.mark or file.facts != facts(store):
            continue
        bounded = file.since is None if ttl is None else now <= file.built + ttl
        return KeyIndex(file) if bounded else None
    return None


def _lists(store: Store) -> list[tuple[int, str]]:
    """The list files there are: snapshot and name, ascending."""
    names = [info.name for info in store.env.storage.list(store.paths.key_index_dir)]
    found = [(name.split("-"), name) for name in names if name.startswith("index-") and name.endswith(".json")]
    numbers = [(number_of(parts[1]), name) for parts, name in found]
    return sorted((number, name) for number, name in numbers if number is not None)


def facts(store: Store) -> str:
    """What of a table's schema decides its keys and places."""
    keys = " ".join(f"{item.name} {type_text(item.type)}" for item in key_fields(store))
    return f"{keys} | {' '.join(store.schema.partition_keys)}"


def lifetime(store: Store) -> int | None:
    """`cross-partition-upsert.index-ttl` in milliseconds."""
    ttl: int | None = store.options.get("cross-partition-upsert.index-ttl")
    return ttl


# ---- building


@dataclass(frozen=True, slots=True)
class Building:
    """What an index of a snapshot is built from: splits with the numbers of their places. `since`: with `index-ttl`,
    splits of which every file is older are left out."""

    snapshot: Snapshot
    built: int
    since: int | None
    splits: tuple[Split, ...]
    numbers: PlaceNumbers

    @property
    def rows(self) -> int:
        """Rows to read."""
        return sum(split.row_count for split in self.splits)

    def index(self, store: Store, counts: Counts, files: Iterable[LayerFile]) -> KeyIndex:
        """The index of these files. `counts`: keys by number of place."""
        layer = Layer(tuple(sorted(files, key=lambda file: file.low)))
        head = facts(store), self.snapshot.id, self.snapshot.delta_manifest_list, self.built, self.since
        return KeyIndex(KeyIndexFile(*head, tuple(self.numbers.places), tuple(counts.tolist()), (layer,)))


def building(store: Store, snapshot: Snapshot) -> Building:
    """What an index of a snapshot is to be built from."""
    now, ttl = store.env.clock.now_millis(), lifetime(store)
    since = None if ttl is None else now - ttl
    splits = [split for split in key_splits(store, snapshot) if since is None or is_young(split, since)]
    numbers = PlaceNumbers()
    for split in splits:
        numbers.number((split.partition, split.bucket))
    return Building(snapshot, now, since, tuple(splits), numbers)


def build(store: Store, snapshot: Snapshot) -> KeyIndex:
    """Read the keys of all live rows (with `index-ttl`: of files not older) into a new layer; some shares of the hashes
    at a time, so that memory stays bounded."""
    work = building(store, snapshot)
    counts = np.zeros(len(work.numbers.places), np.int64)

    def runs() -> Iterator[KeyRun]:
        spans = shares(-(-work.rows // PASS_ROWS))
        for span in spans:
            for run in live_runs(store, work.splits, work.numbers, span if len(spans) > 1 else None):
                counts[:] += np.bincount(run.places, minlength=len(counts))
                yield run

    return work.index(store, counts, [write_layer_file(store, runs())])


def shares(count: int) -> list[Span]:
    """All hashes in so many ranges (at least one) of one size, ascending."""
    edges = [HASHES * number // max(count, 1) for number in range(max(count, 1) + 1)]
    return list(pairwise(edges))


# ---- catching up


def _caught_up(store: Store, index: KeyIndex, snapshot: Snapshot) -> KeyIndex | None:
    """The index as of a later snapshot, None where building it costs less; large changes are published."""
    if index.snapshot == snapshot.id:
        return index
    delta = delta_since(store, index.snapshot, snapshot)
    if delta is None or delta.rows > max(REBUILD_ROWS, sum(index.file.counts)):
        return None
    moved = _moved(store, index, delta, snapshot)
    file = replace(moved.file, snapshot=snapshot.id, mark=snapshot.delta_manifest_list)
    if moved.cleared:
        drop = np.isin(np.arange(len(file.places)), moved.cleared)
        return _published(store, _folded(store, KeyIndex(file, moved.changes), drop))
    if len(moved.changes) <= RECENT_ROWS and delta.commits <= RECENT_COMMITS:
        return KeyIndex(file, moved.changes)
    upper = sum(layer.rows for layer in file.layers[1:]) + len(moved.changes)
    if len(file.layers) >= LAYERS or 2 * upper > file.layers[0].rows:
        return _published(store, _folded(store, KeyIndex(file, moved.changes), np.zeros(len(file.places), np.bool_)))
    layer = Layer((write_layer_file(store, [moved.changes]),))
    return _published(store, KeyIndex(replace(file, layers=(*file.layers, layer))))


@dataclass(frozen=True, slots=True)
class _Moved:
    """What a delta changes: the list with its places and counts, the keys that lie elsewhere, the places emptied."""

    file: KeyIndexFile
    changes: KeyRun
    cleared: list[int]


def _moved(store: Store, index: KeyIndex, delta: Delta, snapshot: Snapshot) -> _Moved:
    reader = IndexReader(store, index)
    numbers = reader.numbers
    parts = [(Keys.none(key_fields(store)), np.zeros(0, np.int32), np.zeros(0, np.bool_))]
    removes = partial(np.isin, test_elements=removing_kinds(store.options))
    for place, files in delta.added.items():
        if place not in delta.cleared:
            keys, alive = last_states(store, place, files, removes, delta.committed)
            parts.append((keys, np.full(len(keys), numbers.number(place), np.int32), alive))
    cleared = sorted(numbers.number(place) for place in delta.cleared)
    if cleared:
        run = live_run(store, _splits_of(store, snapshot, delta.cleared), numbers)
        parts.append((run.keys, run.places, np.ones(len(run), np.bool_)))
    keys = Keys.all_of([part[0] for part in parts])
    places, alive = np.concatenate([part[1] for part in parts]), np.concatenate([part[2] for part in parts])
    codes, first = keys.distinct()
    known = keys.take(first)
    old = reader.find(known)
    if cleared:
        old[is_among(old, np.array(cleared, old.dtype))] = ABSENT
    new = old.copy()
    gone = ~alive & (places == old[codes])
    new[codes[gone]] = GONE
    new[codes[alive]] = places[alive]
    counts = np.zeros(len(numbers.places), np.int64)
    counts[: len(index.file.counts)] = index.file.counts
    counts[cleared] = 0
    changed = new != old
    np.subtract.at(counts, old[changed & (old >= 0)], 1)
    np.add.at(counts, new[changed & (new >= 0)], 1)
    file = replace(index.file, places=tuple(numbers.places), counts=tuple(counts.tolist()))
    return _Moved(file, KeyRun.of(known.take(changed), new[changed]), cleared)


def _splits_of(store: Store, snapshot: Snapshot, places: set[BucketKey]) -> list[Split]:
    wanted = EntryFilter(partitions=frozenset(partition for partition, _ in places))
    splits = key_splits(store, snapshot, wanted=wanted)
    return [split for split in splits if (split.partition, split.bucket) in places]


def _folded(store: Store, index: KeyIndex, drop: Mask) -> KeyIndex:
    """All layers as one, without keys that lie nowhere, or lay in a place to drop and were not put anywhere since."""
    file, recent = index.file, index.recent
    assert recent is not None
    readers = [LayerReader(store, layer) for layer in reversed(file.layers)]
    rows = sum(layer.rows for layer in file.layers)

    def runs() -> Iterator[KeyRun]:
        for low, high in shares(-(-rows // FOLD_ROWS)):
            old = KeyRun.newest([reader.span(low, high) for reader in readers])
            old = old.take((old.places >= 0) & ~drop[np.maximum(old.places, 0)])
            run = KeyRun.newest([recent.span(low, high), old])
            alive = run.places >= 0
            yield run if alive.all() else run.take(alive)

    return KeyIndex(replace(file, layers=(Layer((write_layer_file(store, runs()),)),)))


# ---- files


def _published(store: Store, index: KeyIndex) -> KeyIndex:
    """Put the list of an index where the next writer finds it, and remove those that it makes needless; best effort."""
    storage, paths = store.env.storage, store.paths
    with suppress(BucketlakeError):
        name = paths.new_key_index(store.env, index.snapshot)
        storage.write(paths.key_index(name), encode_key_index(index.file))
        _clean(store, storage.delete)
    return index


def _clean(store: Store, delete: Callable[[str], None]) -> None:
    """Remove all but the newest lists, the layers that only those had, and old layers that none has: their writers
    died before they listed them."""
    used: set[str] = set()
    gone: set[str] = set()
    for place, (_, name) in enumerate(reversed(_lists(store))):
        path = store.paths.key_index(name)
        try:
            file = decode_key_index(store.env.storage.read(path), path)
            layers = {part.name for layer in file.layers for part in layer.files}
        except (CorruptError, NotFoundError):
            layers = set()
        if place < KEPT:
            used |= layers
        else:
            gone |= layers | {name}
    dead = store.env.clock.now_millis() - DEAD_MILLIS
    for info in store.env.storage.list(store.paths.key_index_dir):
        if info.name.startswith("layer-") and 0 < info.modified_millis < dead:
            gone.add(info.name)
    for name in gone - used:
        delete(store.paths.key_index(name))
