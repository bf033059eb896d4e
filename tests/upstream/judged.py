"""How a test of upstream's ends: passed, failed, not understood, too long; whose fault an error is."""

from __future__ import annotations

import traceback
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from bucketlake.errors import BucketlakeError

from .values import Skipped, Thrown

PRODUCT = (BucketlakeError, PySparkException, Py4JError, Thrown)
__all__ = ["LIMIT", "PRODUCT", "Skipped", "TooLong", "by_name", "is_products", "typed"]

LIMIT = 180  # seconds a test


class TooLong(Exception):
    pass


def by_name(function: Any) -> Any:
    """A native function whose arguments are evaluated when it asks for them."""
    function.by_name = True
    return function


def typed(function: Any) -> Any:
    function.typed = True
    return function


def is_products(error: BaseException) -> bool:
    """Whether an error is the product's or Spark's answer, and no fault of this tool."""
    if isinstance(error, PRODUCT):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return (
        bool(frames)
        and any("/src/bucketlake/" in one.filename for one in frames)
        and "/tests/upstream/" not in frames[-1].filename
    )
