"""Which bucket a key of a dynamic table gets: pure functions of key hashes and of what is known, vectorised.

    known hash          its bucket
    new hash            the first bucket that is not full, else a new one; at the limit, spread over those there are

A partition's buckets may be dealt out to n assigners, so that they need not ask each other: assigner |hash % n| assigns
a hash, to buckets b with b % n = its own number.

Spec: docs/spec/hash_index.md#assigning
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt

from bucketlake.env.env import scratch_array
from bucketlake.errors import InvalidError
from bucketlake.format.index.hash_index import ascending
from bucketlake.format.numbers import distinct
from bucketlake.format.row.hashing import Hashes, bucket_of
from bucketlake.ops.buckets.hash_spill import HashSpill
from bucketlake.options.options import TableOptions
from bucketlake.values import dataclass

Buckets = npt.NDArray[np.int64]  # -1: none
MOST_BUCKETS = 32767  # bucket numbers are 16-bit, signed
SLICES = 64  # hash ranges sorted at a time while loading
_SPAN = 1 << 32
_LEAST_SLICE = 1 << 16


@dataclass(frozen=True, slots=True)
class BucketRule:
    """How buckets fill. `target`: hashes of a bucket before the next is filled; `most`: how many buckets there may be,
    None: as many as fit; `assigners`: into how many shares a partition is dealt out; `owner`: the one that all keys are
    of here, whatever their hashes."""

    target: int
    most: int | None = None
    assigners: int = 1
    owner: int | None = None

    @classmethod
    def of(cls, options: TableOptions, assigners: int = 1) -> BucketRule:
        """The rule of a table; `assigners` as `assigners_of` gives it. InvalidError for limits that are none."""
        target, most = options.get("dynamic-bucket.target-row-num"), options.get("dynamic-bucket.max-buckets")
        if target < 1:
            raise InvalidError("'dynamic-bucket.target-row-num' must be greater than 0", value=target)
        if most != -1 and most < 1:
            raise InvalidError("'dynamic-bucket.max-buckets' must be -1 (unlimited) or greater than 0", value=most)
        return cls(target, None if most == -1 else min(most, MOST_BUCKETS), assigners)


def assigners_of(options: TableOptions, tasks: int = 1) -> int:
    """Into how many shares a write by so many tasks deals out a partition, and so how many buckets a large first
    write starts with: `dynamic-bucket.initial-buckets`, else `dynamic-bucket.assigner-parallelism`, else `tasks`; at
    most `dynamic-bucket.max-buckets`."""
    wanted = options.get("dynamic-bucket.initial-buckets") or options.get("dynamic-bucket.assigner-parallelism")
    most = BucketRule.of(options).most or MOST_BUCKETS
    return max(1, min(wanted or tasks, most))


# ---- what is known


@dataclass(frozen=True, slots=True)
class Run:
    """Hashes (ascending, distinct) and the bucket of each: six bytes a key."""

    hashes: Hashes
    buckets: npt.NDArray[np.uint16]

    def find(self, hashes: Hashes) -> Buckets:
        """The bucket of each hash, -1 where it is not known. Quickest for ascending hashes."""
        if not len(self.hashes):
            return np.full(len(hashes), -1, np.int64)
        places = np.searchsorted(self.hashes, hashes)
        places[places == len(self.hashes)] = 0
        return np.where(self.hashes[places] == hashes, self.buckets[places].astype(np.int64), -1)

    def and_(self, other: Run) -> Run:
        """Both, which share no hash."""
        places = np.searchsorted(self.hashes, other.hashes) + np.arange(len(other.hashes))
        total = len(self.hashes) + len(other.hashes)
        hashes, buckets = scratch_array(total, np.int32), scratch_array(total, np.uint16)
        own = np.ones(total, np.bool_)
        own[places] = False
        hashes[places], buckets[places] = other.hashes, other.buckets
        hashes[own], buckets[own] = self.hashes, self.buckets
        return Run(hashes, buckets)


def run_of(files: Iterable[tuple[int, Hashes]]) -> tuple[Run, Hashes]:
    """One run of the hashes of several buckets, each in any order; and the hashes that lie in more than one bucket,
    which get the lowest of them.

    Memory beyond the result: the hashes once, and one slice of them.
    """
    parts = [(bucket, ascending(hashes)) for bucket, hashes in files]
    total = sum(len(hashes) for _, hashes in parts)
    hashes, buckets = scratch_array(total, np.int32), scratch_array(total, np.uint16)
    slices = SLICES if total > _LEAST_SLICE else 1
    bounds = (np.arange(1, slices) * (_SPAN // slices) - (_SPAN >> 1)).astype(np.int32)
    cuts = [[0, *np.searchsorted(part, bounds).tolist(), len(part)] for _, part in parts]
    at, torn = 0, []
    for number in range(slices):
        packed = _packed([(b, part[cut[number] : cut[number + 1]]) for (b, part), cut in zip(parts, cuts, strict=True)])
        keys = packed >> 16
        repeated = np.flatnonzero(keys[1:] == keys[:-1]) + 1
        if len(repeated):
            torn.append(distinct([keys[repeated]]).astype(np.int32))
            packed, keys = np.delete(packed, repeated), np.delete(keys, repeated)
        hashes[at : at + len(packed)], buckets[at : at + len(packed)] = keys, packed & 0xFFFF
        at += len(packed)
    broken = np.concatenate(torn) if torn else np.zeros(0, np.int32)
    return Run(hashes[:at], buckets[:at]), broken


def _packed(parts: Sequence[tuple[int, Hashes]]) -> npt.NDArray[np.int64]:
    """(hash, bucket) as one number each, ascending."""
    packed = np.empty(sum(len(part) for _, part in parts), np.int64)
    at = 0
    for bucket, part in parts:
        piece = packed[at : at + len(part)]
        piece[:] = part
        piece <<= 16
        piece |= bucket
        at += len(part)
    packed.sort(kind="stable")  # sorted runs one after the other: merged, not sorted
    return packed


# ---- assigning


@dataclass(slots=True)
class PartitionBuckets:
    """The buckets of one partition while rows arrive. `counts`: hashes in every bucket there is. Hashes of one
    assigner may be absent (not loaded) only as long as none of its rows arrive: see `missing`."""

    rule: BucketRule
    counts: dict[int, int] = field(default_factory=dict)
    loaded: set[int] = field(default_factory=set)
    _runs: list[Run] = field(default_factory=list)
    _new: HashSpill = field(default_factory=HashSpill)

    def missing(self, hashes: Hashes) -> set[int]:
        """The assigners of these hashes whose known hashes were not given yet."""
        if len(self.loaded) == self.rule.assigners:
            return set()
        return set(np.unique(bucket_of(hashes, self.rule.assigners)).tolist()) - self.loaded

    def load(self, assigners: Collection[int], run: Run) -> None:
        """Take the known hashes of some assigners."""
        self.loaded.update(assigners)
        self._push(run)

    def assign(self, hashes: Hashes) -> Buckets:
        """The bucket of each hash; new ones are remembered. InvalidError where no bucket number is left."""
        distinct, first, groups, order = _distinct(hashes)
        buckets = self._find(distinct)
        unknown = np.flatnonzero(buckets < 0)
        if len(unknown):
            buckets[unknown] = self._place(distinct[unknown], first[unknown])
            self._push(Run(distinct[unknown], buckets[unknown].astype(np.uint16)))
        result = np.empty(len(hashes), np.int64)
        result[order] = buckets[groups]
        return result

    def added(self, bucket: int) -> Hashes:
        """The hashes that were new to a bucket, ascending."""
        return self._new.of(bucket)

    def clear(self) -> None:
        """Remove what was put aside on local disk; what was new is forgotten."""
        self._new.clear()

    def _find(self, hashes: Hashes) -> Buckets:
        found = np.full(len(hashes), -1, np.int64)
        for run in self._runs:
            np.maximum(found, run.find(hashes), out=found)
        return found

    def _push(self, run: Run) -> None:
        """Keep runs in sizes that fall by half and more, so that there are few and each is merged seldom."""
        while self._runs and len(self._runs[-1].hashes) < 2 * len(run.hashes):
            run = self._runs.pop().and_(run)
        if len(run.hashes):
            self._runs.append(run)

    def _place(self, hashes: Hashes, arrival: npt.NDArray[np.int64]) -> Buckets:
        """Buckets of new hashes, which fill them in order of arrival."""
        owners = bucket_of(hashes, self.rule.assigners)
        if self.rule.owner is not None:
            owners = np.full_like(owners, self.rule.owner)
        result = np.empty(len(hashes), np.int64)
        for owner in np.unique(owners).tolist():
            mine = np.flatnonzero(owners == owner)
            shares = fill(self.counts, len(mine), self.rule, owner)
            if len(shares) > 1:
                mine = mine[np.argsort(arrival[mine])]
            result[mine] = np.repeat(np.array(list(shares), np.int64), list(shares.values()))
            at = 0
            for bucket, count in shares.items():
                self.counts[bucket] = self.counts.get(bucket, 0) + count
                self._new.add(bucket, hashes[mine[at : at + count]])
                at += count
        return result


def _distinct(hashes: Hashes) -> tuple[Hashes, Buckets, Buckets, Buckets]:
    """The distinct hashes, ascending; the row where each comes first; and for the rows in order of hash (the fourth
    array says which rows these are) the place of their hash among the distinct."""
    packed = (hashes.astype(np.int64) << 32) | np.arange(len(hashes))
    packed.sort()
    order = packed & 0xFFFFFFFF
    keys = packed >> 32
    starts = np.ones(len(keys), np.bool_)
    starts[1:] = keys[1:] != keys[:-1]
    return keys[starts].astype(np.int32), order[starts], np.cumsum(starts) - 1, order


def fill(counts: Mapping[int, int], new: int, rule: BucketRule, owner: int = 0) -> dict[int, int]:
    """How many of `new` hashes each bucket of an assigner takes, in the order in which they are filled.

    Existing buckets up to the target, then new ones, then all alike beyond it.
    Raises InvalidError where there is no limit and no bucket number left.
    """
    own = sorted(bucket for bucket in counts if bucket % rule.assigners == owner)
    shares: dict[int, int] = {}
    left = new
    for bucket in own:
        room = min(left, rule.target - counts[bucket])
        if room > 0:
            shares[bucket] = room
            left -= room
    bucket, limit = owner, rule.most or MOST_BUCKETS
    while left and bucket < limit:
        if bucket not in counts:
            shares[bucket] = min(left, rule.target)
            left -= shares[bucket]
        bucket += rule.assigners
    if left and rule.most is None:
        raise InvalidError(
            f"Too more bucket {MOST_BUCKETS - 1}, you should increase target bucket row number {rule.target}.",
            remedy="set a larger 'dynamic-bucket.target-row-num', or 'dynamic-bucket.max-buckets'",
        )
    if left:
        known = {bucket: counts.get(bucket, 0) + shares.get(bucket, 0) for bucket in {*own, *shares}}
        for bucket, count in spread(known, left).items():
            shares[bucket] = shares.get(bucket, 0) + count
    return shares


def spread(counts: Mapping[int, int], new: int) -> dict[int, int]:
    """How many of `new` each bucket (at least one) takes so that all are as full as each other, as far as may be."""
    order = sorted(counts, key=lambda bucket: (counts[bucket], bucket))
    sizes = np.array([counts[bucket] for bucket in order], np.int64)
    below = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    raised = int(np.count_nonzero(sizes * np.arange(len(sizes)) - below <= new))  # how many lie below the new level
    level, rest = divmod(new + int(sizes[:raised].sum()), raised)
    return {
        bucket: level + (place < rest) - counts[bucket]
        for place, bucket in enumerate(order[:raised])
        if level + (place < rest) > counts[bucket]
    }


# ---- the first load of a partition


def first_load_count(keys: int, rule: BucketRule) -> int:
    """How many buckets so many keys of an empty partition need for `first_load_buckets` to keep to the target: some
    more than keys / target, since hashing fills buckets unevenly (by four standard deviations)."""
    mean = (math.sqrt(4 + rule.target) - 2) ** 2  # mean + 4 √mean = target
    return max(1, min(math.ceil(keys / mean), rule.most or MOST_BUCKETS))


def first_load_buckets(hashes: Hashes, count: int) -> Buckets:
    """The bucket of each hash out of `count`: a share of the range of hashes. Needs to know nothing, so any task may
    compute it, for partitions without a bucket yet."""
    return ((hashes.astype(np.int64) + (_SPAN >> 1)) * count) >> 32
