"""Pending rows of one partition and task: one file after the other where they are few, else dealt out to files by the
residues of their bucket hashes, so that a compaction's tasks each read what they write.

Spec: docs/spec/postpone.md#files
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from bucketlake.format.metadata.manifest import DataFile
from bucketlake.ops.buckets.postpone import pending_store
from bucketlake.ops.rows.assign import slices
from bucketlake.ops.rows.residues import Residue, residues
from bucketlake.ops.rows.roll import PENDING, Roller
from bucketlake.ops.table.store import Store
from bucketlake.paths import POSTPONE_BUCKET

DEALT_BYTES = 64 << 20  # Arrow bytes of a partition from which its rows are dealt out: files of some MB


class PendingRoller:
    """A `Roller` of pending rows: same calls. Rows of one key stay in their order, rows of others do not. `modulus`:
    how many residues there are; 1: all rows go to one file after the other."""

    def __init__(self, store: Store, partition: bytes, modulus: int) -> None:
        self._store, self._partition, self._modulus = store, partition, modulus
        self._held: list[pa.RecordBatch] = []  # until it is known how many there are
        self._held_bytes = 0
        self._rollers: list[Roller] = []  # one, or one a residue

    @property
    def pending(self) -> int:
        """Arrow bytes of rows that were given and are not encoded yet."""
        return self._held_bytes + sum(roller.pending for roller in self._rollers)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        if self._rollers:
            self._pass_on(batch)
            return
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes >= DEALT_BYTES:
            dealt = self._modulus > 1 and bool(self._store.schema.bucket_keys)
            self._begin([Residue(number, self._modulus) for number in range(self._modulus)] if dealt else [None])

    def flush(self) -> None:
        """Encode some of what is pending."""
        if not self._rollers:
            self._begin([None])
        max(self._rollers, key=lambda roller: roller.pending).flush()

    def close(self) -> list[DataFile]:
        """Finish the files; all of them, those of one key in the order of their rows."""
        if self._held:
            self._begin([None])
        return [file for roller in self._rollers for file in roller.close()]

    def abort(self) -> None:
        """Remove every file made here, best effort."""
        self._held = []
        for roller in self._rollers:
            roller.abort()

    def _begin(self, dealt: Sequence[Residue | None]) -> None:
        stores = [pending_store(self._store, residue) for residue in dealt]
        self._rollers = [Roller(store, self._partition, POSTPONE_BUCKET, PENDING) for store in stores]
        held, self._held, self._held_bytes = self._held, [], 0
        for batch in held:
            self._pass_on(batch)

    def _pass_on(self, batch: pa.RecordBatch) -> None:
        if len(self._rollers) == 1:
            self._rollers[0].write(batch)
            return
        order, spans = slices(residues(self._store.schema, batch, self._modulus))
        for number, start, end in spans:
            self._rollers[number].write(batch.take(pa.array(order[start:end])))
