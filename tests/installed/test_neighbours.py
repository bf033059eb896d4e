"""The examples for Airflow, Dagster and dbt run in environments of their own, with what the registry has."""

from __future__ import annotations

from pathlib import Path

import pytest

import bucketlake

from .bare import ROOT, Bare

EXAMPLES = ROOT / "examples"
DAGSTER = """
import sys; sys.path.insert(0, {folder!r})
import dagster as dg, dagster_assets as d
for _ in range(2):
    resources = {{"warehouse": d.Warehouse(path={warehouse!r})}}
    done = dg.materialize([d.orders, d.totals, d.orders_are_whole], partition_key="2024-05-01", resources=resources)
    assert done.success and all(check.passed for check in done.get_asset_check_evaluations())
"""


RAY = """
import sys
import pyarrow as pa
import bucketlake, ray
catalog = bucketlake.open(sys.argv[1])
catalog.create_database("shop")
columns = pa.schema([("id", pa.int64()), ("price", pa.float64())])
orders = catalog.create_table("shop.orders", columns, primary_keys=["id"], options={"bucket": "4"})
orders.write_arrow({"id": list(range(2001)), "price": [1.0] * 2001})
orders.write_arrow({"id": list(range(100)), "price": [2.0] * 100})  # splits that merge
ray.init(num_cpus=1, include_dashboard=False, logging_level="ERROR")
names = {"orders": orders, "pa": pa}
exec(sys.argv[2], names)
assert names["prices"].sum("price") == 2101.0
"""


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.name)
def test_examples_compile(path: Path) -> None:
    compile(path.read_text(), str(path), "exec")


@pytest.mark.soak
def test_dagster(tmp_path: Path) -> None:
    bare, warehouse = Bare(tmp_path / "venv", str(ROOT), "dagster"), str(tmp_path / "wh")
    bare.run(["-c", DAGSTER.format(folder=str(EXAMPLES), warehouse=warehouse)], DAGSTER_HOME=str(tmp_path))
    catalog = bucketlake.open(warehouse)
    assert catalog.table("shop.totals").to_arrow()["amount"].to_pylist() == [749250.0]
    assert catalog.table("shop.orders").to_arrow().num_rows == 1000


@pytest.mark.soak
def test_airflow(tmp_path: Path) -> None:
    bare, warehouse = Bare(tmp_path / "venv", str(ROOT), "apache-airflow"), str(tmp_path / "wh")
    how = {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES),
        "BUCKETLAKE_WAREHOUSE": warehouse,
        "OPENLINEAGE_URL": f"file:{tmp_path}/lineage.jsonl",
    }
    bare.run(["-m", "airflow", "db", "migrate"], **how)
    bare.run(["-m", "airflow", "dags", "test", "bucketlake_orders", "2024-05-01"], **how)
    assert bucketlake.open(warehouse).table("shop.orders").to_arrow().num_rows == 1000
    assert len((tmp_path / "lineage.jsonl").read_text().splitlines()) == 2


@pytest.mark.soak
@pytest.mark.spark
def test_dbt(tmp_path: Path) -> None:
    # From 1.12 on dbt-core fetches a parser from outside of the registry.
    bare = Bare(tmp_path / "venv", f"{ROOT}[spark]", "dbt-core<1.12", "dbt-spark<1.11")
    for step in ([], ["run"]):
        bare.run(
            [str(EXAMPLES / "dbt" / "run.py"), str(tmp_path / "wh"), *step], DBT_TARGET_PATH=str(tmp_path / "target")
        )
    table = bucketlake.open(tmp_path / "wh").table("shop.orders")
    assert (table.schema.primary_keys, table.to_arrow().num_rows) == (("id",), 3)


@pytest.mark.soak
def test_ray(tmp_path: Path) -> None:
    """The block of docs/without-spark.md, on a table whose splits merge."""
    page = (ROOT / "docs" / "without-spark.md").read_text()
    block = page.partition("<!-- needs ray -->\n```python\n")[2].partition("```")[0]
    bare = Bare(tmp_path / "venv", str(ROOT), "ray[data]")
    bare.run(["-c", RAY, str(tmp_path / "wh"), block], RAY_ENABLE_UV_RUN_RUNTIME_ENV="0")
