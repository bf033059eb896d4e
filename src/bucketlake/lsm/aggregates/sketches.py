"""Aggregates of serialized sketches and bitmaps: rbm32, rbm64, hll_sketch, theta_sketch.

The bytes are those of Apache DataSketches and of Java's Roaring bitmaps; libraries read, unite and write them.
A group of one sketch keeps its bytes.

Spec: docs/spec/aggregates.md#sketches
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap, BitMap64

from bucketlake.errors import UnsupportedError
from bucketlake.lazy import datasketches, pc
from bucketlake.lsm.aggregates import rbm64 as rbm64_bytes
from bucketlake.lsm.aggregates.rows import About, Rows, first_of, take, valid

__all__ = ["hll_sketch", "rbm32", "rbm64", "require_datasketches", "theta_sketch"]

_THETA_LG_K = 12  # 4096 nominal entries


def require_datasketches(about: About) -> None:
    """Raise UnsupportedError if the package is not installed."""
    if find_spec("datasketches") is None:  # an optional extra
        raise UnsupportedError(
            "aggregate needs a package that is not installed",
            field=about.field.name,
            function=about.name,
            package="datasketches",
            remedy="pip install 'bucketlake[sketches]'",
        )


def rbm32(rows: Rows, about: About) -> pa.Array:
    """The union of 32-bit Roaring bitmaps."""
    return _united(rows, about, _unite_bitmaps)


def rbm64(rows: Rows, about: About) -> pa.Array:
    """The union of 64-bit Roaring bitmaps."""
    return _united(rows, about, _unite_wide_bitmaps)


def hll_sketch(rows: Rows, about: About) -> pa.Array:
    """The union of HLL sketches, as HLL_4, compact."""
    require_datasketches(about)
    return _united(rows, about, _unite_hll)


def theta_sketch(rows: Rows, about: About) -> pa.Array:
    """The union of theta sketches with 4096 nominal entries, compact and ordered."""
    require_datasketches(about)
    return _united(rows, about, _unite_theta)


def _united(rows: Rows, about: About, unite: Callable[[Sequence[bytes]], bytes]) -> pa.Array:
    """One union a group; a loop over sketches, whose bytes only their library understands."""
    present = valid(rows.values)
    alive = np.ones(len(rows), np.bool_) if present is None else present
    results = take(rows.values, first_of(alive, rows.starts))
    several = np.flatnonzero(np.add.reduceat(alive, rows.starts, dtype=np.int64) > 1)
    if not len(several):
        return results
    ends = rows.starts + rows.lengths()
    unions = []
    for group in several.tolist():
        images = rows.values.slice(int(rows.starts[group]), int(ends[group] - rows.starts[group]))
        try:
            unions.append(unite(images.drop_null().to_pylist()))
        except (ValueError, RuntimeError, IndexError, MemoryError) as error:
            raise about.error(
                "value is not a sketch that this function reads", reason=str(error), remedy="write serialized sketches"
            ) from error
    mask = np.zeros(rows.groups, np.bool_)
    mask[several] = True
    return pc.replace_with_mask(results, pa.array(mask), pa.array(unions, rows.values.type))


def _unite_bitmaps(images: Sequence[bytes]) -> bytes:
    united: Any = BitMap.union(*[BitMap.deserialize(image) for image in images])
    united.run_optimize()
    data: bytes = united.serialize()
    return data


def _unite_wide_bitmaps(images: Sequence[bytes]) -> bytes:
    united: Any = BitMap64.union(*[rbm64_bytes.decode(image) for image in images])
    united.run_optimize()
    return rbm64_bytes.encode(united)


def _unite_hll(images: Sequence[bytes]) -> bytes:
    held = datasketches.hll_sketch.deserialize(images[0])
    for image in images[1:]:
        given = datasketches.hll_sketch.deserialize(image)
        union = datasketches.hll_union(given.lg_config_k)
        union.update(given)
        union.update(held)
        held = union.get_result(datasketches.tgt_hll_type.HLL_4)
    data: bytes = held.serialize_compact()
    return data


def _unite_theta(images: Sequence[bytes]) -> bytes:
    union = datasketches.theta_union(_THETA_LG_K)
    for image in images:
        union.update(datasketches.compact_theta_sketch.deserialize(image))
    data: bytes = union.get_result().serialize()
    return data
