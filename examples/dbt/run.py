"""Run this dbt project over a warehouse: dbt's session is one to which the lake is attached.

pip install 'bucketlake[spark]' dbt-spark
python examples/dbt/run.py /data/warehouse            # seed, run, test
python examples/dbt/run.py /data/warehouse run --full-refresh
"""

from __future__ import annotations

import sys
from pathlib import Path

from dbt.cli.main import dbtRunner

import bucketlake
from bucketlake.spark.session import new_session

PROJECT = Path(__file__).parent


def main(warehouse: str, *command: str) -> int:
    """dbt's exit status; dbt-spark takes the session that is there."""
    spark = new_session()
    bucketlake.attach(spark, warehouse)
    spark.sql("CREATE DATABASE IF NOT EXISTS shop")
    place = ["--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT)]
    for step in [command] if command else [("seed",), ("run",), ("test",)]:
        if not dbtRunner().invoke([*step, *place]).success:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
