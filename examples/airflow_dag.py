"""An Airflow DAG that loads a day of orders into a table and looks after it, without Spark.

    pip install 'bucketlake[pandas]' apache-airflow
    export BUCKETLAKE_WAREHOUSE=/data/warehouse
    cp examples/airflow_dag.py $AIRFLOW_HOME/dags/ && airflow dags test bucketlake_orders 2024-05-01

The load replaces the partition of its day, so that a task that runs again does the same again. Writes and compactions are told
to OpenLineage where OPENLINEAGE_URL is set.
"""

from __future__ import annotations

import os
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
from airflow.sdk import dag, task

import bucketlake
from bucketlake import events

COLUMNS = pa.schema([("day", pa.date32()), ("id", pa.int64()), ("amount", pa.float64())])


def orders() -> bucketlake.Table:
    """The table, made where it is missing."""
    catalog = bucketlake.open(os.environ["BUCKETLAKE_WAREHOUSE"])
    catalog.create_database("shop", ignore_if_exists=True)
    if not catalog.table_exists("shop.orders"):
        options = {"bucket": "2", "write-only": "true"}  # compaction is a task of its own
        catalog.create_table("shop.orders", COLUMNS, ["day"], ["day", "id"], options)
    return catalog.table("shop.orders")


def told() -> events.OpenLineage | None:
    """Lineage of what this task commits."""
    url = os.environ.get("OPENLINEAGE_URL")
    return None if url is None else events.OpenLineage(url).start()


@dag(schedule="@daily", start_date=datetime(2024, 5, 1), catchup=False, tags=["bucketlake"])
def bucketlake_orders() -> None:
    """Load, compact, expire."""

    @task(retries=3, retry_delay=timedelta(minutes=1))
    def load(**context: Any) -> int:
        day: date = context["logical_date"].date()
        rows = [{"day": day, "id": n, "amount": n * 1.5} for n in range(1000)]  # of a source of yours
        lineage = told()
        orders().write_arrow(rows, mode="overwrite", partition={"day": day})
        if lineage is not None:
            lineage.stop()
        return len(rows)

    @task
    def compact() -> None:
        orders().compact(full=False)

    @task
    def expire() -> int:
        return orders().expire_snapshots(retain_max=30, older_than=datetime.now() - timedelta(days=7)).snapshots

    load() >> compact() >> expire()


bucketlake_orders()
