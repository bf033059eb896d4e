"""`sys.path_to_descriptor(path)`, `sys.descriptor_to_string(bytes)`: blob descriptors, as functions of a session.

Spec: docs/sql/functions.md#blob-descriptors
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bucketlake.format.data.descriptor import of_files, shown
from bucketlake.spark.cluster import ensure_package

DESCRIPTORS: dict[str, tuple[str, Callable[[pa.Array], pa.Array]]] = {
    "path_to_descriptor": ("binary", of_files),
    "descriptor_to_string": ("string", shown),
}
"""Function → the type of what it gives, and what gives it."""


def ensure_descriptor_functions(spark: SparkSession, names: frozenset[str]) -> None:
    """Make the functions known to a session, as `sys.<name>` in one quoted name."""
    ensure_package(spark)
    for name in sorted(names):
        spark.udf.register(f"sys.{name}", _function(*DESCRIPTORS[name]))


def _function(kind: str, computes: Callable[[pa.Array], pa.Array]):  # type: ignore[no-untyped-def]
    @F.arrow_udf(kind)  # type: ignore[untyped-decorator]
    def computed(values: pa.Array) -> pa.Array:
        return computes(values)

    return computed
