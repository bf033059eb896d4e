"""Loads, scans, upserts and lookups through Spark, on lineitem, beside W and R of the same run."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections import defaultdict
from functools import partial
from multiprocessing.pool import Pool
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import bucketlake
from benchmarks.measure import Measurements
from bucketlake.spark.read import filtered as live
from bucketlake.spark.session import Lake, new_session

KEYS = ("l_orderkey", "l_linenumber")
BUCKETS = 8


def noop(frame: DataFrame) -> None:
    """Run a frame and drop its rows."""
    frame.write.format("noop").mode("overwrite").save()


def read_and_write(pool: Pool, groups: list[list[str]], folder: Path, share: float) -> None:
    """K: read all files of every group and write a share of their rows as one, one process a core."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    work = [(files, str(folder / f"{number}.parquet"), share) for number, files in enumerate(groups)]
    pool.starmap(_rewrite, work, chunksize=1)


def _rewrite(files: list[str], target: str, share: float) -> None:
    tables = [pq.read_table(file, use_threads=False, partitioning=None) for file in files]
    rows = pa.concat_tables(tables)
    pq.write_table(rows.slice(0, round(rows.num_rows * share)), target, compression="zstd")


class SparkBench:
    """The cases, in an order in which each finds what it needs."""

    def __init__(self, source: str, folder: Path, measurements: Measurements, memory: str = "6g") -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.folder = folder
        self.m = measurements
        spark = new_session(**{"spark.driver.memory": memory})
        self.lake: Lake = bucketlake.connect(str(folder / "lake"), spark=spark)
        self.source = spark.read.parquet(source)
        self.lake.catalog.create_database("bench")

    def run(self) -> None:
        """All cases."""
        self.floors()
        self.append()
        self.filtered()
        self.keyed()
        self.upserts()
        self.compaction()
        self.small()
        self.inline()
        self.vectors()
        self.dynamic()
        self.cross()
        self.postpone()
        self.rescale()
        self.sorted()

    def floors(self) -> None:
        """W and R, warm."""
        target = str(self.folder / "floor")
        writer = self.source.write.mode("overwrite").option("compression", "zstd")
        self.m.measure("W: write.parquet zstd", lambda: writer.parquet(target), warm=1)
        self.m.floor("W", "W: write.parquet zstd", lambda: writer.parquet(target + "-again"))

        def scan() -> None:
            noop(self.lake.spark.read.parquet(target))  # as in a case, the DataFrame is made anew

        self.m.measure("R: read.parquet into noop", scan, warm=1)
        self.m.floor("R", "R: read.parquet into noop", scan)

    def append(self) -> None:
        """Unaware append table: load and scan."""
        self.m.measure(
            "append load",
            lambda: self._load("append"),
            floor="W",
            mark=0.9,
            before=lambda: self._fresh("append", {}),
            warm=1,  # as the floors: Python workers are there
        )
        self.m.note("append load", files=len(self.lake.table("bench.append").files()))
        self.m.measure("append scan", lambda: noop(self._read("append")), floor="R", mark=0.9)

    def filtered(self) -> None:
        """Partitioned and bucketed append tables: which files a filter opens."""
        spark = self.lake.spark
        rows = self.source.withColumn("mode", F.col("l_shipmode"))
        self._fresh("by_mode", {}, ["mode"])
        self.m.measure(
            "append load, 7 partitions", lambda: self.lake.table("bench.by_mode").write(rows), floor="W", runs=1
        )
        table = self.lake.table("bench.by_mode")
        where = "mode = 'RAIL'"
        self.m.measure("scan of one partition of 7", lambda: noop(table.read(where=where)), floor="R")
        self.m.note("scan of one partition of 7", opened=len(table.files(where)), of=len(table.files()))
        self._fresh("bucketed", {"bucket": str(BUCKETS), "bucket-key": "l_orderkey"})
        self.m.measure("append load, 8 buckets", lambda: self._load("bucketed"), floor="W", runs=1)
        table = self.lake.table("bench.bucketed")
        key = spark.read.parquet(str(self.folder / "floor")).select("l_orderkey").first()
        where = f"l_orderkey = {key[0] if key else 1}"
        self.m.measure("scan by bucket key", lambda: table.read(where=where).collect())
        self.m.note("scan by bucket key", opened=len(table.files(where)), of=len(table.files()))

    def keyed(self) -> None:
        """Primary-key table in fixed buckets: load."""
        options = {"bucket": str(BUCKETS), "write-only": "true"}  # the scans after it are to find what they must merge
        self.m.measure(
            "primary-key load, 8 buckets",
            lambda: self._load("keyed"),
            floor="W",
            mark=1.0,
            before=lambda: self._fresh("keyed", options, keys=KEYS),
        )
        self.m.note("primary-key load, 8 buckets", files=len(self.lake.table("bench.keyed").files()))

    def upserts(self) -> None:
        """Four upserts of a tenth, then scans that merge."""
        table = self.lake.table("bench.keyed")
        tenths = iter(range(4))

        def upsert() -> None:
            table.write(self._tenth(next(tenths)))

        self.m.measure("upsert of 10 %", upsert, floor="W", mark=0.22, runs=4)
        rows = sum(found.file.row_count for found in table.files())
        self.m.measure(
            "merge-on-read scan, base + 4 x 10 %, first",
            lambda: noop(self._read("keyed")),
            floor="R",
            mark=1.5,
            before=live.forget,
            runs=5,
            warm=1,  # as the floors: the plan's code is compiled, what is live is decided anew
        )
        self.m.note("merge-on-read scan, base + 4 x 10 %, first", stored_rows=rows)
        self.m.measure("merge-on-read scan, repeated", lambda: noop(self._read("keyed")), floor="R", mark=1.35, runs=5)
        sums = [F.sum("l_quantity"), F.sum("l_extendedprice")]

        def aggregate() -> None:
            table.read(columns=["l_quantity", "l_extendedprice"]).agg(*sums).collect()

        self.m.measure("aggregate of 2 columns over it", aggregate, floor="R", mark=0.45, runs=5, warm=1)

    def small(self) -> None:
        """A thousand rows and one row, on the warm session."""
        spark, table = self.lake.spark, self.lake.table("bench.keyed")
        rows = self.source.limit(1000).toArrow().select(self.source.columns)
        local = spark.createDataFrame(rows)
        self.m.measure("upsert of 1,000 rows from Arrow", lambda: table.write(local), mark=0.12, runs=7, warm=2)
        listed = spark.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], self.source.schema)
        self.m.measure("upsert of 1,000 rows from a list", lambda: table.write(listed), mark=0.12, runs=7, warm=2)
        key = {name: rows.column(name)[500].as_py() for name in KEYS}
        where = " AND ".join(f"{name} = {value}" for name, value in key.items())
        found = self.m.measure("point lookup", lambda: table.read(where=where).collect(), mark=0.04, runs=9, warm=2)
        if len(found) != 1:
            raise SystemExit(f"point lookup found {len(found)} rows")

    def compaction(self) -> None:
        """Full compaction of what `upserts` left, beside K; the scan after it, beside Spark's own of the same files."""
        self._table("keyed", {})
        home, saved = self.folder / "lake" / "bench.db" / "keyed", self.folder / "saved"
        shutil.copytree(home, saved)

        def restore() -> None:
            shutil.rmtree(home)
            shutil.copytree(saved, home)
            live.forget()

        buckets: dict[str, list[str]] = defaultdict(list)
        for found in self.lake.table("bench.keyed").files():
            buckets[str(Path(found.path).parent)].append(found.path)
        share = self.source.count() / sum(f.file.row_count for f in self.lake.table("bench.keyed").files())
        pool = multiprocessing.get_context("spawn").Pool(os.cpu_count())
        floor = partial(read_and_write, pool, list(buckets.values()), self.folder / "rewritten", share)
        self.m.measure("K: pyarrow reads and writes", floor, warm=1)
        self.m.floor("K", "K: pyarrow reads and writes", floor)
        compact = self.lake.table("bench.keyed").compact
        self.m.measure("full compaction, base + 4 x 10 %", compact, floor="K", mark=1.0, before=restore)
        files = [found.path for found in self.lake.table("bench.keyed").files()]
        schema = self.lake.table("bench.keyed").read().schema

        def scan() -> None:
            noop(self.lake.spark.read.schema(schema).parquet(*files))

        self.m.measure("C: read.parquet of the compacted files", scan, warm=1)
        self.m.floor("C", "C: read.parquet of the compacted files", scan)
        self.m.measure("scan after compaction", lambda: noop(self._read("keyed")), floor="C", mark=1.05, runs=5)
        self.verify()
        pool.terminate()
        restore()
        shutil.rmtree(saved)

    def inline(self) -> None:
        """Load and six upserts of a tenth, compacting as they are written; the tenths lie in files of their own, or are
        filtered out of all rows, each time."""
        tenths = [self._tenth(share) for share in range(6)]
        for share, rows in enumerate(tenths):
            rows.write.mode("overwrite").option("compression", "zstd").parquet(str(self.folder / f"tenth-{share}"))
        own = [self.lake.spark.read.parquet(str(self.folder / f"tenth-{share}")) for share in range(6)]

        def work(changes: list[DataFrame]) -> None:
            table = self.lake.table("bench.inline")
            table.write(self.source)
            for rows in changes:
                table.write(rows)

        fresh = partial(self._fresh, "inline", {"bucket": str(BUCKETS)}, keys=KEYS)
        name = "load + 6 upserts of 10 %, compacting"
        self.m.measure(name, partial(work, own), floor="W", mark=1.8, before=fresh)
        self.m.measure(f"{name}, tenths filtered out", partial(work, tenths), floor="W", before=fresh, runs=1)
        self.verify("inline")

    def vectors(self) -> None:
        """A table with deletion vectors: an upsert of a tenth that compacts, and the scan after it."""
        options = {"bucket": str(BUCKETS), "deletion-vectors.enabled": "true"}
        self._fresh("vectors", options, keys=KEYS)
        self.m.measure("primary-key load, deletion vectors", lambda: self._load("vectors"), floor="W", runs=1)
        table = self.lake.table("bench.vectors")
        self.m.measure("upsert of 10 %, deletion vectors", lambda: table.write(self._tenth(0)), floor="W", runs=1)
        rows = sum(found.file.row_count for found in table.files())
        self.m.measure(
            "scan, 10 % superseded by vectors",
            lambda: noop(self._read("vectors")),
            floor="R",
            mark=1.3,
            before=live.forget,
            warm=1,
            runs=5,
        )
        self.m.note("scan, 10 % superseded by vectors", stored_rows=rows)
        self.verify("vectors")

    def dynamic(self) -> None:
        """Dynamic buckets: load and an upsert of a tenth."""
        options = {"bucket": "-1", "dynamic-bucket.target-row-num": "1000000", "write-only": "true"}
        fresh = partial(self._fresh, "dynamic", options, keys=KEYS)
        self.m.measure("dynamic-bucket load", lambda: self._load("dynamic"), floor="W", mark=1.1, before=fresh)
        table = self.lake.table("bench.dynamic")
        self.m.note("dynamic-bucket load", buckets=len({found.bucket for found in table.files()}))
        tenths = iter(range(4))
        upsert = lambda: table.write(self._tenth(next(tenths)))  # noqa: E731
        self.m.measure("dynamic-bucket upsert of 10 %", upsert, floor="W", mark=0.28, runs=4)
        self.verify("dynamic")

    def cross(self) -> None:
        """A key without the partition column, 7 partitions: load, and upserts of a hundredth, half of which move."""
        rows = self.source.withColumn("mode", F.col("l_shipmode"))
        fresh = partial(self._fresh, "crossed", {"bucket": "-1", "write-only": "true"}, ["mode"], KEYS)
        load = lambda: self.lake.table("bench.crossed").write(rows)  # noqa: E731
        self.m.measure("cross-partition load, 7 partitions", load, floor="W", mark=1.5, before=fresh)
        shares = iter(range(100))

        def upsert() -> None:
            some = rows.where(f"pmod(hash(l_orderkey, {next(shares)}), 100) = 0")
            moved = F.when(F.col("l_linenumber") > 2, F.lit("RAIL")).otherwise(F.col("mode"))
            self.lake.table("bench.crossed").write(some.withColumn("mode", moved))

        self.m.measure("cross-partition upsert of 1 %, first", upsert, floor="W", runs=1)
        self.m.measure("cross-partition upsert of 1 %", upsert, floor="W", mark=0.2, runs=4)
        self.verify("crossed")

    def postpone(self) -> None:
        """Pending rows: load and compaction to 8 buckets."""
        options = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false", "postpone.default-bucket-num": "8"}
        fresh = partial(self._fresh, "pending", options, keys=KEYS)
        self.m.measure("postpone load", lambda: self._load("pending"), floor="W", mark=0.85, before=fresh)

        def loaded() -> None:
            fresh()
            self._load("pending")

        compact = lambda: self.lake.table("bench.pending").compact()  # noqa: E731
        self.m.measure("postpone compaction", compact, floor="W", mark=0.6, before=loaded)
        self.verify("pending")

    def rescale(self) -> None:
        """8 buckets to 16, beside pyarrow that reads and writes all rows."""
        self._fresh("resized", {"bucket": str(BUCKETS), "write-only": "true"}, keys=KEYS)
        self._load("resized")
        groups: dict[str, list[str]] = defaultdict(list)
        for found in self.lake.table("bench.resized").files():
            groups[str(Path(found.path).parent)].append(found.path)
        pool = multiprocessing.get_context("spawn").Pool(os.cpu_count())
        floor = partial(read_and_write, pool, list(groups.values()), self.folder / "rewritten", 1.0)
        self.m.measure("K: the same files", floor, warm=1, runs=2)
        pool.terminate()
        numbers = iter((16, 8, 16, 8, 16))
        rescale = lambda: self.lake.table("bench.resized").rescale(next(numbers))  # noqa: E731
        self.m.measure("rescale 8 to 16 and back", rescale, floor="K: the same files", mark=1.5)
        self.verify("resized")

    def sorted(self) -> None:
        """An append table on the z-curve of two numbers, its load included."""

        def work() -> None:
            self._load("curved")
            self.lake.table("bench.curved").compact(order_by=["l_orderkey", "l_partkey"], order_strategy="zorder")

        name = "load + z-order sort compaction"
        self.m.measure(name, work, floor="W", mark=2.0, before=lambda: self._fresh("curved", {}), warm=1)
        self.verify("curved")

    def _tenth(self, share: int) -> DataFrame:
        changed = self.source.where(f"pmod(hash(l_orderkey, {share}), 10) = 0")
        return changed.withColumn("l_comment", F.concat("l_comment", F.lit(f" #{share}")))

    def verify(self, name: str = "keyed") -> None:
        """The merged table holds every key once."""
        merged = self.lake.table(f"bench.{name}").read()
        count, keys = merged.select(F.count("*"), F.count_distinct(*KEYS)).collect()[0]
        expected = self.source.count()
        if not count == keys == expected:
            raise SystemExit(f"wrong rows: {count} rows, {keys} keys, {expected} expected")
        print(f"verified: {count:,} rows, each key once")

    def _fresh(
        self, name: str, options: dict[str, str], partitions: list[str] | None = None, keys: tuple[str, ...] = ()
    ) -> None:
        self.lake.catalog.drop_table(f"bench.{name}", ignore_if_missing=True)
        self._table(name, options, partitions, keys)

    def _table(
        self, name: str, options: dict[str, str], partitions: list[str] | None = None, keys: tuple[str, ...] = ()
    ) -> bucketlake.spark.table.LakeTable:
        schema: pa.Schema = self.source.limit(0).toArrow().schema
        if partitions:
            for column in partitions:
                schema = schema.append(pa.field(column, pa.string()))
        catalog = self.lake.catalog
        if not catalog.table_exists(f"bench.{name}"):
            catalog.create_table(f"bench.{name}", schema, partitions or (), keys, options)
        return self.lake.table(f"bench.{name}")

    def _load(self, name: str) -> None:
        self.lake.table(f"bench.{name}").write(self.source)

    def _read(self, name: str) -> DataFrame:
        return self.lake.table(f"bench.{name}").read()
