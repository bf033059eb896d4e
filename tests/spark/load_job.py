"""A Spark driver that loads files and replaces rows and tables by tasks, and may be killed at any moment.

    python -m tests.spark.load_job '{"root", "number", "kind", "seed", "life", "statements", "die", "last"}'

It works as `driver_job.py` does: what a statement shall do is written down before it runs. Tables: one whose rows are
overwritten, one that files are copied into, one that comes, is replaced and goes under one name, and one that two
processes copy the same files into.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.classic.dataframe import DataFrame
from tests.spark.driver_job import FEW, Driver, at_change, death

import bucketlake

ROWS = pa.schema([("k", pa.int32()), ("v", pa.int64()), ("pt", pa.int32())])
LOADED = pa.schema([("k", pa.int32()), ("v", pa.int64())])
KEYS = ["pt", "k"]
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {  # of the table that is overwritten, in partitions pt = k % 2
    "append": ([], {}),
    "keyed": (KEYS, {"bucket": "2"}),
    "vectors": (KEYS, {"bucket": "2", "deletion-vectors.enabled": "true"}),
    "dynamic": (KEYS, {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}),
    "postponed": (KEYS, {"bucket": "-2"}),
    "crossing": (["k"], {"bucket": "-1"}),
    "looked up": (KEYS, {"bucket": "2", "changelog-producer": "lookup"}),
    "append buckets": ([], {"bucket": "2", "bucket-key": "k"}),
    "evolving": ([], dict.fromkeys(("row-tracking.enabled", "data-evolution.enabled"), "true")),
    "ordered": ([], {"clustering.columns": "k", "clustering.strategy": "order"}),
    "first": (KEYS, {"bucket": "2", "merge-engine": "first-row"}),
    "upserted": ([], {"upsert-key": "pt,k", "deletion-vectors.enabled": "true"}),
}
FORMAT = "FILE_FORMAT = (TYPE = CSV)"
PER_FILE = 3


def prepare(root: Path, kind: str) -> None:
    """Make the tables of both processes, and the folders that files arrive in."""
    catalog = bucketlake.open(str(root / "warehouse"))
    catalog.create_database("db")
    keys, options = KINDS[kind]
    for number in (0, 1):
        catalog.create_table(f"db.o{number}", ROWS, ["pt"], keys, {**FEW, **options})
        catalog.create_table(f"db.c{number}", LOADED, options=FEW)
        (root / f"in-{number}").mkdir()
    catalog.create_table("db.both", LOADED, options=FEW)
    (root / "in-both").mkdir()


def arrive(folder: Path, name: str, rows: list[list[int]]) -> None:
    """A file is there, whole."""
    (folder / f"_{name}").write_text("".join(f"{key},{value}\n" for key, value in rows))
    (folder / f"_{name}").rename(folder / name)


def rows_in(folder: Path) -> dict[str, list[list[int]]]:
    """The rows of each file that has arrived."""
    found = {}
    for path in folder.glob("[0-9]*.csv"):
        found[path.name] = [[int(text) for text in line.split(",")] for line in path.read_text().splitlines()]
    return found


class Loader(Driver):
    """One life of one process."""

    parts = ("o", "c", "d")

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        for part, empty in (("o", []), ("c", []), ("d", None)):
            self.state.setdefault(part, empty)

    def seen(self, part: str) -> Any:
        """A part of the state, as the tables have it."""
        find, own = self.lake.catalog.table, self.number
        if part == "o":
            return sorted([row["k"], row["v"], row["pt"]] for row in find(f"db.o{own}").to_arrow().to_pylist())
        if part == "c":
            return sorted([row["k"], row["v"]] for row in find(f"db.c{own}").to_arrow().to_pylist())
        if f"db.d{own}" not in self.lake.tables("db"):
            return None
        found = find(f"db.d{own}").to_arrow()
        return [found.column_names, sorted(list(row.values()) for row in found.to_pylist())]

    def check(self) -> None:
        """All of it is there, and of the files of both each once or not at all."""
        for part in self.parts:
            found = self.seen(part)
            if found != self.state[part]:
                self._fail(f"{part} is {found}, not {self.state[part]}")
        found = sorted([row["k"], row["v"]] for row in self.lake.catalog.table("db.both").to_arrow().to_pylist())
        files = rows_in(self.root / "in-both")
        whole = sorted(row for rows in files.values() if rows[0] in found for row in rows)
        if found != whole:
            self._fail(f"both is {found}, not {whole}")

    def check_copies(self) -> None:
        """Every file is in the tables once."""
        for name, folder in (("both", "in-both"), (f"c{self.number}", f"in-{self.number}")):
            there = rows_in(self.root / folder)  # the other process may still bring files of both
            self.lake.sql(self._copy(name, folder)).collect()
            found = sorted([row["k"], row["v"]] for row in self.lake.catalog.table(f"db.{name}").to_arrow().to_pylist())
            later = rows_in(self.root / folder) if name == "both" else there
            rows = sorted(row for file, new in later.items() if file in there or new[0] in found for row in new)
            distinct = found if name == "both" else [list(row) for row in sorted({tuple(row) for row in found})]
            if distinct != rows:  # FORCE may have brought rows of its own table again
                self._fail(f"{name} is {found}, not {rows}")

    def step(self) -> None:
        """One statement, by chance."""
        lot = self.chance.random()
        if lot < 0.35:
            self._overwrite()
        elif lot < 0.6:
            self._load()
        elif lot < 0.7:
            self._load_both()
        elif lot < 0.92:
            self._define()
        else:
            self._keep()

    # ---- rows in the place of others

    def _overwrite(self) -> None:
        chance, rows, name = self.chance, self.state["o"], f"db.o{self.number}"
        count, base, part = chance.choice([1, 8, 30]), chance.randrange(1000), chance.randrange(2)
        made = [[key, base + key, key % 2] for key in range(count)]
        query = f"SELECT CAST(id AS INT) AS k, id + {base} AS v, CAST(id % 2 AS INT) AS pt FROM range(0, {count}, 1, 3)"
        inside = f"SELECT CAST(id AS INT) AS k, id + {base} AS v FROM range(0, {count}, 1, 3) WHERE id % 2 = {part}"
        of_part = sorted([row for row in rows if row[2] != part] + [row for row in made if row[2] == part])
        what = chance.choice(["all", "all", "static", "where", "everything", "itself", "insert"])
        if what == "all":
            self.change("o", made, f"INSERT OVERWRITE {name} {query}")
        elif what == "static":
            self.change("o", of_part, f"INSERT OVERWRITE {name} PARTITION (pt = {part}) {inside}")
        elif what == "where":
            text = f"INSERT INTO {name} REPLACE WHERE pt = {part} SELECT *, CAST({part} AS INT) AS pt FROM ({inside})"
            self.change("o", of_part, text)
        elif what == "everything":
            self.change("o", made, f"INSERT INTO {name} REPLACE WHERE true {query}")
        elif what == "itself":
            after = sorted([key, value + 1, place] for key, value, place in rows)
            self.change("o", after, f"INSERT OVERWRITE {name} SELECT k, v + 1 AS v, pt FROM {name}")
        elif KINDS[self.kind][0] or self.kind == "upserted":
            old = {row[0]: row for row in rows}
            new = {row[0]: row for row in made}
            known = {**new, **old} if self.kind == "first" else {**old, **new}
            self.change("o", sorted(known.values()), f"INSERT INTO {name} {query}")
        else:
            self.change("o", sorted([*rows, *made]), f"INSERT INTO {name} {query}")

    # ---- files

    def _copy(self, name: str, folder: str, more: str = "") -> str:
        return f"COPY INTO db.{name} FROM '{self.root / folder}' {FORMAT} {more}"

    def _load(self) -> None:
        """Files of its own, each of rows that no other has."""
        folder, chance, rows = self.root / f"in-{self.number}", self.chance, self.state["c"]
        for place in range(chance.randrange(3)):
            line = len(self.log.lines) * 10 + place
            arrive(folder, f"{line}.csv", [[line * 10 + row, chance.randrange(100)] for row in range(PER_FILE)])
        files = rows_in(folder)
        force = chance.random() < 0.15
        one = chance.choice(sorted(files)) if files and chance.random() < 0.3 else None
        wanted = {name: new for name, new in files.items() if one in (None, name)}
        brought = [row for new in wanted.values() if force or new[0] not in rows for row in new]
        more = "".join(
            [f"PATTERN = '^{one}$' " if one else "", "FORCE = TRUE " if force else "", chance.choice(["", CONTINUE])]
        )
        self.change("c", sorted([*rows, *brought]), self._copy(f"c{self.number}", f"in-{self.number}", more))

    def _load_both(self) -> None:
        folder, chance = self.root / "in-both", self.chance
        for place in range(chance.choice([0, 1, 1, 4])):
            line = (len(self.log.lines) * 10 + place) * 2 + self.number
            arrive(folder, f"{line}.csv", [[line * 10 + row, chance.randrange(100)] for row in range(PER_FILE)])
        self.upkeep(self._copy("both", "in-both"))

    # ---- a table that comes, is replaced and goes, under one name

    def _define(self) -> None:
        state, chance, name = self.state["d"], self.chance, f"db.d{self.number}"
        column, count, base = chance.choice(["a", "b"]), chance.choice([1, 20]), chance.randrange(100)
        options = chance.choice(
            ["", "TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '2')", "TBLPROPERTIES ('bucket' = '-1')"]
        )
        query = f"SELECT CAST(id AS INT) AS k, id + {base} AS {column} FROM range(0, {count}, 1, 3)"
        new = [["k", column], [[key, key + base] for key in range(count)]]
        empty = [["k", column], []]
        if state is None:
            orders = chance.choice(["CREATE TABLE", "CREATE TABLE IF NOT EXISTS", "CREATE OR REPLACE TABLE"])
            self.change("d", new, f"{orders} {name} {options} AS {query}", also=(empty,))
            return
        gone = [state[0], []]  # the old rows went, the next definition has not come
        lot = chance.random()
        if lot < 0.5:
            text = f"{chance.choice(['CREATE OR REPLACE', 'REPLACE'])} TABLE {name} {options} AS {query}"
            self.change("d", new, text, also=(gone, empty))
        elif lot < 0.65:
            query = f"SELECT k, {state[0][1]} + 1 AS {column} FROM {name}"
            after = [["k", column], [[key, value + 1] for key, value in state[1]]]
            self.change("d", after, f"CREATE OR REPLACE TABLE {name} {options} AS {query}", also=(gone, empty))
        elif lot < 0.75:
            self.change("d", state, f"CREATE TABLE IF NOT EXISTS {name} AS {query}")
        else:
            self.change("d", None, f"DROP TABLE {name}", also=(gone,))

    def _keep(self) -> None:
        other = 1 - self.number
        name = self.chance.choice(
            [f"db.o{self.number}", f"db.o{other}", f"db.c{other}", f"db.c{self.number}", "db.both"]
        )
        calls = [
            f"CALL sys.compact('{name}')",
            f"CALL sys.expire_snapshots(`table` => '{name}', retain_max => 1, retain_min => 1)",
            f"CALL sys.remove_orphan_files(`table` => '{name}', mode => 'local')",
        ]
        self.upkeep(self.chance.choice(calls))


CONTINUE = "ON_ERROR = CONTINUE"
THRESHOLDS = (
    *("SMALL_ROWS", "SMALL_BYTES", "DRIVER_ROWS", "DRIVER_BYTES", "FEW_ROWS", "FEW_BYTES", "FEW_FILES"),
    *("FEW_FILES_OF_PARTITIONS", "FEW_RUNS", "FEW_KEYS", "LARGE_MERGE_ROWS", "LOOKUP_ROWS"),
)


def by_tasks() -> None:
    """Have nothing be small enough for the driver."""
    for name, module in list(sys.modules.items()):
        if name.startswith("bucketlake."):
            for threshold in THRESHOLDS:
                if hasattr(module, threshold):
                    setattr(module, threshold, 0)


def killed_by_a_task(number: int, root: str) -> None:
    """Have a task kill the driver before its n-th change of a file below a folder, and go on itself."""
    mapped, driver = DataFrame.mapInArrow, os.getpid()
    Action = Callable[[Iterator[Any]], Iterator[Any]]

    def deadly(action: Action) -> Action:
        def task(batches: Iterator[Any]) -> Iterator[Any]:
            import signal

            context = TaskContext.get()
            if context is not None and context.partitionId() == 0:
                at_change(number, root, lambda: os.kill(driver, signal.SIGKILL))
            yield from action(batches)

        return task

    def wrapped(self: Any, action: Action, *how: Any, **more: Any) -> Any:
        return mapped(self, deadly(action), *how, **more)

    DataFrame.mapInArrow = wrapped  # type: ignore[method-assign]


def main(job: dict[str, Any]) -> None:
    """Live once: until the statements are done, or the file `stop` is there, or a death."""
    root = Path(job["root"])
    driver = Loader(job)
    by_tasks()
    driver.check()
    die = job["die"]
    if die and die["whom"] == "task":
        killed_by_a_task(die["at"], str(root / "warehouse"))
    elif die:
        at_change(die["at"], str(root / "warehouse"), death(die["whom"]))
    for _ in range(job["statements"]):
        if (root / "stop").exists():
            break
        driver.step()
        if driver.chance.random() < 0.2:
            driver.check()
    driver.check()
    if job["last"]:
        driver.check_copies()
    driver.log.say(life=job["life"], whole=True)
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
