"""A Spark driver that works at tables which another one works at too, and may be killed at any moment.

    python -m tests.spark.driver_job '{"root", "number", "kind", "seed", "life", "statements", "die", "jobs", "last"}'

What a statement shall do is written down, in a log that outlives the process, before it runs, and afterwards how it
ended. A process that starts reads the log of those before it, finds the tables as that says, with the statement that was
interrupted or without, and goes on. Two processes change rows of their own, in one table, and tables of their own that
both compact and expire.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException

import bucketlake
from bucketlake.errors import BucketlakeError, CommitError, NotFoundError
from bucketlake.spark.read import reader
from bucketlake.spark.session import Lake

Rows = list[list[int]]
State = dict[str, Any]
SHARED = 9  # the owner of rows that both change
KEYS = 12
COLUMNS = pa.schema([("owner", pa.int32()), ("k", pa.int32()), ("v", pa.int64()), ("pt", pa.int32())])
PAIRS = pa.schema([("k", pa.int32()), ("v", pa.int64())])
FEW = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "5", "num-sorted-run.compaction-trigger": "3"}
KEYS_OF_T, DYNAMIC = ["owner", "k"], {"bucket": "-1", "dynamic-bucket.target-row-num": "5"}
EVOLVING = ("row-tracking.enabled", "data-evolution.enabled", "deletion-vectors.enabled")
KINDS: dict[str, tuple[list[str], dict[str, str]]] = {  # the primary key and options of the table of both
    "keyed": (KEYS_OF_T, {"bucket": "2"}),
    "append vectors": ([], {"deletion-vectors.enabled": "true"}),
    "looked up": (KEYS_OF_T, {"bucket": "2", "changelog-producer": "lookup"}),
    "crossing": (KEYS_OF_T, DYNAMIC),  # partitioned by another column
    "vectors": (KEYS_OF_T, {"bucket": "2", "deletion-vectors.enabled": "true"}),
    "dynamic": (KEYS_OF_T, DYNAMIC),
    "postponed": (KEYS_OF_T, {"bucket": "-2"}),
    "append": ([], {}),
    "append buckets": ([], {"bucket": "2", "bucket-key": "k"}),
    "evolving": ([], dict.fromkeys(EVOLVING, "true")),
    "summed": (KEYS_OF_T, {"bucket": "2", "merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}),
}


def prepare(root: Path, kind: str) -> None:
    """Make the tables of both processes, and the rows of both in the one table."""
    catalog = bucketlake.open(str(root / "warehouse"))
    catalog.create_database("db")
    keys, options = KINDS[kind]
    parts = ["pt"] if kind == "crossing" else ["owner"]
    table = catalog.create_table("db.t", COLUMNS, parts, keys, {**FEW, **options})
    table.write_arrow([{"owner": SHARED, "k": key, "v": 0, "pt": 0} for key in range(3)])
    for number in (0, 1):
        catalog.create_table(f"db.h{number}", PAIRS, (), ["k"], {**FEW, "bucket": "1"})
        catalog.create_table(f"db.feed{number}", PAIRS)
        catalog.create_table(f"db.copy{number}", PAIRS, options=FEW)


class Log:
    """What was begun and what became of it, a line each, on disk before anything goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def say(self, **line: Any) -> None:
        self.lines.append(line)
        with self.path.open("a") as out:
            out.write(json.dumps(line) + "\n")
            out.flush()
            os.fsync(out.fileno())

    def replayed(self) -> tuple[State, dict[str, Any] | None]:
        """What the tables hold, and the statement that nobody knows the end of."""
        state: State = {"t": [], "count": 0, "h": [], "tags": {}, "d": None, "feed": []}
        pending = None
        for line in self.lines:
            if "begun" in line:
                pending = line
            elif "ended" in line and pending is not None:
                state[pending["part"]] = pending["after"][line["ended"]] if line["ended"] >= 0 else pending["before"]
                pending = None
        return state, pending


class Driver:
    """One life of one process."""

    parts: tuple[str, ...] = ("t", "count", "h", "feed", "d")  # of the state, as the tables have them

    def __init__(self, job: dict[str, Any]) -> None:
        self.number, self.kind, self.root = job["number"], job["kind"], Path(job["root"])
        self.log = Log(self.root / f"log-{self.number}")
        self.chance = random.Random(f"driver {job['seed']} {self.number} {len(self.log.lines)} {job['life']}")
        self.lake: Lake = bucketlake.connect(str(self.root / "warehouse"))
        self.state, pending = self.log.replayed()
        if pending is not None:
            self._resolve(pending, None)

    # ---- what there is

    def seen(self, part: str) -> Any:
        """A part of the state, as the tables have it."""
        find, own = self.lake.catalog.table, self.number
        if part == "t":
            found = find("db.t").to_arrow(where=f"owner = {own}", columns=["k", "v"])
        elif part == "count":
            found = find("db.t").to_arrow(where=f"owner = {SHARED} AND k = {own + 1}", columns=["k", "v"])
            return sum(found.column("v").to_pylist())
        elif part == "tags":
            table = find(f"db.h{own}")
            return {tag: _sorted(table.to_arrow(scan_tag_name=tag)) for tag in table.tags()}
        elif part == "d":
            names = [name.partition(".")[2] for name in self.lake.tables("db") if name.startswith(f"db.d{own}")]
            if len(names) != 1:
                return [*names] or None
            return [names[0], _sorted(find(f"db.{names[0]}").to_arrow())]
        else:
            found = find(f"db.{part}{own}").to_arrow()
        return _sorted(found)

    def _resolve(self, line: dict[str, Any], error: Exception | None) -> None:
        """Find out how a statement ended that nobody answered."""
        found = self.seen(line["part"])
        allowed = [line["before"], *line["after"]]
        if found not in allowed:
            self._fail(f"{line} left {found} after {error!r}")
        end = allowed.index(found) - 1
        self.log.say(ended=end, error=None if error is None else repr(error)[:400])
        self.state[line["part"]] = found

    def check(self) -> None:
        """All of it is there, and what both count."""
        for part in self.parts:
            found = self.seen(part)
            if found != self.state[part]:
                self._fail(f"{part} is {found}, not {self.state[part]}")
        for tag, rows in self.seen("tags").items() if "h" in self.parts else ():
            if rows != self.state["tags"].get(tag, rows):
                self._fail(f"tag {tag} is {rows}, not {self.state['tags'][tag]}")
        shared = self.lake.catalog.table("db.t").to_arrow(where=f"owner = {SHARED}", columns=["k", "v"]).to_pylist()
        counts = {row["k"]: row["v"] for row in shared}
        if len(counts) != len(shared) or counts.get(0, 0) != counts.get(1, 0) + counts.get(2, 0):
            self._fail(f"counted {shared}")

    def check_copies(self) -> None:
        """Every row of the feed came once through the stream."""
        copied = _sorted(self.lake.catalog.table(f"db.copy{self.number}").to_arrow())
        if copied != self.state["feed"]:
            self._fail(f"copied {copied}, not {self.state['feed']}")

    def _fail(self, told: str) -> None:
        self.log.say(problem=told)
        print(told, flush=True)
        os._exit(3)

    # ---- what is done

    def change(self, part: str, after: Any, *statements: str | Callable[[], Any], also: tuple[Any, ...] = ()) -> None:
        """Run statements of which the last one changes a part of the state. `also`: what it may be if that is killed."""
        told = [text if isinstance(text, str) else "python" for text in statements]
        self.log.say(begun=told, part=part, before=self.state[part], after=[*also, after])
        line = self.log.lines[-1]
        try:
            for statement in statements:
                if isinstance(statement, str):
                    self.lake.sql(statement).collect()
                else:
                    statement()
        except (BucketlakeError, PySparkException) as error:
            if not isinstance(error, (CommitError, PySparkException)) and "with a new bucket num" not in str(error):
                traceback.print_exc()
                self._fail(f"{told} raised {error!r}")
            self._resolve(line, error)
            return
        self.state[part] = after
        self.log.say(ended=len(also))

    def upkeep(self, statement: str) -> None:
        """Run what changes no row. Tables of the other's may go, or be rolled back, meanwhile."""
        self.log.say(upkeep=statement)
        try:
            self.lake.sql(statement).collect()
        except (CommitError, NotFoundError, PySparkException) as error:
            self.log.say(told=repr(error)[:300])
        except BucketlakeError as error:
            traceback.print_exc()
            self._fail(f"{statement} raised {error!r}")

    def step(self) -> None:
        """One statement, by chance."""
        lot = self.chance.random()
        if lot < 0.45:
            self._rows()
        elif lot < 0.55:
            self._count()
        elif lot < 0.7:
            self._history()
        elif lot < 0.78:
            self._definitions()
        elif lot < 0.86:
            self._stream()
        else:
            self._keep()

    # ---- rows of the one table

    def _rows(self) -> None:
        own, chance, rows = self.number, self.chance, [tuple(row) for row in self.state["t"]]
        ways = ["insert", "many", "update", "delete", "merge", "frame", "script"]
        what = "insert" if self.kind == "summed" else chance.choice(ways)
        if self.kind != "crossing" and chance.random() < 0.2:
            what = chance.choice(["overwrite", "drop"])
        new = [(key, chance.randrange(1000)) for key in chance.sample(range(KEYS), chance.choice([1, 3, 6]))]
        values = ", ".join(f"({own}, {key}, {value}, {value % 2})" for key, value in new)
        third = chance.randrange(3)
        if what == "insert":
            self.change("t", self._put(rows, new), f"INSERT INTO db.t VALUES {values}")
        elif what == "many":
            new, base = [(key, third * 100 + key) for key in range(KEYS)], third * 100
            query = f"SELECT {own}, CAST(id AS INT), id + {base}, CAST((id + {base}) % 2 AS INT) FROM range({KEYS})"
            self.change("t", self._put(rows, new), f"INSERT INTO db.t {query}")
        elif what == "frame":
            frame = self.lake.sql(f"SELECT * FROM VALUES {values} AS x(owner, k, v, pt)")
            self.change("t", self._put(rows, new), lambda: self.lake.table("db.t").write(frame))
        elif what == "update":
            after = [(key, value + 1 if key % 3 == third else value) for key, value in rows]
            self.change("t", _listed(after), f"UPDATE db.t SET v = v + 1 WHERE owner = {own} AND k % 3 = {third}")
        elif what == "delete":
            after = [(key, value) for key, value in rows if key % 3 != third]
            self.change("t", _listed(after), f"DELETE FROM db.t WHERE owner = {own} AND k % 3 = {third}")
        elif what == "merge":
            self._merge(rows, new, values)
        elif what == "script":
            first, rest = values.split("), ", 1) if len(new) > 1 else (values[:-1], "")
            then = f"IF n = 1 THEN INSERT INTO db.t VALUES {rest}; END IF;" if rest else ""
            text = f"BEGIN DECLARE n INT DEFAULT 1; INSERT INTO db.t VALUES {first}); {then} END"
            self.change("t", self._put(rows, new), text, also=(self._put(rows, new[:1]),))
        elif what == "overwrite":
            texts = ", ".join(f"({key}, {value}, {value % 2})" for key, value in new)
            self.change("t", _listed(new), f"INSERT OVERWRITE db.t PARTITION (owner = {own}) VALUES {texts}")
        elif rows:
            self.change("t", [], f"ALTER TABLE db.t DROP PARTITION (owner = {own})")

    @property
    def keyed(self) -> bool:
        return bool(KINDS[self.kind][0])

    def _put(self, rows: list[tuple[int, int]], new: list[tuple[int, int]]) -> Rows:
        if not self.keyed:
            return _listed([*rows, *new])
        known = dict(rows)
        sums = self.kind == "summed"
        return _listed((known | {key: value + (known.get(key, 0) if sums else 0) for key, value in new}).items())

    def _merge(self, rows: list[tuple[int, int]], new: list[tuple[int, int]], values: str) -> None:
        source = dict(new)
        after = [(key, source.get(key, value)) for key, value in rows if key not in source or key % 4]
        after += [(key, value) for key, value in new if key not in dict(rows)]
        on = f"t.owner = s.owner AND t.k = s.k AND t.owner = {self.number}"
        text = f"MERGE INTO db.t t USING (SELECT * FROM VALUES {values} AS x(owner, k, v, pt)) s ON {on}"
        text += " WHEN MATCHED AND s.k % 4 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v"
        self.change(
            "t",
            _listed(after),
            text + " WHEN NOT MATCHED THEN INSERT (owner, k, v, pt) VALUES (s.owner, s.k, s.v, s.pt)",
        )

    def _count(self) -> None:
        """A row of both and one of its own grow by one, together."""
        place = self.number + 1
        if self.kind == "summed":
            text = f"INSERT INTO db.t VALUES ({SHARED}, 0, 1, 0), ({SHARED}, {place}, 1, 0)"
        else:
            text = f"UPDATE db.t SET v = v + 1 WHERE owner = {SHARED} AND k IN (0, {place})"
        there = self.lake.catalog.table("db.t").to_arrow(where=f"owner = {SHARED}").num_rows
        if self.kind == "summed" or there:
            self.change("count", self.state["count"] + 1, text)

    # ---- a table with a history

    def _history(self) -> None:
        name, chance, tags = f"db.h{self.number}", self.chance, self.state["tags"]
        lot, rows = chance.random(), dict(map(tuple, self.state["h"]))
        known = [tag for tag in tags if tag in self.lake.catalog.table(name).tags()]
        new = {key: chance.randrange(1000) for key in chance.sample(range(KEYS), 3)}
        values = ", ".join(f"({key}, {value})" for key, value in new.items())
        if lot < 0.35 or (not known and lot > 0.6):
            self.change("h", _listed((rows | new).items()), f"INSERT INTO {name} VALUES {values}")
        elif lot < 0.6:
            if self.lake.catalog.table(name).latest_snapshot() is not None:
                tag = f"x{len(self.log.lines)}"
                told = {**{tag: tags[tag] for tag in known}, tag: self.state["h"]}
                self.state["tags"] = {tag: tags[tag] for tag in known}
                self.change("tags", told, f"CALL sys.create_tag('{name}', '{tag}')")
        elif lot < 0.7:
            self.change("h", [], f"TRUNCATE TABLE {name}")
        elif lot < 0.85:
            tag, way = chance.choice(known), chance.choice(["rollback", "rollback_to_as_latest"])
            self.change("h", tags[tag], f"CALL sys.{way}(`table` => '{name}', tag => '{tag}')")
        else:
            tag, branch = chance.choice(known), f"b{len(self.log.lines)}"
            after = _listed((dict(map(tuple, tags[tag])) | new).items())
            self.change(
                "h",
                after,
                f"CALL sys.create_branch('{name}', '{branch}', '{tag}')",
                f"INSERT INTO `db`.`h{self.number}$branch_{branch}` VALUES {values}",
                f"CALL sys.fast_forward('{name}', '{branch}')",
            )

    # ---- a table that comes and goes

    def _definitions(self) -> None:
        state, chance, new = self.state["d"], self.chance, [[1, self.chance.randrange(100)]]
        free = f"d{self.number}_{len(self.log.lines)}"
        if state is None:
            if chance.random() < 0.5:
                self.change("d", [free, []], f"CREATE TABLE db.{free} (k INT, v BIGINT)")
            else:
                query = f"SELECT CAST(1 AS INT) AS k, CAST({new[0][1]} AS BIGINT) AS v"
                self.change("d", [free, new], f"CREATE TABLE db.{free} AS {query}", also=([free, []],))
            return
        name, rows = state
        lot = chance.random()
        if lot < 0.4:
            self.change("d", [name, sorted([*rows, *new])], f"INSERT INTO db.{name} VALUES ({new[0][0]}, {new[0][1]})")
        elif lot < 0.65:
            self.change("d", [free, rows], f"ALTER TABLE db.{name} RENAME TO db.{free}")
        elif lot < 0.8:
            query = f"SELECT CAST(1 AS INT) AS k, CAST({new[0][1]} AS BIGINT) AS v"
            self.change("d", [name, new], f"CREATE OR REPLACE TABLE db.{name} AS {query}", also=([name, []],))
        else:
            self.change("d", None, f"DROP TABLE db.{name}", also=([name, []],))

    # ---- a stream

    def _stream(self) -> None:
        """Rows for it; and everything that came, into the copy. Whether each came once is asked at the end."""
        own, chance = self.number, self.chance
        new = [(len(self.log.lines), chance.randrange(100)) for _ in range(2)]
        values = ", ".join(f"({key}, {value})" for key, value in new)
        after = _listed([*map(tuple, self.state["feed"]), *new])
        self.change("feed", after, f"INSERT INTO db.feed{own} VALUES {values}")
        if chance.random() < 0.5:
            self.streamed()

    def streamed(self) -> bool:
        """Run the query until nothing is left; False where it failed."""
        self.log.say(upkeep="stream")
        source, target = self.lake.table(f"db.feed{self.number}"), self.lake.table(f"db.copy{self.number}")
        stream = source.read_stream(read_stream_maxFilesPerTrigger=2, consumer_id="copies")
        checkpoint = str(self.root / f"checkpoint-{self.number}")
        try:
            target.write_stream(stream, checkpoint, trigger={"availableNow": True}).awaitTermination()
        except (CommitError, PySparkException) as error:
            self.log.say(told=repr(error)[:300])
            return False
        return True

    # ---- upkeep

    def _keep(self) -> None:
        chance, other = self.chance, 1 - self.number
        name = chance.choice(
            ["db.t", "db.t", "db.t", f"db.h{other}", f"db.h{self.number}", f"db.feed{other}", f"db.copy{other}"]
        )
        calls = [
            f"CALL sys.compact('{name}')",
            f"CALL sys.compact(`table` => '{name}', compact_strategy => 'minor')",
            f"CALL sys.expire_snapshots(`table` => '{name}', retain_max => 1, retain_min => 1)",
            f"CALL sys.compact_manifest('{name}')",
            f"CALL sys.remove_orphan_files(`table` => '{name}', mode => 'local')",
            f"ALTER TABLE {name} SET TBLPROPERTIES ('comment' = 'c{chance.randrange(9)}')",
            f"ANALYZE TABLE {name} COMPUTE STATISTICS",
        ]
        if name == "db.t" and KINDS[self.kind][1].get("bucket", "-1") == "2":
            where = chance.choice([f", `partition` => 'owner={self.number}'", ""])
            if self.kind != "append buckets" or where:
                calls += [f"CALL sys.rescale(`table` => '{name}', bucket_num => {chance.choice([2, 2, 3])}{where})"] * 3
        self.upkeep(chance.choice(calls))


def _sorted(table: Any) -> Rows:
    return sorted([row["k"], row["v"]] for row in table.select(["k", "v"]).to_pylist())


def _listed(rows: Any) -> Rows:
    return sorted([key, value] for key, value in rows)


# ---------------------------------------------------------------------------------------------- death


def children(process: int) -> list[int]:
    """The processes below one, by /proc."""
    found, above = [], {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, rest = stat.read_text().partition(" (")
            above[int(number)] = int(rest.rpartition(")")[2].split()[1])
        except OSError:
            continue
    for number in above:
        place = number
        while place in above and place != process:
            place = above[place]
        if place == process and number != process:
            found.append(number)
    return found


def command(process: int) -> str:
    """What a process was called as; nothing of one that is gone."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


_CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}


def at_change(number: int, root: str, then: Callable[[], None]) -> None:
    """Do something once before the n-th change of files below a folder."""
    left = [number]

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if (event != "open" and event not in _CHANGES) or not str(arguments[0]).startswith(root):
            return
        if event == "open" and not int(arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        left[0] -= 1
        if left[0] == -1:
            then()

    sys.addaudithook(look)


def death(whom: str) -> Callable[[], None]:
    """What ends: this process by a signal, its JVM, or all of Spark's Python workers."""

    def end() -> None:
        if whom in ("KILL", "TERM", "INT"):
            os.kill(os.getpid(), signal.Signals[f"SIG{whom}"])
            return
        for process in children(os.getpid()):
            java = "java" in command(process).split("\0")[0]
            if java == (whom == "jvm"):
                os.kill(process, signal.SIGKILL)

    return end


def main(job: dict[str, Any]) -> None:
    """Live once: until the statements are done, or the file `stop` is there, or a death."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    root = Path(job["root"])
    driver = Driver(job)
    if job["jobs"]:
        reader.SMALL_ROWS = 0  # nothing stays in the driver
    driver.check()
    if job["die"]:
        at_change(job["die"]["at"], str(root / "warehouse"), death(job["die"]["whom"]))
    for _ in range(job["statements"]):
        if (root / "stop").exists():
            break
        driver.step()
        if driver.chance.random() < 0.2:
            driver.check()
    driver.check()
    if job["last"]:
        while not driver.streamed():
            pass
        driver.check_copies()
    driver.log.say(life=job["life"], whole=True)
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
