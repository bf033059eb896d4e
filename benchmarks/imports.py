"""What an import costs: core seconds and time of fresh processes, and which libraries it brings.

    python -m benchmarks.imports [processes]

Then commands of the command line, as whole processes with the interpreter's own start, on a warehouse of one small
table: what the shell waits for.

Byte code is compiled first. `worker`: what a Python worker of Spark has loaded before the package comes (PySpark and
pyarrow) is not counted, but pyarrow, which it needs for every batch, is measured by itself.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import pyarrow as pa

import bucketlake

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


COMMANDS = ("--version", "tables", "databases", "describe t", "files t", "snapshots t", "cat t", "complete: describe t")


def commands(processes: int) -> None:
    """Core seconds and time of whole processes of the command line; the first of each is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        table = bucketlake.open(folder).create_table(
            "t", pa.schema([("id", pa.int64()), ("s", pa.string())]), [], ["id"]
        )
        for number in range(3):
            table.write_arrow({"id": [number, 7], "s": ["a", "b"]})
        for command in COMMANDS:
            environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
            environment["BUCKETLAKE_WAREHOUSE"] = folder
            words = command.split()
            if words[0] == "complete:":
                words = words[1:]
                line = {"COMP_WORDS": "\n".join(["bucketlake", *words]), "COMP_CWORD": str(len(words))}
                environment.update(line, _BUCKETLAKE_COMPLETE="bash")
                words = []
            found = [
                _process([sys.executable, "-m", "bucketlake.cli", *words], environment) for _ in range(processes + 1)
            ]
            core, wall = zip(*found[1:], strict=True)
            print(
                f"bucketlake {command}: core {statistics.median(core):.3f} s ({min(core):.3f} to {max(core):.3f}), "
                f"time {statistics.median(wall):.3f} s ({min(wall):.3f} to {max(wall):.3f})",
                flush=True,
            )


def _process(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=environment)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall


def main(processes: int) -> None:
    for name, (before, code) in CASES.items():
        core, wall, libraries = measured(before, code, processes)
        print(
            f"{name}: core {statistics.median(core):.3f} s ({min(core):.3f} to {max(core):.3f}), "
            f"time {statistics.median(wall):.3f} s ({min(wall):.3f} to {max(wall):.3f}), {libraries or 'none'}",
            flush=True,
        )
    commands(processes)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
