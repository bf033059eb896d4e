"""Settings of a session that last for a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bucketlake.spark.session import Lake


@contextmanager
def session(lake: Lake, settings: Mapping[str, str]) -> Iterator[None]:
    for key, value in settings.items():
        lake.spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            lake.spark.conf.unset(key)
