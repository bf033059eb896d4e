"""Whether a file's rows have the keys and numbers that its manifest says: formats sum up no values, and a damaged one
would be merged as if it were another key, and written again as whole.

    within_bounds(store, folder, file, batches) -> Iterator[RecordBatch]

Spec: docs/spec/reading.md#keys
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NoReturn

import pyarrow as pa

from bucketlake.errors import CorruptError
from bucketlake.format.metadata.manifest import SEQUENCE, DataFile
from bucketlake.format.row.binary_rows import decode_columns
from bucketlake.lazy import pc
from bucketlake.lsm.keys import Bound, KeyOrder
from bucketlake.ops.table.store import Store
from bucketlake.paths import is_pending
from bucketlake.schema.schema import SEQUENCE_FIELD
from bucketlake.types.model import DataField, Root

REMEDY = (
    "restore the file; where there is no copy, CALL sys.fsck with level 'keys' tells more, and sys.repair_table writes "
    "the file again as it is"
)


def within_bounds(
    store: Store, folder: str, file: DataFile, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The batches of a keyed file in a bucket's folder as they come, key columns among them, once each is known to
    begin and end within the keys that are recorded, its first key column to ascend, and its sequence numbers to end
    with the greatest that is recorded; rows may be left out.

    Files in no order of keys pass as they are: pending ones, and those of clustered tables above level 0.
    Raises: CorruptError.
    """
    if is_pending(folder) or (store.schema.clustered and file.level > 0):
        yield from batches
        return
    own = not store.options.get("sequence.snapshot-ordering")  # else a file's range is the snapshot that it came with
    greatest = file.max_sequence_number if own else SEQUENCE[1]
    check = _Check(KeyOrder(store.schema.key_fields), file, greatest, store.paths.file_path(folder, file))
    for batch in batches:
        if batch.num_rows:
            check.look(batch)
        yield batch


class _Check:
    """What is known of one file."""

    __slots__ = ("_bounds", "_file", "_greatest", "_order", "_path")

    def __init__(self, order: KeyOrder, file: DataFile, greatest: int, path: str) -> None:
        self._order, self._file, self._greatest, self._path = order, file, greatest, path
        self._bounds: tuple[Bound, Bound] | None = None

    def look(self, batch: pa.RecordBatch) -> None:
        """Look at some rows."""
        order, numbers = self._order, batch.column(SEQUENCE_FIELD.name)
        if any(batch.column(item.name).null_count for item in order.fields):
            self._refuse("a file has rows without a key")
        low, high = pc.min_max(numbers).as_py().values()
        if numbers.null_count or low < SEQUENCE[0] or high > SEQUENCE[1]:
            self._refuse("a file has sequence numbers that no writer gives")
        self._look_at_keys(batch)
        if high > self._greatest:
            # The smallest is not looked at: pypaimon gives the files that it rolls one after the other too great ones.
            self._refuse("a file has greater sequence numbers than are recorded, to which newer rows may lose")

    def _look_at_keys(self, batch: pa.RecordBatch) -> None:
        order = self._order
        if any(item.type.root is Root.CHAR for item in order.fields):
            return  # some formats give trailing blanks back, others not
        if self._bounds is None:
            self._bounds = _recorded(order.fields, self._file.min_key, self._file.max_key)
        ends = batch.select([item.name for item in order.fields]).take(pa.array([0, batch.num_rows - 1]))
        view, (low, high) = order.view(ends), self._bounds
        if view.at(0) < low or view.at(1) > high:
            self._refuse("a file has keys beyond the first and the last that are recorded")
        if _descends(batch.column(order.fields[0].name)):
            self._refuse("the rows of a file are not in the order of their keys")

    def _refuse(self, what: str) -> NoReturn:
        raise CorruptError(what, path=self._path, level=self._file.level, remedy=REMEDY)


def _descends(column: pa.Array) -> bool:
    """Whether a value is smaller than the one before it, as far as Arrow's order is that of keys."""
    if pa.types.is_floating(column.type):
        return False
    return bool(pc.any(pc.less(column[1:], column[:-1])).as_py())


@lru_cache(maxsize=4096)
def _recorded(fields: tuple[DataField, ...], low: bytes, high: bytes) -> tuple[Bound, Bound]:
    """The first and last key that a manifest has of a file, comparable with those of a view. Kept: it takes half a
    millisecond, a look at one key may open ten files, and again the next time."""
    columns = decode_columns([low, high], [item.type for item in fields], range(len(fields)))
    view = KeyOrder(fields).view(pa.RecordBatch.from_arrays(columns, names=[item.name for item in fields]))
    return view.at(0), view.at(1)
