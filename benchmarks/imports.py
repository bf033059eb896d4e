"""What an import costs: core seconds and time of fresh processes, and which libraries it brings.

    python -m benchmarks.imports [processes]

Byte code is compiled first. `worker`: what a Python worker of Spark has loaded before the package comes (PySpark and
pyarrow) is not counted, but pyarrow, which it needs for every batch, is measured by itself.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile

CASES = {
    "pyarrow": ("", "import pyarrow"),
    "import bucketlake": ("", "import bucketlake"),
    "bucketlake.open": ("", "import bucketlake; bucketlake.open(FOLDER)"),
    "worker that writes": ("import pyspark.daemon, pyspark.worker", "import bucketlake.spark.write.tasks"),
    "worker that reads": ("import pyspark.daemon, pyspark.worker", "import bucketlake.spark.read.reader"),
}
LIBRARIES = ("pandas", "polars", "sqlglot", "fastavro", "datasketches", "obstore", "pyarrow.compute")
CODE = """
import json, sys, time
FOLDER = {folder!r}
{before}
wall, core = time.perf_counter(), time.process_time()
{measured}
core, wall = time.process_time() - core, time.perf_counter() - wall
print(json.dumps([core, wall, [name for name in {libraries!r} if name in sys.modules]]))
"""


def measured(before: str, code: str, processes: int) -> tuple[list[float], list[float], list[str]]:
    """Core seconds, seconds, libraries; after one process that is not counted."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    found = []
    with tempfile.TemporaryDirectory() as folder:
        text = CODE.format(folder=folder, before=before, measured=code, libraries=LIBRARIES)
        for _ in range(processes + 1):
            run = subprocess.run(
                [sys.executable, "-c", text], capture_output=True, text=True, check=True, env=environment
            )
            found.append(json.loads(run.stdout))
    core, wall, libraries = zip(*found[1:], strict=True)
    return list(core), list(wall), libraries[0]


def main(processes: int) -> None:
    for name, (before, code) in CASES.items():
        core, wall, libraries = measured(before, code, processes)
        print(
            f"{name}: core {statistics.median(core):.3f} s ({min(core):.3f} to {max(core):.3f}), "
            f"time {statistics.median(wall):.3f} s ({min(wall):.3f} to {max(wall):.3f}), {libraries or 'none'}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
