"""A warehouse of three small tables, and the command line in this process."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import bucketlake
from bucketlake.cli import main

ORDERS = pa.schema([pa.field("id", pa.int64(), False), ("city", pa.string()), ("at", pa.timestamp("us"))])
HOSTILE = "[red]Bonn\x1b[2J\n"


@dataclass
class Result:
    """What a call gave."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as one document."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """Standard error as one document."""
        return json.loads(self.err.strip().split("\n")[-1])["error"]


Run = Callable[..., Result]


def fill(root: str) -> None:
    """`db.orders` (key, two buckets, a hostile comment and value, a tag, branches), `db.days` (partitioned), `empty`."""
    catalog = bucketlake.open(root)
    catalog.create_database("db")
    comment = "with \x1b[31mred[/red] [bold]x"
    orders = catalog.create_table("db.orders", ORDERS, [], ["id"], {"bucket": 2}, comment)
    at = [datetime(2026, 1, 1)] * 3
    for k in range(3):
        orders.write_arrow({"id": [k, k + 1, k + 2], "city": ["Oslo", "Rome", HOSTILE], "at": at})
    orders.create_tag("v1", 1)
    orders.create_branch("dev", "v1")
    days = catalog.create_table("db.days", pa.schema([("day", pa.string()), ("n", pa.int32())]), ["day"])
    for day, n in (("a", 1), ("b", 2), ("a", 3)):
        days.write_arrow({"day": [day], "n": pa.array([n], pa.int32())})
    catalog.create_table("empty", pa.schema([("x", pa.int32())]))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse that tests only read."""
    root = str(tmp_path_factory.mktemp("warehouse"))
    fill(root)
    return root


@pytest.fixture
def own(tmp_path: Path) -> str:
    """A warehouse of the test's own."""
    root = str(tmp_path / "warehouse")
    fill(root)
    return root


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration but the test's."""
    monkeypatch.setenv("BUCKETLAKE_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.delenv("BUCKETLAKE_WAREHOUSE", raising=False)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Call the command line: `run("tables", warehouse=root, stdin="…")`."""

    def call(*arguments: str, warehouse: str | None = None, stdin: str | bytes = "") -> Result:
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        place = [] if warehouse is None else ["-w", warehouse]
        capsys.readouterr()
        status = main([*place, *arguments])
        text = capsys.readouterr()
        return Result(status, text.out, text.err)

    return call
