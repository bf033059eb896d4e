"""Small tables to tell facts of: one of every bucket mode, and one whose names are hostile."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

import bucketlake

HOSTILE = ["<img src=x onerror=alert(1)>", "a/b=c", '"quoted"', "${x}", "\u202eevil", "javascript:alert(1)", "a'b&amp;"]


def rows(start: int, count: int = 100, step: int = 1) -> pa.Table:
    ids = range(start, start + count * step, step)
    return pa.table({"id": pa.array(ids, pa.int64()), "v": [f"value {i}" for i in ids]})


def dated(start: int, count: int = 100) -> pa.Table:
    days = [date(2024, 1, 1 + i % 3) for i in range(count)]
    return rows(start, count).append_column("day", pa.array(days, pa.date32()))


def lake_of_all_modes(folder: Path) -> Any:
    """`shop.*`: fixed, dynamic, cross, postpone, log (append), parts (partitioned and bucketed), empty."""
    lake = bucketlake.open(folder)
    lake.create_database("shop")
    plain, parted = rows(0).schema, dated(0).schema
    quiet = {"write-only": "true"}
    fixed = lake.create_table("shop.fixed", plain, primary_keys=["id"], options={"bucket": "3", **quiet})
    fixed.write_arrow(rows(0, 300))
    fixed.compact()
    for start in (0, 100, 250):
        fixed.write_arrow(rows(start, 60))
    dynamic = lake.create_table(
        "shop.dynamic", plain, primary_keys=["id"], options={"dynamic-bucket.target-row-num": "90"}
    )
    cross = lake.create_table("shop.cross", parted, ["day"], ["id"])
    postpone = lake.create_table("shop.postpone", plain, primary_keys=["id"], options={"bucket": "-2"})
    log = lake.create_table("shop.log", plain)
    parts = lake.create_table("shop.parts", parted, ["day"], ["day", "id"], {"bucket": "2"})
    for table, make in ((dynamic, rows), (cross, dated), (postpone, rows), (log, rows), (parts, dated)):
        for start in (0, 50, 200):
            table.write_arrow(make(start))
    postpone.compact()
    postpone.write_arrow(rows(400))
    lake.create_table("shop.empty", plain, primary_keys=["id"], options={"bucket": "1"})
    return lake


def hostile_table(folder: Path) -> tuple[Any, list[str]]:
    """A table of hostile partitions, with a hostile tag and comment; their texts."""
    lake = bucketlake.open(folder)
    schema = pa.schema([("p", pa.string()), ("<b>id</b>", pa.int64())])
    table = lake.create_table("x<i>y", schema, ["p"], comment="<script>alert(2)</script>")
    ids = pa.array(range(len(HOSTILE)), pa.int64())
    table.write_arrow(pa.table({"p": HOSTILE, "<b>id</b>": ids}))
    table.create_tag(HOSTILE[0])
    return table, HOSTILE
