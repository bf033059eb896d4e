"""Decoded parts of data files, in bounded memory, and the rows of some keys in them.

A data file never changes: what is decoded of it is right for as long as a snapshot has the file.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from bucketlake.format.metadata.manifest import DataFile
from bucketlake.lazy import pc
from bucketlake.ops.rows.among import encoded
from bucketlake.ops.rows.deletions import Mask
from bucketlake.ops.rows.keyed_files import KeyedFiles, Ranged
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.paths import POSTPONE_BUCKET
from bucketlake.types.model import DataField

Parts = tuple[pa.RecordBatch, ...]


class PartCache:
    """Decoded parts, the least recently used out first. `capacity` in bytes: never held more."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.bytes = capacity, 0
        self._items: OrderedDict[tuple[Any, ...], tuple[int, Parts]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[Any, ...]) -> Parts | None:
        """What is held under a key, whose first item is a path."""
        with self._lock:
            found = self._items.get(key)
            if found is None:
                return None
            self._items.move_to_end(key)
            return found[1]

    def put(self, key: tuple[Any, ...], value: Parts) -> None:
        """Hold a part, unless it alone is too large."""
        size = sum(batch.nbytes for batch in value)
        if size > self.capacity:
            return
        with self._lock:
            old = self._items.pop(key, None)
            self.bytes += size - (old[0] if old is not None else 0)
            self._items[key] = (size, value)
            while self.bytes > self.capacity:
                self.bytes -= self._items.popitem(last=False)[1][0]

    def keep(self, paths: Collection[str]) -> None:
        """Forget what is of other files than these."""
        with self._lock:
            for key in [key for key in self._items if key[0] not in paths]:
                self.bytes -= self._items.pop(key)[0]

    def __len__(self) -> int:
        return len(self._items)


class AskedKeys:
    """Of every file the rows of some keys of one bucket; see `ops.rows.split_files.KeyFilter`.

    `keys`: the table's key columns, ascending, all different.
    """

    def __init__(self, store: Store, keys: pa.RecordBatch, files: KeyedFiles, cache: PartCache) -> None:
        self._store, self.keys, self._files, self._cache = store, keys, files, cache
        self._view = files.order.view(keys)
        self._encoded: pa.Array | None = None

    def meets(self, found: Sequence[Ranged]) -> bool:
        """Whether some key lies within the key range of one of the files."""
        return any(start < stop for start, stop in map(self._span, found))

    def rows(
        self, split: Split, file: DataFile, fields: Sequence[DataField], gone: Mask | None
    ) -> Iterator[pa.RecordBatch]:
        """See KeyFilter."""
        if split.bucket == POSTPONE_BUCKET or (self._store.schema.clustered and file.level > 0):
            yield from self._unordered(split, file, fields, gone)
            return
        start, stop = self._span(self._files.bounds([file])[0])
        if start == stop:
            return
        _, positions = self._files.match(file, self.keys.slice(start, stop - start), self._view, start, gone)
        if len(positions):
            yield self._files.rows(file, positions, fields, self._whole if self._cache.capacity else None)

    def _span(self, found: Ranged) -> tuple[int, int]:
        start = bisect_left(range(self._view.rows), found.low, key=self._view.at)
        return start, self._view.upper(found.high, start)

    def _whole(self, file: DataFile, part: int, fields: Sequence[DataField]) -> Iterable[pa.RecordBatch]:
        key = (self._files.path(file), part, self._store.schema.id, tuple(item.name for item in fields))
        found = self._cache.get(key)
        if found is None:
            found = tuple(self._files.read(file, part, fields))
            self._cache.put(key, found)
        return found

    def _unordered(
        self, split: Split, file: DataFile, fields: Sequence[DataField], gone: Mask | None
    ) -> Iterator[pa.RecordBatch]:
        """Rows of a file that is in no order of keys: those whose key is asked for, and its key columns first."""
        if self._encoded is None:
            self._encoded = self._values(self.keys)
        files = KeyedFiles(self._store, split.bucket_path)
        keys = self._store.schema.key_fields
        wanted = [*fields, *(item for item in keys if item not in fields)]
        for part in files.parts(file):
            first = part.start
            for batch in files.read(file, part.number, wanted):
                asked = pc.is_in(self._values(batch), self._encoded)
                if gone is not None:
                    asked = pc.and_(asked, pa.array(~gone[first : first + batch.num_rows]))
                first += batch.num_rows
                rows = batch.filter(asked)
                if rows.num_rows:
                    yield rows.select([item.name for item in fields])

    def _values(self, rows: pa.RecordBatch) -> pa.Array:
        return encoded([rows.column(f.name) for f in self._store.schema.key_fields], self._store.schema.key_fields)
