"""How rows that are put in order are to lie: what decides where a row goes, and what it is compared by.

Spec: docs/spec/clustering.md#ranges
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from bucketlake.ops.cluster.order import Ranks, SortOrder, ranks_of
from bucketlake.ops.table.store import Store
from bucketlake.types.model import DataField, canonical_batch
from bucketlake.values import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows lie: partition by partition (`groups`), in the order within each. `fields`: all columns. Picklable."""

    fields: tuple[DataField, ...]
    groups: tuple[DataField, ...]
    order: SortOrder

    @property
    def wanted(self) -> list[DataField]:
        """The columns that decide where a row goes, each once."""
        return list({item.name: item for item in (*self.groups, *self.order.fields)}.values())

    def keys(self, columns: Sequence[pa.Array]) -> tuple[list[pa.Array], list[pa.Array]]:
        """The groups and the keys of rows whose `wanted` columns these are, in the canonical layout."""
        batch = pa.RecordBatch.from_arrays(list(columns), names=[item.name for item in self.wanted])
        rows = canonical_batch(batch, self.wanted)
        return [rows.column(item.name) for item in self.groups], self.order.keys(rows)

    def keys_of(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """The groups and keys of rows in the canonical layout, one after the other."""
        groups, keys = self.keys([rows.column(item.name) for item in self.wanted])
        return [*groups, *keys]

    def ranks(self, rows: pa.RecordBatch) -> Ranks:
        """The place of each row of the canonical layout among them; equal where groups and keys are."""
        return ranks_of(self.keys_of(rows))


def layout_of(store: Store, order: SortOrder) -> Layout:
    """The layout of a table's rows in this order."""
    return Layout(tuple(store.schema.fields), tuple(store.schema.partition_fields), order)
