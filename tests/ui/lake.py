"""A small warehouse as people have them, for the page: a shop, its clicks, and a database of hostile names."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.report.tables import HOSTILE, hostile_table

import bucketlake
from bucketlake.schema.change import AddColumn, RenameColumn, SetOption
from bucketlake.types.model import STRING

DAYS = 3
LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz "))


def orders(first: int, count: int, seed: int) -> pa.Table:
    """Orders of some days, new ones and changed ones; a few customers order much."""
    chance = np.random.default_rng(seed)
    ids = first + chance.choice(count * 2, count, replace=False)
    notes = LETTERS[chance.integers(0, len(LETTERS), (count, 60))]
    return pa.table(
        {
            "day": pa.array([date(2026, 3, 1 + int(i) % DAYS) for i in ids], pa.date32()),
            "id": pa.array(ids, pa.int64()),
            "customer": [f"customer {int(c):04d}" for c in chance.zipf(1.6, count) % 5000],
            "amount": pa.array(np.round(chance.gamma(2.0, 35.0, count), 2), pa.float64()),
            "state": pa.array(chance.choice(["placed", "paid", "sent", "returned"], count, p=[0.4, 0.3, 0.25, 0.05])),
            "note": ["".join(row) for row in notes],
        }
    )


def build(folder: Path, commits: int = 10) -> Any:
    """`shop.orders` (key, partitions, tags, a branch, consumers, a stream, schemas), `shop.customers` (postponed),
    `web.clicks` (append, small files), `web.empty`, and `default.x<i>y` with hostile names."""
    lake = bucketlake.open(folder)
    lake.create_database("shop")
    lake.create_database("web")
    _shop(lake, commits)
    clicks = lake.create_table("web.clicks", orders(0, 1, 0).schema, options={"write-only": "true"})
    for n in range(commits // 2):
        clicks.write_arrow(orders(n * 40, 40 + 250 * (n % 5), n))
    people = pa.schema([("id", pa.int64()), ("name", pa.string()), ("city", pa.string())])
    customers = lake.create_table("shop.customers", people, primary_keys=["id"], options={"bucket": "-2"})
    named = {"id": pa.array(range(200), pa.int64()), "name": [f"Ada {n}" for n in range(200)], "city": ["Ulm"] * 200}
    customers.write_arrow(pa.table(named))
    customers.compact()
    customers.write_arrow(pa.table(named).slice(0, 20))
    lake.create_table("web.empty", people, primary_keys=["id"], options={"bucket": "1"})
    hostile_table(folder)
    return lake


def _shop(lake: Any, commits: int) -> None:
    options = {"bucket": "3", "write-only": "true", "snapshot.num-retained.min": "20", "s3.secret-key": "hunter2"}
    table = lake.create_table(
        "shop.orders", orders(0, 1, 0).schema, ["day"], ["day", "id"], options, comment="Every order, as of now"
    )
    for n in range(commits):
        table.write_arrow(orders(n * 450, 120 + 1900 * (n % 5 == 0) + 90 * (n % 7), n))
        if n == 1:
            table.create_tag("before sale")
        if n == commits // 3:
            table = table.alter(AddColumn("coupon", STRING), SetOption("changelog-producer", "none"))
        if n % 6 == 4:
            table.compact()
        if n == commits - 3:
            table.create_tag("quarter end")
            table.create_branch("what if", tag="quarter end")
            table = table.alter(RenameColumn("coupon", "voucher"), SetOption("target-file-size", "64 mb"))
    newest = table.latest_snapshot().id
    table.reset_consumer("mail service", max(1, newest - 13))
    table.reset_consumer("search index", newest)
    streams = Path(table.path) / "stream"
    streams.mkdir()
    told = {"version": 1, "batch": 41, "base": newest, "fingerprint": "", "done": False}
    (streams / "stream-orders from kafka").write_text(json.dumps(told))


__all__ = ["HOSTILE", "build", "orders"]
