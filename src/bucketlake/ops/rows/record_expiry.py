"""Rows past their time: `record-level.expire-time` after the time in `record-level.time-field`.

Rows expire when compaction reads them; reads do not look. Spec: docs/spec/compaction.md#expired-rows
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import InvalidError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.stats import decode_stats_columns
from bucketlake.lazy import pc
from bucketlake.ops.table.store import Store
from bucketlake.types.model import DataField, Root
from bucketlake.values import dataclass

__all__ = ["RowExpiry"]

MILLIS = 1_000_000_000_000  # a BIGINT from here on is milliseconds, below it seconds
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class RowExpiry:
    """Which rows are past their time. `now`, `after`: seconds."""

    store: Store
    field: DataField
    now: int
    after: int

    @classmethod
    def of(cls, store: Store) -> RowExpiry | None:
        """As the table's options say, as of now; None where rows do not expire.

        Raises InvalidError where `record-level.time-field` is missing.
        """
        after = store.options.get("record-level.expire-time")
        if after is None:
            return None
        name = store.options.get("record-level.time-field")
        if name is None:
            raise InvalidError(
                "You should set time field for record-level expire.", remedy="set 'record-level.time-field'"
            )
        return cls(store, store.schema.field(name), store.env.clock.now_millis() // 1000, after // 1000)

    def stays(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_] | None:
        """Which rows are not past their time; None: all. Rows without a time stay."""
        seconds, valid = self._seconds(rows.column(self.field.name))
        stays = ~valid | (self.now - self.after <= seconds)
        return None if stays.all() else stays

    def kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that stay."""
        stays = self.stays(rows)
        return rows if stays is None else rows.filter(pa.array(stays))

    def concerns(self, file: DataFile) -> bool:
        """Whether the file's statistics say that it has rows past their time."""
        schema = self.store.schema_of(file.schema_id)
        fields = schema.stats_fields(file.stats_columns)
        places = [i for i, item in enumerate(fields) if item.id == self.field.id]
        if not places or fields[places[0]].type.root is not self.field.type.root:
            return False
        (found,) = decode_stats_columns([file.value_stats], [item.type for item in fields], places)
        seconds, valid = self._seconds(found.mins)
        return bool(valid[0]) and self.now - self.after > int(seconds[0])

    def _seconds(self, column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        if self.field.type.root in (Root.INT, Root.BIGINT):
            values = column.cast(pa.int64()).fill_null(0).to_numpy()
            long = self.field.type.root is Root.BIGINT
            return (np.where(values >= MILLIS, values // 1000, values) if long else values), valid
        values = pc.fill_null(column.view(pa.int64()), 0).to_numpy()
        return values // PER_SECOND[column.type.unit], valid
