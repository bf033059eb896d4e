"""Rows looked up in a table by its keys, many at once.

    lookup = lookup_of(store, request)        one a process for a table and a request: its cache is warm
    lookup.find(rows)                         the rows with columns of the table behind their own

Every call is about one snapshot, the newest then unless `scan.*` options name one. The files of the buckets in which
asked keys may lie are looked into by their sorted keys; what they have of a key is merged as a read merges it. Decoded
parts of files stay in a bounded cache, less those of files that the newest snapshot does not have.

Spec: docs/streaming.md#look-up-rows
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import InvalidError
from bucketlake.lazy import pc
from bucketlake.ops.lookup.asked import Place, keys_by_place
from bucketlake.ops.lookup.parts import AskedKeys, PartCache
from bucketlake.ops.lookup.request import LookupRequest
from bucketlake.ops.rows.among import encoded
from bucketlake.ops.rows.read import read_keys, read_split
from bucketlake.ops.scan.chain import refuse_stream
from bucketlake.ops.scan.fallback import plan_branches
from bucketlake.ops.scan.scan import Plan, Scan
from bucketlake.ops.scan.select import Selection, select_snapshot
from bucketlake.ops.table.decoded import identity
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.parallel import parallel
from bucketlake.ops.table.store import Store
from bucketlake.predicate.tree import In, Predicate, conjunction
from bucketlake.types.arrow import whole
from bucketlake.types.model import DataField, arrow_schema, canonical_batch
from bucketlake.values import dataclass

Codes = npt.NDArray[np.int64]
KEPT_LOOKUPS = 16  # of a process
FEW_VALUES = 1000  # of a column, by which files are left out


@dataclass(slots=True)
class _State:
    """The snapshot that was looked into last (0: none), and its splits by partition."""

    snapshot: int = -1
    places: dict[bytes, list[Place]] = field(default_factory=dict)


class Lookup:
    """Looks rows of one table up. Safe for several threads."""

    def __init__(self, store: Store, request: LookupRequest) -> None:
        self._store, self.request = store, request
        self._state, self._lock = _State(), threading.Lock()
        self.cache = PartCache(request.cache_bytes)
        keys = store.schema.select([column for _, column in request.on])
        self._keys = tuple(DataField(f.id, f.name, f.type.with_nullable(True)) for f in keys)
        wanted = dict.fromkeys([*(f.name for f in keys), *request.columns])
        self._names = list(wanted)

    @property
    def snapshot(self) -> int:
        """The snapshot that was looked into last; 0 for none."""
        return max(self._state.snapshot, 0)

    def find(self, rows: pa.Table) -> pa.Table:
        """The rows in their order, with the request's columns of the table behind theirs. Keys with nulls find nothing.

        Errors: InvalidError for columns that are missing, taken or of values that are none of the key's.
        """
        target = self.request.result(self._store.schema, rows.schema)
        asked = self._asked(rows)
        valid = np.ones(asked.num_rows, np.bool_)
        for column in asked.columns:
            valid &= column.is_valid().to_numpy(zero_copy_only=False)
        known = asked.filter(pa.array(valid)) if not valid.all() else asked
        values = encoded(known.columns, self._keys)
        distinct = values.unique()
        codes = np.full(asked.num_rows, -1, np.int64)
        codes[valid] = pc.index_in(values, distinct).to_numpy(zero_copy_only=False)
        first = np.empty(len(distinct), np.int64)
        given = codes[valid]
        first[given[::-1]] = np.arange(len(given) - 1, -1, -1)
        found = self._found(known.take(pa.array(first)), distinct)
        theirs = pc.index_in(self._values_of(found), distinct)
        left, right = _paired(codes, theirs.to_numpy(zero_copy_only=False), len(distinct), self.request.how == "left")
        own = rows.take(pa.array(left)) if not _is_all(left, rows.num_rows) else rows
        added = found.select(list(self.request.columns)).take(pa.array(right, mask=right < 0))
        columns = [*own.columns, *added.columns]
        return pa.Table.from_arrays(columns, schema=target) if columns else own

    def _asked(self, rows: pa.Table) -> pa.RecordBatch:
        """The columns looked up by, under the table's names and in its layout."""
        columns = [whole(rows.column(given)) for given, _ in self.request.on]
        batch = pa.RecordBatch.from_arrays(columns, names=[item.name for item in self._keys])
        return canonical_batch(batch, self._keys)

    def _values_of(self, found: pa.Table) -> pa.Array:
        return encoded([whole(found.column(item.name)) for item in self._keys], self._keys)

    # ---- rows of the table

    def _found(self, keys: pa.RecordBatch, values: pa.Array) -> pa.Table:
        """All rows of the table that have one of these distinct keys."""
        schema = arrow_schema(self._store.schema.select(self._names))
        if not keys.num_rows:
            return schema.empty_table()
        batches = self._scanned(keys, values) if self.request.scan else self._by_key(keys)
        return pa.Table.from_batches(batches, schema)

    def _scanned(self, keys: pa.RecordBatch, values: pa.Array) -> list[pa.RecordBatch]:
        where = conjunction(_one_of(item.name, keys.column(item.name)) for item in self._keys)
        planned = self._plan(where, select_snapshot(self._store))

        def read(place: tuple[Store, Split]) -> list[pa.RecordBatch]:
            found = []
            for batch in read_split(place[0], place[1], self._names, where):
                columns = [batch.column(item.name) for item in self._keys]
                mask = pc.is_in(encoded(columns, self._keys), values)
                for column in columns:
                    mask = pc.and_(mask, column.is_valid())
                found.append(batch.filter(mask))
            return found

        return [batch for part in parallel(read, planned.splits_of(self._store)) for batch in part]

    def _plan(self, where: Predicate | None, selection: Selection) -> Plan:
        refuse_stream(self._store, "lookups in a chain table")
        return plan_branches(self._store, Scan(where, selection))

    def _by_key(self, keys: pa.RecordBatch) -> list[pa.RecordBatch]:
        places = self._places()
        asked = list(keys_by_place(self._store, places, keys, self.cache))

        def read(found: tuple[Place, AskedKeys]) -> list[pa.RecordBatch]:
            place, only = found
            return list(read_keys(place.store, place.split, self._names, only))

        return [batch for part in parallel(read, asked) for batch in part]

    def _places(self) -> dict[bytes, list[Place]]:
        """The splits of the snapshot that is looked into now."""
        with self._lock:
            selection = select_snapshot(self._store)
            if selection.span is not None:
                raise InvalidError("a lookup is in one snapshot", remedy="leave the incremental-* options out")
            number = 0 if selection.snapshot is None else selection.snapshot.id
            if number == self._state.snapshot:
                return self._state.places
            planned = self._plan(None, selection)
            places: dict[bytes, list[Place]] = {}
            live: set[str] = set()
            for store, split in planned.splits_of(self._store):
                places.setdefault(split.partition, []).append(Place.of(store, split))
                for part in (split, *split.parts):
                    live.update(store.paths.file_path(part.bucket_path, file) for file in part.files)
            self.cache.keep(live)
            self._state = _State(number, places)
            return places


def _one_of(column: str, values: pa.Array) -> Predicate | None:
    """A condition that leaves files out; None where there are too many values for one."""
    distinct = values.unique()
    return In(column, tuple(distinct.to_pylist())) if len(distinct) <= FEW_VALUES else None


def _paired(ours: Codes, theirs: Codes, count: int, left: bool) -> tuple[Codes, Codes]:
    """Which of our rows meets which of theirs, ours in order, -1 for none; `ours`: -1 where a row has no key."""
    order = np.argsort(theirs, kind="stable")
    counts = np.bincount(theirs, minlength=count)
    starts = np.concatenate(([0], np.cumsum(counts)))
    hits = np.where(ours >= 0, counts[ours] if count else 0, 0)
    times = np.maximum(hits, 1) if left else hits
    rows = np.repeat(np.arange(len(ours)), times)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    none = hits[rows] == 0
    places = np.where(none, 0, starts[np.maximum(ours[rows], 0)] + within)
    return rows, np.where(none, -1, order[places] if len(order) else -1)


def _is_all(rows: Codes, count: int) -> bool:
    return len(rows) == count and (count == 0 or bool((np.diff(rows) == 1).all()))


# ---------------------------------------------------------------------------------------------- one a process


_LOOKUPS: OrderedDict[Hashable, Lookup] = OrderedDict()
_LOCK = threading.Lock()


def lookup_of(store: Store, request: LookupRequest) -> Lookup:
    """The lookup of this process for a table and a request: made at the first call."""
    options = tuple(sorted(store.options.raw.items()))
    schema = store.schema  # another table may lie where one was dropped: its first schema has the same number
    which = (schema.id, schema.time_millis, schema.fields)
    key = (identity(store.env.storage), store.paths.root, which, options, request)
    with _LOCK:
        found = _LOOKUPS.get(key)
        if found is None:
            found = _LOOKUPS[key] = Lookup(store, request)
            while len(_LOOKUPS) > KEPT_LOOKUPS:
                _LOOKUPS.popitem(last=False)
        _LOOKUPS.move_to_end(key)
        return found
