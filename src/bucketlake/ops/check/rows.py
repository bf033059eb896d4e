"""Every row of a file against what is recorded of its columns.

Spec: docs/maintenance.md#levels
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bucketlake.errors import BucketlakeError, NotFoundError, UnsupportedError
from bucketlake.format.metadata.manifest import DataFile
from bucketlake.format.metadata.stats import ColumnStats, StatsCollector, StatsMode
from bucketlake.ops.check.findings import shown
from bucketlake.ops.check.roots import attempted
from bucketlake.ops.rows.one_file import file_layout, read_file
from bucketlake.ops.table.store import Store
from bucketlake.types.model import DataField, Root

if TYPE_CHECKING:
    from bucketlake.ops.check.unit import CheckUnit

Add = Callable[[str, str, int], None]
FULL = StatsMode("full")


def check_rows(store: Store, unit: CheckUnit, file: DataFile, recorded: dict[str, ColumnStats], add: Add) -> None:
    """Read all columns of all rows, and compare their bounds and nulls with those recorded; partition columns only
    where something is recorded of them: files of other programs lack them."""
    found = attempted(lambda: _read(store, unit, file, recorded))
    if isinstance(found, BucketlakeError):
        if not isinstance(found, NotFoundError):
            add(code_of(found), shown(found), 1)
        return
    for item, actual in found:
        known = recorded.get(item.name)
        fault = None if known is None else compare(known, actual, item)
        if fault is not None:
            add(fault[0], f"column {item.name}: {fault[1]}", 1)


def _read(
    store: Store, unit: CheckUnit, file: DataFile, recorded: dict[str, ColumnStats]
) -> list[tuple[DataField, ColumnStats]]:
    written = store.with_schema(replace(store.schema_of(file.schema_id), options=store.schema.options))
    parted = {*written.schema.partition_keys} - {*recorded}
    fields = [item for item in written.schema.fields if item.name not in parted]
    layout = replace(file_layout(written, file, fields), row_count=None, size=None)
    path = store.paths.file_path(store.paths.bucket_dir(unit.partition, unit.bucket), file)
    collector = StatsCollector(fields, [FULL] * len(fields))
    for batch in read_file(written, path, layout, None):
        collector.update(layout.rows(batch))
    return list(zip(fields, collector.result(), strict=True))


def compare(recorded: ColumnStats, actual: ColumnStats, item: DataField) -> tuple[str, str] | None:
    """The fault of recorded statistics that leave out what a file has, as (code, cause); bounds may be wider than
    needed. Floating point: engines differ on NaN and the sign of zero, so these do not count."""
    low, high = recorded.min, recorded.max
    if low is not None and actual.min is not None and _less(actual.min, low, item):
        return "stats-bounds", f"the smallest value {text_of(actual.min)} is below the recorded {text_of(low)}"
    if high is not None and actual.max is not None and _less(high, actual.max, item):
        return "stats-bounds", f"the greatest value {text_of(actual.max)} is above the recorded {text_of(high)}"
    nulls = recorded.null_count
    if nulls is not None and actual.null_count is not None and nulls != actual.null_count:
        return "null-count", f"{actual.null_count} nulls, {nulls} are recorded"
    return None


def code_of(error: BucketlakeError) -> str:
    """What an error of reading a file says of it."""
    return "data-file-unread" if isinstance(error, UnsupportedError) else "data-file-broken"


def _less(left: Any, right: Any, item: DataField) -> bool:
    if item.type.root is Root.CHAR:  # some formats give trailing blanks back, others not
        return bool(left.rstrip(" ") < right.rstrip(" "))
    if item.type.root in (Root.FLOAT, Root.DOUBLE):
        if math.isnan(left) or math.isnan(right):
            return False
        return bool(left + 0.0 < right + 0.0)
    try:
        return bool(left < right)
    except TypeError:
        return False


def text_of(value: Any) -> str:
    """A value as a finding shows it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
