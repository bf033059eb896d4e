"""Damage under what changes tables: whatever cannot be read must stop a change before it is published.

python -m tests.hostile.changes <cases> [seed]        a long run in this process, counted; a case that hangs or dies shows
                                                      as the last line of its log
Every case damages a file, acts, and restores the file: after an error the table has the rows from before it.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.hostile.damage import DAMAGES
from tests.hostile.tables import COARSE, INDEXED, ROWS, Rows, listed, rows

import bucketlake
from bucketlake.catalog import Catalog
from bucketlake.errors import BucketlakeError
from bucketlake.ops.table.store import clear_cache
from bucketlake.table import Table

MEMORY = 2 << 30
CALM = {"num-sorted-run.compaction-trigger": "9", "write-only": "true", "changelog-file.format": "parquet"}
EVOLVING = {
    "bucket": "-1",
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "deletion-vectors.enabled": "true",
}


def _keyed(name: str, format: str, **more: str) -> Callable[[Catalog], None]:
    schema = COARSE

    def make(catalog: Catalog) -> None:
        options = {"bucket": "1", "file.format": format, **CALM, **more}
        table = catalog.create_table(name, schema, [], ["k"], options)
        for number, mark in enumerate("abc"):
            table.write_arrow(rows(number * 10, ROWS, mark, schema))

    return make


def _appended(name: str, format: str, **more: str) -> Callable[[Catalog], None]:
    def make(catalog: Catalog) -> None:
        options = {"bucket": "-1", "file.format": format, "compaction.min.file-num": "2", "write-only": "true", **more}
        table = catalog.create_table(name, COARSE, [], [], options)
        for number, mark in enumerate("ab"):
            table.write_arrow(rows(number * ROWS, number * ROWS + ROWS, mark, COARSE))
        if "deletion-vectors.enabled" in more:
            table.delete("k IN (0, 7, 14, 21, 50, 55)")

    return make


def _sorted(catalog: Catalog) -> None:
    """A table whose keys have indexes, compacted once, with a newer run above."""
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "file.format": "parquet", "target-file-size": "1 kb"}
    options |= {"pk-bitmap.index.columns": "name", "pk-btree.index.columns": "n"}
    table = catalog.create_table("sorted", INDEXED, [], ["k"], options)
    table.write_arrow(rows(0, ROWS, "a", INDEXED))
    table.compact()
    table.write_arrow(rows(10, ROWS, "b", INDEXED))


def _evolved(catalog: Catalog) -> None:
    """Columns in several files."""
    table = catalog.create_table("evolved", COARSE, [], [], {**EVOLVING, "compaction.min.file-num": "2"})
    for number, mark in enumerate("ab"):
        table.write_arrow(rows(number * ROWS, number * ROWS + ROWS, mark, COARSE))
    table.refresh().update({"name": "another"}, "k < 30")


def _blobs(catalog: Catalog) -> None:
    schema = pa.schema([("k", pa.int64()), ("name", pa.string()), ("pic", pa.binary())])
    options = {**EVOLVING, "blob-field": "pic", "compaction.min.file-num": "2"}
    table = catalog.create_table("blobs", schema, [], [], options)
    for start in (0, ROWS):
        keys = range(start, start + ROWS)
        table.write_arrow(pa.table([keys, [f"n{k}" for k in keys], [bytes([k]) * (k * 7) for k in keys]], schema))
    table.refresh().update({"pic": b"another"}, "k IN (4, 9, 10, 38)")
    table.refresh().delete("k IN (5, 17)")


TABLES: dict[str, Callable[[Catalog], None]] = {
    "keyed_parquet": _keyed("keyed_parquet", "parquet"),
    "keyed_orc": _keyed("keyed_orc", "orc", **{"changelog-producer": "lookup"}),
    "keyed_avro": _keyed("keyed_avro", "avro", **{"changelog-producer": "full-compaction"}),
    "vectors": _keyed("vectors", "parquet", **{"deletion-vectors.enabled": "true"}),
    "summed": _keyed(
        "summed", "parquet", **{"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    ),
    "logged_parquet": _keyed("logged_parquet", "parquet", **{"changelog-producer": "input"}),
    "logged_orc": _keyed("logged_orc", "orc", **{"changelog-producer": "input", "changelog-file.format": "orc"}),
    "logged_avro": _keyed("logged_avro", "avro", **{"changelog-producer": "input", "changelog-file.format": "avro"}),
    "appended_parquet": _appended("appended_parquet", "parquet"),
    "appended_orc": _appended("appended_orc", "orc", **{"deletion-vectors.enabled": "true"}),
    "appended_avro": _appended("appended_avro", "avro"),
    "marked": _appended("marked", "parquet", **{"deletion-vectors.enabled": "true"}),
    "sorted": _sorted,
    "evolved": _evolved,
    "blobs": _blobs,
}


def make(folder: Path) -> None:
    """Write all tables below `folder`."""
    catalog = bucketlake.open(folder)
    for build in TABLES.values():
        build(catalog)


# ---- what is done with them

WHERE = ("k = 7", "name = 'a-7-long long long '", "n < -50", "n IN (5, 12) OR name = 'x'", "k > 35", "name IS NULL")


def _ask(table: Table) -> Rows:
    conditions = [where for where in WHERE if "n" in table.arrow_schema.names or not where.startswith("n ")]
    return [(where, *row) for where in conditions for row in listed(table.to_arrow(where, columns=["k", "name"]))]


def _log(table: Table) -> Rows:
    newest = table.latest_snapshot()
    assert newest is not None
    if table.path.endswith(("evolved", "blobs")):  # refused there
        return listed(table.to_arrow(**{"scan.snapshot-id": str(newest.id - 1)}))
    return listed(table.to_arrow(**{"incremental-between": f"1,{newest.id}"}))


def _upsert(table: Table) -> None:
    more = rows(5, 15, "z", COARSE if "price" in table.arrow_schema.names else INDEXED)
    if "pic" in table.arrow_schema.names:
        more = pa.table([[1], ["z"], [b"z"]], schema=table.arrow_schema)
    table.with_options({"write-only": "false", "num-sorted-run.compaction-trigger": "1"}).write_arrow(more)


CHANGES: dict[str, Callable[[Table], Any]] = {
    "compact": lambda table: table.with_options({"write-only": "false"}).compact(),
    "delete": lambda table: table.delete("k IN (3, 20, 33)"),
    "delete by value": lambda table: table.delete("name LIKE 'b-2%'"),
    "update": lambda table: table.update({"name": "changed"}, "k > 10 AND k < 20"),
    "upsert": _upsert,
}
LOOKS: dict[str, Callable[[Table], Rows]] = {"ask": _ask, "log": _log, "all": lambda table: listed(table.to_arrow())}
ACTS = (*CHANGES, *LOOKS)


def cases(warehouse: Path, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Cases over all files of rows and indexes; every table is hit equally often."""
    rng = random.Random(seed)
    place = next(warehouse.glob("*.db"))
    files = {
        name: [path for path in sorted((place / name).rglob("*")) if path.is_file() and _holds_rows(path)]
        for name in TABLES
    }
    for number in range(count):
        name = list(TABLES)[number % len(TABLES)]
        by_kind: dict[str, list[Path]] = {}
        for path in files[name]:
            by_kind.setdefault(_kind(path), []).append(path)
        path = rng.choice(by_kind[rng.choice(sorted(by_kind))])
        how = rng.choice(["flip"] * 4 + sorted(DAMAGES))
        act = rng.choice(ACTS)
        yield {
            "table": name,
            "kind": _kind(path),
            "path": str(path.relative_to(warehouse)),
            "how": how,
            "act": act,
            "seed": rng.randrange(1 << 30),
        }


def _holds_rows(path: Path) -> bool:
    return path.parent.name == "index" or (
        path.name.startswith(("data-", "changelog-")) and "bucket" in path.parent.name
    )


def _kind(path: Path) -> str:
    if path.parent.name == "index":
        return "keyed index" if "sorted" in path.parts else "deletion vectors"
    return f"{path.name.partition('-')[0]} {path.suffix[1:]}"


def done(folder: Path, case: dict[str, Any]) -> Rows:
    """What the table holds after an action, or what it answers."""
    clear_cache()
    table = bucketlake.open(folder).table(case["table"])
    if case["act"] in LOOKS:
        return LOOKS[case["act"]](table)
    CHANGES[case["act"]](table)
    return listed(table.refresh().to_arrow())


def held(folder: Path, name: str) -> Rows:
    """The rows of a table."""
    clear_cache()
    return listed(bucketlake.open(folder).table(name).to_arrow())


def outcome(case: dict[str, Any], folder: Path, expected: Callable[[str, str], Rows]) -> tuple[str, str]:
    """What became of a case, and its detail. `lost`: an error, and the rows are neither those before nor after."""
    path = folder / case["path"]
    original = path.read_bytes()
    changed = DAMAGES[case["how"]](original, random.Random(case["seed"]))
    if changed == original:
        return "same", ""
    path.write_bytes(changed)
    before, after = expected(case["table"], "all"), expected(case["table"], case["act"])
    try:
        found = done(folder, case)
    except BucketlakeError as error:
        path.write_bytes(original)
        if case["act"] in CHANGES and held(folder, case["table"]) not in (before, after):
            return "lost", f"{type(error).__name__}: {error}"
        named = path.name in str(error) or "data-" in str(error)
        return ("named" if named else "unnamed"), f"{type(error).__name__}: {error}"[:500]
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        path.write_bytes(original)
        return "raw", f"{type(error).__name__}: {str(error)[:300]}"
    path.write_bytes(original)
    if found == after:
        return "as written", ""
    return ("other" if len(found) == len(after) else "fewer" if len(found) < len(after) else "more"), (
        f"{len(found)} of {len(after)}"
    )


def main(count: int, seed: int = 1, folder: str | None = None) -> Counter[tuple[str, str, str]]:
    """A long run."""
    warnings.simplefilter("ignore")
    counts: Counter[tuple[str, str, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="hostile-", dir=folder) as name:
        whole, own = Path(name, "whole"), Path(name, "own")
        make(whole)
        shutil.copytree(whole, own)
        known: dict[tuple[str, str], Rows] = {}

        def renewed(table: str) -> None:
            place = next(own.glob("*.db")) / table
            shutil.rmtree(place)
            shutil.copytree(next(whole.glob("*.db")) / table, place)

        for table in TABLES:
            for act in ACTS:
                known[table, act] = done(own, {"table": table, "act": act})
                renewed(table)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        for case in cases(whole, count, seed):
            print(json.dumps(case), file=sys.stderr, flush=True)
            result, detail = outcome(case, own, lambda table, act: known[table, act])
            renewed(case["table"])
            counts[case["kind"], case["act"], result] += 1
            if result not in ("same", "as written", "named"):
                print(json.dumps({**case, "outcome": result, "detail": detail}), flush=True)
    return counts


if __name__ == "__main__":
    found = main(*(int(argument) for argument in sys.argv[1:3]))
    for key, number in sorted(found.items()):
        print(*key, number, sep=" | ")
