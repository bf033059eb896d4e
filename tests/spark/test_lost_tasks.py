"""Executors that are killed, and tasks that run twice at once, on two hosts: what they leave are orphans, never rows.

`make test` kills executors of one host (over_executors.py)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyspark
import pytest
from tests.profile import later

from bucketlake.spark.java import ensure_java

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.soak,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]

ROOT = Path(__file__).parents[2]
SCRIPT = r"""
import json, os, signal, sys
from pathlib import Path
import pyarrow as pa
import bucketlake
from bucketlake.spark.session import new_session

how, folder, master = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
session = {
    "spark.master": master, "spark.driver.memory": "1g", "spark.executor.memory": "600m", "spark.log.level": "OFF",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false", "spark.sql.warehouse.dir": str(folder / "spark"),
}
if how == "speculation":
    session |= {
        "spark.speculation": "true", "spark.speculation.interval": "50ms", "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1", "spark.speculation.minTaskRuntime": "50ms",
        "spark.speculation.efficiency.enabled": "false",
    }
spark = new_session(**session)
lake = bucketlake.connect(str(folder / "warehouse"), spark=spark)
lake.catalog.create_database("db")
SCHEMA = pa.schema([pa.field("id", pa.int64(), False), ("v", pa.int64())])
KINDS = {"append": ((), {}), "buckets": ((), {"bucket": "2", "bucket-key": "id"}), "keyed": (("id",), {"bucket": "2"})}


def parent(process):
    return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])


def troubled(marks):
    place = str(marks)

    def task(batches):
        import os, signal, threading
        from pathlib import Path
        from pyspark import TaskContext

        context = TaskContext.get()
        first = Path(place) / f"first-{context.partitionId()}"
        again = Path(place) / f"again-{context.partitionId()}"
        yield from batches
        if context.partitionId() != 1:
            return
        if first.exists():
            again.touch()
            return
        first.touch()
        if how == "killed":
            os.kill(parent(parent(os.getpid())), signal.SIGKILL)  # this worker's daemon's executor
        waiting = threading.Event()
        while not again.exists():  # until the speculative attempt has all its rows
            waiting.wait(0.05)

    return task


answers = {}
for kind, (keys, options) in KINDS.items():
    lake.catalog.create_table(f"db.{kind}", SCHEMA, (), keys, options)
    table = lake.table(f"db.{kind}")
    marks = folder / f"marks-{kind}"
    marks.mkdir()
    rows = spark.range(0, 100_000, 1, 2).selectExpr("id", "id AS v")
    table.write(rows.mapInArrow(troubled(marks), rows.schema))
    found = table.to_arrow() if hasattr(table, "to_arrow") else table.table.to_arrow()
    answers[kind] = {
        "repeated": (marks / "again-1").exists(),
        "snapshots": len(table.snapshots()),
        "rows": found.num_rows,
        "ids": len(set(found.column("id").to_pylist())),
    }
print("ANSWER " + json.dumps(answers), flush=True)
spark.stop()
"""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A standalone master with two workers that go by different host names: Spark speculates on another host only."""
    ensure_java()
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    url = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    commands = [[program, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for number in (2, 3):
        worker = ["--host", f"127.0.0.{number}", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
        commands.append([program, f"{deploy}.worker.Worker", *worker, "--work-dir", str(tmp_path / str(number)), url])
    lasting = {**os.environ, "SPARK_DAEMON_JAVA_OPTS": "-Dspark.deploy.maxExecutorRetries=-1"}
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": lasting}
    processes = [subprocess.Popen(command, start_new_session=True, **quiet) for command in commands]
    yield url
    for process in processes:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answered(arguments: list[str], timeout: float) -> dict[str, Any]:
    """What a process of this Python says."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    environment.pop("SPARK_CONNECT_MODE_ENABLED", None)
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=timeout, check=False, cwd=ROOT
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    assert lines, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(lines[0].removeprefix("ANSWER "))
    return found


@pytest.mark.parametrize("how", later(["killed", "speculation"], 1))
def test_rows_count_once(how: str, master: str, tmp_path: Path) -> None:
    expected = {"repeated": True, "snapshots": 1, "rows": 100_000, "ids": 100_000}
    found = answered(["-c", SCRIPT, how, str(tmp_path), master], 300)
    assert found == dict.fromkeys(("append", "buckets", "keyed"), expected)


KINDS = ("keyed", "append vectors", "dynamic", "evolving", "keyed vectors", "cross-partition", "lookup", "postpone")


@pytest.mark.parametrize("how", ["killed", "speculation"])
@pytest.mark.parametrize("kind", KINDS)
def test_statements_and_scripts(how: str, kind: str, master: str, tmp_path: Path) -> None:
    """Rows as the model has them after each statement, and a whole table."""
    folder = tmp_path / "lake"
    folder.mkdir()
    found = answered(["-m", "tests.spark.lost_job", how, master, str(folder), kind, "1", "6"], 1800)
    assert found["faults"] == []
    assert found["marks"]
