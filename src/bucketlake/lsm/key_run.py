"""Keys and where they lie: exact lookups in arrays sorted by hash.

    Keys       hashes (uint32) | values: int64 for a key of one whole number, else the bytes of its BinaryRow
    KeyRun     keys ascending by hash | the number of each key's place

A hash only narrows a lookup; the value decides. Numbers of places are the caller's.

Spec: docs/spec/cross_partition.md#keys
"""

from __future__ import annotations

from collections.abc import Sequence

from bucketlake.format.index.key_index import KeyIndexFile
from bucketlake.format.row.binary_row import encode_rows
from bucketlake.format.row.hashing import hash_rows
from bucketlake.lazy import np, npt, pa, pc
from bucketlake.lsm.words import integers_of
from bucketlake.types.model import DataField, Root
from bucketlake.values import dataclass

Places = npt.NDArray["np.int32"]
Rows = npt.NDArray["np.int64"]
Mask = npt.NDArray["np.bool_"]
KeyHashes = npt.NDArray["np.uint32"]
ABSENT, GONE = -1, -2  # not known; known to lie nowhere
WHOLE = {Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.DATE, Root.TIME}
LARGE_RUN = 1 << 22  # keys


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Primary keys, in any order. `hashes`: of their BinaryRows, plus 2^31; `values`: what tells keys apart."""

    hashes: KeyHashes
    values: pa.Array

    @classmethod
    def of(cls, batch: pa.RecordBatch, fields: Sequence[DataField]) -> Keys:
        """The keys of canonical rows; `fields`: the whole primary key, found by name."""
        columns = [batch.column(item.name) for item in fields]
        rows = encode_rows(columns, [item.type for item in fields])
        hashes = hash_rows(rows).view(np.uint32) ^ np.uint32(1 << 31)
        if is_whole(fields):
            return cls(hashes, pa.array(integers_of(columns[0]).astype(np.int64, copy=False)))
        parts = [None, pa.py_buffer(rows.offsets), pa.py_buffer(rows.buffer)]
        return cls(hashes, pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(rows), parts))

    @classmethod
    def none(cls, fields: Sequence[DataField]) -> Keys:
        """No keys, of the kind that a primary key has."""
        return cls(np.zeros(0, np.uint32), pa.array([], pa.int64() if is_whole(fields) else pa.large_binary()))

    @classmethod
    def all_of(cls, parts: Sequence[Keys]) -> Keys:
        """Several (at least one) one after the other."""
        if len(parts) == 1:
            return parts[0]
        values = pa.concat_arrays([part.values for part in parts])
        return cls(np.concatenate([part.hashes for part in parts]), values)

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, rows: Rows | Mask) -> Keys:
        """Some of them, by position, or by a mask."""
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return Keys(self.hashes[chosen], self.values.take(pa.array(chosen)))

    def part(self, start: int, stop: int) -> Keys:
        """A slice, without a copy."""
        return Keys(self.hashes[start:stop], self.values.slice(start, stop - start))

    def within(self, span: tuple[int, int]) -> Mask:
        """Which have low <= hash < high."""
        return np.asarray((self.hashes >= np.uint32(span[0])) & (self.hashes <= np.uint32(span[1] - 1)))

    def same(self, rows: Rows, other: Keys, others: Rows) -> Mask:
        """Whether key `rows[i]` equals key `others[i]` of the other."""
        if pa.types.is_int64(self.values.type):
            left, right = _numbers(self.values), _numbers(other.values)
            return np.asarray(left[rows] == right[others], np.bool_)
        equal = pc.equal(self.values.take(pa.array(rows)), other.values.take(pa.array(others)))
        return np.asarray(equal.to_numpy(zero_copy_only=False), np.bool_)

    def distinct(self) -> tuple[Rows, Rows]:
        """(codes, first): which of the distinct keys each key is, numbered by first sight; and where each is first."""
        found = self.values.dictionary_encode()
        codes = found.indices.to_numpy().astype(np.int64)
        first = np.empty(len(found.dictionary), np.int64)
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
        return codes, first


@dataclass(frozen=True, slots=True, eq=False)
class DealtKeys:
    """Keys and their places, in shares of a range of hashes that ascend from share to share: `starts[i]`, where share i
    begins; one more, where the last ends."""

    keys: Keys
    places: Places
    starts: Rows

    @classmethod
    def of(cls, keys: Keys, places: Places, span: tuple[int, int], shares: int) -> DealtKeys:
        """Keys of low <= hash < high in at most 256 shares; those of a share stay in their order."""
        low, high = span
        share = ((keys.hashes - np.uint32(low)).astype(np.uint64) * shares // (high - low)).astype(np.uint8)
        order = np.argsort(share, kind="stable")
        return cls(keys.take(order), places[order], np.searchsorted(share[order], np.arange(shares + 1)))

    def share(self, number: int) -> tuple[Keys, Places]:
        """What is in a share, without a copy."""
        start, stop = int(self.starts[number]), int(self.starts[number + 1])
        return self.keys.part(start, stop), self.places[start:stop]


@dataclass(frozen=True, slots=True, eq=False)
class KeyRun:
    """Distinct keys, ascending by hash, and the place of each."""

    keys: Keys
    places: Places

    @classmethod
    def of(cls, keys: Keys, places: Places) -> KeyRun:
        """A run of distinct keys in any order."""
        order = ascending(keys.hashes)
        return cls(keys.take(order), places[order])

    @classmethod
    def newest(cls, runs: Sequence[KeyRun]) -> KeyRun:
        """One run of several, newest first, that may share keys: the newest tells their place."""
        if len(runs) == 1:
            return runs[0]
        keys, places = Keys.all_of([run.keys for run in runs]), np.concatenate([run.places for run in runs])
        _, first = keys.distinct()
        if len(first) < len(keys):
            keys, places = keys.take(first), places[first]
        return cls.of(keys, places)

    @classmethod
    def merged(cls, runs: Sequence[KeyRun]) -> KeyRun:
        """One run of several (at least one) that share no key."""
        return cls.of(Keys.all_of([run.keys for run in runs]), np.concatenate([run.places for run in runs]))

    @classmethod
    def following(cls, runs: Sequence[KeyRun]) -> KeyRun:
        """Several runs (at least one), each of which goes on where the one before it ends, as one."""
        if len(runs) == 1:
            return runs[0]
        return cls(Keys.all_of([run.keys for run in runs]), np.concatenate([run.places for run in runs]))

    def __len__(self) -> int:
        return len(self.places)

    def take(self, rows: Rows | Mask) -> KeyRun:
        """Some of them: ascending positions, or a mask."""
        return KeyRun(self.keys.take(rows), self.places[rows])

    def part(self, start: int, stop: int) -> KeyRun:
        """A slice, without a copy."""
        return KeyRun(self.keys.part(start, stop), self.places[start:stop])

    def span(self, low: int, high: int) -> KeyRun:
        """Those with low <= hash < high, without a copy."""
        start = int(np.searchsorted(self.keys.hashes, np.uint32(low)))
        return self.part(start, int(np.searchsorted(self.keys.hashes, np.uint32(high - 1), "right")))

    def rows_of(self, keys: Keys) -> Rows:
        """The row of each key in this run, -1 where it is not. Quickest for keys ascending by hash."""
        result = np.full(len(keys), -1, np.int64)
        if not len(self):
            return result
        at = np.searchsorted(self.keys.hashes, keys.hashes)
        pending = np.arange(len(keys))
        while len(pending):
            inside = at < len(self)
            pending, at = pending[inside], at[inside]
            alike = self.keys.hashes[at] == keys.hashes[pending]
            pending, at = pending[alike], at[alike]
            equal = self.keys.same(at, keys, pending)
            result[pending[equal]] = at[equal]
            pending, at = pending[~equal], at[~equal] + 1
        return result

    def find(self, keys: Keys) -> Places:
        """The place of each key, ABSENT where the run does not have it."""
        rows = self.rows_of(keys)
        if not len(self):
            return rows.astype(np.int32)
        return np.where(rows < 0, np.int32(ABSENT), self.places[rows])


@dataclass(slots=True)
class GrowingRun:
    """Keys that keep coming, each once, with places that may change. Runs fall in size by half and more, so that there
    are few and each is merged seldom; but large ones are merged only to a small part of all keys, as merging takes
    twice the memory of what is merged."""

    runs: list[KeyRun]

    def find(self, keys: Keys) -> Places:
        """The place of each key, ABSENT where it has not come yet."""
        found = np.full(len(keys), ABSENT, np.int32)
        for run in self.runs:
            np.maximum(found, run.find(keys), out=found)
        return found

    def put(self, keys: Keys, places: Places) -> None:
        """Set the places of keys, at least 0. `keys`: distinct."""
        left = np.ones(len(keys), np.bool_)
        for run in self.runs:
            rows = run.rows_of(keys)
            known = rows >= 0
            run.places[rows[known]] = places[known]
            left &= ~known
        if not left.any():
            return
        new = KeyRun.of(keys.take(left), places[left])
        most = max(LARGE_RUN, sum(map(len, self.runs)) // 8)
        while self.runs and len(self.runs[-1]) < 2 * len(new) and len(self.runs[-1]) + len(new) <= most:
            new = KeyRun.merged([self.runs.pop(), new])
        self.runs.append(new)


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """What is known as of a snapshot: the cached layers, and what came since. Small and picklable."""

    file: KeyIndexFile
    recent: KeyRun | None = None

    @property
    def snapshot(self) -> int:
        """The snapshot that it tells the places of."""
        return self.file.snapshot

    @property
    def complete(self) -> bool:
        """Whether a key that is not in it is new; else it may lie in older files."""
        return self.file.since is None

    @property
    def counts(self) -> dict[tuple[bytes, int], int]:
        """Keys by place."""
        return dict(zip(self.file.places, self.file.counts, strict=True))


def ascending(hashes: KeyHashes) -> Rows:
    """The rows by their hashes, those of one hash in their order. NumPy's stable sort is a radix sort of 16 bits: twice
    that takes half the time of its sort of 32."""
    low = np.argsort((hashes & np.uint32(0xFFFF)).astype(np.uint16), kind="stable")
    return low[np.argsort((hashes >> np.uint32(16)).astype(np.uint16)[low], kind="stable")]


def is_whole(fields: Sequence[DataField]) -> bool:
    """Whether a key is one whole number, which is then its own value."""
    return len(fields) == 1 and fields[0].type.root in WHOLE


def _numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(values.to_numpy(zero_copy_only=True))
