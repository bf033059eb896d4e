"""Libraries that are loaded when something of theirs is first used, not when a module that names them is imported.

    from bucketlake.lazy import pl
    pl.read_avro(...)  # polars is loaded here

A process that opens a warehouse, and every Python worker of Spark, pays for what it uses: parsers, codecs and clients
of object stores cost more time than the work of a small task. Only attributes of modules are late: what a module of
this package needs at its top, for a constant or a base class, is built late as well, or imported plainly.

Of the standard library, those that every handle on a table names and few use: together they take as long as a third of
the modules of such a handle.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "datasketches",
    "exp",
    "fastavro",
    "futures",
    "html",
    "lazy",
    "np",
    "npt",
    "obstore",
    "obstore_errors",
    "obstore_store",
    "pa",
    "pa_orc",
    "pc",
    "pl",
    "pq",
    "random",
    "shutil",
    "spark_dialect",
    "sqlglot",
    "sqlglot_errors",
    "sqlglot_tokens",
    "tempfile",
    "uuid",
]


class _Lazy:
    """Stands for a module: its attributes are the module's."""

    __slots__ = ("_module", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: Any = None

    def __getattr__(self, attribute: str) -> Any:
        if self._module is None:
            self._module = import_module(self._name)
        return getattr(self._module, attribute)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return lazy, (self._name,)

    def __repr__(self) -> str:
        return f"lazy({self._name!r})"


class _Untyped:
    """Stands for `numpy.typing.NDArray`, which only annotations use: `npt.NDArray["np.int64"]` loads nothing."""

    def __class_getitem__(cls, _: Any) -> Any:
        return Any


class _NumpyTyping:
    NDArray = _Untyped


def lazy(name: str) -> Any:
    """The module of a name, loaded at the first use of an attribute. ImportError comes then, too."""
    return _Lazy(name)


if TYPE_CHECKING:
    import html
    import random
    import shutil
    import tempfile
    import uuid
    from concurrent import futures

    import datasketches
    import fastavro
    import numpy as np
    import numpy.typing as npt
    import obstore
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.orc as pa_orc
    import pyarrow.parquet as pq
    import sqlglot
    from obstore import exceptions as obstore_errors
    from obstore import store as obstore_store
    from sqlglot import errors as sqlglot_errors
    from sqlglot import exp
    from sqlglot import tokens as sqlglot_tokens
    from sqlglot.dialects import spark as spark_dialect
else:
    datasketches = lazy("datasketches")
    fastavro = lazy("fastavro")
    futures = lazy("concurrent.futures")
    html = lazy("html")
    np = lazy("numpy")
    npt = _NumpyTyping
    obstore = lazy("obstore")
    obstore_errors = lazy("obstore.exceptions")
    obstore_store = lazy("obstore.store")
    pa = lazy("pyarrow")
    pa_orc = lazy("pyarrow.orc")
    pc = lazy("pyarrow.compute")
    pl = lazy("polars")
    pq = lazy("pyarrow.parquet")
    random = lazy("random")
    shutil = lazy("shutil")
    exp = lazy("sqlglot.expressions")
    spark_dialect = lazy("sqlglot.dialects.spark")
    sqlglot = lazy("sqlglot")
    sqlglot_errors = lazy("sqlglot.errors")
    sqlglot_tokens = lazy("sqlglot.tokens")
    tempfile = lazy("tempfile")
    uuid = lazy("uuid")
