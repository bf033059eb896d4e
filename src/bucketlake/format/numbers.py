"""Sets of whole numbers in arrays.

    distinct(parts)                what is in any of them, ascending, each once
    members(known, wanted)         a mask of what is wanted: what is in an ascending array
    is_among(values, others)       the same of others in any order
    without(values, others)

NumPy's own `unique`, `union1d`, `setdiff1d`, `intersect1d` and `isin` look values up in a table of their own since
NumPy 2.3, which for many different ones takes ten to twenty times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketlake.lazy import pc

Values = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)


def distinct(parts: Sequence[npt.NDArray[T]]) -> npt.NDArray[T]:
    """What is in any of these arrays, ascending, each value once; without an array, none (int64)."""
    ordered: npt.NDArray[T] = np.sort(np.concatenate(parts) if parts else np.zeros(0, np.int64))
    kept = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=kept[1:])
    return ordered[kept]


def members(known: Values, wanted: Values) -> Mask:
    """Which of `wanted` are among the ascending `known`: for few of them, or a few known."""
    if not len(known):
        return np.zeros(len(wanted), np.bool_)
    places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.asarray(known[places] == wanted, np.bool_)


def is_among(values: Values, others: Values) -> Mask:
    """Which of the values are among others of the same type, in any order."""
    if not len(values):
        return np.zeros(0, np.bool_)
    found = pc.is_in(_as_arrow(values), value_set=_as_arrow(others)).cast(pa.uint8())
    return np.frombuffer(found.buffers()[1], np.bool_, len(values))


def _as_arrow(values: Values) -> pa.Array:
    """The same numbers to Arrow, as above back again by their bytes: pyarrow loads pandas where it looks at arrays of
    NumPy's or makes them."""
    held = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(held.dtype), len(held), [None, pa.py_buffer(held)])


def without(values: npt.NDArray[T], others: npt.NDArray[T]) -> npt.NDArray[T]:
    """Those of the values that are not among others, in their order."""
    return values[~is_among(values, others)]
