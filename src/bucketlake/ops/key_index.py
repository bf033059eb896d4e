"""The key index of a cross-partition table: where every live key lies, as of a snapshot; kept as a cache beside the
table, so that a start reads what is new and not the table.

    open_index(store, snapshot) -> KeyIndex       the newest cache brought up to date, else built
    IndexReader(store, index).find(keys)          loads the parts that the keys' hashes need

Layers are immutable: the newest that has a key tells. A cache that is missing, damaged or of another history is not
used; losing one costs time only.

Spec: docs/spec/cross_partition.md#cache
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise
from zlib import crc32

import numpy as np
import pyarrow as pa

from bucketlake.errors import BucketlakeError, CorruptError, NotFoundError, StorageError
from bucketlake.format.key_index import (
    PARTS,
    KeyIndexFile,
    Layer,
    Part,
    decode_key_index,
    decode_part,
    encode_key_index,
    encode_part,
    part_schema,
)
from bucketlake.format.snapshot import Snapshot
from bucketlake.lsm.rules import removing_kinds
from bucketlake.ops.entries import BucketKey
from bucketlake.ops.key_run import ABSENT, GONE, KeyIndex, KeyRun, Keys, Mask, Places
from bucketlake.ops.key_scan import (
    Delta,
    PlaceNumbers,
    delta_since,
    is_young,
    key_fields,
    key_splits,
    last_states,
    live_run,
)
from bucketlake.ops.messages import Split
from bucketlake.ops.scan import EntryFilter
from bucketlake.ops.store import Store
from bucketlake.types import type_text

PASS_ROWS = 16 << 20  # keys held at a time while an index is built or folded
LAYERS = 8  # more are folded into one
RECENT_ROWS = 2_000  # changes that travel with an index rather than in a layer of their own
RECENT_COMMITS = 10
REBUILD_ROWS = 200_000  # so many new rows, if they are also more than the index has, are not worth catching up with
KEPT = 2  # generations whose files stay, for writers that still read them
_BITS = 24  # of a hash, below the byte that names its part
Spans = list[tuple[int, int]]


@dataclass(slots=True)
class IndexReader:
    """Finds keys, loading parts of the index as they are needed. `numbers`: what the places found mean."""

    store: Store
    index: KeyIndex
    numbers: PlaceNumbers = field(default_factory=PlaceNumbers)
    _loaded: set[int] = field(default_factory=set)
    _runs: list[list[KeyRun]] = field(default_factory=list)  # by layer, newest first

    def __post_init__(self) -> None:
        self.numbers = PlaceNumbers.of(self.index.file.places)
        self._runs = [[] for _ in self.index.file.layers]

    def find(self, keys: Keys) -> Places:
        """The place of each key, ABSENT where the index has none. Quickest for keys ascending by hash."""
        self._load(np.unique(keys.hashes >> _BITS).tolist())
        found = np.full(len(keys), ABSENT, np.int32)
        recent = [self.index.recent] if self.index.recent is not None else []
        for run in [*recent, *(run for runs in self._runs for run in runs)]:
            unknown = np.flatnonzero(found == ABSENT)
            found[unknown] = run.find(keys.take(unknown))
        found[found == GONE] = ABSENT
        return found

    def _load(self, wanted: Sequence[int]) -> None:
        missing = sorted(set(wanted) - self._loaded)
        if len(missing) > PARTS // 8:  # most of a share: one read is quicker than many
            missing = [part for part in range(missing[0], missing[-1] + 1) if part not in self._loaded]
        for low, high in _stretches(missing):
            try:
                runs = [read_layer(self.store, layer, low, high) for layer in reversed(self.index.file.layers)]
            except (NotFoundError, CorruptError):
                runs = [self._rebuilt(low, high), *([] for _ in self._runs[1:])]
            for known, found in zip(self._runs, runs, strict=True):
                known += found
            self._loaded.update(range(low, high))

    def _rebuilt(self, low: int, high: int) -> list[KeyRun]:
        """The keys of some parts as the table has them, in place of a cache that is lost."""
        snapshot = self.store.snapshot(self.index.snapshot)
        return [live_run(self.store, key_splits(self.store, snapshot), self.numbers, (low << _BITS, high << _BITS))]


# ---- opening


def open_index(store: Store, snapshot: Snapshot) -> KeyIndex | None:
    """The index as of a snapshot: the cache, brought up to date, else built anew; None where it cannot be stored."""
    found = cached_index(store, snapshot)
    if found is not None:
        return found
    try:
        return _published(store, build(store, snapshot))
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
    return sorted((int(parts[1]), name) for parts, name in found if parts[1].isdigit())


def facts(store: Store) -> str:
    """What of a table's schema decides its keys and places."""
    keys = " ".join(f"{item.name} {type_text(item.type)}" for item in key_fields(store))
    return f"{keys} | {' '.join(store.schema.partition_keys)}"


def lifetime(store: Store) -> int | None:
    """`cross-partition-upsert.index-ttl` in milliseconds."""
    ttl: int | None = store.options.get("cross-partition-upsert.index-ttl")
    return ttl


# ---- building


def build(store: Store, snapshot: Snapshot) -> KeyIndex:
    """Read the keys of all live rows (with `index-ttl`: of files not older) into a new layer; some shares of the hashes
    at a time, so that memory stays bounded."""
    now, ttl = store.env.clock.now_millis(), lifetime(store)
    since = None if ttl is None else now - ttl
    splits = [split for split in key_splits(store, snapshot) if since is None or is_young(split, since)]
    numbers = PlaceNumbers()
    counts = np.zeros(len({(split.partition, split.bucket) for split in splits}), np.int64)
    rows = sum(split.row_count for split in splits)

    def runs() -> Iterator[tuple[int, int, KeyRun]]:
        for low, high in _passes([rows // PARTS + 1] * PARTS):
            run = live_run(store, splits, numbers, None if high - low == PARTS else (low << _BITS, high << _BITS))
            counts[:] += np.bincount(run.places, minlength=len(counts))
            yield low, high, run

    layer = write_layer(store, runs())
    places = (*numbers.places,)
    file = KeyIndexFile(
        facts(store),
        snapshot.id,
        snapshot.delta_manifest_list,
        now,
        since,
        places,
        tuple(counts[: len(places)].tolist()),
        (layer,),
    )
    return KeyIndex(file)


def _passes(rows: Sequence[int]) -> Spans:
    """Consecutive parts together, up to PASS_ROWS keys."""
    spans: Spans = []
    filled = 0
    for part, count in enumerate(rows):
        if not spans or filled + count > PASS_ROWS:
            spans.append((part, part + 1))
            filled = count
        else:
            spans[-1] = (spans[-1][0], part + 1)
            filled += count
    return spans


def _stretches(parts: Sequence[int]) -> Spans:
    """Ascending numbers as half-open ranges."""
    spans: Spans = []
    for part in parts:
        if spans and spans[-1][1] == part:
            spans[-1] = (spans[-1][0], part + 1)
        else:
            spans.append((part, part + 1))
    return spans


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
    layer = write_layer(store, [(0, PARTS, moved.changes)])
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
            keys, alive = last_states(store, place, files, removes)
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
        old[np.isin(old, cleared)] = ABSENT
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
    rows = [sum(layer.parts[part].rows for layer in file.layers) for part in range(PARTS)]

    def runs() -> Iterator[tuple[int, int, KeyRun]]:
        for low, high in _passes(rows):
            found = [run for layer in reversed(file.layers) for run in read_layer(store, layer, low, high)]
            old = KeyRun.newest(found)
            kept = (old.places >= 0) & ~drop[np.maximum(old.places, 0)]
            start, stop = np.searchsorted(recent.keys.hashes.astype(np.int64), [low << _BITS, high << _BITS]).tolist()
            news = KeyRun(recent.keys.part(start, stop), recent.places[start:stop])
            run = KeyRun.newest([news, KeyRun(old.keys.take(kept), old.places[kept])])
            alive = run.places >= 0
            yield low, high, run if alive.all() else KeyRun(run.keys.take(alive), run.places[alive])

    return KeyIndex(replace(file, layers=(write_layer(store, runs()),)))


# ---- files


def write_layer(store: Store, runs: Iterable[tuple[int, int, KeyRun]]) -> Layer:
    """Write a layer: runs of consecutive ranges of parts, ascending and complete. Nothing is left on an error."""
    name = store.paths.new_key_layer(store.env)
    path = store.paths.key_index(name)
    parts: list[Part] = []
    out = store.env.storage.open_output(path)
    try:
        with out:
            for low, high, run in runs:
                for batch in _parts(run, low, high):
                    data = encode_part(batch)
                    offset = parts[-1].offset + parts[-1].length if parts else 0
                    parts.append(Part(offset, len(data), crc32(data), batch.num_rows))
                    out.write(data)
    except BaseException:
        with suppress(BucketlakeError):
            store.env.storage.delete(path)
        raise
    return Layer(name, tuple(parts))


def _parts(run: KeyRun, low: int, high: int) -> Iterator[pa.RecordBatch]:
    bounds = np.searchsorted(run.keys.hashes.astype(np.int64), np.arange(low, high + 1) << _BITS).tolist()
    columns = [pa.array(run.keys.hashes), pa.array(run.places, pa.int32()), run.keys.values]
    whole = pa.RecordBatch.from_arrays(columns, schema=part_schema(run.keys.values.type))
    for start, stop in pairwise(bounds):
        yield whole.slice(start, stop - start)


def read_layer(store: Store, layer: Layer, low: int, high: int) -> list[KeyRun]:
    """The keys of some parts of a layer, as one run. NotFoundError, CorruptError."""
    kind = Keys.none(key_fields(store)).values.type
    parts, path = layer.parts[low:high], store.paths.key_index(layer.name)
    data = memoryview(store.env.storage.read(path, parts[0].offset, sum(part.length for part in parts)))
    ends = list(accumulate((part.length for part in parts), initial=0))
    batches = [
        decode_part(data[start : start + part.length], part, kind, path)
        for start, part in zip(ends, parts, strict=False)
    ]
    keys = [Keys(batch.column(0).to_numpy(), batch.column(2)) for batch in batches]
    return [KeyRun(Keys.all_of(keys), np.concatenate([batch.column(1).to_numpy() for batch in batches]))]


def _published(store: Store, index: KeyIndex) -> KeyIndex:
    """Put the list of an index where the next writer finds it, and remove those that it makes needless; best effort."""
    storage, paths = store.env.storage, store.paths
    with suppress(BucketlakeError):
        name = paths.new_key_index(store.env, index.snapshot)
        storage.write(paths.key_index(name), encode_key_index(index.file))
        _clean(store, storage.delete)
    return index


def _clean(store: Store, delete: Callable[[str], None]) -> None:
    """Remove all but the newest lists, and the layers that only those had."""
    lists = _lists(store)
    used: set[str] = set()
    gone: set[str] = set()
    for place, (_, name) in enumerate(reversed(lists)):
        path = store.paths.key_index(name)
        try:
            layers = {layer.name for layer in decode_key_index(store.env.storage.read(path), path).layers}
        except (CorruptError, NotFoundError):
            layers = set()
        if place < KEPT:
            used |= layers
        else:
            gone |= layers | {name}
    for name in gone - used:
        delete(store.paths.key_index(name))
