"""Damage under Spark: data files that its own scan reads, or tasks do, below queries, streams and statements.

python -m tests.hostile.scans <cases> [seed]          a long run, counted; what is not as docs/reliability.md says is shown

Every case damages a file, takes it away or puts another in its place, acts, and restores the table: after an error it
has the rows from before.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.hostile.changes import EVOLVING, held
from tests.hostile.damage import DAMAGES
from tests.hostile.tables import ROWS, Rows, listed
from tests.spark.load_job import by_tasks

import bucketlake
from bucketlake.errors import BucketlakeError
from bucketlake.ops.table.store import clear_cache
from bucketlake.spark.session import Lake, new_session

SCHEMA = pa.schema([("k", pa.int64()), ("name", pa.string()), ("n", pa.int32()), ("pt", pa.int32())])
CALM = {"write-only": "true", "file.compression": "none"}
VECTORS = {"deletion-vectors.enabled": "true"}
# keys, partitions, options, what is done after two writes
KINDS: dict[str, tuple[list[str], list[str], dict[str, str], str]] = {
    "appended": ([], [], {}, ""),
    "appended_orc": ([], [], {"file.format": "orc"}, ""),
    "parted": ([], ["pt"], {}, ""),
    "marked": ([], [], VECTORS, "delete"),
    "compacted": (["k"], [], {"bucket": "1"}, "compact"),
    "overlapping": (["k"], [], {"bucket": "1"}, ""),
    "vectors": (["k"], [], {"bucket": "1", **VECTORS}, "compact"),
    "evolved": ([], [], EVOLVING, "update"),
    "looked_up": (["k"], [], {"bucket": "1", "changelog-producer": "lookup"}, "compact"),
}


def rows(low: int, high: int, mark: str) -> pa.Table:
    """Rows with the keys from `low` up to `high`."""
    keys = range(low, high)
    columns = [
        keys,
        [f"{mark}-{k}" if k % 5 else None for k in keys],
        [k * 7 - 100 for k in keys],
        [k % 2 for k in keys],
    ]
    return pa.table(columns, schema=SCHEMA)


def make(folder: Path) -> None:
    """Write all tables below `folder`, and beside each another of its kind with other rows."""
    catalog = bucketlake.open(folder)
    for name, (keys, parts, options, then) in KINDS.items():
        for own, more in ((name, 0), (f"{name}_other", 9)):
            table = catalog.create_table(own, SCHEMA, parts, keys, {**CALM, **options})
            for number, mark in enumerate("ab"):
                start = number * (ROWS // 2 if keys else ROWS)
                table.write_arrow(rows(start, start + ROWS + more, mark))
            if then == "delete":
                table.delete("k IN (0, 7, 14, 21, 50, 55)")
            elif then == "update":
                table.refresh().update({"name": "another"}, "k < 30")
            elif then == "compact":
                table.compact(**{"write-only": "false"})


# ---- what is done with them


def _query(text: str) -> Callable[[Lake, str], Rows]:
    return lambda lake, name: listed(lake.sql(text.format(t=name)).toArrow())


def _stream(lake: Lake, name: str) -> Rows:
    found: list[pa.Table] = []
    with tempfile.TemporaryDirectory(prefix="hostile-") as place:
        frame = lake.table(name).read_stream()
        query = (
            frame.writeStream.foreachBatch(lambda batch, number: found.append(batch.toArrow()))
            .option("checkpointLocation", place)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return listed(pa.concat_tables(found)) if found else []


LOOKS: dict[str, Callable[[Lake, str], Rows]] = {
    "all": _query("SELECT * FROM {t}"),
    "count": _query("SELECT count(*) FROM {t}"),
    "counted": _query("SELECT count(*), count(name), sum(n) FROM {t} WHERE k > 3"),
    "where": _query("SELECT k, name FROM {t} WHERE n > 20 AND name IS NOT NULL"),
    "one column": _query("SELECT pt FROM {t}"),
    "frame": lambda lake, name: listed(lake.read_table(name).where("k % 3 = 0").toArrow()),
    "source": lambda lake, name: listed(
        lake.spark.read.format("bucketlake").load(lake.catalog.table(name).path).toArrow()
    ),
    "stream": _stream,
}
CHANGES = {
    "delete": "DELETE FROM {t} WHERE n % 3 = 1",
    "delete one": "DELETE FROM {t} WHERE k = 33",
    "update": "UPDATE {t} SET name = concat('x', k) WHERE n > 100",
    "merge": "MERGE INTO {t} USING (SELECT id AS i FROM range(70, 95)) s ON {t}.k = s.i "
    "WHEN MATCHED THEN UPDATE SET name = 'm' WHEN NOT MATCHED THEN INSERT (k, name, n, pt) VALUES (s.i, 'new', 0, 0)",
    "insert": "INSERT INTO {t} SELECT k + 1000, name, n, pt FROM {t}",
    "overwrite": "INSERT OVERWRITE {t} SELECT k, concat(name, '!') AS name, n, pt FROM {t}",
    "compact": "CALL sys.compact(`table` => '{t}', options => 'write-only=false,compaction.min.file-num=2')",
    "full": "CALL sys.compact(`table` => '{t}', compact_strategy => 'full', options => 'write-only=false,compaction.min.file-num=2')",
    "sort": "CALL sys.compact(`table` => '{t}', order_strategy => 'order', order_by => 'n')",
    "ctas": "CREATE TABLE {t}_made AS SELECT * FROM {t}",
}
NOT = {"evolved": {"stream", "sort"}, **{name: {"sort"} for name, kind in KINDS.items() if kind[0]}}


def acts_of(name: str) -> list[str]:
    """What can be done with a table."""
    return [act for act in (*LOOKS, *CHANGES) if act not in NOT.get(name, ())]


def files_of(place: Path) -> list[Path]:
    """The data files of a table."""
    return sorted(path for path in place.rglob("data-*") if "bucket-" in path.parent.name)


def cases(warehouse: Path, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Cases over all data files; every table is hit equally often."""
    chance, place = random.Random(seed), next(warehouse.glob("*.db"))
    for number in range(count):
        name = list(KINDS)[number % len(KINDS)]
        path = chance.choice(files_of(place / name))
        how = chance.choice([*["flip"] * 3, *sorted(DAMAGES), "missing", "missing", "exchange", "exchange", "own"])
        act = chance.choice(acts_of(name))
        yield {
            "table": name,
            "path": str(path.relative_to(warehouse)),
            "how": how,
            "act": act,
            "seed": chance.randrange(1 << 30),
        }


def damaged(case: dict[str, Any], folder: Path, whole: Path) -> str:
    """Do the damage; what it changes: "nothing", "bytes" of a file that stays as long, "lengths"."""
    path, chance = folder / case["path"], random.Random(case["seed"])
    original = path.read_bytes()
    if case["how"] == "missing":
        path.unlink()
        return "lengths"
    if case["how"] in ("exchange", "own"):
        other = "_other" if case["how"] == "exchange" else ""
        place = next(whole.glob("*.db")) / (case["table"] + other)
        found = [one for one in files_of(place) if one.suffix == path.suffix and one.name != path.name]
        changed = chance.choice(found).read_bytes() if found else original
    else:
        changed = DAMAGES[case["how"]](original, chance)
    path.write_bytes(changed)
    return "nothing" if changed == original else "bytes" if len(changed) == len(original) else "lengths"


def done(lake: Lake, case: dict[str, Any]) -> Rows:
    """What the table holds after an action, or what it answers."""
    clear_cache()
    if case["act"] in LOOKS:
        return LOOKS[case["act"]](lake, case["table"])
    lake.sql(CHANGES[case["act"]].format(t=case["table"])).collect()
    made = case["table"] + ("_made" if case["act"] == "ctas" else "")
    return listed(lake.catalog.table(made).to_arrow())


def outcome(
    lake: Lake, case: dict[str, Any], own: Path, whole: Path, expected: Callable[[str, str], Rows]
) -> tuple[str, str]:
    """What became of a case, and its detail. `lost`: an error, and the rows are not those from before; `unnoticed`:
    other rows, though a file is not as long as recorded."""
    path = own / case["path"]
    changed = damaged(case, own, whole)
    if changed == "nothing":
        return "same", ""
    before, after = expected(case["table"], "all"), expected(case["table"], case["act"])
    original = (whole / case["path"]).read_bytes()
    try:
        found = done(lake, case)
        wrong = None
    except KeyboardInterrupt:
        raise
    except Exception as error:
        found, wrong = [], error
    finally:
        path.write_bytes(original)
    if wrong is not None:
        text = str(wrong)
        detail = f"{type(wrong).__name__}: {text[:300]} … {text[-500:] if len(text) > 800 else text[300:]}"
        if case["act"] in CHANGES and held(own, case["table"]) not in (before, after):
            return "lost", detail
        named = path.name in str(wrong)
        if isinstance(wrong, BucketlakeError):
            return "named" if named else "unnamed", detail
        return "Spark's" if named else "raw", detail
    if found == after:
        return "as written", ""
    if changed == "lengths":
        return "unnoticed", f"{len(found)} of {len(after)}"
    return ("other" if len(found) == len(after) else "fewer" if len(found) < len(after) else "more"), (
        f"{len(found)} of {len(after)}"
    )


def renewed(own: Path, whole: Path, name: str) -> None:
    """Put the table back as it was, and take away what a case made."""
    place, source = next(own.glob("*.db")), next(whole.glob("*.db"))
    shutil.rmtree(place / name)
    shutil.copytree(source / name, place / name)
    shutil.rmtree(place / f"{name}_made", ignore_errors=True)


def main(count: int, seed: int = 1) -> Counter[tuple[str, str, str]]:
    """A long run."""
    from tests.quick import INTERPRETED, SETTINGS

    warnings.simplefilter("ignore")
    counts: Counter[tuple[str, str, str]] = Counter()
    with tempfile.TemporaryDirectory(prefix="hostile-", dir="/dev/shm") as name:
        whole, own = Path(name, "whole"), Path(name, "own")
        make(whole)
        shutil.copytree(whole, own)
        session = new_session(**{**SETTINGS, **INTERPRETED, "spark.master": "local[2]", "spark.driver.memory": "1500m"})
        lake = bucketlake.connect(str(own), spark=session)
        by_tasks()
        known: dict[tuple[str, str], Rows] = {}

        def expected(table: str, act: str) -> Rows:
            return known[table, act]

        for table in KINDS:
            for act in acts_of(table):
                try:
                    known[table, act] = done(lake, {"table": table, "act": act})
                except Exception as error:
                    print("CANNOT", table, act, type(error).__name__, str(error)[:300], flush=True)
                renewed(own, whole, table)
        for case in cases(whole, count, seed):
            print(json.dumps(case), file=sys.stderr, flush=True)
            if (case["table"], case["act"]) not in known:
                continue
            result, detail = outcome(lake, case, own, whole, expected)
            renewed(own, whole, case["table"])
            counts[case["how"], case["act"] if case["act"] in LOOKS else "change", result] += 1
            if result not in ("same", "as written", "named"):
                print(json.dumps({**case, "outcome": result, "detail": detail}), flush=True)
        session.stop()
    return counts


if __name__ == "__main__":
    for key, found in sorted(main(*(int(argument) for argument in sys.argv[1:3])).items()):
        print(*key, found, sep=" | ")
