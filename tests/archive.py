"""An archive of the classes that Spark's JVMs load, for those that tests start: `python -m tests.archive` makes it.

With it a session starts in half the time (a JVM maps classes instead of reading and checking them). A JVM that it does not fit,
of another Java or over other jars, takes no notice of it; without one tests are slower, no more.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pyspark

RUN = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as RemoteSession
from tests.quick import INTERPRETED, SETTINGS
import bucketlake
from bucketlake.spark.session import new_session

folder, port, options = sys.argv[1:]
settings = {**SETTINGS, **INTERPRETED, "spark.master": "local[2,4]", "spark.sql.warehouse.dir": folder + "/own"}
settings |= {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin", "spark.connect.grpc.binding.port": port}
settings["spark.driver.extraJavaOptions"] += " " + options
session = new_session(**settings)
remote = RemoteSession.builder.remote("sc://127.0.0.1:" + port).create()
for number, spark in enumerate((session, remote)):
    lake = bucketlake.connect(f"{folder}/{number}", spark=spark)
    lake.sql("CREATE DATABASE db")
    lake.sql("CREATE TABLE db.t (a INT, b STRING, c DECIMAL(9, 2)) TBLPROPERTIES ('primary-key' = 'a', 'bucket' = '2')")
    lake.sql("CREATE TABLE db.u (a INT, b STRING, d DATE, e ARRAY<INT>, f STRUCT<g: TIMESTAMP>) PARTITIONED BY (d)")
    lake.sql("INSERT INTO db.t VALUES (1, 'a', 1.5), (2, 'b', NULL)")
    lake.sql("INSERT INTO db.u SELECT a, b, DATE '2024-01-01', array(a), named_struct('g', current_timestamp()) FROM db.t")
    lake.sql("MERGE INTO db.t USING db.u ON t.a = u.a WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (a) VALUES (u.a)")
    lake.sql("UPDATE db.u SET b = 'x' WHERE a = 1")
    lake.sql("DELETE FROM db.u WHERE a IN (SELECT max(a) FROM db.t)")
    lake.table("db.t").write(spark.range(1000).selectExpr("int(id) a", "string(id) b", "decimal(id) c"))
    lake.sql("SELECT b, count(*), sum(c) OVER (ORDER BY b) FROM db.t LEFT JOIN db.u USING (a, b) GROUP BY b, c").collect()
    spark.read.format("bucketlake").load(f"{folder}/{number}/db.db/t").filter("a > 3").distinct().orderBy("a").collect()
    spark.range(9).write.parquet(f"{folder}/{number}/plain")
    stream = lake.table("db.t").read_stream().writeStream.format("noop").trigger(availableNow=True)
    stream.option("checkpointLocation", f"{folder}/{number}/checkpoint").start().awaitTermination()
remote.stop()
session.stop()
"""


def place() -> Path | None:
    """Where the archive for this machine's Java and this PySpark lies, or would; None where there is no Java of its own."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if java is None:
        return None
    real = Path(java).resolve()
    told = f"{real} {real.stat().st_mtime_ns} {pyspark.__file__} {pyspark.__version__} {RUN}"
    return Path(sys.prefix) / f"classes-{hashlib.sha256(told.encode()).hexdigest()[:16]}.jsa"


def options() -> str:
    """What tells a JVM to use the archive; nothing where none was made."""
    found = place()
    if found is None or not found.is_file() or " " in str(found):
        return ""
    return f" -XX:SharedArchiveFile={found} -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def make() -> None:
    """Make the archive unless it is there."""
    wanted = place()
    if wanted is None or wanted.exists():
        return
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "classes.jsa"
        dump = f"-XX:ArchiveClassesAtExit={made} -Xlog:cds=off -Xlog:cds+dynamic=off"
        arguments = [sys.executable, "-c", RUN, folder, str(port), dump]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
        if made.is_file():
            part = wanted.with_suffix(f".{os.getpid()}")
            shutil.move(made, part)
            part.rename(wanted)
            for old in set(wanted.parent.glob("classes-*.jsa")) - {wanted}:
                old.unlink()
        else:
            print(f"no class archive, tests are slower: {done.stderr[-500:]}")


if __name__ == "__main__":
    make()
