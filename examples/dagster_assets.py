"""Dagster assets that are tables: one partition a day, metadata of each commit, a check of the table's health.

pip install 'bucketlake[pandas]' dagster
export BUCKETLAKE_WAREHOUSE=/data/warehouse
dagster dev -f examples/dagster_assets.py
"""

from datetime import date

import dagster as dg
import pyarrow as pa

import bucketlake

DAYS = dg.DailyPartitionsDefinition(start_date="2024-05-01")
ORDERS = pa.schema([("day", pa.date32()), ("id", pa.int64()), ("amount", pa.float64())])
TOTALS = pa.schema([("day", pa.date32()), ("amount", pa.float64())])


class Warehouse(dg.ConfigurableResource):
    """Where the tables lie."""

    path: str

    def table(self, name: str, columns: pa.Schema, **how: object) -> bucketlake.Table:
        """A table, made where it is missing."""
        catalog = bucketlake.open(self.path)
        catalog.create_database(name.partition(".")[0], ignore_if_exists=True)
        if not catalog.table_exists(name):
            catalog.create_table(name, columns, **how)
        return catalog.table(name)

    def orders(self) -> bucketlake.Table:
        """Orders of every day."""
        return self.table(
            "shop.orders", ORDERS, partition_keys=["day"], primary_keys=["day", "id"], options={"bucket": "2"}
        )

    def totals(self) -> bucketlake.Table:
        """A row a day; a day that is computed again replaces its row."""
        return self.table("shop.totals", TOTALS, primary_keys=["day"], options={"bucket": "1"})


def committed(snapshot: bucketlake.Snapshot | None) -> dg.MaterializeResult:
    """What a commit did, for Dagster's catalog."""
    if snapshot is None:
        return dg.MaterializeResult(metadata={"snapshot": None})
    return dg.MaterializeResult(metadata={"snapshot": snapshot.id, "dagster/row_count": snapshot.total_record_count})


@dg.asset(partitions_def=DAYS)
def orders(context: dg.AssetExecutionContext, warehouse: Warehouse) -> dg.MaterializeResult:
    """Orders of one day; running it again replaces the day."""
    day = date.fromisoformat(context.partition_key)
    rows = [{"day": day, "id": n, "amount": n * 1.5} for n in range(1000)]  # of a source of yours
    return committed(warehouse.orders().write_arrow(rows, mode="overwrite", partition={"day": day}))


@dg.asset(partitions_def=DAYS, deps=[orders])
def totals(context: dg.AssetExecutionContext, warehouse: Warehouse) -> dg.MaterializeResult:
    """What was sold on one day."""
    amounts = warehouse.orders().to_polars(where=f"day = DATE '{context.partition_key}'")
    return committed(
        warehouse.totals().write_arrow(amounts.group_by("day").agg(amount=amounts.collect()["amount"].sum()))
    )


@dg.asset_check(asset=orders)
def orders_are_whole(warehouse: Warehouse) -> dg.AssetCheckResult:
    """Every file of the newest snapshot is there and readable, and the keys are sound."""
    report = warehouse.orders().fsck("keys")
    return dg.AssetCheckResult(passed=not report.findings, metadata={"findings": len(report.findings)})


defs = dg.Definitions(
    assets=[orders, totals],
    asset_checks=[orders_are_whole],
    resources={"warehouse": Warehouse(path=dg.EnvVar("BUCKETLAKE_WAREHOUSE"))},
)
