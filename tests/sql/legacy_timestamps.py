"""A session that takes TIMESTAMP for Spark's own (`legacy-timestamp-mapping.enabled`), and a table in it, for the tests of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bucketlake.spark.session import Lake

KEY = "legacy-timestamp-mapping.enabled"
PARIS = "Europe/Paris"  # 2024-03-31 02:30 is skipped there, 2024-10-27 02:30 comes twice, +00:09:21 before 1911
TIMES = (
    "2024-01-01 00:00:00",
    "2024-10-27 02:30:00.123456",
    "1893-05-06 07:08:09",
    "1583-01-01 12:00:00.5",
    "2024-03-31 03:30:00",
    "2024-06-30 23:30:00",
)


@contextmanager
def legacy(lake: Lake, zone: str = PARIS, **more: str) -> Iterator[None]:
    """The option set, in a session of this zone."""
    settings = {
        f"spark.paimon.{KEY}": "true",
        "spark.sql.session.timeZone": zone,
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    before = {key: lake.spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        lake.spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            lake.spark.conf.unset(key) if old is None else lake.spark.conf.set(key, old)


def stored(lake: Lake, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows as they lie in the table: local times."""
    rows = lake.catalog.table(table).to_arrow(columns=list(columns) or None).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def rows(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.sql(text).collect()), key=repr)


def at(text: str) -> dt.datetime:
    head, dot, fraction = text.partition(".")  # Python 3.10 takes three or six digits alone
    return dt.datetime.fromisoformat(f"{head}{dot}{fraction.ljust(6, '0')}" if dot else text)


def filled(lake: Lake, table: str = "t", properties: str = "", partitioned: bool = False) -> None:
    """A table of ids and local times, written without the option, and a view `v` of what it shows with it."""
    by = "PARTITIONED BY (ts)" if partitioned else ""
    lake.sql(
        f"CREATE TABLE {table} (id BIGINT, ts TIMESTAMP_NTZ, s STRUCT<a: TIMESTAMP_NTZ, b: INT>, z TIMESTAMP_LTZ) {by} {properties}"
    )
    values = ", ".join(
        f"({number}, TIMESTAMP_NTZ '{text}', named_struct('a', TIMESTAMP_NTZ '{text}', 'b', {number}), TIMESTAMP '2024-01-01 00:00:00+00:00')"
        for number, text in enumerate(TIMES)
    )
    nothing = "" if partitioned or "primary-key" in properties else ", (99, NULL, NULL, NULL)"
    lake.sql(f"INSERT INTO {table} VALUES {values}{nothing}")
