"""What became of rows between two snapshots: added, deleted, changed with the values before.

    difference(table, before, after, limit) -> dict              as the page tells it
    changed_rows(table, span, ends, at_once) -> Iterator         as `bucketlake diff` does, of tables with a key

An incremental read in mode diff looks at files that differ: a row that was written again is new there, whether its
values are others or the same. Here it only names keys; the rows of both snapshots are looked up by them and compared.
In append tables, and where rows come once for all (first-row), the rows of files that only one side has are counted
against each other. Rows count from their commit on, also where batch reads see them only after compaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.errors import InvalidError, UnsupportedError
from bucketlake.lazy import pc
from bucketlake.lsm.changelog import same_values
from bucketlake.ops.rows.read import read_split
from bucketlake.ops.scan.system_tables import view_of
from bucketlake.ops.table.messages import Split
from bucketlake.ops.table.store import Store
from bucketlake.table import Table
from bucketlake.ui.rows import Seen
from bucketlake.values import dataclass

MOST_KEYS = 5_000  # that are compared
MOST_ROWS = 200_000  # of files of append tables that are compared
AT_ONCE = 1_000
CACHE_BYTES = 64 << 20
KIND, PLACE, SIGN = "rowkind", "\0place", "\0sign"
UNMERGED = {"deletion-vectors.merge-on-read": "true", "postpone.merge-on-read": "true"}  # rows not yet compacted, too
BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}  # by which NaN is NaN
GONE, BEFORE, CAME, AFTER = "-D", "-U", "+I", "+U"
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Compared:
    """Rows that differ, their kinds in the first column. `whole`: all that may differ was looked at."""

    rows: pa.Table
    whole: bool


def difference(table: Table, before: int, after: int, limit: int) -> dict[str, Any]:
    """What differs between two snapshots: files, whatever the table, and rows. A change back in time is told as well:
    `before` may be the later one, the answer is from `low` to `high`. Errors: those of reading."""
    files = table.report.changes(before, after).to_dict()
    low, high = min(before, after), max(before, after)
    told: dict[str, Any] = {"files": files, "rows": None, "why": None, "low": low, "high": high, "whole": True}
    if low == high:
        return told
    compare = _by_key if has_changes(table) else _by_file
    try:
        found = compare(table, low, high, limit)
    except (InvalidError, UnsupportedError) as error:
        return {**told, "why": str(error)}
    return {**told, "rows": Seen.of(found.rows, limit).to_dict(), "whole": found.whole}


# ---------------------------------------------------------------------------------------------- tables with a key


def has_changes(table: Table) -> bool:
    """Whether rows have a key by which they change; those of first-row tables come once for all."""
    return bool(table.schema.primary_keys) and table.options.text("merge-engine") != "first-row"


def changed_rows(
    table: Table, span: str, ends: Sequence[Mapping[str, str]], at_once: int
) -> Iterator[tuple[int, pa.Table]]:
    """What became of the rows of a table with a key, a part for every `at_once` keys of files that differ: how many
    keys, and the rows that differ, in the table's columns behind their kind. `span`: two snapshots or two tags, as
    `incremental-between` has them; `ends`: the options that read each. Errors: those of reading."""
    table = table.with_options(UNMERGED)
    for keys in _keys(table, span, at_once):
        asked = keys.append_column(PLACE, pa.array(np.arange(keys.num_rows)))
        old, new = (table.lookup(asked, how="inner", cache_bytes=CACHE_BYTES, **end) for end in ends)
        yield keys.num_rows, _told(table, old, new, keys.num_rows)


def _by_key(table: Table, low: int, high: int, limit: int) -> _Compared:
    found: list[pa.Table] = []
    looked = 0
    ends = [{"scan.snapshot-id": str(number)} for number in (low, high)]
    for keys, rows in changed_rows(table, f"{low},{high}", ends, AT_ONCE):
        found.append(rows)
        looked += keys
        if sum(part.num_rows for part in found) > limit or looked >= MOST_KEYS:
            return _Compared(pa.concat_tables(found), False)
    return _Compared(pa.concat_tables(found) if found else _none(table), True)


def _keys(table: Table, span: str, at_once: int) -> Iterator[pa.Table]:
    """The keys that lie in files of one side alone, each once a batch."""
    names = list(table.schema.primary_keys)
    view = view_of("audit_log")
    assert view is not None
    options = {"incremental-between": span, "incremental-between-scan-mode": "diff"}
    audit = Table(table.store, table.name, view).with_options(options)
    for batch in audit.scan_batches(columns=names, batch_size=at_once):
        yield pa.Table.from_batches([batch]).group_by(names, use_threads=False).aggregate([])


def _told(table: Table, old: pa.Table, new: pa.Table, keys: int) -> pa.Table:
    """The rows that differ, those of one key beside each other. Both sides hold places, 0 to `keys`."""
    left, right = (_places(side, keys) for side in (old, new))
    names = table.schema.field_names
    both = np.flatnonzero((left >= 0) & (right >= 0))
    same = np.zeros(keys, np.bool_)
    same[both] = _same(old.select(names).take(left[both]), new.select(names).take(right[both]))
    gone, came = np.flatnonzero((left >= 0) & ~same), np.flatnonzero((right >= 0) & ~same)
    kinds = [*np.where(right[gone] < 0, GONE, BEFORE), *np.where(left[came] < 0, CAME, AFTER)]
    picked = np.concatenate([left[gone], old.num_rows + right[came]])
    order = np.lexsort((np.repeat([0, 1], [len(gone), len(came)]), np.concatenate([gone, came])))
    rows = pa.concat_tables([old.select(names), new.select(names)]).take(picked[order])
    return rows.add_column(0, KIND, pa.array(kinds, pa.string()).take(pa.array(order)))


def _places(side: pa.Table, keys: int) -> Indices:
    """Where the row of each key is, -1 where there is none."""
    found = np.full(keys, -1, np.int64)
    found[side.column(PLACE).to_numpy()] = np.arange(side.num_rows)
    return found


def _same(one: pa.Table, two: pa.Table) -> npt.NDArray[np.bool_]:
    """Row by row whether all columns are equal."""
    same = np.ones(one.num_rows, np.bool_)
    for left, right in zip(one.columns, two.columns, strict=True):
        pair = [side.combine_chunks() for side in (left, right)]
        pair = [side.view(BITS[side.type]) if side.type in BITS else side for side in pair]
        same &= same_values(*pair)
    return same


def _none(table: Table) -> pa.Table:
    return table.arrow_schema.empty_table().add_column(0, KIND, pa.array([], pa.string()))


# ---------------------------------------------------------------------------------------------- append tables


Stored = tuple[Store, Split]


def _by_file(table: Table, low: int, high: int, limit: int) -> _Compared:
    if table.options.get("data-evolution.enabled"):
        raise UnsupportedError("rows of several files each are not compared", option="data-evolution.enabled")
    plans = (table.plan(**{"scan.snapshot-id": str(number)}) for number in (low, high))
    old, new = (list(plan.splits_of(table.store)) for plan in plans)
    gone, came = _without(old, new), _without(new, old)
    if not gone or not came:  # all rows of one side, as many as are shown
        kind, some = (CAME, came) if came else (GONE, gone)
        rows = _read(table, some, limit + 1)
        return _Compared(rows.add_column(0, KIND, pa.array([kind] * rows.num_rows, pa.string())), True)
    stored = sum(split.row_count for _, split in (*gone, *came))
    if stored > MOST_ROWS:
        raise UnsupportedError(
            "files that differ hold too many rows to compare them here",
            rows=stored,
            most=MOST_ROWS,
            remedy="SELECT … VERSION AS OF of both, and EXCEPT ALL",
        )
    return _Compared(_counted(_read(table, gone), _read(table, came)), True)


def _without(some: list[Stored], others: list[Stored]) -> list[Stored]:
    """The files of some that others have not, or with other rows deleted."""
    known = {_identity(split, file.file_name) for _, split in others for file in split.files}
    left = [
        (store, replace(split, files=tuple(f for f in split.files if _identity(split, f.file_name) not in known)))
        for store, split in some
    ]
    return [one for one in left if one[1].files]


def _identity(split: Split, name: str) -> tuple[object, ...]:
    return split.partition, split.bucket, name, split.deletions.get(name)


def _read(table: Table, some: list[Stored], most: int | None = None) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    rows = 0
    for store, split in some:
        for batch in read_split(store, split):
            batches.append(batch)
            rows += batch.num_rows
            if most is not None and rows >= most:
                return pa.Table.from_batches(batches).slice(0, most)
    return pa.Table.from_batches(batches) if batches else table.arrow_schema.empty_table()


def _counted(old: pa.Table, new: pa.Table) -> pa.Table:
    """The rows that one side has more often than the other, once each. Errors: UnsupportedError for nested columns."""
    nested = [field.name for field in new.schema if pa.types.is_nested(field.type)]
    if nested:
        raise UnsupportedError("rows with nested columns are not compared in append tables", columns=nested)
    names = new.column_names
    sides = [
        side.append_column(SIGN, pa.array(np.full(side.num_rows, sign, np.int64)))
        for side, sign in ((old.cast(new.schema), -1), (new, 1))
    ]
    sums = pa.concat_tables(sides).group_by(names, use_threads=False).aggregate([(SIGN, "sum")])
    sums = sums.filter(pc.not_equal(sums.column(f"{SIGN}_sum"), 0))
    kinds = pc.if_else(pc.greater(sums.column(f"{SIGN}_sum"), 0), CAME, GONE)
    return sums.select(names).add_column(0, KIND, kinds)
