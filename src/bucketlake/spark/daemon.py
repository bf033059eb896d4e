"""The process that Python workers of a local session are forked from: PySpark's, with what tasks need loaded already.

    spark.python.daemon.module = bucketlake.spark.daemon

Each worker is a fork of this process and would load the same libraries anew, the better part of a second each. What is
loaded here is only loaded: the threads that numpy and Arrow start by themselves wait, and their libraries (OpenBLAS,
jemalloc) are made to be forked. polars is not, and comes late. Chance differs between workers as it does without this.
"""

from __future__ import annotations

import gc
import os
import runpy
import subprocess
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import numpy as np

MODULE = "bucketlake.spark.daemon"
AHEAD = (
    *("pandas", "pyarrow.compute", "pyarrow.pandas_compat", "pyarrow.parquet", "fastavro"),
    *("bucketlake.spark.write.writer", "bucketlake.spark.read.reader", "bucketlake.spark.datasource"),
    *("bucketlake.spark.maintain.compaction", "bucketlake.spark.maintain.orphans"),
)
_ARCHIVE = ("pyspark", "python", "lib", "pyspark.zip")
_WHERE = f"import importlib.util; print(importlib.util.find_spec({MODULE!r}).origin)"


def daemon_settings() -> dict[str, str]:
    """The setting for a local session; empty where a new process of the workers' interpreter would not find this very
    module, as with a folder that only this process has on its path."""
    try:
        command = [os.environ.get("PYSPARK_PYTHON", sys.executable), "-c", _WHERE]
        found = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.strip()
        return {"spark.python.daemon.module": MODULE} if found and os.path.samefile(found, __file__) else {}
    except (OSError, subprocess.SubprocessError):
        return {}


def unzipped(path: Sequence[str]) -> list[str]:
    """The module path without the archive of PySpark that lies inside of an installed PySpark, where the rest of the
    path finds that one: Python compiles what an archive holds anew in every process."""
    return [item for item in path if not _is_twin(Path(item), [other for other in path if other != item])]


def _is_twin(archive: Path, others: list[str]) -> bool:
    if archive.parts[-4:] != _ARCHIVE:
        return False
    found = PathFinder.find_spec("pyspark", others)
    if found is None or found.origin is None:
        return False
    # An environment may be reached by a link.
    return Path(found.origin).parent.resolve() == archive.parents[2].resolve()


def _load() -> None:
    for name in AHEAD:
        with suppress(Exception):  # a worker that needs it says what is wrong with it
            import_module(name)
    os.register_at_fork(after_in_child=np.random.seed)
    traceback.print_exc = _print_error
    # What Python says of every fork beside threads, from 3.12 on; which threads these are stands above.
    warnings.filterwarnings("ignore", r"This process .* is multi-threaded", DeprecationWarning)
    gc.freeze()  # workers share it: their collections, one a task, need not look at it


_print_exc = traceback.print_exc


def _print_error(*args: Any, **named: Any) -> None:
    """As the library's: but a worker whose JVM has ended has nobody to tell, and nothing to say about it."""
    if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
        _print_exc(*args, **named)


if __name__ == "__main__":
    sys.path[:] = unzipped(sys.path)
    _load()
    runpy.run_module("pyspark.daemon", run_name="__main__")
