"""The process gets its own memory pool back, however writers in threads overlap."""

from __future__ import annotations

import pyarrow as pa
import pytest

from bucketlake.ops.memory import large_buffers


def test_the_last_of_overlapping_writers_gives_the_pool_back() -> None:
    usual = pa.default_memory_pool().backend_name
    first, second = large_buffers(), large_buffers()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert pa.default_memory_pool().backend_name == "system"
    second.__exit__(None, None, None)
    assert pa.default_memory_pool().backend_name == usual


def test_a_failure_gives_it_back() -> None:
    usual = pa.default_memory_pool().backend_name
    with pytest.raises(ValueError, match="no"), large_buffers():
        raise ValueError("no")
    assert pa.default_memory_pool().backend_name == usual
