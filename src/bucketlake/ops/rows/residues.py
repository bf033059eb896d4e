"""Pending files whose rows have bucket hashes of one residue: a task that writes some of a partition's buckets reads
no others.

    mark       := "r" <number> "of" <modulus> "-"      in the file's name, behind "-w-"
    number     := a row's bucket if there were <modulus> buckets

    residue_of(store, file)                 what a file's name says
    may_meet(residue, total, share)         whether rows of these buckets can lie there
    residue.check(buckets, total, file)     that they lie nowhere else
    fitting(total, wanted, residues)        how many shares read no file twice

Every bucket function takes a hash modulo the number of buckets. So of n buckets and a modulus m, a row's bucket and its
residue are the same modulo gcd(n, m), which holds for numbers of buckets that nobody knew when the file was written.

Spec: docs/spec/postpone.md#files
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import gcd

from bucketlake.errors import CorruptError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.row.hashing import assign_buckets
from bucketlake.lazy import np, pa
from bucketlake.ops.rows.assign import Codes
from bucketlake.ops.table.store import Store
from bucketlake.schema.schema import TableSchema
from bucketlake.types.model import type_text
from bucketlake.values import dataclass

MODULUS = 8  # where nobody knows how many buckets there will be
MOST = 16  # files that a task writes side by side
Share = tuple[int, int]
"""(k, n): the buckets whose number modulo n is k."""

_MARK = re.compile(r"-w-r(?P<number>\d{1,4})of(?P<modulus>\d{1,4})-")


@dataclass(frozen=True, slots=True)
class Residue:
    """The rows whose bucket, if there were `modulus`, would be `number`."""

    number: int
    modulus: int

    @property
    def mark(self) -> str:
        """What a file's name says of it."""
        return f"r{self.number}of{self.modulus}-"

    def check(self, buckets: Codes, total: int, file: DataFile) -> None:
        """Raise CorruptError where a row of the file has another one: its share would not look for it there."""
        common = gcd(self.modulus, total)
        if (buckets % common != self.number % common).any():
            raise CorruptError(
                "a pending file holds rows of other buckets than its name says",
                file=file.file_name,
                remedy="give the file, and its entry in the manifest, the name back that it was written with",
            )


def residues(schema: TableSchema, rows: pa.RecordBatch, modulus: int) -> Codes:
    """The number of each row's residue."""
    fields, function = schema.select(schema.bucket_keys), schema.table_options.get("bucket-function.type")
    return np.asarray(assign_buckets(rows, fields, modulus, function), np.int64)


def residue_of(store: Store, file: DataFile) -> Residue | None:
    """What a pending file's name says of all its rows; None where it says nothing, or where other columns or types told
    buckets when it was written."""
    found = _MARK.search(file.file_name)
    if found is None:
        return None
    number, modulus = int(found["number"]), int(found["modulus"])
    written = store.schema_of(file.schema_id)
    same = written is store.schema or _places(written) == _places(store.schema)
    return Residue(number, modulus) if same and number < modulus else None


def may_meet(residue: Residue | None, total: int, share: Share) -> bool:
    """Whether a file can hold rows of a share of `total` buckets."""
    if residue is None:
        return True
    common = gcd(residue.modulus, total, share[1])
    return residue.number % common == share[0] % common


def fitting(total: int, wanted: int, found: Sequence[Residue | None]) -> int:
    """The most shares of `total` buckets, `wanted` at most, each of which reads files of its own, if there are files of
    these residues; 1 where a file may hold rows of all buckets."""
    common = total
    for residue in found:
        common = gcd(common, 1 if residue is None else residue.modulus)
    return max(shares for shares in range(1, max(1, min(wanted, common)) + 1) if common % shares == 0)


def _places(schema: TableSchema) -> tuple[object, ...]:
    keys = [(item.id, type_text(item.type)) for item in schema.select(schema.bucket_keys)]
    return schema.table_options.get("bucket-function.type"), *keys
