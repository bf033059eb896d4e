"""The listagg aggregate: strings joined by a delimiter.

Spec: docs/spec/aggregates.md#listagg
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from bucketlake.lazy import pc
from bucketlake.lsm.aggregates.codes import codes, grouped
from bucketlake.lsm.aggregates.rows import About, Indices, Mask, Rows, last_of, take

__all__ = ["listagg"]

# What Java calls white space: no no-break spaces.
_SPACE = "".join(
    (
        "\t\n\v\f\r\x1c\x1d\x1e\x1f \u1680",
        "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a",
        "\u2028\u2029\u205f\u3000",
    )
)


def listagg(rows: Rows, about: About) -> pa.Array:
    """The values that are not null or blank, joined in order, late rows in front; null where there are none.

    With `distinct` every value is split at the delimiter, and of all but the first value only parts stay that are not
    blank and did not occur before.
    """
    blank = _blank(rows.values)
    result = take(rows.values, _fallback(rows))
    if blank.all():
        return result
    order = rows.front_order()
    order = np.arange(len(rows)) if order is None else order
    order = order[~blank[order]]
    values, groups = rows.values.take(pa.array(order)), rows.ids()[order]
    if about.options.distinct:
        values, groups = _distinct(values, groups, about.options.delimiter)
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    offsets = pa.array(np.append(starts, len(groups)).astype(np.int32))
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, values), pa.scalar(about.options.delimiter))
    filled = np.zeros(rows.groups, np.bool_)
    filled[groups[starts]] = True
    if filled.all():
        return joined
    return pc.replace_with_mask(result, pa.array(filled), joined)


def _fallback(rows: Rows) -> Indices:
    """The row that a group ends with if all are blank: the last seed or late row, which is taken as it is."""
    replaces = np.zeros(len(rows), np.bool_)
    for mask in (rows.seed, rows.late):
        if mask is not None:
            replaces |= mask
    return last_of(replaces, rows.starts)


def _blank(values: pa.Array) -> Mask:
    trimmed = pc.binary_length(pc.utf8_ltrim(values, characters=_SPACE)).fill_null(0)
    blank: Mask = trimmed.to_numpy(zero_copy_only=False) == 0
    return blank


def _distinct(values: pa.Array, groups: Indices, delimiter: str) -> tuple[pa.Array, Indices]:
    """The first value of each group as it is, of the others the parts that are new and not blank; and their groups.

    Requires: values that are not blank, by group.
    """
    lists = pc.split_pattern(values, delimiter)
    owners = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    parts = lists.flatten()
    order, starts = grouped(groups[owners], codes(parts))
    new = np.zeros(len(parts), np.bool_)
    new[order[starts]] = True
    first = np.diff(groups, prepend=-1) != 0
    new &= ~first[owners] & ~_blank(parts)
    at = np.flatnonzero(first)
    mixed = pa.concat_arrays([values.take(pa.array(at)), parts.filter(pa.array(new))])
    owner = np.concatenate((at, owners[new]))
    order = np.argsort(owner, kind="stable")
    return mixed.take(pa.array(order)), groups[owner[order]]
