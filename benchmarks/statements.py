"""`python -m benchmarks.statements`: MERGE and DELETE of 1 % beside W; what `lake.sql` costs over `spark.sql`;
INSERT of literals.

MERGE brings 1 % of the rows of lineitem, nine tenths of which match: rows from all over the table, in files of their
own or filtered out of all rows by each MERGE, or neighbours; it sets one column to what Spark computes, or whole rows.
Each run takes another hundredth, so that none is changed twice. DELETE removes as many. Statements are timed until
their DataFrame is there; no row is read.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from benchmarks.data import lineitem
from benchmarks.measure import Measurements
from benchmarks.spark_bench import BUCKETS, KEYS, SparkBench

TABLES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "append": ({}, ()),
    "append, deletion vectors": ({"deletion-vectors.enabled": "true"}, ()),
    "primary key": ({"bucket": str(BUCKETS), "write-only": "true"}, KEYS),
    "primary key, deletion vectors": ({"bucket": str(BUCKETS), "deletion-vectors.enabled": "true"}, KEYS),
}
JOINED = 5
SHARE = "pmod(hash(l_orderkey, 7), 100)"
ONE_COLUMN = "l_comment = concat(s.l_comment, ' #')"


class Statements(SparkBench):
    """The cases of this program."""

    def changes(self) -> None:
        """MERGE and DELETE of a hundredth of each kind of table; how many rows there are afterwards is checked."""
        last = self.source.selectExpr("max(l_orderkey)").collect()[0][0]
        runs = self.m.runs + 1
        for share in (*range(runs), *range(2 * runs, 4 * runs)):
            self._files(share).write.mode("overwrite").parquet(self._hundredth(share))
        for kind, (options, keys) in TABLES.items():
            name = f"t{list(TABLES).index(kind)}"
            self._fresh(name, options, keys=keys)
            self._load(name)
            self._deleted(f"DELETE of 1 %, neighbours, {kind}", name, self._slice(last, count(10)))
            self._merged(f"MERGE of 1 %, neighbours, {kind}", name, count(2 * runs))
            self._merged(f"MERGE of 1 %, {kind}", name, count())
            self._merged(f"MERGE of 1 %, whole rows, {kind}", name, count(3 * runs), update="*")
            self._merged(f"MERGE of 1 %, filtered, {kind}", name, count(runs), filtered=True)
            self._deleted(f"DELETE of 1 %, {kind}", name, (f"{SHARE} = {50 + share}" for share in count()))
            self.lake.catalog.drop_table(f"bench.{name}")

    def _files(self, share: int) -> DataFrame:
        """What a MERGE brings: in the third set neighbours."""
        if share // (self.m.runs + 1) != 2:
            return self._changes(f"{SHARE} = {share}", share)
        last = self.source.selectExpr("max(l_orderkey)").collect()[0][0]
        return self._changes(next(self._slice(last, count(share + 20))), share)

    def _changes(self, where: str, share: int) -> DataFrame:
        new = f"CASE WHEN pmod(l_orderkey, 10) = 0 THEN -l_orderkey - {share} * 1000000000L ELSE l_orderkey END AS k"
        some = self.source.where(where).selectExpr("*", new)
        return some.drop("l_orderkey").withColumnRenamed("k", "l_orderkey")

    @staticmethod
    def _slice(last: int, places: Iterator[int]) -> Iterator[str]:
        return (f"l_orderkey BETWEEN {last * place // 100} AND {last * (place + 1) // 100 - 1}" for place in places)

    def _hundredth(self, share: int) -> str:
        return str(self.folder / f"hundredth-{share}")

    def _merged(
        self, case: str, name: str, shares: Iterator[int], filtered: bool = False, update: str = ONE_COLUMN
    ) -> None:
        rows = self.lake.table(f"bench.{name}").read().count()

        def merge() -> None:
            share = next(shares)
            own = self._files(share) if filtered else self.lake.spark.read.parquet(self._hundredth(share))
            own.createOrReplaceTempView("bench_changes")
            self.lake.sql(
                f"MERGE INTO bench.{name} t USING bench_changes s "
                "ON t.l_orderkey = s.l_orderkey AND t.l_linenumber = s.l_linenumber "
                f"WHEN MATCHED THEN UPDATE SET {update} WHEN NOT MATCHED THEN INSERT *"
            )

        self.m.measure(case, merge, floor="W", mark=0.2, warm=1)
        added = self.lake.table(f"bench.{name}").read().count() - rows
        self.m.note(case, added=added, of=rows)
        if not 0 < added < rows // 50:
            raise SystemExit(f"{case}: {added} rows added to {rows}")

    def _deleted(self, case: str, name: str, conditions: Iterator[str]) -> None:
        rows = self.lake.table(f"bench.{name}").read().count()
        delete = lambda: self.lake.sql(f"DELETE FROM bench.{name} WHERE {next(conditions)}")  # noqa: E731
        self.m.measure(case, delete, floor="W", mark=0.15, warm=1)
        gone = rows - self.lake.table(f"bench.{name}").read().count()
        self.m.note(case, deleted=gone, of=rows)
        if not 0 < gone < rows // 10:
            raise SystemExit(f"{case}: {gone} rows deleted of {rows}")

    def lookups(self) -> None:
        """One row of a loaded primary-key table by its key, as SQL and as a read."""
        self._fresh("looked", {"bucket": str(BUCKETS), "write-only": "true"}, keys=KEYS)
        self._load("looked")
        found = self.source.select(*KEYS).first()
        where = " AND ".join(f"{name} = {found[name]}" for name in KEYS) if found else "false"
        table = self.lake.table("bench.looked")
        sql = f"SELECT * FROM bench.looked WHERE {where}"
        self.m.measure("point lookup, SQL", lambda: self.lake.sql(sql).collect(), mark=0.04, runs=15, warm=5)
        self.m.measure("point lookup, read", lambda: table.read(where=where).collect(), mark=0.04, runs=15, warm=5)

    def literals(self) -> None:
        """INSERT of rows of three literals, and the same where a comment leaves them to Spark."""
        self.lake.sql("CREATE TABLE bench.listed (k INT, name STRING, part STRING)")
        for count_ in (4_000, 20_000):
            rows = ", ".join(f"({place}, 'name_{place}', 'p0')" for place in range(count_))
            text = f"INSERT INTO bench.listed VALUES {rows}"
            for case, end in (("", ""), (", read by Spark", " -- a comment")):
                self.m.measure(
                    f"INSERT of {count_:,} rows of literals{case}", lambda t=text + end: self.lake.sql(t), warm=2
                )

    def words(self, runs: int = 40) -> None:
        """Seconds of `lake.sql` over those of `spark.sql` of the same text upon temporary views of the same files."""
        spark = self.lake.spark
        for place in range(JOINED):
            self.lake.sql(f"CREATE TABLE bench.w{place} (a INT, b INT, c STRING)")
            self.lake.sql(f"INSERT INTO bench.w{place} VALUES (1, {place}, 'x'), (2, {place}, 'y')")
            files = [found.path for found in self.lake.table(f"bench.w{place}").files()]
            spark.read.schema("a INT, b INT, c STRING").parquet(*files).createOrReplaceTempView(f"v{place}")
        joined = " JOIN ".join(f"{{{place}}} x{place}" for place in range(JOINED))
        on = " AND ".join(f"x0.a = x{place}.a" for place in range(1, JOINED))
        cases = {
            "SELECT 1": (10, "SELECT 1"),
            "one table": (10, "SELECT a, c FROM {0}"),
            "one table, a filter": (40, "SELECT c FROM {0} WHERE a = 1 AND b < 3"),
            f"{JOINED} tables": (80, f"SELECT x0.c FROM {joined} WHERE {on} AND x0.b = 0"),
        }
        for case, (mark, text) in cases.items():
            ours = text.format(*(f"bench.w{place}" for place in range(JOINED)))
            theirs = text.format(*(f"v{place}" for place in range(JOINED)))
            over = 1000 * (
                _typical(lambda ours=ours: self.lake.sql(ours), runs) - _typical(lambda t=theirs: spark.sql(t), runs)
            )
            told = "ok" if over <= mark else "MISSED"
            print(f"lake.sql over spark.sql, {case:<24} {over:7.1f} ms   mark {mark} {told}", flush=True)


def _typical(action: Callable[[], Any], runs: int) -> float:
    seconds = []
    for run in range(runs + 10):
        start = time.perf_counter()
        action()
        if run >= 10:
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor; 1 is 6.0M rows")
    parser.add_argument("--runs", type=int, default=3, help="runs a case; medians count")
    parser.add_argument("--only", default="words,literals,lookups,changes", help="comma-separated: words, …")
    parser.add_argument("--memory", default="6g", help="memory of the Spark driver")
    parser.add_argument("--json", type=Path, default=Path("benchmarks/data/statements.json"))
    parser.add_argument("--unpaired", action="store_true", help="measure the floors once, not before every run")
    arguments = parser.parse_args()
    source = lineitem(arguments.scale)
    measurements = Measurements(arguments.runs, not arguments.unpaired)
    with tempfile.TemporaryDirectory(prefix="bucketlake-bench-") as folder:
        bench = Statements(source, Path(folder), measurements, arguments.memory)
        for name in arguments.only.split(","):
            if name == "changes":
                bench.floors()
            getattr(bench, name)()
        bench.lake.spark.stop()
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    measurements.write(arguments.json, scale=arguments.scale)


if __name__ == "__main__":
    main()
